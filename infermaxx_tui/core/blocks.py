"""Text for traces that have none: prompts of exactly the recorded lengths that share what the trace says they share.

A block's id stands for one text, the same wherever the id occurs, and another one in each run, so that no old cache
has it. Everything is made as token ids: text of the same words could come out longer or shorter when it is tokenised.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.synth.words import ADJECTIVES, ADVERBS, NOUNS, VERBS
from infermaxx_tui.core.transcript import Message, Session, Window
from infermaxx_tui.core.turns import Ids, TemplateUnfit, delta_ids, first_prompt

_DEFAULT_BLOCK = 64
"""Tokens that are made at once where the trace has no blocks."""
_DIGEST = 64
_ONE_SCOPE = ("mooncake",)
"""Formats whose block ids mean the same in the whole file; those of others belong to a session and its subagents."""


class Words:
    """A well of ordinary words as ids, which gives the same ones for the same name."""

    def __init__(self, renderer: Renderer, salt: str) -> None:
        self._salt = salt
        self._words = tuple(renderer.encode(f" {word}") for word in (*VERBS, *NOUNS, *ADJECTIVES, *ADVERBS))
        self._stops = (renderer.encode("."), renderer.encode(",\n"), renderer.encode(".\n"))
        self._made: dict[str, Ids] = {}

    def ids(self, name: str, count: int) -> Ids:
        """So many ids; more of one name begin with fewer of it."""
        made = self._made.get(name, ())
        if len(made) < count:
            made = self._made[name] = self._make(name, max(count, _DEFAULT_BLOCK))
        return made[:count]

    def _make(self, name: str, count: int) -> Ids:
        out: list[int] = []
        part = 0
        while len(out) < count:
            digest = hashlib.blake2b(f"{self._salt}\x1f{name}\x1f{part}".encode(), digest_size=_DIGEST).digest()
            for at in range(0, _DIGEST, 2):
                out += self._words[int.from_bytes(digest[at : at + 2], "big") % len(self._words)]
                if digest[at] % 11 == 0:
                    out += self._stops[digest[at + 1] % len(self._stops)]
            part += 1
        return tuple(out[:count])


class Frame(msgspec.Struct, frozen=True):
    """What a template puts around a user's text."""

    head: Ids
    tail: Ids
    """The end of the turn, and the generation prompt."""

    @classmethod
    def first(cls, renderer: Renderer) -> Frame:
        """Of a conversation's first message. Raises TemplateUnfit."""
        return cls._between(renderer, *(first_prompt(renderer, (Message("user", said),), "") for said in ("d", "7")))

    @classmethod
    def later(cls, renderer: Renderer) -> Frame:
        """Of one behind a closed reply. Raises TemplateUnfit."""
        return cls._between(renderer, *(delta_ids(renderer, None, (Message("user", said),)) for said in ("d", "7")))

    @classmethod
    def _between(cls, renderer: Renderer, one: Ids, other: Ids) -> Frame:
        head = _shared(one, other)
        tail = _shared(one[head:][::-1], other[head:][::-1])
        if head + tail >= len(one):
            raise TemplateUnfit(renderer, "leaves a user's text out")
        return cls(one[:head], one[len(one) - tail :])

    @property
    def size(self) -> int:
        """Tokens of it."""
        return len(self.head) + len(self.tail)


def _shared(a: Sequence[int], b: Sequence[int]) -> int:
    pairs = enumerate(zip(a, b, strict=False))
    return next((n for n, (x, y) in pairs if x != y), min(len(a), len(b)))


class Stretch:
    """The text of one window of a trace, by the place of each token in the prompt."""

    def __init__(self, words: Words, names: Sequence[str], block_tokens: int, rest: str) -> None:
        self._words = words
        self._names = names
        self._block = block_tokens
        self._rest = rest

    def ids(self, start: int, stop: int) -> Ids:
        """The ids from one place of the prompt up to another."""
        out: list[int] = []
        at = start
        while at < stop:
            block, inside = divmod(at, self._block)
            name = self._names[block] if block < len(self._names) else f"{self._rest}/{block}"
            take = min(self._block - inside, stop - at)
            out += self._words.ids(name, self._block)[inside : inside + take]
            at += take
        return tuple(out)


def stretches(sessions: Iterable[Session], words: Words) -> tuple[tuple[Stretch, ...], ...]:
    """The text of each window of each trace. Equal block ids of one file are equal text."""
    listed = tuple(sessions)
    later = _later_names(listed)
    return tuple(
        tuple(_stretch(session, number, window, words, later) for number, window in enumerate(session.windows))
        for session in listed
    )


def _stretch(session: Session, number: int, window: Window, words: Words, later: dict[str, str]) -> Stretch:
    names: list[str] = []
    for kept, added in _blocks(session, window):
        names[kept:] = added
    rest = f"{session.source}/{session.id}/{number}"
    named = [_followed(name, later) for name in names]
    return Stretch(words, named, session.block_tokens or _DEFAULT_BLOCK, rest)


def _blocks(session: Session, window: Window) -> Iterator[tuple[int, list[str]]]:
    """For each request how many blocks of the last one stay, and the names of those after them."""
    root = session.id.partition("/")[0]
    scope = session.source if session.format in _ONE_SCOPE else f"{session.source}/{root}"
    for request in window.requests:
        if request.blocks is not None and session.block_tokens:
            yield request.blocks.kept_blocks, [f"{scope}#{block}" for block in request.blocks.added]


def _later_names(sessions: Iterable[Session]) -> dict[str, str]:
    """What a block that was not full is called once it is: the same text, of which there is more."""
    later: dict[str, str] = {}
    for session in sessions:
        for window in session.windows:
            names: list[str] = []
            for kept, added in _blocks(session, window):
                for old, new in zip(names[kept:], added, strict=False):
                    later.setdefault(old, new)
                names[kept:] = added
    return later


def _followed(name: str, later: dict[str, str]) -> str:
    seen = {name}
    while (following := later.get(name)) is not None and following not in seen:
        name = following
        seen.add(name)
    return name
