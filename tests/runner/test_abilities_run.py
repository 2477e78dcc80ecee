"""Abilities through the whole runner: the embedded server calls tools, thinks or not, and takes no image."""

from __future__ import annotations

import pytest

from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.verdict import Verdict
from infermaxx_tui.selftest import judge_lines, play_in_memory

_ALL = (
    'abilities=[{kind="tools", n=2}, {kind="vision", n=1}, {kind="thinking", n=2}]',
    "sessions.rounds=1",
    "limits.min_recalls=15",
)


@pytest.fixture(scope="module")
def clean() -> Verdict:
    """On a healthy server."""
    return judge_lines(play_in_memory(("clean",), _ALL))


def _of(verdict: Verdict, name: str) -> Measure:
    (found,) = [one for one in verdict.measures if one.name == name]
    return found


@pytest.mark.parametrize("case", ["plain", "two", "streamed", "streamed_thinking", "after_turns"])
def test_tools_are_called_as_asked(clean: Verdict, case: str) -> None:
    assert _of(clean, f"tools.{case}.right").values == (1.0, 1.0)


def test_under_concurrency_too(clean: Verdict) -> None:
    assert _of(clean, "tools.concurrent.right").values == (1.0,) * 8


@pytest.mark.parametrize("case", ["streamed", "concurrent"])
def test_what_is_streamed_comes_to_what_came_whole(clean: Verdict, case: str) -> None:
    assert _of(clean, f"tools.{case}.as_plain").values == (1.0, 1.0)


def test_an_image_that_the_model_does_not_take_is_unsupported_and_no_miss(clean: Verdict) -> None:
    found = _of(clean, "vision.image.right")
    assert found.values == ()
    assert (found.reason or "").startswith("unsupported: ")
    assert "{" not in (found.reason or ""), "the message of the error, and not its JSON"


def test_thinking_costs_tokens_and_off_is_off(clean: Verdict) -> None:
    assert _of(clean, "thinking.on.right").values == (1.0, 1.0)
    assert _of(clean, "thinking.off.right").values == (1.0, 1.0)
    assert _of(clean, "thinking.on.is_on").values == (1.0, 1.0)
    assert _of(clean, "thinking.off.as_on").values == (1.0, 1.0)
    assert _of(clean, "thinking.off.is_off").values == (1.0, 1.0)
    assert min(_of(clean, "thinking.on.tokens").values) > max(_of(clean, "thinking.off.tokens").values)


def test_what_tried_abilities_stands_in_no_count_of_the_run(clean: Verdict) -> None:
    assert clean.verdict == "PASS"
    assert clean.instrument.generation_client == clean.instrument.generation_server
