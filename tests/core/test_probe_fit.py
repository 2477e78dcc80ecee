"""Which sessions a server holds: what is tried, and what the answers of a whole, a cutting and a lying server say."""

from __future__ import annotations

import pytest

from infermaxx_tui.core.fold_probes import ProbeReply
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.probe_fit import NOWHERE, REFUSED, SERVED, Room, aims, fit_measures
from infermaxx_tui.core.probes import Part, Probe, deepest, rounds, wrong_with

_SIZES = (49_867, 105_794, 106_767, 12_000)
"""Peaks as note A's sessions have them, and a small one."""
_PROBE = Probe(kind="fit", sizes=_SIZES, max_tokens=32)
_ROOM = Room(pool_tokens=65_536, window=65_536)


def _reply(part: Part, wanted: int, outcome: str = "ok", counted: int | None = None, said: str = "") -> ProbeReply:
    return ProbeReply(
        probe=0,
        part=part,
        rep=0,
        streams=1,
        wanted_tokens=wanted,
        outcome=outcome,
        error=said or None,
        prompt_tokens=counted,
        cached_tokens=0,
        tokens=32 if outcome == "ok" else None,
        first_chunk_tokens=1,
        ttft_ms=1.0,
        decode_ms=1.0,
        sent_us=0,
        ended_us=1,
        total_ms=1.0,
        forced=False,
        degenerate=None,
    )


def _figures(*replies: ProbeReply, room: Room = _ROOM) -> dict[str, Measure]:
    return {one.name: one for one in fit_measures(0, _PROBE, replies, room)}


@pytest.mark.parametrize(
    ("room", "held", "over"),
    [
        (Room(65_536, 262_144), 49_867, 105_794),
        (Room(163_840, 131_072), 106_767, None),
        (Room(163_840, 106_000), 105_794, 106_767),
        (Room(207_530, 40_960), 12_000, 49_867),
        (Room(49_867, None), 49_867, 105_794),
        (Room(8_192, 8_192), None, 12_000),
    ],
)
def test_the_largest_that_clears_and_the_smallest_that_does_not_are_tried(
    room: Room, held: int | None, over: int | None
) -> None:
    assert tuple(aim.tokens for aim in aims(_SIZES, room)) == (held, over)
    assert all((aim.tokens is None) == bool(aim.why) for aim in aims(_SIZES, room))


def test_what_was_served_and_refused_stands_there_in_tokens() -> None:
    found = _figures(
        _reply("held", 49_867, counted=49_835),
        _reply("over", 105_794, "too_long", said="HTTP 400: maximum context length is 65536 tokens"),
    )
    assert found[SERVED].values == (49_867.0,)
    assert found[REFUSED].values == (105_794.0,)
    assert "by the pool of 65,536 tokens: HTTP 400" in (found[REFUSED].note or "")


@pytest.mark.parametrize(
    ("reply", "name", "said"),
    [
        (_reply("held", 49_867, "too_long", said="HTTP 400"), SERVED, "49,867 tokens should fit, and ended too_long"),
        (_reply("held", 49_867, "stalled"), SERVED, "should fit, and ended stalled"),
        (_reply("held", 49_867, counted=8_000), SERVED, "the server counts 8,032 of it: the rest was cut off"),
        (_reply("held", 49_867), SERVED, "did not count"),
        (_reply("over", 105_794, counted=105_794), REFUSED, "105,794 tokens should not fit, and was served"),
        (_reply("over", 105_794, counted=60_000), REFUSED, "by the server's count only 60,032 were sent, which do"),
        (_reply("over", 105_794, "stalled"), REFUSED, "ended stalled"),
        (_reply("over", 105_794, "shed", said="HTTP 503: busy"), REFUSED, "ended shed: HTTP 503: busy"),
        (_reply("over", 105_794, "rejected", said="HTTP 500: oh"), REFUSED, "ended rejected: HTTP 500: oh"),
        (_reply("over", 105_794, "rejected", said="HTTP 401: who?"), REFUSED, "ended rejected: HTTP 401: who?"),
    ],
)
def test_a_server_that_does_otherwise_proves_nothing_and_it_is_said(reply: ProbeReply, name: str, said: str) -> None:
    found = _figures(reply)[name]
    assert found.values == ()
    assert said in (found.reason or "")


@pytest.mark.parametrize(("outcome", "said"), [("too_long", "HTTP 413"), ("rejected", "HTTP 400: no room")])
def test_a_rejection_that_may_be_for_the_size_is_a_refusal(outcome: str, said: str) -> None:
    assert _figures(_reply("over", 105_794, outcome, said=said))[REFUSED].values == (105_794.0,)


def test_without_a_pool_or_sizes_nothing_is_tried_and_the_reason_stands_there() -> None:
    found = _figures(room=NOWHERE)
    assert {one.reason for one in found.values()} == {"the server does not say how large its pool is"}
    assert {aim.why for aim in aims((), _ROOM)} == {"no sizes of sessions were given"}
    assert _figures()[SERVED].reason == "the prompt of 49,867 tokens was not sent"
    assert list(fit_measures(0, Probe(kind="decode"), (), _ROOM)) == []


def test_a_refusal_by_a_window_that_is_smaller_than_the_pool_is_said_to_be_that() -> None:
    found = _figures(_reply("over", 49_867, "too_long", said="HTTP 400"), room=Room(207_530, 40_960))
    assert "by the window of 40,960 tokens; the pool has 207,530: HTTP 400" in (found[REFUSED].note or "")


def test_a_fit_probe_adapts_to_the_server_so_no_window_is_too_small_for_it() -> None:
    assert list(rounds((_PROBE,))) == []
    assert deepest((_PROBE,)) == 0
    assert wrong_with(_PROBE) is None
    assert wrong_with(Probe(kind="fit")) is None
    assert wrong_with(Probe(kind="fit", sizes=(9,))) == ("sizes", "must be 64 tokens or more")
    assert wrong_with(Probe(kind="decode", sizes=_SIZES)) == ("sizes", "means nothing to a probe of kind decode")
