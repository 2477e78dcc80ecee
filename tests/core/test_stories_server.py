"""The feed tells of the server's start, of the gates and of what came of requests that were cut."""

from __future__ import annotations

import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.startup_log import StartupFacts
from infermaxx_tui.core.startup_traps import Trap
from infermaxx_tui.core.stories import Feed

TRAP = Trap("uva_not_available", "UVA is not available", "do this")
GATE = e.GateChecked(name="slots", when="before", outcome="fail", required=True, said="1 slot for 4 sessions")
TOLD: list[tuple[e.AnyEvent, str, str, str]] = [
    (e.StartupRead(source="none", reason="x.log: gone"), "start-up", "no log: x.log: gone", "plain"),
    (
        e.StartupRead(source="file", facts=StartupFacts(version="0.32.0", pool_tokens=9, pool_shape="kv auto")),
        "start-up",
        "vllm 0.32.0, KV pool 9 tokens (kv auto)",
        "plain",
    ),
    (
        e.StartupRead(source="file", facts=StartupFacts(version="0.32.0", traps=(TRAP,))),
        "start-up",
        "vllm 0.32.0; trap uva_not_available: UVA is not available",
        "warn",
    ),
    (GATE, "gate", "slots fail before the run: 1 slot for 4 sessions", "warn"),
    (
        e.CancelSettled(cut=2, ours_open=0, running=2.0, waited_ms=20_000.0, fell=False),
        "cut",
        "2 cut, the server goes on, 20.0 s later",
        "bad",
    ),
    (
        e.CancelSettled(cut=2, ours_open=0, running=0.0, waited_ms=1000.0, fell=True),
        "cut",
        "2 cut, the server let go, 1.0 s later",
        "plain",
    ),
]


@pytest.mark.parametrize(("event", "kind", "text", "tone"), TOLD)
def test_it_is_told(event: e.AnyEvent, kind: str, text: str, tone: str) -> None:
    feed = Feed()
    feed.add(0, e.Record(0, 0, 0, 0, event), None, None)
    (entry,) = feed.entries()
    assert (entry.kind, entry.text, entry.tone) == (kind, text, tone)
