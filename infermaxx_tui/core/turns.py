"""How a conversation grows by token ids: every turn is appended once and no earlier id ever changes.

A server's prefix cache, and the claim that a tag is still in the prompt, both hang on that. Chat templates are written
to render whole conversations: some insert a default system prompt, some rewrite earlier turns. So each piece is
rendered behind a stand-in conversation and cut off it, and every cut is verified before it is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

import msgspec

from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.transcript import Message, ToolCall

Ids = tuple[int, ...]

SEGMENTS_VERSION = 1
"""Counts up whenever the same conversation would give other ids than before: cached ids of older code are not used."""

THINK_PAIRS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)
"""Control tokens that open and close reasoning: Qwen, DeepSeek and GLM; Mistral; Seed-OSS; Command."""

_SAID = ("d", "7")
"""Two stand-in replies without a common ending: what two renderings share after them is the template's own."""


class TokenizerError(Exception):
    """A tokenizer cannot be used, in one line: what, where, what to do."""


class TemplateRefused(TokenizerError, ValueError):
    """The chat template raised an error for this conversation."""


class TemplateUnfit(TokenizerError):
    """Conversations of this template cannot be grown by appending ids."""

    def __init__(self, renderer: Renderer, what: str) -> None:
        super().__init__(
            f"{renderer.name}: the chat template (sha256 {renderer.template_sha256[:12]}) {what};"
            ' set sessions.prompt to "chat", or give a tokenizer with another template'
        )


class TurnShape(msgspec.Struct, frozen=True):
    """What a template puts around an assistant's turn."""

    prompt_ids: Ids
    """A stand-in conversation up to and with the generation prompt."""
    last_end_ids: Ids
    """What follows an assistant's text at the end of a conversation."""
    end_ids: Ids
    """What follows an assistant's text whatever comes next: the end of turn."""


def first_prompt(renderer: Renderer, messages: tuple[Message, ...], tools: str) -> Ids:
    """Ids of a window's first prompt, generation prompt included. Raises TemplateRefused."""
    return renderer.render(messages, tools, True)


def turn_shape(renderer: Renderer, system: Message | None = None) -> TurnShape:
    """What the template puts around an assistant's turn, found by rendering stand-ins. Raises TemplateUnfit."""
    last = _after_reply(renderer, system, (), "", False)
    followed = _after_reply(renderer, system, (Message("user", "d"),), "", False)
    end = last[: _common_start(last, followed)] or (_leading_control(renderer, followed) if last else ())
    if not end:
        raise TemplateUnfit(renderer, "puts no end after an assistant's turn")
    return TurnShape(renderer.render(_head(system), "", True), last, end)


def _after_reply(
    renderer: Renderer, system: Message | None, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool
) -> Ids:
    """What stands after an assistant's text that `messages` follow: what two renderings with other texts share."""
    anchors = ((*_head(system), Message("assistant", said), *messages) for said in _SAID)
    one, other = (renderer.render(anchor, tools, add_generation_prompt) for anchor in anchors)
    if one == other:
        raise TemplateUnfit(renderer, "leaves an assistant's turn out once another follows")
    return one[len(one) - _common_start(one[::-1], other[::-1]) :]


def _leading_control(renderer: Renderer, ids: Ids) -> Ids:
    """The control token and blanks that `ids` begin with, if another control token follows; else nothing.

    Some templates end the last turn of a conversation otherwise than the turns before it; the latter end counts.
    """
    if not ids or not _is_control(renderer, ids[0]):
        return ()
    after = next((n for n in range(1, len(ids)) if not renderer.decode((ids[n],)).isspace()), None)
    return ids[:after] if after is not None and _is_control(renderer, ids[after]) else ()


def end_of_turn(renderer: Renderer, system: Message | None = None) -> Ids:
    """What the template puts after an assistant's text, e.g. the ids of `<|im_end|>` and a newline."""
    return turn_shape(renderer, system).end_ids


def delta_ids(renderer: Renderer, system: Message | None, messages: tuple[Message, ...], tools: str = "") -> Ids:
    """Ids to append after a closed assistant turn to add `messages` and the generation prompt.

    `system` is the conversation's own system message, None if it has none: without it no default one slips in, since
    it is rendered in both the stand-in and the whole and cut off with it. Raises TemplateRefused and TemplateUnfit.
    """
    for anchor in _anchors(system, messages):
        try:
            before = renderer.render(anchor, tools, False)
            whole = renderer.render((*anchor, *messages), tools, True)
        except ValueError:
            continue
        if (added := added_ids(renderer, whole, before)) is not None:
            return added
    return _delta_by_ending(renderer, system, messages, tools)


def _delta_by_ending(renderer: Renderer, system: Message | None, messages: tuple[Message, ...], tools: str) -> Ids:
    """The delta where the template renders a turn differently once another follows: what follows two replies alike."""
    end = turn_shape(renderer, system).end_ids
    shared = _after_reply(renderer, system, messages, tools, True)
    if shared[: len(end)] != end:
        raise TemplateUnfit(renderer, "rewrites an assistant's turn when the next message comes")
    return shared[len(end) :]


def added_ids(renderer: Renderer, whole: Ids, before: Ids) -> Ids | None:
    """What `whole` adds to `before`, None if it does not start with it.

    If only the text of `before` is a prefix, because a token spans the cut, the rest of that token is encoded anew.
    """
    shared = _common_start(whole, before)
    if shared == len(before):
        return whole[shared:]
    before_text = renderer.decode(before)
    whole_text = renderer.decode(whole)
    if not whole_text.startswith(before_text):
        return None
    for cut in range(shared, min(len(whole), len(before) + 16) + 1):
        text = renderer.decode(whole[:cut])
        if len(text) >= len(before_text) and whole_text.startswith(text):
            return (*renderer.encode(text[len(before_text) :]), *whole[cut:])
    return None


def reply_ids(renderer: Renderer, system: Message | None, reply: Message, known: TurnShape | None = None) -> Ids:
    """Ids of a recorded reply after the generation prompt, reasoning and tool calls included, and closed.

    `known`: what `turn_shape` says, which is the same for all replies behind one system message.

    It is rendered as the last turn, so its reasoning is kept. Where the generation prompt opens a think block that the
    template leaves out of the reply, the block is closed here. Raises TemplateRefused and TemplateUnfit.
    """
    shape = known if known is not None else turn_shape(renderer, system)
    whole = renderer.render((*_head(system), reply), "", False)
    body = added_ids(renderer, whole, shape.prompt_ids)
    if body is None:
        body = _reply_after_open_think(renderer, shape.prompt_ids, whole, reply)
    if shape.last_end_ids and body[-len(shape.last_end_ids) :] == shape.last_end_ids:
        return (*body[: -len(shape.last_end_ids)], *shape.end_ids)
    return body


def _reply_after_open_think(renderer: Renderer, prompt: Ids, whole: Ids, reply: Message) -> Ids:
    pair = think_ids(renderer)
    shared = _common_start(prompt, whole)
    if pair is None or pair[0] not in prompt[shared:]:
        raise TemplateUnfit(renderer, "renders a reply otherwise than its own generation prompt begins it")
    reasoning = renderer.encode(reply.reasoning) if reply.reasoning else ()
    return (*reasoning, *_close_open_think(renderer, prompt, pair[1]), *whole[shared:])


def close_reply(reply: Ids, end_ids: Ids, stop_ids: Collection[int] = ()) -> Ids:
    """The live reply, closed as the template would close it: its own ids, then what is missing of the end of turn.

    A reply that ends with (part of) the end of turn gets the rest; one that ends with another id at which the model
    stops (`stop_ids`) keeps that in the place of the first end id; a capped one gets all of it.
    """
    for have in range(min(len(end_ids), len(reply)), 0, -1):
        if reply[-have:] == end_ids[:have]:
            return (*reply, *end_ids[have:])
    if reply and reply[-1] in stop_ids:
        return (*reply, *end_ids[1:])
    return (*reply, *end_ids)


def scripted_turn(
    renderer: Renderer, system: Message | None, user_messages: tuple[Message, ...], assistant_text: str
) -> Ids:
    """Ids of a whole exchange that needs no request, to append after a closed assistant turn."""
    answer = reply_ids(renderer, system, Message("assistant", assistant_text))
    return (*delta_ids(renderer, system, user_messages), *answer)


def think_ids(renderer: Renderer) -> tuple[int, int] | None:
    """Ids that open and close reasoning, None if the vocabulary has no such pair."""
    for opening, closing in THINK_PAIRS:
        pair = renderer.special_id(opening), renderer.special_id(closing)
        if pair[0] is not None and pair[1] is not None:
            return pair[0], pair[1]
    return None


def generation_prefix_opens_think(renderer: Renderer, system: Message | None = None) -> bool:
    """Whether the generation prompt itself ends inside a think block, so that a reply begins with reasoning."""
    pair = think_ids(renderer)
    return pair is not None and _ends_inside(_generation_ids(renderer, system), pair)


def closed_think_suffix(renderer: Renderer, system: Message | None = None) -> Ids:
    """Ids to add after the generation prompt to close thinking at once; empty if the template knows no thinking."""
    pair = think_ids(renderer)
    if pair is None:
        return ()
    prompt = _generation_ids(renderer, system)
    if _ends_inside(prompt, pair):
        return _close_open_think(renderer, prompt, pair[1])
    thinks = Message("assistant", "d", reasoning="r")
    if pair[0] in prompt or pair[0] not in renderer.render((*_head(system), thinks), "", False):
        return ()
    blank = renderer.encode("\n\n")
    return (pair[0], *blank, pair[1], *blank)


def brief_system(renderer: Renderer, system: Message | None) -> Message | None:
    """A short stand-in for a long system message, if the template treats both alike; else the message itself.

    Deltas rendered behind it are the same and cost less.
    """
    if system is None or len(system.content) < 400:
        return system
    probe, short = (Message("user", "d"),), Message("system", "d")
    alike = delta_ids(renderer, short, probe) == delta_ids(renderer, system, probe)
    return short if alike else system


def _close_open_think(renderer: Renderer, prompt: Ids, closing: int) -> Ids:
    """Closes a think block that the prompt leaves open, with the blank lines that templates write."""
    gap = renderer.encode("\n") if renderer.decode(prompt).endswith("\n") else ()
    return (*gap, closing, *renderer.encode("\n\n"))


def _generation_ids(renderer: Renderer, system: Message | None) -> Ids:
    """The generation prompt alone; a system prompt that speaks of think tokens is no part of it."""
    whole = renderer.render(_head(system), "", True)
    added = added_ids(renderer, whole, renderer.render(_head(system), "", False))
    return whole if added is None else added


def _ends_inside(ids: Ids, pair: tuple[int, int]) -> bool:
    last = next((i for i in reversed(ids) if i in pair), None)
    return last == pair[0]


def _head(system: Message | None) -> tuple[Message, ...]:
    user = Message("user", "d")
    return (user,) if system is None else (system, user)


def _anchors(system: Message | None, messages: tuple[Message, ...]) -> list[tuple[Message, ...]]:
    """Stand-in conversations that `messages` may follow; before tool results one with the calls that they answer."""
    head = _head(system)
    plain = (*head, Message("assistant", _SAID[0]))
    results = tuple(itertools.takewhile(lambda message: message.role == "tool", messages))
    if not results:
        return [plain]
    calls = tuple(ToolCall(m.tool_call_id or f"call_{n}", m.name or "tool", "{}") for n, m in enumerate(results))
    return [(*head, Message("assistant", _SAID[0], tool_calls=calls)), plain]


def _is_control(renderer: Renderer, token_id: int) -> bool:
    return renderer.special_id(renderer.decode((token_id,))) == token_id


def _common_start(a: Sequence[int], b: Sequence[int]) -> int:
    """How many ids two sequences share from the start."""
    least = min(len(a), len(b))
    if a[:least] == b[:least]:
        return least
    return next(n for n in range(least) if a[n] != b[n])
