"""What a question that tries an ability sends, and what is kept of its reply."""

from __future__ import annotations

import httpx
import msgspec
import pytest
from runnertools import DONE, URL, Scripted, bench, counted, delta

from infermaxx_tui.core.abilities import Ability
from infermaxx_tui.core.ability_marks import mark
from infermaxx_tui.core.events import AbilityAnswered
from infermaxx_tui.core.trials import trials
from infermaxx_tui.runner.abilities import try_abilities
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.virtual import VirtualClock, run_virtual


class _Sent(msgspec.Struct):
    tool_choice: str | None = None
    stream: bool = False


class _Noting(Scripted):
    """Keeps the bodies."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__(*pieces)
        self.bodies: list[_Sent] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(msgspec.json.decode(await request.aread(), type=_Sent))
        return await super().handle_async_request(request)


def _tried(server: _Noting, *abilities: str) -> list[AbilityAnswered]:
    async def play() -> list[AbilityAnswered]:
        async with make_client(URL, None, server) as client:
            made = bench(client, VirtualClock(), (f"abilities=[{', '.join(abilities)}]",))
            await try_abilities(made.run)
        return [event for event in made.events if isinstance(event, AbilityAnswered)]

    return run_virtual(play)


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_the_choice_of_the_scenario_is_sent(choice: str) -> None:
    server = _Noting(delta(content="No."), delta("stop"), counted(9, 3), DONE)
    answers = _tried(server, f'{{kind="tools", n=1, choice="{choice}"}}')
    assert {body.tool_choice for body in server.bodies} == {choice}
    assert {mark(one) for one, body in zip(answers, server.bodies, strict=True) if body.stream} == {"lost"}


def test_nothing_but_a_tool_question_has_a_choice() -> None:
    server = _Noting(delta(content="4"), delta("stop"), DONE)
    _tried(server, '{kind="thinking", n=1}')
    assert {body.tool_choice for body in server.bodies} == {None}


def test_an_answer_at_the_end_of_a_very_long_reply_is_kept() -> None:
    (first, *_), *_ = trials((Ability(kind="thinking", n=1),), 1)
    talk = "<think>" + "7 and 11 make 18. " * 20_000 + "</think>\n"
    server = _Noting(delta(content=talk), delta(content=first.answer), delta("stop"), DONE)
    answers = _tried(server, '{kind="thinking", n=1}')
    assert [(one.case, mark(one)) for one in answers] == [("on", "right"), ("off", "reasoned")]
    assert all(len(one.content) < 40_000 for one in answers)


def test_reasoning_is_kept_as_text_and_told_from_a_block_of_blanks() -> None:
    (first, *_), *_ = trials((Ability(kind="thinking", n=1),), 1)
    rest = (delta(content=first.answer), delta("stop"), DONE)
    thinks = _tried(_Noting(delta(reasoning="Let me see."), *rest), '{kind="thinking", n=1}')
    blank = _tried(_Noting(delta(reasoning_content="\n\n"), *rest), '{kind="thinking", n=1}')
    assert [(one.reasoning, one.reasoning_chars) for one in thinks] == [("Let me see.", 11)] * 2
    assert [mark(one) for one in thinks] == ["right", "reasoned"]
    assert [(one.reasoning, one.reasoning_chars, mark(one)) for one in blank] == [("\n\n", 2, "right")] * 2
