"""Telling thinking from answer in the plain text of a completion, by the ids of the think tokens.

Ids and not text decide, because a model may write the tag's letters without thinking, and a tokenizer may leave the
tag out of the text. Only where the server sends no ids at all does the tag's text have to do.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Think(msgspec.Struct, frozen=True):
    """The think tokens of a tokenizer, and whether the prompt already opened the block."""

    open_id: int | None
    close_id: int | None
    starts_inside: bool = False
    open_text: str = "<think>"
    close_text: str = "</think>"


class ThinkSplitter:
    """Follows one reply through its ids."""

    __slots__ = ("_think", "inside", "reasoning_tokens")

    def __init__(self, think: Think) -> None:
        self._think = think
        self.inside = think.starts_inside
        """The block is open."""
        self.reasoning_tokens = 0
        """Ids inside blocks so far, the think tokens themselves not counted."""

    def split(self, text: str, ids: Sequence[int] | None) -> tuple[str, str]:
        """(content, reasoning) of one chunk; the tags are in neither.

        Text around a think token whose tag it does not show goes where the chunk ends up. With `ids` None a tag counts
        if it lies in the chunk whole.
        """
        opens, closes = self._think.open_id, self._think.close_id
        if ids is None:
            return self._split_by_text(text)
        if opens not in ids and closes not in ids:
            if not self.inside:
                return text, ""
            self.reasoning_tokens += len(ids)
            return "", text
        sides: tuple[list[str], list[str]] = ([], [])
        for token in ids:
            if token != opens and token != closes:
                self.reasoning_tokens += self.inside
                continue
            tag = self._think.open_text if token == opens else self._think.close_text
            before, shown, after = text.partition(tag)
            if shown:
                sides[self.inside].append(before)
                text = after
            self.inside = token == opens
        sides[self.inside].append(text)
        return "".join(sides[0]), "".join(sides[1])

    def _split_by_text(self, text: str) -> tuple[str, str]:
        sides: tuple[list[str], list[str]] = ([], [])
        while True:
            tag = self._think.close_text if self.inside else self._think.open_text
            before, shown, text = text.partition(tag)
            sides[self.inside].append(before)
            if not shown:
                return "".join(sides[0]), "".join(sides[1])
            self.inside = not self.inside
