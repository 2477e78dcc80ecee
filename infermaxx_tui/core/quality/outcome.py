"""What one asked task came to: right, wrong, capped or error, made from the logged facts alone.

A reply without room for its answer, and one that never came, say nothing about what the model knows, so neither is
ever counted as wrong.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from infermaxx_tui.core import classify
from infermaxx_tui.core.display import excerpt
from infermaxx_tui.core.events import QualityAsked, RequestEnded
from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.quality.answer import final_answer, is_right
from infermaxx_tui.core.torn import torn

Mark = Literal["right", "wrong", "capped", "error"]
"""`capped`: it hit a cap, whatever it says. `error`: nothing came that could be an answer."""


class Graded(msgspec.Struct, frozen=True):
    """A reply's mark, why, and what it gave as its answer."""

    mark: Mark
    reason: str | None = None
    said: str | None = None


class QualityAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One reply to one task."""

    at: Ref
    req: int
    session: int
    turn: int
    phase: Literal["before", "during", "after", "alone"]
    wave: int
    task: str
    question: str
    expected: str
    mark: Mark
    reason: str | None
    said: str | None
    depth_tokens: int
    overlapped: bool
    """Whether another session's stream was decoding beside it."""
    degenerate: str | None
    """The rule that its text broke."""
    max_tokens: int


def grade(asked: QualityAsked, ended: RequestEnded, max_model_len: int | None) -> Graded:
    """The mark of a reply, and what it said."""
    if ended.outcome != "ok":
        return Graded("error", ended.outcome)
    if (why := torn(ended)) is not None:
        return Graded("error", why)
    if classify.is_capped(
        ended.finish_reason,
        ended.completion_tokens,
        ended.max_tokens or None,
        ended.prompt_tokens,
        max_model_len,
    ):
        return Graded("capped", ended.finish_reason or "no finish_reason", _tail(ended.content))
    if ended.content is None:
        return Graded("error", "its text was not kept")
    if ended.finish_reason == "repetition":
        return Graded("error", "the server stopped it for repetition", _tail(ended.content))
    if not ended.content.strip():
        return Graded("error", "only reasoning" if ended.reasoning_chars else "nothing delivered")
    answer = final_answer(ended.content, asked.form)
    if answer is None:
        return Graded("error", "only reasoning", _tail(ended.content))
    right = is_right(answer, asked.form, asked.expected, asked.tolerance, asked.units, asked.question)
    return Graded("right" if right else "wrong", None, excerpt(answer))


def _tail(content: str | None) -> str | None:
    return excerpt(content[-400:]) if content else None
