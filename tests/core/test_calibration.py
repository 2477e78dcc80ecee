"""Error bars: a planted delay comes out as that delay, and what could not be measured is a reason, never a number."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.calibration import (
    FROZEN_MS,
    Calibration,
    Client,
    ErrorBars,
    Sample,
    error_bars,
    error_text,
    short,
)

SOUND = Client(loop_lag_p99_ms=0.4, loop_lag_max_ms=0.9, reads=40, reads_coalesced=4)
PERIOD_US = 20_000


def sample(
    delays_us: list[int], start_us: int = 1_000_000, connect_us: int = 0, late_us: int = 0, fresh: bool = True
) -> Sample:
    """A reply to a request that took `connect_us` to get there, and whose events were read so late."""
    due = [start_us + PERIOD_US * (number + 1) for number in range(len(delays_us))]
    sent = [at + late_us for at in due]
    came = [at + delay for at, delay in zip(sent, delays_us, strict=True)]
    ttft_us = came[0] - (start_us - connect_us) if came else 0
    return Sample(
        ttft_ms=ttft_us / 1000 if fresh else None,
        received_us=start_us,
        sent_us=tuple(sent),
        due_us=tuple(due),
        came_us=tuple(came),
    )


@given(
    st.lists(st.integers(0, 50_000), min_size=1, max_size=9),
    st.integers(2, 20),
    st.integers(0, 30_000),
)
def test_a_delay_that_stays_is_all_in_the_first_token_and_not_in_the_gaps(
    delays_us: list[int], events: int, connect_us: int
) -> None:
    samples = [sample([us] * events, 1_000_000 * n, connect_us) for n, us in enumerate(delays_us)]
    got = error_bars(len(delays_us), 50.0, samples, SOUND)
    assert got.reason is None
    assert (got.n_ttft, got.n_gaps) == (len(delays_us), len(delays_us) * (events - 1))
    assert got.gap_max_ms == 0.0
    assert got.ttft_max_ms == pytest.approx((max(delays_us) + connect_us) / 1000, abs=0.001)
    assert got.ttft_p50_ms is not None
    assert got.ttft_p99_ms is not None
    assert got.ttft_max_ms is not None
    assert got.ttft_p50_ms <= got.ttft_p99_ms <= got.ttft_max_ms


def test_a_reader_that_is_5_ms_late_is_seen_as_5_ms() -> None:
    sound = error_bars(1, 50.0, [sample([200] * 30, connect_us=300)], SOUND)
    late = error_bars(1, 50.0, [sample([5_200] * 30, connect_us=300)], SOUND)
    assert (sound.ttft_p50_ms, late.ttft_p50_ms) == (0.5, 5.5)
    assert (sound.read_p50_ms, late.read_p50_ms) == (0.2, 5.2)


def test_a_delay_that_comes_and_goes_is_in_the_gaps() -> None:
    got = error_bars(1, 50.0, [sample([0, 5_000] * 10)], SOUND)
    assert (got.gap_p50_ms, got.gap_p99_ms, got.gap_max_ms) == (5.0, 5.0, 5.0)
    assert got.coalesced_share == 0.1


def test_a_reply_that_had_begun_before_counts_for_gaps_alone() -> None:
    got = error_bars(2, 50.0, [sample([100] * 4), sample([900] * 7, fresh=False)], SOUND)
    assert (got.n_ttft, got.ttft_max_ms, got.n_gaps) == (1, 0.1, 9)


def test_a_server_that_is_late_now_and_then_is_no_error_of_the_client() -> None:
    """The stamps are of when it did send, so its own delays cancel out."""
    got = error_bars(1, 50.0, [sample([100] * 9, late_us=15_000)], SOUND)
    assert (got.reason, got.ttft_p50_ms) == (None, 0.1)


UNSEEN = msgspec.structs.replace(SOUND, loop_lag_max_ms=None)
FROZEN = msgspec.structs.replace(SOUND, loop_lag_max_ms=FROZEN_MS + 1)
LOST = msgspec.structs.replace(sample([100] * 4), came_us=(1, 2))
EARLY = msgspec.structs.replace(sample([100] * 4), came_us=tuple(us - 1 for us in sample([0] * 4).sent_us))


@pytest.mark.parametrize(
    ("samples", "client", "missing", "words"),
    [
        ([], SOUND, None, "no reply began"),
        ([sample([100] * 4, fresh=False)], SOUND, None, "no reply began"),
        ([LOST], SOUND, None, "other events than were sent"),
        ([sample([])], SOUND, None, "other events than were sent"),
        ([EARLY], SOUND, None, "do not share a clock"),
        ([sample([100] * 4)], UNSEEN, None, "was not measured"),
        ([sample([100] * 4)], FROZEN, None, "stood still for 1001 ms"),
        ([sample([100] * 4, late_us=PERIOD_US + 1)], SOUND, None, "cannot keep it up"),
        ([sample([100] * 4)], SOUND, "3 of 9 replies failed", "3 of 9 replies failed"),
    ],
)
def test_what_cannot_be_measured_is_no_number(
    samples: list[Sample], client: Client, missing: str | None, words: str
) -> None:
    got = error_bars(8, 50.0, samples, client, missing)
    assert (got.reason or "").startswith("could not calibrate: ")
    assert words in (got.reason or "")
    figures = msgspec.structs.asdict(got)
    for name in ("ttft_p50_ms", "ttft_p99_ms", "ttft_max_ms", "gap_p50_ms", "gap_p99_ms", "coalesced_share"):
        assert figures[name] is None
    assert (got.n_ttft, got.n_gaps) == (0, 0)
    assert error_text(got) == f"8 streams x 50/s: {got.reason}"


def bar(streams: int, rate_hz: float, reason: str | None = None) -> ErrorBars:
    return ErrorBars(streams=streams, rate_hz=rate_hz, ttft_p99_ms=float(streams), reason=reason)


MADE = Calibration(
    version="1",
    python="3",
    host="h",
    platform="p",
    at_ms=0,
    took_s=4.0,
    bars=(bar(1, 50), bar(8, 50), bar(64, 50), bar(8, 200), bar(64, 200, "could not calibrate: no")),
)


@pytest.mark.parametrize(
    ("streams", "rate_hz", "found"),
    [
        (1, 20.0, (1, 50.0)),
        (1, 51.0, (8, 200.0)),
        (2, 50.0, (8, 50.0)),
        (8, 120.0, (8, 200.0)),
        (9, 10.0, (64, 50.0)),
        (9, 90.0, (64, 50.0)),
        (500, 50.0, (64, 50.0)),
        (1, 5000.0, (8, 200.0)),
    ],
)
def test_a_run_is_held_against_the_next_load_above_it(streams: int, rate_hz: float, found: tuple[int, float]) -> None:
    got = MADE.at_load(streams, rate_hz)
    assert got is not None
    assert (got.streams, got.rate_hz) == found


def test_without_a_usable_load_there_are_no_error_bars() -> None:
    assert msgspec.structs.replace(MADE, bars=MADE.bars[-1:]).at_load(1, 1.0) is None


def test_the_line_says_how_far_off_a_time_is() -> None:
    line = error_text(error_bars(1, 50.0, [sample([300] * 30, connect_us=800)], SOUND))
    assert line.startswith("1 stream x 50/s: a TTFT measured here is +1.1 to +1.1 ms (p99) off, at most 1.1 (n 1)")
    assert "10.0% of reads in clumps" in line


@pytest.mark.parametrize(("ms", "text"), [(None, "n/a"), (0.044, "0.044"), (9.96, "10"), (12.3, "12"), (123.4, "123")])
def test_figures_are_short_and_plain(ms: float | None, text: str) -> None:
    assert short(ms) == text
