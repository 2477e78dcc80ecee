"""Whether a reply's events came one by one is seen in the moments of its reads, whatever stands between."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from infermaxx_tui.core.lumps import LEAST_EVENTS, Arrivals, OddRead, Reads

EVENT_BYTES = 244
"""As large as vLLM's own with one token of its ids."""
SIZES = (4096, 8192, 16_384, 32_768)

Write = tuple[int, int]
"""A moment in µs and how many bytes went out then."""


def paced(tokens: int, pace_us: float, jitter: float = 0.1, an_event: int = 1, seed: int = 1) -> list[Write]:
    """A server that writes an event when it has one, so many tokens in each."""
    rng, at_us, out = random.Random(seed), 0.0, []
    for _ in range(-(-tokens // an_event)):
        out.append((round(at_us), EVENT_BYTES + 12 * (an_event - 1)))
        at_us += an_event * pace_us * rng.uniform(1 - jitter, 1 + jitter)
    return out


def buffered(writes: Sequence[Write], size: int) -> list[Write]:
    """A proxy that passes so many bytes on when it has them, and the rest at the end."""
    held, out = 0, []
    for at_us, written in writes:
        held += written
        while held >= size:
            out.append((at_us, size))
            held -= size
    return [*out, (writes[-1][0], held)] if held else out


def held_for(writes: Sequence[Write], us: int) -> list[Write]:
    """A proxy that passes on what it has at intervals; a client that looks only then sees the same."""
    slots: dict[int, int] = {}
    for at_us, written in writes:
        slots[-(-at_us // us)] = slots.get(-(-at_us // us), 0) + written
    return [(slot * us, size) for slot, size in slots.items()]


def in_segments(writes: Sequence[Write], apart_us: int = 60) -> list[Write]:
    """A path on which large writes come as several reads."""
    out = []
    for at_us, size in writes:
        for number, at in enumerate(range(0, size, 1448)):
            out.append((at_us + number * apart_us, min(1448, size - at)))
    return out


def came(writes: Sequence[Write], event_bytes: int = EVENT_BYTES) -> Arrivals:
    """What the client makes of events of this size when they come in these reads."""
    reads, total, first_us, last_us = Reads(), 0, None, None
    for at_us, size in writes:
        events = (total + size) // event_bytes - total // event_bytes
        total += size
        if events == 1:
            reads.plain_us.append(at_us)
        else:
            reads.note_odd(OddRead(at_us, events, size, total % event_bytes > 0))
        if events:
            first_us, last_us = at_us if first_us is None else first_us, at_us
    found = reads.arrivals(first_us, last_us)
    assert found is not None
    return found


PACES_US = (400, 2_500, 8_000, 20_000, 120_000)


@pytest.mark.parametrize("pace_us", PACES_US)
@pytest.mark.parametrize("jitter", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("tokens", [24, 200])
def test_what_a_server_sends_event_by_event_is_not_held_back(pace_us: int, jitter: float, tokens: int) -> None:
    got = came(paced(tokens, pace_us, jitter))
    assert (got.events, got.held, got.torn) == (tokens, False, 0)


@pytest.mark.parametrize("an_event", [2, 4, 8])
def test_an_event_with_many_tokens_is_one_moment(an_event: int) -> None:
    """Speculation, a stream interval, and a server that merges what a late reader left."""
    got = came(paced(400, 20_000, 0.5, an_event), EVENT_BYTES + 12 * (an_event - 1))
    assert (got.events, got.moments, got.held) == (400 // an_event, 400 // an_event, False)


def test_arrivals_without_any_rhythm_are_not_held_back() -> None:
    rng, at_us, writes = random.Random(3), 0.0, []
    for _ in range(400):
        writes.append((round(at_us), EVENT_BYTES))
        at_us += rng.expovariate(1 / 20_000)
    assert not came(writes).held


@pytest.mark.parametrize("pace_us", [400, 1_000, 2_500])
def test_events_closer_together_than_a_client_resolves_are_not_held_back(pace_us: int) -> None:
    """64 streams of a fast server: the client comes round every few ms and finds several events of each."""
    got = came(held_for(paced(400, pace_us), 9_000))
    assert (got.held, got.waits) == (False, 0)


def test_a_client_that_is_late_once_is_no_proxy() -> None:
    """A tenth of a second in which nobody read; all that came meanwhile is there at once."""
    writes = [(at_us if not 300_000 <= at_us < 400_000 else 400_000, size) for at_us, size in paced(120, 10_000)]
    got = came(held_for(writes, 1))
    assert (got.held, got.waits, got.torn) == (False, 1, 0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pace_us", [2_500, 20_000, 120_000])
@pytest.mark.parametrize("segments", [False, True])
def test_a_buffer_shows_in_its_size_and_in_events_that_it_cuts(size: int, pace_us: int, segments: bool) -> None:
    writes = buffered(paced(1000, pace_us), size)
    got = came(in_segments(writes) if segments else writes)
    assert got.held
    assert got.lump_bytes == size
    assert 0.8 * got.waits <= got.torn <= got.waits
    assert got.waits >= 5
    assert got.wait_ms == pytest.approx(size / EVENT_BYTES * pace_us / 1000, rel=0.1)


@pytest.mark.parametrize("pace_us", [5_000, 20_000, 80_000])
def test_whole_events_that_are_held_for_a_while_are_held_back_and_not_cut(pace_us: int) -> None:
    got = came(held_for(paced(200, pace_us), 200_000))
    assert (got.held, got.torn) == (True, 0)
    assert got.wait_ms == pytest.approx(200.0)


def test_a_short_reply_through_a_buffer_is_a_lump_or_two() -> None:
    """What a recall's answer looks like: it has no lump between the first and the last, and no size can be named."""
    two, one = came(buffered(paced(24, 20_000), 4096)), came(buffered(paced(24, 20_000), 8192))
    assert (two.held, two.moments, two.waits, two.lump_bytes, two.first_bytes) == (True, 2, 1, None, 4096)
    assert (one.held, one.moments, one.waits, one.first_bytes) == (True, 1, 0, None)


def test_a_reply_of_a_few_events_says_nothing() -> None:
    assert not came(buffered(paced(LEAST_EVENTS - 1, 20_000), 4096)).held


def test_what_comes_with_the_last_token_is_no_lump() -> None:
    """vLLM's usage and [DONE] follow at once."""
    reads = Reads()
    for number in range(40):
        reads.plain_us.append(number * 20_000)
    reads.note_odd(OddRead(800_000, 3, 600, False))
    assert reads.arrivals(0, 800_000) == Arrivals(events=43, moments=41)


def test_what_comes_before_the_first_token_does_not_count() -> None:
    """The role of a chat's reply, an event's first half."""
    reads = Reads()
    reads.plain_us.append(0)
    reads.note_odd(OddRead(1_000, 0, 200, True))
    for number in range(20):
        reads.plain_us.append(2_000_000 + number * 20_000)
    assert reads.arrivals(2_000_000, 2_380_000) == Arrivals(events=20, moments=20)


def test_without_a_token_nothing_came() -> None:
    assert Reads().arrivals(None, None) is None


def test_a_stream_of_single_bytes_fills_no_memory() -> None:
    reads = Reads()
    for number in range(10_000):
        reads.note_odd(OddRead(number, 0, 1, True))
    assert len(reads.odd) < 5000
    reads.plain_us.append(20_000)  # what came after the last one that was kept is not looked at
    assert reads.arrivals(0, 20_000) is None


def test_a_lump_of_which_a_part_has_no_known_size_has_none() -> None:
    """A read that brings one event leaves its moment alone: without its size the buffer would look smaller."""
    reads = Reads()
    for number in range(5):
        at_us = number * 400_000
        reads.plain_us.append(at_us)
        reads.note_odd(OddRead(at_us + 50, 9, 2000, True))
    got = reads.arrivals(0, 1_600_050)
    assert got is not None
    assert (got.held, got.waits, got.torn) == (True, 4, 4)
    assert (got.lump_bytes, got.first_bytes) == (None, None)
