"""A transcript as token ids, request by request, and how true that is to rendering it whole.

Whoever replays by ids needs this module alone: what `core.turns` knows of single turns is exported here too.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from infermaxx_tui.core.chatform import wrapped_arguments
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.transcript import Message, Session, Window
from infermaxx_tui.core.turns import (
    SEGMENTS_VERSION,
    Ids,
    TemplateRefused,
    TemplateUnfit,
    TokenizerError,
    TurnShape,
    brief_system,
    close_reply,
    closed_think_suffix,
    delta_ids,
    end_of_turn,
    first_prompt,
    generation_prefix_opens_think,
    reply_ids,
    scripted_turn,
    think_ids,
    turn_shape,
)

__all__ = [
    "CUT_MARK",
    "SEGMENTS_VERSION",
    "Ids",
    "TemplateRefused",
    "TemplateUnfit",
    "TokenisedRequest",
    "TokenisedTranscript",
    "TokenizerError",
    "brief_system",
    "close_reply",
    "closed_think_suffix",
    "delta_ids",
    "end_of_turn",
    "first_prompt",
    "generation_prefix_opens_think",
    "reply_ids",
    "scripted_turn",
    "think_ids",
    "tokenise",
    "trim_messages",
]

CUT_MARK = "\n[… cut to fit]"
"""What stands at the end of a text that was shortened."""


class TokenisedRequest(msgspec.Struct, frozen=True):
    """One request: the ids that it adds to the prompt, and the ids of the recorded reply, closed."""

    delta_ids: Ids
    """For a window's first request its whole prompt."""
    reply_ids: Ids
    prompt_tokens: int
    """Length of the whole prompt of this request, by appending."""
    opens_window: bool
    prefix_share: float | None = None
    """Share of the prompt, rendered whole, up to which appending gave the same ids; 1.0: all. None: not rendered."""


class TokenisedTranscript(msgspec.Struct, frozen=True):
    """All requests of a session in order, and by which tokenizer."""

    session: str
    tokenizer: str
    tokenizer_sha256: str
    template_sha256: str
    requests: tuple[TokenisedRequest, ...]
    wrapped_arguments: int = 0
    """Tool calls whose arguments were not a JSON object and were wrapped in one."""

    @property
    def peak_tokens(self) -> int:
        """The most tokens that prompt and reply of one request take together; 0 without requests."""
        return max((request.prompt_tokens + len(request.reply_ids) for request in self.requests), default=0)

    @property
    def worst_prefix_share(self) -> float | None:
        """The least share of all requests that were rendered whole, None if none was."""
        return min((r.prefix_share for r in self.requests if r.prefix_share is not None), default=None)


def tokenise(
    session: Session, renderer: Renderer, truth: Literal["none", "last", "all"] = "last"
) -> TokenisedTranscript:
    """The session's requests as ids. Raises TemplateRefused and TemplateUnfit.

    `truth` says which prompts are rendered whole and compared with what appending gave: none, each window's last one,
    or all (which costs the square of the length).
    """
    requests: list[TokenisedRequest] = []
    for window in session.windows:
        requests += _window(window, session.tools, renderer, truth)
    return TokenisedTranscript(
        session=session.id,
        tokenizer=renderer.name,
        tokenizer_sha256=renderer.sha256,
        template_sha256=renderer.template_sha256,
        requests=tuple(requests),
        wrapped_arguments=wrapped_arguments(m for r in session.requests for m in (*r.delta, r.reply)),
    )


def _window(window: Window, tools: str, renderer: Renderer, truth: str) -> list[TokenisedRequest]:
    done: list[TokenisedRequest] = []
    history: list[Message] = []
    ids: list[int] = []
    system: Message | None = None
    shape: TurnShape | None = None
    for request in window.requests:
        if not done:
            system = next((message for message in request.delta if message.role == "system"), None)
            system = brief_system(renderer, system)
            delta = first_prompt(renderer, request.delta, tools)
        else:
            delta = delta_ids(renderer, system, request.delta)
        history += request.delta
        ids += delta
        checked = truth == "all" or (truth == "last" and len(done) == len(window.requests) - 1)
        share = _share(tuple(ids), renderer.render(tuple(history), tools, True)) if checked else None
        shape = shape if shape is not None else turn_shape(renderer, system)
        reply = reply_ids(renderer, system, request.reply, shape)
        done.append(TokenisedRequest(delta, reply, len(ids), not done, share))
        ids += reply
        history.append(request.reply)
    return done


def _share(appended: Ids, whole: Ids) -> float:
    """Share of `whole` that `appended` starts with; below 1 also if `appended` goes on after it."""
    if appended == whole:
        return 1.0
    longest = max(len(appended), len(whole))
    pairs = enumerate(zip(appended, whole, strict=False))
    same = next((n for n, (a, b) in pairs if a != b), min(len(appended), len(whole)))
    return same / longest


def trim_messages(
    renderer: Renderer, messages: tuple[Message, ...], room_tokens: int, system: Message | None = None
) -> tuple[tuple[Message, ...], int]:
    """Messages whose delta fits the room, and by how many tokens the delta became shorter.

    The longest tool result or user text is cut at its end, which a mark line shows. No message is dropped: where even
    empty ones do not fit, the delta stays longer than the room. Raises TemplateRefused and TemplateUnfit.
    """
    before = now = len(delta_ids(renderer, system, messages))
    kept = list(messages)
    spare = 2
    while now > room_tokens:
        places = [n for n, message in enumerate(kept) if message.role in ("tool", "user") and message.content]
        if not places:
            break
        place = max(places, key=lambda n: len(kept[n].content))
        text = _shorter(renderer, kept[place].content, now - room_tokens + spare)
        kept[place] = msgspec.structs.replace(kept[place], content=text)
        now = len(delta_ids(renderer, system, tuple(kept)))
        spare *= 4
    return tuple(kept), before - now


def _shorter(renderer: Renderer, text: str, by_tokens: int) -> str:
    """The text, shorter by about so many tokens with its mark included; empty if nothing is left."""
    body = text.removesuffix(CUT_MARK)
    ids = renderer.encode(body)
    mark = 0 if body != text else len(renderer.encode(CUT_MARK))
    keep = len(ids) - by_tokens - mark
    if keep <= 0:
        return ""
    shorter = body[: min(len(renderer.decode(ids[:keep])), len(body) - 1)] + CUT_MARK
    return shorter if len(shorter) < len(text) else ""
