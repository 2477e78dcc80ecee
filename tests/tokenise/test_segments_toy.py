"""Growing a conversation by ids, on templates whose habits are switched on one by one."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core import segments
from infermaxx_tui.core.transcript import Message, Request, Session, ToolCall, Window
from infermaxx_tui.core.turns import TemplateRefused, TemplateUnfit, turn_shape

SPECIAL = ("<bos>", "<turn>", "<end>", "<eos>", "<think>", "</think>", "<call>", "<ret>")
IDS = {token: number for number, token in enumerate(SPECIAL)}
BLANK_LINE = 500
PATTERN = re.compile("(" + "|".join(map(re.escape, SPECIAL)) + ")")


@dataclass(frozen=True)
class Toy:
    """One id a character, one for a blank line, one for each control token; the switches are habits of templates."""

    default_system: bool = False
    strips: bool = False
    """Drops thinking of turns that another message follows, and writes an empty block at the end."""
    opens: bool = False
    """The generation prompt begins a think block."""
    forgets_think: bool = False
    """Never renders thinking."""
    ending: str = "<end>\n"
    last_ending: str = "<end>\n"
    forgets_replies: bool = False
    strict_tools: bool = False
    """Refuses tool results without the calls that they answer."""

    name = "toy"
    sha256 = "0" * 64
    template_sha256 = "1" * 64

    def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
        parts = ["<bos>", f"tools {tools}\n" if tools else ""]
        if self.default_system and messages[0].role != "system":
            parts.append("<turn>system\nBe nice.<end>\n")
        for place, message in enumerate(messages):
            self._check(messages, place)
            parts.append(self._turn(message, place == len(messages) - 1))
        if add_generation_prompt:
            parts.append("<turn>assistant\n" + ("<think>\n" if self.opens else ""))
        return self._ids("".join(parts))

    def _check(self, messages: tuple[Message, ...], place: int) -> None:
        if self.strict_tools and messages[place].role == "tool":
            known = {call.id for message in messages[:place] for call in message.tool_calls}
            if messages[place].tool_call_id not in known:
                raise TemplateRefused("toy: no call for this result")

    def _turn(self, message: Message, last: bool) -> str:
        if message.role != "assistant":
            return f"<turn>{message.role}\n{message.content}<end>\n"
        if self.forgets_replies and not last:
            return ""
        kept = "" if self.forgets_think or (self.strips and not last) else message.reasoning
        think = f"<think>\n{kept}\n</think>\n\n" if kept or (self.strips and last) else ""
        calls = "".join(f"<call>{call.name}{call.arguments}" for call in message.tool_calls)
        ending = self.last_ending if last else self.ending
        return f"<turn>assistant\n{think}{message.content}{calls}{ending}"

    @staticmethod
    def _ids(text: str) -> tuple[int, ...]:
        out: list[int] = []
        for piece in PATTERN.split(text):
            out += (IDS[piece],) if piece in IDS else Toy._plain(piece)
        return tuple(out)

    @staticmethod
    def _plain(text: str) -> tuple[int, ...]:
        return tuple(BLANK_LINE if part == "\n\n" else 1000 + ord(part) for part in re.findall("\n\n|[\\s\\S]", text))

    def encode(self, text: str) -> tuple[int, ...]:
        return self._plain(text)

    def decode(self, ids: tuple[int, ...]) -> str:
        return "".join(SPECIAL[i] if i < len(SPECIAL) else "\n\n" if i == BLANK_LINE else chr(i - 1000) for i in ids)

    def special_id(self, token: str) -> int | None:
        return IDS.get(token)


texts = st.text(st.sampled_from("ab \n<é🙂"), max_size=12)
said = st.builds(lambda first, rest: first + rest, st.sampled_from("ab<é"), texts)


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """A session of one window: text turns and tool turns in any order, each result with its call."""
    system = draw(st.none() | texts)
    first = () if system is None else (Message("system", system),)
    delta: tuple[Message, ...] = (*first, Message("user", draw(texts)))
    requests: list[Request] = []
    for turn in range(draw(st.integers(1, 5))):
        names = draw(st.lists(st.sampled_from(("ls", "cat")), max_size=3))
        calls = tuple(ToolCall(f"c{turn}.{n}", name, '{"a":1}') for n, name in enumerate(names))
        requests.append(Request(delta, Message("assistant", draw(said), reasoning=draw(texts), tool_calls=calls)))
        results = tuple(Message("tool", draw(texts), tool_call_id=call.id, name=call.name) for call in calls)
        delta = results or (Message("user", draw(texts)),)
    return Session("s", "toy", "s.jsonl", (Window("start", tuple(requests)),), tools=draw(st.sampled_from(("", "[]"))))


STABLE = (
    Toy(),
    Toy(default_system=True),
    Toy(last_ending="<end>\n<eos>"),
    Toy(ending="<end>", last_ending="<end>"),
    Toy(ending="<end>\n", last_ending="<ret>\n"),
    Toy(strict_tools=True),
)


@pytest.mark.parametrize("toy", STABLE, ids=repr)
@settings(max_examples=40)
@given(session=sessions())
def test_appended_segments_are_the_whole_rendering(toy: Toy, session: Session) -> None:
    tokenised = segments.tokenise(session, toy, truth="all")
    assert [request.prefix_share for request in tokenised.requests] == [1.0] * len(session.requests)
    ids: tuple[int, ...] = ()
    for request in tokenised.requests:
        ids += request.delta_ids
        assert request.prompt_tokens == len(ids)
        ids += request.reply_ids
    assert tokenised.peak_tokens == len(ids)


@settings(max_examples=50)
@given(session=sessions(), toy=st.sampled_from((Toy(strips=True), Toy(strips=True, default_system=True))))
def test_a_template_that_strips_thinking_appends_all_and_tells_the_share(toy: Toy, session: Session) -> None:
    tokenised = segments.tokenise(session, toy, truth="all")
    shares = [request.prefix_share for request in tokenised.requests]
    assert shares[0] == 1.0
    assert all(share is not None and share < 1.0 for share in shares[1:])
    for request, source in zip(tokenised.requests[1:], session.requests[1:], strict=True):
        text = toy.decode(request.delta_ids)
        assert text == "".join(f"<turn>{m.role}\n{m.content}<end>\n" for m in source.delta) + "<turn>assistant\n"


@pytest.mark.parametrize("toy", STABLE, ids=repr)
def test_no_default_system_prompt_slips_into_a_delta(toy: Toy) -> None:
    for system in (None, Message("system", "mine")):
        delta = segments.delta_ids(toy, system, (Message("user", "hi"),))
        assert toy.decode(delta) == "<turn>user\nhi<end>\n<turn>assistant\n"


@pytest.mark.parametrize(
    ("toy", "end", "last"),
    [
        (Toy(), "<end>\n", "<end>\n"),
        (Toy(last_ending="<end>\n<eos>"), "<end>\n", "<end>\n<eos>"),
        (Toy(ending="<end>", last_ending="<ret>"), "<end>", "<ret>"),
        (Toy(ending="<end>\n", last_ending="<ret>\n"), "<end>\n", "<ret>\n"),
        (Toy(ending="\n", last_ending="\n"), "\n", "\n"),
    ],
    ids=repr,
)
def test_the_end_of_turn_is_what_stands_there_whatever_follows(toy: Toy, end: str, last: str) -> None:
    shape = turn_shape(toy)
    assert (toy.decode(shape.end_ids), toy.decode(shape.last_end_ids)) == (end, last)


@pytest.mark.parametrize(
    "toy",
    [Toy(ending="", last_ending=""), Toy(ending="", last_ending="<ret>"), Toy(ending="x", last_ending="y")],
    ids=repr,
)
def test_a_template_without_an_end_of_turn_is_named(toy: Toy) -> None:
    with pytest.raises(TemplateUnfit, match=r"toy: the chat template \(sha256 1{12}\) puts no end") as caught:
        segments.end_of_turn(toy)
    assert "\n" not in str(caught.value)


def test_a_template_that_rewrites_history_is_named() -> None:
    toy = Toy(forgets_replies=True)
    with pytest.raises(TemplateUnfit, match=r"toy: the chat template .* leaves an assistant's turn out"):
        segments.delta_ids(toy, None, (Message("user", "hi"),))


def test_a_template_whose_end_of_turn_depends_on_what_follows_is_named() -> None:
    class Fickle(Toy):
        def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
            ids = super().render(messages, tools, add_generation_prompt)
            return tuple(7 if i == 2 else i for i in ids) if messages[-1].role == "tool" else ids

    with pytest.raises(TemplateUnfit, match="rewrites an assistant's turn"):
        segments.delta_ids(Fickle(), None, (Message("tool", "hi", tool_call_id="c"),))


def test_tool_results_follow_stand_in_calls_where_the_template_wants_them() -> None:
    results = (Message("tool", "1", tool_call_id="x"), Message("tool", "2", tool_call_id="y"), Message("user", "go"))
    text = Toy().decode(segments.delta_ids(Toy(strict_tools=True), None, results))
    assert text == "<turn>tool\n1<end>\n<turn>tool\n2<end>\n<turn>user\ngo<end>\n<turn>assistant\n"


END = (2, 1010)


@pytest.mark.parametrize(
    ("reply", "closed"),
    [
        ((7000, 2), (7000, 2, 1010)),
        ((7000,), (7000, 2, 1010)),
        ((7000, 2, 1010), (7000, 2, 1010)),
        ((7000, 3), (7000, 3, 1010)),
        ((7000, 7), (7000, 7, 2, 1010)),
        ((), (2, 1010)),
    ],
)
def test_a_live_reply_gets_what_is_missing_of_the_end(reply: tuple[int, ...], closed: tuple[int, ...]) -> None:
    assert segments.close_reply(reply, END, stop_ids=(3,)) == closed


@given(reply=st.lists(st.integers(0, 3) | st.just(1010)).map(tuple))
def test_closing_keeps_the_reply_and_is_done_once(reply: tuple[int, ...]) -> None:
    closed = segments.close_reply(reply, END)
    assert closed[: len(reply)] == reply
    assert closed[-2:] == END
    assert segments.close_reply(closed, END) == closed


@pytest.mark.parametrize(
    ("toy", "opened", "suffix"),
    [
        (Toy(forgets_think=True), False, ""),
        (Toy(), False, "<think>\n\n</think>\n\n"),
        (Toy(strips=True), False, "<think>\n\n</think>\n\n"),
        (Toy(opens=True), True, "\n</think>\n\n"),
    ],
    ids=repr,
)
def test_thinking_is_closed_at_once(toy: Toy, opened: bool, suffix: str) -> None:
    assert segments.think_ids(toy) == (4, 5)
    assert segments.generation_prefix_opens_think(toy) is opened
    assert toy.decode(segments.closed_think_suffix(toy)) == suffix


def test_think_tokens_in_a_system_prompt_are_not_the_generation_prompt() -> None:
    class Wordy(Toy):
        def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
            return (4, *super().render(messages, tools, add_generation_prompt))

    assert segments.generation_prefix_opens_think(Wordy()) is False
    assert Toy().decode(segments.closed_think_suffix(Wordy())) == "<think>\n\n</think>\n\n"


@pytest.mark.parametrize(
    ("toy", "text"),
    [
        (Toy(), "<think>\nwhy\n</think>\n\nyes<end>\n"),
        (Toy(opens=True), "why\n</think>\n\nyes<end>\n"),
        (Toy(opens=True, forgets_think=True), "why\n</think>\n\nyes<end>\n"),
        (Toy(last_ending="<ret>\n"), "<think>\nwhy\n</think>\n\nyes<end>\n"),
    ],
    ids=repr,
)
def test_a_recorded_reply_continues_its_generation_prompt(toy: Toy, text: str) -> None:
    reply = segments.reply_ids(toy, None, Message("assistant", "yes", reasoning="why"))
    assert toy.decode(reply) == text


def test_a_token_across_the_cut_is_encoded_anew() -> None:
    toy = Toy()
    reply = segments.reply_ids(toy, None, Message("assistant", "\nyes"))
    assert reply == toy.encode("\nyes") + END
    whole = toy.render((Message("user", "d"), Message("assistant", "\nyes")), "", False)
    assert BLANK_LINE in whole


def test_a_scripted_turn_is_a_delta_and_a_closed_reply() -> None:
    toy = Toy(default_system=True)
    ids = segments.scripted_turn(toy, None, (Message("user", "lot 7?"),), "seven")
    assert toy.decode(ids) == "<turn>user\nlot 7?<end>\n<turn>assistant\nseven<end>\n"


def test_a_long_system_prompt_is_replaced_only_where_it_makes_no_difference() -> None:
    long = Message("system", "x" * 5000)
    assert segments.brief_system(Toy(), None) is None
    assert segments.brief_system(Toy(), Message("system", "short")) == Message("system", "short")
    assert segments.brief_system(Toy(), long) == Message("system", "d")

    class Moody(Toy):
        def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
            mood = (1000,) if add_generation_prompt and len(messages[0].content) > 100 else ()
            return super().render(messages, tools, add_generation_prompt) + mood

    assert segments.brief_system(Moody(), long) == long


@given(
    contents=st.lists(texts.map(lambda t: t * 9), min_size=1, max_size=4),
    room=st.integers(0, 300),
    role=st.sampled_from(("tool", "user")),
)
def test_trimming_fits_the_room_or_leaves_empty_messages(contents: list[str], room: int, role: str) -> None:
    toy = Toy()
    messages = tuple(Message("tool" if role == "tool" else "user", content) for content in contents)
    before = len(segments.delta_ids(toy, None, messages))
    kept, trimmed = segments.trim_messages(toy, messages, room)
    after = len(segments.delta_ids(toy, None, kept))
    assert len(kept) == len(messages)
    assert trimmed == before - after
    if before <= room:
        assert kept == messages
    else:
        assert after <= room or all(not message.content for message in kept)
    for old, new in zip(messages, kept, strict=True):
        assert new.content in ("", old.content) or (
            new.content.endswith(segments.CUT_MARK)
            and old.content.startswith(new.content.removesuffix(segments.CUT_MARK))
        )


def test_trimming_cuts_the_longest_in_few_renders() -> None:
    renders = 0

    class Counting(Toy):
        def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
            nonlocal renders
            renders += 1
            return super().render(messages, tools, add_generation_prompt)

    messages = (Message("tool", "a" * 50_000), Message("user", "short"))
    kept, trimmed = segments.trim_messages(Counting(), messages, 9_000)
    assert kept[1] == messages[1]
    assert 8_900 <= len(segments.delta_ids(Toy(), None, kept)) <= 9_000
    assert trimmed > 41_000
    assert renders <= 8


def test_windows_start_anew_and_unrendered_truth_stays_unknown() -> None:
    turn = Request((Message("user", "a"),), Message("assistant", "b"))
    broken = ToolCall("c", "ls", "[1]")
    last = Request((Message("user", "a"),), Message("assistant", "b", tool_calls=(broken,)))
    session = Session("s", "toy", "s.jsonl", (Window("start", (turn, turn)), Window("compaction", (turn, last))))
    tokenised = segments.tokenise(session, Toy())
    assert [request.opens_window for request in tokenised.requests] == [True, False, True, False]
    assert [request.prefix_share for request in tokenised.requests] == [None, 1.0, None, 1.0]
    assert tokenised.requests[0].delta_ids == tokenised.requests[2].delta_ids
    assert tokenised.requests[1].prompt_tokens == tokenised.requests[3].prompt_tokens
    assert tokenised.wrapped_arguments == 1
    assert tokenised.worst_prefix_share == 1.0
    assert segments.tokenise(session, Toy(), truth="none").worst_prefix_share is None
