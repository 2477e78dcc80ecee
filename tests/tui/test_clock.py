"""Where the time cursor goes: never outside the run, and the axis always holds it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.tui.clock import LIVE_WINDOW_S, SECOND, SPEEDS, WINDOWS_S, Clock

HOUR = 3600 * SECOND
ends = st.integers(0, 80 * HOUR)


@given(ends, st.lists(st.integers(-10 * HOUR, 10 * HOUR), max_size=8), st.booleans())
def test_the_axis_holds_the_moment_and_the_moment_is_in_the_run(end: int, moves: list[int], live: bool) -> None:
    clock = Clock()
    for move in moves:
        clock = clock.by(move, end).settled(end, live)
        assert 0 <= clock.moment(end) <= end
        assert clock.from_us >= 0
        if end <= WINDOWS_S[-1] * SECOND:
            assert clock.from_us <= clock.moment(end) <= clock.from_us + clock.window_us(end, live)


def test_following_is_the_end_as_it_moves_on() -> None:
    clock = Clock().settled(10 * SECOND, live=True)
    assert clock.moment(10 * SECOND) == 10 * SECOND
    assert clock.moment(11 * SECOND) == 11 * SECOND
    assert clock.by(-SECOND, 10 * SECOND).moment(99 * SECOND) == 9 * SECOND
    assert clock.by(SECOND, 10 * SECOND).at_us is None, "a step beyond the end follows it"


def test_the_axis_stands_still_while_the_moment_moves_inside_it() -> None:
    end = HOUR
    clock = Clock(window_s=600).to(end // 2, end).settled(end, live=False)
    moved = clock.by(60 * SECOND, end).settled(end, live=False)
    assert moved.from_us == clock.from_us
    far = clock.by(30 * 60 * SECOND, end).settled(end, live=False)
    assert far.from_us != clock.from_us


def test_an_axis_is_chosen_that_shows_the_whole_run_and_ten_minutes_of_a_live_one() -> None:
    assert Clock().window_us(21 * SECOND + 1, live=False) == 22 * SECOND
    assert Clock().window_us(0, live=False) == WINDOWS_S[0] * SECOND
    assert Clock().window_us(21 * SECOND, live=True) == 30 * SECOND
    assert Clock().window_us(8 * HOUR, live=False) == 8 * HOUR
    assert Clock().window_us(8 * HOUR, live=True) == LIVE_WINDOW_S * SECOND
    assert Clock().to(0, 8 * HOUR).window_us(8 * HOUR, live=True) == 8 * HOUR
    assert Clock(window_s=60).window_us(8 * HOUR, live=False) == 60 * SECOND


def test_from_the_whole_run_the_axis_goes_to_the_next_length_that_has_a_name() -> None:
    clock = Clock()
    assert clock.longer(-1, 8 * HOUR + 1, False).window_s == 28_800
    assert clock.longer(1, 8 * HOUR + 1, False).window_s == 86_400
    assert clock.longer(-2, 8 * HOUR + 1, False).window_s == 14_400


def test_windows_and_speeds_end_at_their_ends() -> None:
    clock = Clock()
    for _ in range(30):
        clock = clock.longer(1, HOUR, False).faster(1)
    assert (clock.window_s, clock.speed) == (WINDOWS_S[-1], SPEEDS[-1])
    for _ in range(30):
        clock = clock.longer(-1, HOUR, False).faster(-1)
    assert (clock.window_s, clock.speed) == (WINDOWS_S[0], SPEEDS[0])
    assert SPEEDS[0] == 1
    assert SPEEDS[-1] == 60


def test_play_runs_from_the_start_when_it_stands_at_the_end_and_stops_there() -> None:
    clock = Clock().faster(2).play(100 * SECOND)
    assert clock.at_us == 0
    assert clock.playing
    clock = clock.ticked(SECOND, 100 * SECOND)
    assert clock.at_us == 5 * SECOND
    assert clock.play(100 * SECOND).playing is False
    assert clock.ticked(50 * SECOND, 100 * SECOND).at_us is None
    assert clock.to(SECOND, 100 * SECOND).playing is False, "moving by hand ends playing"
