"""The status line: one line, never wider than asked, harmless, and no figure that means nothing."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.events import Host
from infermaxx_tui.core.evidence import Loss
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.fold_sessions import Sessions
from infermaxx_tui.core.fold_streams import Open
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.rows import duration_text, plain, status_line, tokens_text
from infermaxx_tui.core.state import Meta, RunState

How = Literal["refused", "pid_dead", "restarted", "stalled", "timeout", "unhealthy"]


def _state(scenario: str = "demo", **changes: object) -> RunState:
    meta = Meta(
        program="infermaxx 0.1.0",
        run="r",
        scenario=scenario,
        scenario_text="",
        scenario_sha256="",
        seed=1,
        nonce="ab",
        host=Host("h", "s", "3.11", 2),
        limits=Limits(),
        sessions=2,
        at_once=2,
        started_wall_ms=0,
    )
    return msgspec.structs.replace(Fold().snapshot(), meta=meta, **changes)


def test_before_the_first_line() -> None:
    assert status_line(Fold().snapshot(), 100) == "waiting for the run's first line"


def test_a_run_that_goes_on_shows_its_speed_with_its_depth() -> None:
    line = status_line(_state(tokens_per_s=123.4, depth_reached=36123, elapsed_ms=61_000.0, decoding=2), 200)
    assert line == "demo · 1m01s · 0 open, 2 decoding · 123 tok/s at 36.1k · recalls 0/0 of 0"


def test_a_speed_that_is_not_known_is_not_zero() -> None:
    assert "n/a tok/s at n/a" in status_line(_state(tokens_per_s=None), 200)


@pytest.mark.parametrize("speed", [None, 0.0, 3_000_000.0])
def test_a_run_that_is_over_has_no_speed(speed: float | None) -> None:
    line = status_line(_state(ended="finished", tokens_per_s=speed, generated_tokens=321, depth_reached=2500), 200)
    assert "tok/s" not in line
    assert "finished · 321 tokens at up to 2500" in line


def test_leaks_are_loud() -> None:
    assert "3 LEAKED" in status_line(_state(leak_counts={"foreign": 2, "stale": 1, "decoy": 0}), 200)
    assert "LEAKED" not in status_line(_state(), 200)


@pytest.mark.parametrize("ended", [None, "server_lost"])
def test_a_server_that_was_away_is_told_by_how_it_was_seen(ended: str | None) -> None:
    hows: tuple[How, ...] = ("stalled", "stalled", "refused", "unhealthy", "restarted", "pid_dead", "timeout")
    losses = tuple(
        Loss(at=(0, n), how=how, session=None, req=None, detail="", reachable=True, after_first_token=True)
        for n, how in enumerate(hows)
    )
    line = status_line(_state(losses=losses, ended=ended), 300)
    said = ("2 stalled", "1 connections refused", "1 times server unwell", "1 times server restarted")
    assert all(text in line for text in (*said, "1 times server dead", "1 timed out"))
    assert "stalled" not in status_line(_state(ended=ended), 300)


@pytest.mark.parametrize(
    ("silent_s", "ended", "told"), [(5.0, None, False), (29.0, None, False), (31.0, None, True), (31.0, "x", False)]
)
def test_a_silence_is_told_once_it_is_long_beside_the_stall_limit(
    silent_s: float, ended: str | None, told: bool
) -> None:
    sessions = Sessions()
    sessions.of(0).last_us = 0
    waits = sessions.states({1: Open(0, 0)}, round(silent_s * 1e6), {})
    line = status_line(_state(sessions=waits, ended=ended), 300)
    assert (f"no token for {silent_s:.0f} s of 120" in line) == told


@given(st.text(), st.integers(0, 120))
def test_any_scenario_name_gives_one_harmless_line(name: str, width: int) -> None:
    line = status_line(_state(name), width)
    assert len(line) <= width
    assert not any(char in line for char in "\x1b\x07\r\x9b\u202e")
    line.encode("utf-8")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0s"), (999, "0s"), (59_999, "59s"), (60_000, "1m00s"), (3_599_999, "59m59s"), (11_220_000, "3h07m")],
)
def test_durations(ms: float, text: str) -> None:
    assert duration_text(ms) == text


@pytest.mark.parametrize(
    ("tokens", "text"), [(None, "n/a"), (0, "0"), (9999, "9999"), (10_000, "10.0k"), (36_148, "36.1k")]
)
def test_token_counts(tokens: int | None, text: str) -> None:
    assert tokens_text(tokens) == text


@given(st.text(st.characters(codec="utf-8")))
def test_plain_text_is_ascii(text: str) -> None:
    assert plain(text).isascii()
    assert plain("a · b…") == "a | b..."
    if text.isascii():
        assert plain(text) == text
