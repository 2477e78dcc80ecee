"""Marks of replies that try an ability: right only as a client gets it, and none where nothing could be seen."""

from __future__ import annotations

import itertools

import msgspec
import orjson
import pytest

from infermaxx_tui.core.abilities import AT_ONCE, CASES, Ability, Call, wrong_with
from infermaxx_tui.core.ability_marks import Mark, ability_measures, mark
from infermaxx_tui.core.events_abilities import AbilityAnswered
from infermaxx_tui.core.measures import find
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
        (_with(_TOOL, calls=()), "lost"),
        (_with(_TOOL, expected=(_OSLO, _LIMA)), "lost"),
        (_with(_TOOL, calls=(Call("get_weather", '{"city":"Os'),)), "bad_json"),
        (_with(_TOOL, calls=(Call("get_weather", '"Oslo"'),)), "bad_json"),
        (_with(_TOOL, calls=(Call("get_weather", ""),)), "bad_json"),
        (_with(_TOOL, calls=(), content='<tool_call>\n{"name": "get_weather"}'), "markup"),
        (_with(_TOOL, content="</tool_call>"), "markup"),
        (_with(_TOOL, calls=(), content='{"name": "get_weather", "arguments": {}}'), "markup"),
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
        (_with(_SEEN, content=""), "wrong"),
        (_with(_SEEN, status=400, error="smollm2 is not a multimodal model"), "unsupported"),
        (_SUM, "right"),
        (_with(_SUM, content="**4242**"), "right"),
        (_with(_SUM, reasoning_tokens=12), "reasoned"),
        (_with(_SUM, reasoning_chars=40), "reasoned"),
        (_with(_SUM, content="hm</think>\n4242"), "reasoned"),
        (_with(_SUM, case="on", reasoning_tokens=12), "right"),
        (_with(_SUM, content="4241"), "wrong"),
        (_with(_SUM, content="It is 4242, or 4243"), "wrong"),
        (_with(_SUM, content=""), "wrong"),
    ],
)
def test_each_reply_has_its_mark(reply: AbilityAnswered, wanted: Mark) -> None:
    assert mark(reply) == wanted


def test_what_could_not_be_seen_is_in_no_share_and_is_named() -> None:
    ability = Ability(kind="tools", n=3)
    replies = [_TOOL, _with(_TOOL, rep=1, calls=()), _with(_TOOL, rep=2, finish_reason="length")]
    found = find(ability_measures((ability,), replies), ("tools.streamed.right", None, None))
    assert found is not None
    assert found.values == (1.0, 0.0)
    assert found.reason == "capped: its budget of 2048 tokens was used up"
    assert found.note == "1 right, 1 lost, 1 capped"


def test_a_case_that_was_never_asked_has_no_value() -> None:
    measures = ability_measures((Ability(kind="tools", n=2),), ())
    assert len(measures) == len(CASES["tools"])
    assert all(one.values == () and one.reason and "were not asked" in one.reason for one in measures)


def test_thinking_is_told_by_what_it_costs_and_off_by_its_effect() -> None:
    ability = Ability(kind="thinking", n=1)
    on = _with(_SUM, case="on", reasoning_tokens=300, completion_tokens=310, total_ms=3700.0)
    by_name = {one.name: one for one in ability_measures((ability,), (on, _SUM))}
    assert by_name["thinking.on.tokens"].values == (310.0,)
    assert by_name["thinking.on.seconds"].values == (3.7,)
    assert by_name["thinking.off.seconds"].values == (0.8,)
    assert by_name["thinking.off.is_off"].values == (1.0,)
    still = {one.name: one for one in ability_measures((ability,), (_with(_SUM, reasoning_tokens=5),))}
    assert still["thinking.off.is_off"].values == (0.0,)
    held = {one.name: one for one in ability_measures((ability,), (on, _SUM), "the gate failed")}
    assert held["thinking.on.seconds"].values == ()
    assert held["thinking.on.seconds"].reason == "withheld: the gate failed"
    assert held["thinking.on.right"].values == (1.0,)


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


@pytest.mark.parametrize(
    ("ability", "key"), [(Ability(kind="tools", n=0), "n"), (Ability(kind="vision", max_tokens=8), "max_tokens")]
)
def test_what_makes_no_sense_is_refused(ability: Ability, key: str) -> None:
    wrong = wrong_with(ability)
    assert wrong is not None
    assert wrong[0] == key
    assert wrong_with(Ability(kind="thinking")) is None
