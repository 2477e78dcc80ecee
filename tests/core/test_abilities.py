"""Marks of replies that try an ability: right only as a client gets it, and none where nothing could be seen."""

from __future__ import annotations

import itertools

import msgspec
import orjson
import pytest

from infermaxx_tui.core.abilities import AT_ONCE, CASES, Ability, Call, wrong_with
from infermaxx_tui.core.ability_figures import ability_measures
from infermaxx_tui.core.ability_marks import Mark, mark, reasons
from infermaxx_tui.core.events_abilities import AbilityAnswered
from infermaxx_tui.core.measures import find
from infermaxx_tui.core.scenario import ScenarioError, parse_scenario
from infermaxx_tui.core.trials import trials

_OSLO = Call("get_weather", '{"city":"Oslo","unit":"celsius"}')
_LIMA = Call("get_weather", '{"city":"Lima","unit":"celsius"}')
_TOOL = AbilityAnswered(
    ability=0,
    kind="tools",
    case="streamed",
    rep=0,
    place=0,
    question="?",
    expected=(_OSLO,),
    answer="",
    status=200,
    error=None,
    finish_reason="tool_calls",
    content="",
    reasoning_chars=0,
    reasoning_tokens=None,
    calls=(_OSLO,),
    completion_tokens=20,
    max_tokens=2048,
    total_ms=800.0,
)
_SEEN = msgspec.structs.replace(
    _TOOL, kind="vision", case="image", expected=(), calls=(), answer="VKXCHE 88", content="VKXCHE 88"
)
_SUM = msgspec.structs.replace(
    _TOOL, kind="thinking", case="off", expected=(), calls=(), answer="4242", content="So it is\n4,242"
)


def _with(one: AbilityAnswered, **fields: object) -> AbilityAnswered:
    return msgspec.structs.replace(one, **fields)


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        (_TOOL, "right"),
        (_with(_TOOL, calls=(Call("get_weather", '{ "unit": "celsius", "city": "oslo" }'),)), "right"),
        (_with(_TOOL, content="I will look that up."), "right"),
        (_with(_TOOL, expected=(_OSLO, _LIMA), calls=(_LIMA, _OSLO)), "right"),
        (_with(_TOOL, calls=(_LIMA,)), "other_call"),
        (_with(_TOOL, calls=(Call("find_files", _OSLO.arguments),)), "other_call"),
        (_with(_TOOL, calls=(_OSLO, _OSLO)), "other_call"),
        (_with(_TOOL, calls=(), content="It is warm in Oslo."), "lost"),
        (_with(_TOOL, calls=(), content="I will use get_weather for Oslo."), "lost"),
        (_with(_TOOL, calls=(), content=" ", completion_tokens=2), "lost"),
        (_with(_TOOL, calls=(), content="\n"), "swallowed"),
        (_with(_TOOL, calls=(), reasoning='<tool_call>{"name": "get_weather"'), "reasoning_only"),
        (_with(_TOOL, calls=(), reasoning_chars=30), "reasoning_only"),
        (_with(_TOOL, calls=(), reasoning="I must", reasoning_tokens=17), "reasoning_only"),
        (_with(_TOOL, calls=(), reasoning="I must", reasoning_tokens=3), "swallowed"),
        (_with(_TOOL, reasoning='I shall say {"name": "get_weather"}.'), "right"),
        (_with(_TOOL, expected=(_OSLO, _LIMA)), "lost"),
        (_with(_TOOL, calls=(Call("get_weather", '{"city":"Os'),)), "bad_json"),
        (_with(_TOOL, calls=(Call("get_weather", '"Oslo"'),)), "bad_json"),
        (_with(_TOOL, calls=(Call("get_weather", ""),)), "bad_json"),
        (_with(_TOOL, calls=(), content='<tool_call>\n{"name": "get_weather"}'), "markup"),
        (_with(_TOOL, content="</tool_call>"), "markup"),
        (_with(_TOOL, calls=(), content='{"name": "get_weather", "arguments": {}}'), "markup"),
        (_with(_TOOL, calls=(), content='{"type": "function", "name": "get_weather"}'), "markup"),
        (_with(_TOOL, calls=(), content='[get_weather(city="Oslo", unit="celsius")]'), "markup"),
        (_with(_TOOL, calls=(), content="<｜tool▁calls▁begin｜>"), "markup"),
        (_with(_TOOL, calls=(), content="<minimax:tool_call>"), "markup"),
        (_with(_TOOL, content="I will call get_weather(Oslo)."), "right"),
        (_with(_TOOL, content='<think>so {"name": "get_weather"}</think>\n'), "right"),
        (_with(_TOOL, finish_reason="length"), "capped"),
        (_with(_TOOL, completion_tokens=2047), "capped"),
        (_with(_TOOL, finish_reason=None), "capped"),
        (_with(_TOOL, status=400, error='"auto" tool choice requires --enable-auto-tool-choice'), "unsupported"),
        (_with(_TOOL, status=500, error="tool_choice exploded"), "error"),
        (_with(_TOOL, status=400, error="model not found"), "error"),
        (_with(_TOOL, status=None, error="ConnectError"), "error"),
        (_with(_TOOL, error="truncated: the stream ended before a finish"), "error"),
        (_SEEN, "right"),
        (_with(_SEEN, content="vkxche88"), "letters"),
        (_with(_SEEN, content='The text is "VKXCHE 88".'), "letters"),
        (_with(_SEEN, content="VKXCHE 83"), "wrong"),
        (_with(_SEEN, content=""), "swallowed"),
        (_with(_SEEN, content="", reasoning="VKXCHE 88"), "reasoning_only"),
        (_with(_SEEN, content="<think>large letters</think>\nVKXCHE 88"), "right"),
        (_with(_SEEN, status=400, error="smollm2 is not a multimodal model"), "unsupported"),
        (_SUM, "right"),
        (_with(_SUM, content="**4242**"), "right"),
        (_with(_SUM, reasoning_tokens=12), "reasoned"),
        (_with(_SUM, reasoning_chars=40), "reasoned"),
        (_with(_SUM, content="hm</think>\n4242"), "reasoned"),
        (_with(_SUM, content="<think>\n\n</think>\n4242"), "right"),
        (_with(_SUM, reasoning="\n\n", reasoning_chars=2, reasoning_tokens=1), "right"),
        (_with(_SUM, content="4242 or 17?</think>"), "reasoning_only"),
        (_with(_SUM, content="", reasoning="It is 4242"), "reasoning_only"),
        (_with(_SUM, case="on", reasoning_tokens=12), "right"),
        (_with(_SUM, content="4241"), "wrong"),
        (_with(_SUM, content="It is 4242, or 4243"), "wrong"),
        (_with(_SUM, content="", completion_tokens=1), "wrong"),
    ],
)
def test_each_reply_has_its_mark(reply: AbilityAnswered, wanted: Mark) -> None:
    assert mark(reply) == wanted


def test_what_could_not_be_seen_is_in_no_share_and_is_named() -> None:
    ability = Ability(kind="tools", n=3)
    replies = [_TOOL, _with(_TOOL, rep=1, calls=(), content="Warm."), _with(_TOOL, rep=2, finish_reason="length")]
    found = find(ability_measures((ability,), replies), ("tools.streamed.right", None, None))
    assert found is not None
    assert found.values == (1.0, 0.0)
    assert found.reason == "capped: its budget of 2048 tokens was used up"
    assert found.note == "1 right, 1 lost, 1 capped"


def test_a_case_that_was_never_asked_has_no_value() -> None:
    measures = ability_measures((Ability(kind="tools", n=2),), ())
    assert {one.name for one in measures} == {
        *(f"tools.{case}.right" for case in CASES["tools"]),
        "tools.streamed.as_plain",
        "tools.concurrent.as_plain",
    }
    assert all(one.values == () and one.reason for one in measures)


def test_thinking_is_told_by_what_it_costs_and_off_by_its_effect() -> None:
    ability = Ability(kind="thinking", n=1)
    on = _with(_SUM, case="on", reasoning_tokens=300, completion_tokens=310, total_ms=3700.0)
    by_name = {one.name: one for one in ability_measures((ability,), (on, _SUM))}
    assert by_name["thinking.on.tokens"].values == (310.0,)
    assert by_name["thinking.on.seconds"].values == (3.7,)
    assert by_name["thinking.off.seconds"].values == (0.8,)
    assert by_name["thinking.off.is_off"].values == (1.0,)
    assert by_name["thinking.on.is_on"].values == (1.0,)
    assert by_name["thinking.off.as_on"].values == (1.0,)
    other = {one.name: one for one in ability_measures((ability,), (on, _with(_SUM, content="So it is 42")))}
    assert other["thinking.off.as_on"].values == (0.0,)
    assert other["thinking.off.as_on"].note == "1 with thinking right, here wrong"
    silent = {one.name: one for one in ability_measures((ability,), (_with(on, content=""), _with(_SUM, content="")))}
    assert silent["thinking.off.as_on"].values == ()
    assert silent["thinking.off.as_on"].reason == "1 of 1 have nothing to stand beside"
    still = {one.name: one for one in ability_measures((ability,), (_with(_SUM, reasoning_tokens=5),))}
    assert still["thinking.off.is_off"].values == (0.0,)
    held = {one.name: one for one in ability_measures((ability,), (on, _SUM), "the gate failed")}
    assert held["thinking.on.seconds"].values == ()
    assert held["thinking.on.seconds"].reason == "withheld: the gate failed"
    assert held["thinking.on.right"].values == (1.0,)


def test_off_shows_nothing_where_no_reply_thinks() -> None:
    ability = Ability(kind="thinking", n=1)
    on = _with(_SUM, case="on")
    blind = _with(on, finish_reason="length")
    thinks = _with(blind, content="<think>first</think>")
    for other, values, said in (
        (on, (), "no reply thinks"),
        (blind, (), "no reply thinks"),
        (thinks, (1.0,), None),
    ):
        by_name = {one.name: one for one in ability_measures((ability,), (other, _SUM))}
        found = by_name["thinking.off.is_off"]
        assert found.values == values
        assert (found.reason or "").startswith(said or "")
        assert (found.reason is None) == bool(values)
    assert not reasons(on)


def test_a_streamed_call_stands_beside_the_same_one_that_came_whole() -> None:
    ability = Ability(kind="tools", n=4)
    plain = [_with(_TOOL, case="plain", rep=rep) for rep in range(3)]
    plain[1] = _with(plain[1], calls=(), content='<tool_call>{"name": "get_weather"')
    plain[2] = _with(plain[2], finish_reason="length")
    spaced = Call("get_weather", '{ "unit": "celsius", "city": "Oslo" }')
    streamed = [_with(_TOOL, rep=0, calls=(spaced,)), _with(_TOOL, rep=1), _with(_TOOL, rep=2)]
    found = find(ability_measures((ability,), (*plain, *streamed)), ("tools.streamed.as_plain", None, None))
    assert found is not None
    assert (found.values, found.planned) == ((1.0, 0.0), 4)
    assert found.note == "1 alone and whole markup, here right"
    assert found.reason == "capped: its budget of 2048 tokens was used up"
    other = [_with(_TOOL, case="concurrent", rep=0, place=place, calls=(_LIMA,)) for place in range(AT_ONCE)]
    under = find(ability_measures((ability,), (plain[0], *other)), ("tools.concurrent.as_plain", None, None))
    assert under is not None
    assert under.values == (0.0,)
    assert under.reason == "3 of 4 have nothing to stand beside"


def test_with_another_choice_the_figures_have_another_name() -> None:
    both = (Ability(kind="tools", n=1), Ability(kind="tools", n=1, choice="required"))
    names = [one.name for one in ability_measures(both, ())]
    assert len(set(names)) == len(names)
    assert "tools_required.plain.right" in names
    asked = [(one.case, one.place, one.question) for (one, *_) in trials(both, 7)]
    assert asked[: len(asked) // 2] == asked[len(asked) // 2 :]


def test_questions_follow_from_the_seed_and_their_keys_are_computed() -> None:
    abilities = (Ability(kind="tools", n=2), Ability(kind="vision", n=2), Ability(kind="thinking", n=2))
    groups = list(trials(abilities, 7))
    assert groups == list(trials(abilities, 7))
    assert groups != list(trials(abilities, 8))
    every = list(itertools.chain.from_iterable(groups))
    assert sum(one.case == "concurrent" for one in every) == 2 * AT_ONCE
    assert {len(one.expected) for one in every if one.case == "two"} == {2}
    assert all(len(set(one.expected)) == len(one.expected) for one in every)
    for one in every:
        for call in one.expected:
            assert orjson.loads(call.arguments)["city"] in one.question
    sums = [one for one in every if one.kind == "thinking"]
    assert sums[0].question == sums[2].question
    a, b, c = (int(word) for word in sums[0].question.replace("?", "").split() if word.isdigit())
    assert int(sums[0].answer) == a * b + c
    assert len({one.answer for one in every if one.kind == "vision"}) == 2
    one_call = [one for one in every if one.kind == "tools" and one.case != "two" and one.place == 0]
    assert {rep: len({one.question for one in one_call if one.rep == rep}) for rep in (0, 1)} == {0: 1, 1: 1}


@pytest.mark.parametrize(
    ("ability", "key"),
    [
        (Ability(kind="tools", n=0), "n"),
        (Ability(kind="vision", max_tokens=8), "max_tokens"),
        (Ability(kind="vision", choice="required"), "choice"),
    ],
)
def test_what_makes_no_sense_is_refused(ability: Ability, key: str) -> None:
    wrong = wrong_with(ability)
    assert wrong is not None
    assert wrong[0] == key
    assert wrong_with(Ability(kind="thinking")) is None


def _asked_twice(choice: str) -> str:
    asked = f'abilities = [{{kind = "tools"}}, {{kind = "tools", choice = "{choice}"}}]'
    return f'name = "x"\n{asked}\n[transcripts]\npaths = ["*.jsonl"]\n[sessions]\ncount = 1\ntarget_depth = 100\n'


def test_what_could_not_be_told_apart_is_asked_for_once() -> None:
    with pytest.raises(ScenarioError, match="tools is asked for twice"):
        parse_scenario(_asked_twice("auto"), "x.toml")
    scenario = parse_scenario(_asked_twice("required"), "x.toml")
    assert [one.name for one in scenario.abilities] == ["tools", "tools_required"]
