"""Recognises a reply that gives the prompt back: it shows every tag of the prompt, and says nothing about memory."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from infermaxx_tui.core import wording
from infermaxx_tui.core.tag_scan import find_known

_LEAST_QUESTION: Final = 16
"""Characters below which a question could stand in an honest reply by chance."""
_MOST_QUESTIONS: Final = 3
"""A reply that asks the question more often than this is a loop, not an echo."""
_NOTHING: Final = re.compile(r"<[^<>\s]*>|\bassistant\b|\W")
"""What a template puts after a question."""


_DECORATION: Final = str.maketrans("", "", '*_`"')


def _plain(text: str) -> str:
    """Text without case, decoration, and differences of white space."""
    return " ".join(text.translate(_DECORATION).casefold().split())


_question = lru_cache(maxsize=1024)(_plain)


_STATED: Final = re.compile(
    re.escape(_plain(wording.tag_statement("\0", "\1"))).replace("\0", "([a-z]+ [a-z]+)").replace("\1", r"\S+")
)


def find_echo(said: str, question: str, tags: Collection[str]) -> str | None:
    """Why one channel of a reply to `question` is an echo of its prompt, None if it is none.

    A prompt has the session's `tags` before the question and ends with the question. So an echo has one of them before
    the question, or nothing after it; or it repeats two planted statements in the words in which a person made them. An
    answer that restates the question and then answers is none of these, nor is a sentence that names a label and a tag.
    """
    plain, asked = _plain(said), _question(question)
    if len(set(_STATED.findall(plain))) >= 2:
        return "repeats planted statements"
    if len(asked) < _LEAST_QUESTION or not 1 <= plain.count(asked) <= _MOST_QUESTIONS:
        return None
    if find_known(plain[: plain.rindex(asked)], tags):
        return "repeats the question after a planted tag"
    return None if _NOTHING.sub("", plain.rpartition(asked)[2]) else "ends with the question"
