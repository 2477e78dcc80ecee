"""The lag of the client while one request was open: by a clock moved by hand, and by a loop that is held."""

from __future__ import annotations

import anyio
import pytest

from infermaxx_tui.runner.clock import SystemClock
from infermaxx_tui.runner.lag import TICK_MS, LagWatch

_TICK_US = round(TICK_MS * 1000)


class _Hand:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.now_us = 0

    def __call__(self) -> int:
        return self.now_us


def _watch(*lags_us: int) -> tuple[LagWatch, _Hand]:
    """A watch that was so late at each of its wakings, the first of which was due after one tick."""
    hand = _Hand()
    watch = LagWatch(hand)
    for lag_us in lags_us:
        watch.due()
        hand.now_us += _TICK_US + lag_us
        watch.woke()
    watch.due()
    return watch, hand


@pytest.mark.parametrize(
    ("since_us", "until_us", "worst_ms"),
    [
        (0, 2_000, 0.0),
        (0, 34_000, 30.0),
        (2_000, 4_000, 30.0),
        (5_000, 6_000, 30.0),
        (34_001, 36_000, 1.0),
        (34_001, 37_000, 1.0),
        (0, None, None),
    ],
    ids=["before it", "over all of it", "as it begins", "within it", "after it", "to the end", "it never ended"],
)
def test_a_lag_counts_for_what_was_open_while_it_lasted(
    since_us: int, until_us: int | None, worst_ms: float | None
) -> None:
    """Due at 2, 4 and 36 ms; awake at 2, 34 and 37."""
    watch, _ = _watch(0, 30_000, 1_000)
    assert watch.worst_ms(since_us, until_us) == worst_ms


def test_a_waking_that_is_late_still_counts_before_it_comes() -> None:
    """The end of a request is handled first where both were due while the loop was held."""
    watch, hand = _watch(0)
    hand.now_us += _TICK_US + 25_000
    assert watch.worst_ms(0, hand.now_us) == 25.0


def test_nothing_seen_is_not_no_lag() -> None:
    watch, _ = _watch()
    assert watch.worst_ms(0, 1_000) is None


def test_a_held_loop_is_seen_on_the_real_clock() -> None:
    clock = SystemClock()
    watch = LagWatch(clock.mono_us)

    async def held() -> float | None:
        began_us = clock.mono_us()
        async with anyio.create_task_group() as group:
            group.start_soon(watch.run)
            await anyio.lowlevel.checkpoint()
            until_us = clock.mono_us() + 40_000
            while clock.mono_us() < until_us:
                pass
            worst_ms = watch.worst_ms(began_us, clock.mono_us())
            group.cancel_scope.cancel()
        return worst_ms

    worst_ms = anyio.run(held)
    assert worst_ms is not None
    assert worst_ms >= 40 - 2 * TICK_MS
