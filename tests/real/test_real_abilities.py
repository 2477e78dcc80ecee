"""Tools, thinking and vision on a real vLLM: what its parsers hand over is right, what they lose is not, and says how.

The template teaches this small model by examples: for most cities to call as hermes wants it, for Porto to leave the
last brace out, for Sofia to use another key. A sum that is odd is thought about whatever the switch says.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import orjson
import pytest
from realtools import real_home, served

from infermaxx_tui.core.abilities import AT_ONCE, Case
from infermaxx_tui.core.ability_marks import mark
from infermaxx_tui.core.events import AbilityAnswered, Record
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.verdict import Verdict, read_verdict
from infermaxx_tui.log import read_log

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
HERE = Path(__file__).parent
CITIES = ("Minsk", "Porto", "Sofia")
"""Of the three questions that each case asks, with the seed of the scenario."""


class Tried(msgspec.Struct, frozen=True):
    """What one run asked, and what it says of it."""

    answers: tuple[AbilityAnswered, ...]
    verdict: Verdict

    def of(self, ability: int, case: Case) -> tuple[AbilityAnswered, ...]:
        """The replies of one case in their order."""
        found = (one for one in self.answers if (one.ability, one.case) == (ability, case))
        return tuple(sorted(found, key=lambda one: (one.rep, one.place)))

    def measure(self, name: str) -> Measure:
        """The figure of that name."""
        (found,) = (one for one in self.verdict.measures if one.name == name)
        return found


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Tried:
    """One run of all abilities against one server."""
    home, folder = real_home(), tmp_path_factory.mktemp("abilities")
    model, scenario = folder / "model", HERE / "cpu-abilities.toml"
    made = (home / "smollm2", HERE / "abilities.jinja", model)
    maker = [str(home / "venv/bin/python"), str(HERE / "make_seeing_model.py"), *map(str, made)]
    subprocess.run(maker, check=True, timeout=300)
    with served(scenario, folder / "server.log", MODEL=str(model)) as url:
        command = [sys.executable, "-m", "infermaxx_tui", "run", str(scenario), "--url", url, "--headless", "--json"]
        command += ["--no-gpu", "--runs-dir", str(folder / "runs")]
        done = subprocess.run(command, capture_output=True, check=False, timeout=800)
    assert done.stdout, done.stderr.decode()
    (run,) = (path.parent for path in folder.glob("runs/*/events.jsonl"))
    events = [record.event for record in read_log(run) if isinstance(record, Record)]
    answers = tuple(event for event in events if isinstance(event, AbilityAnswered))
    for one in answers:
        print(one.ability, one.case, one.rep, one.place, mark(one), one.finish_reason, repr(one.content), one.calls)
    return Tried(answers, read_verdict(done.stdout))


def test_calls_come_whole_in_each_way(tried: Tried) -> None:
    cases: tuple[Case, ...] = ("plain", "streamed", "streamed_thinking", "concurrent", "after_turns")
    for case in cases:
        first = tried.of(0, case)[0]
        assert CITIES[0] in first.question
        assert (mark(first), first.finish_reason, first.content.strip()) == ("right", "tool_calls", ""), first
    two = [one for one in tried.of(0, "two") if mark(one) == "right"]
    assert two
    assert all(len(one.calls) == 2 for one in two)
    for one in tried.answers:
        for call in one.calls if mark(one) in ("right", "other_call") else ():
            assert orjson.loads(call.arguments).keys() == {"city", "unit"}


def test_under_load_nothing_is_dropped(tried: Tried) -> None:
    under = [one for one in tried.of(0, "concurrent") if not any(city in one.question for city in CITIES[1:])]
    assert len(tried.of(0, "concurrent")) == 3 * AT_ONCE
    assert len(under) >= 6
    assert {mark(one) for one in under} <= {"right", "other_call"}, "a city may be mixed up, and no call is lost"


def test_thinking_before_a_call_is_no_content(tried: Tried) -> None:
    first = tried.of(0, "streamed_thinking")[0]
    assert first.reasoning.strip()
    assert first.reasoning_tokens


def test_a_call_that_streaming_mends_is_not_the_one_that_came_whole(tried: Tried) -> None:
    plain, streamed = tried.of(0, "plain")[1], tried.of(0, "streamed")[1]
    assert plain.question == streamed.question
    assert CITIES[1] in plain.question
    assert (mark(plain), mark(streamed)) == ("markup", "right")


def test_a_call_that_streaming_swallows_is_not_the_models_silence(tried: Tried) -> None:
    plain, streamed, thinking = (
        tried.of(0, "plain")[2],
        tried.of(0, "streamed")[2],
        tried.of(0, "streamed_thinking")[2],
    )
    assert CITIES[2] in plain.question
    assert (mark(plain), mark(streamed), mark(thinking)) == ("markup", "swallowed", "swallowed")
    assert (streamed.finish_reason, streamed.content, streamed.calls) == ("stop", "", ())
    as_plain = tried.measure("tools.streamed.as_plain")
    assert as_plain.values == (1.0, 0.0, 0.0)
    assert as_plain.note == "1 alone and whole markup, here right; 1 alone and whole markup, here swallowed"
    assert tried.measure("tools.streamed.right").values == (1.0, 1.0, 0.0)


def test_a_call_that_must_be_made_is_made_and_one_that_is_cut_is_not_judged(tried: Tried) -> None:
    assert tried.measure("tools_required.plain.right").values == (1.0,)
    assert tried.measure("tools_required.streamed.right").values == (1.0,)
    cut = tried.measure("tools_required.two.right")
    assert (cut.values, cut.note) == ((), "1 capped")
    assert cut.reason == "capped: its budget of 64 tokens was used up"


def test_an_image_is_taken_and_its_text_missed(tried: Tried) -> None:
    (seen,) = tried.of(2, "image")
    assert (seen.status, seen.error) == (200, None)
    assert mark(seen) == "wrong"
    assert tried.measure("vision.image.right").values == (0.0,)
    assert tried.measure("vision.image.letters").values == (0.0,)


def test_off_is_off_only_where_nothing_is_thought(tried: Tried) -> None:
    on, off = tried.of(3, "on"), tried.of(3, "off")
    assert [int(one.answer) % 2 for one in off] == [1, 0]
    assert all(one.reasoning.strip() and one.reasoning_tokens for one in on)
    assert [mark(one) for one in on] == ["right", "right"]
    assert mark(off[0]) == "reasoned"
    assert tried.measure("thinking.on.is_on").values == (1.0, 1.0)
    assert tried.measure("thinking.off.is_off").values == (0.0, 1.0)
    as_on = tried.measure("thinking.off.as_on")
    assert (len(as_on.values), as_on.values[0]) == (2, 1.0)
