"""Proves that each judge passes the healthy, fails the sick and refuses the blind, before anybody believes it.

Every fault of the embedded server is played through the whole runner in memory and on a clock of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Final

import msgspec

from infermaxx_tui.core.events import AnyEvent, Record, decode, encode
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.verdict import Verdict, judge_run
from infermaxx_tui.earlier import earlier_conversation
from infermaxx_tui.prepare import prepare
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.context import Stopper
from infermaxx_tui.runner.play import play
from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.config import SimConfig
from infermaxx_tui.sim.engine import Engine
from infermaxx_tui.sim.faults import FAULTS
from infermaxx_tui.sim.faults import Verdict as Verdict3
from infermaxx_tui.sim.transport import SimTransport
from infermaxx_tui.virtual import VirtualClock, run_virtual
from infermaxx_tui.virtual_gpus import VirtualSensors
from infermaxx_tui.vocabulary import shipped
from infermaxx_tui.wish import Loaded, Wish, load

_URL = "http://127.0.0.1:1"
_NONCE = "5e1f7e57"
_SUMS = (("FAIL", "sick servers failed"), ("INCONCLUSIVE", "blind runs refused"), ("PASS", "healthy runs passed"))


class History(msgspec.Struct, frozen=True):
    """A run that no fault alone stands for: keys of the demo's scenario, a server, and what it must earn."""

    overrides: tuple[str, ...]
    wanted: Verdict3
    check: str | None = None
    faults: tuple[str, ...] = ("clean",)


_QUALITY: Final = ("quality.tasks=24", "sessions.rounds=1", "limits.min_recalls=15")
HISTORIES: Final[dict[str, History]] = {
    "quality": History(_QUALITY, "PASS"),
    "quality-chat": History((*_QUALITY, 'sessions.prompt="chat"'), "PASS"),
    "quality-demand": History((*_QUALITY, "limits.min_quality=0.9"), "FAIL", "quality", ("dull",)),
    "quality-capped": History((*_QUALITY, "quality.max_tokens=4"), "INCONCLUSIVE"),
    "quality-few": History((*_QUALITY, "quality.tasks=6"), "INCONCLUSIVE"),
    "quality-blind": History((*_QUALITY, 'quality.when=["during", "after"]'), "INCONCLUSIVE"),
}
"""Good, bad and blind runs of judges that look at more than one request of a kind."""


class SelftestRow(msgspec.Struct, frozen=True):
    """One fault, what it must earn, and what it earned."""

    fault: str
    wanted: str
    wanted_check: str | None
    got: str
    failed: tuple[str, ...]
    """Checks that failed."""
    not_evaluable: tuple[str, ...]
    """Required checks that could not say."""
    caught: bool
    events: int


class _Memory:
    """A log in memory. Each line is encoded and decoded, as a file's would be."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    @property
    def written(self) -> int:
        """Lines written so far."""
        return len(self.lines)

    def append(self, event: AnyEvent, wall_ms: int, mono_us: int) -> Record:
        """The record as written."""
        record = Record(0, len(self.lines), wall_ms, mono_us, event)
        self.lines.append(encode(record))
        return record


def play_in_memory(faults: tuple[str, ...], overrides: tuple[str, ...] = ()) -> tuple[bytes, ...]:
    """The log of the demo, with keys overridden, against the embedded server with these faults."""
    wish = Wish(scenario="demo", faults=faults, overrides=overrides, nonce=_NONCE)
    memory = _Memory()
    run_virtual(_play, load(wish), wish, memory)
    return tuple(memory.lines)


async def _play(loaded: Loaded, wish: Wish, memory: _Memory) -> None:
    clock = VirtualClock()
    engine = Engine(SimConfig(faults=wish.faults), wall=lambda: clock.wall_ms() / 1000)
    transport = SimTransport(App(engine))
    known, earlier = earlier_conversation(wish.faults, _NONCE)
    prepared, _ = await prepare(loaded, wish, _URL, None, known, transport=transport, renderer=shipped())
    prepared = msgspec.structs.replace(prepared, earlier=earlier)
    async with make_client(_URL, None, transport) as client:
        gpus = VirtualSensors(prepared.scenario.sensors, wish.faults, clock)
        await play(prepared, "selftest", client, memory, clock, Stopper(), gpus=gpus)


def judge_lines(lines: tuple[bytes, ...]) -> Verdict:
    """The verdict that a log's lines earn."""
    fold = Fold()
    for line in lines:
        fold.add(decode(line))
    return judge_run(fold.snapshot())


def run_selftest(faults: tuple[str, ...], narrate: Callable[[str], None]) -> tuple[SelftestRow, ...]:
    """A row for each of the faults, or for all of them and the histories; one process a core plays them."""
    names = faults or (*FAULTS, *HISTORIES)
    rows = []
    with ProcessPoolExecutor(max_workers=min(len(names), os.cpu_count() or 1)) as pool:
        for row in pool.map(_row, names):
            rows.append(row)
            if not row.caught:
                narrate(f"{row.fault}: wanted {row.wanted}, got {row.got}")
    return tuple(rows)


def _row(name: str) -> SelftestRow:
    if name in HISTORIES:
        history = HISTORIES[name]
        wanted, check, lines = history.wanted, history.check, play_in_memory(history.faults, history.overrides)
    else:
        fault = FAULTS[name]
        wanted, check, lines = fault.verdict, fault.check, play_in_memory((name,), fault.overrides)
    verdict = judge_lines(lines)
    failed = tuple(check.name for check in verdict.checks if check.outcome == "fail")
    blind = tuple(check.name for check in verdict.checks if check.outcome == "not_evaluable" and check.required)
    caught = verdict.verdict == wanted and failed == ((check,) if check is not None else ())
    return SelftestRow(name, wanted, check, verdict.verdict, failed, blind, caught, len(lines))


def selftest_json(rows: tuple[SelftestRow, ...]) -> str:
    """A JSON array of the rows."""
    return msgspec.json.encode(rows).decode()


def selftest_lines(rows: tuple[SelftestRow, ...]) -> tuple[str, ...]:
    """The table for people, with the sums that matter: caught of planted, false alarms of clean."""
    lines = [f"{'fault':18} {'must earn':26} {'earned':26} {'cannot say':34} ok"]
    for row in rows:
        wanted = f"{row.wanted} {row.wanted_check or ''}".strip()
        got = f"{row.got} {' '.join(row.failed)}".strip()
        blind, caught = " ".join(row.not_evaluable) or "-", "yes" if row.caught else "NO"
        lines.append(f"{row.fault:18} {wanted:26} {got:26} {blind:34} {caught}")
    for word, title in _SUMS:
        of_kind = [row for row in rows if row.wanted == word]
        lines.append(f"{title}: {sum(row.caught for row in of_kind)} of {len(of_kind)}")
    return tuple(lines)
