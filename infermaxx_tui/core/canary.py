"""Lot tags: how they are made so that nothing else looks like one, and whose each of them is.

Finding them in text is `tag_scan`, whose names this module offers too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.events import Hit, TagIssued, TagsKnown
from infermaxx_tui.core.kept import Table
from infermaxx_tui.core.tag_scan import (
    ALPHABET,
    INCOMPARABLE,
    distance,
    find_known,
    find_tags,
    near_misses,
    nearest,
    tag_shaped,
    windows,
)
from infermaxx_tui.core.words import FIRST, SECOND

__all__ = [
    "ALPHABET",
    "INCOMPARABLE",
    "MIN_DISTANCE",
    "Owner",
    "Registry",
    "RegistryBuilder",
    "distance",
    "find_known",
    "find_tags",
    "is_tag",
    "make_labels",
    "make_tags",
    "near_misses",
    "nearest",
    "tag_shaped",
]

MIN_DISTANCE: Final = 4
"""Symbols in which any two tags of a run differ: one wrong symbol decodes uniquely, two are still seen to be wrong."""
_WEIGHTS: Final = (1, 2, 3, 4, 6, 7, 8)
"""Units modulo 25 whose neighbours differ by a unit too, and so does the last from -1, the weight of the check symbol:
any single substitution and any swap of neighbours changes the sum."""
_VALUE: Final = {symbol: value for value, symbol in enumerate(ALPHABET)}
_TRIPLES: Final = tuple(combinations(range(4), 3))


def _check_symbol(body: str) -> str:
    return ALPHABET[sum(w * _VALUE[symbol] for w, symbol in zip(_WEIGHTS, body, strict=True)) % len(ALPHABET)]


def is_tag(text: str) -> bool:
    """Whether `text` is XXXX-XXXX over the alphabet with a valid checksum. One random string in 25 is."""
    symbols = text[:4] + text[5:]
    shaped = len(text) == 9 and text[4] == "-" and all(symbol in _VALUE for symbol in symbols)
    return shaped and _check_symbol(symbols[:7]) == symbols[7]


def _drawn(seed: int, nonce: str) -> Iterator[str]:
    """Endless tags from SHA-256 in counter mode, not yet compared with one another.

    Each half mixes letters and digits, so that no tag reads as a word, a year or a number.
    """
    counter = 0
    while True:
        block = hashlib.sha256(f"infermaxx tag\n{seed}\n{nonce}\n{counter}".encode()).digest()
        counter += 1
        for start in range(0, 32, 8):
            number = int.from_bytes(block[start : start + 8], "big")
            body = ""
            for _ in range(7):
                number, value = divmod(number, len(ALPHABET))
                body += ALPHABET[value]
            tag = body + _check_symbol(body)
            if all(not half.isalpha() and not half.isdigit() for half in (tag[:4], tag[4:])):
                yield f"{tag[:4]}-{tag[4:]}"


def make_tags(seed: int, nonce: str, n: int) -> tuple[str, ...]:
    """`n` tags, a prefix of the answer for any larger `n`; any two differ in at least MIN_DISTANCE symbols.

    Two tags that differ in three symbols or fewer agree in three of the four symbols of one half, so only tags that
    share such a triple are compared.
    """
    tags: list[str] = []
    sharing: dict[tuple[int, int, str], list[str]] = {}
    draws = _drawn(seed, nonce)
    while len(tags) < n:
        tag = next(draws)
        keys = [
            (side, which, half[a] + half[b] + half[c])
            for side, half in enumerate((tag[:4], tag[5:]))
            for which, (a, b, c) in enumerate(_TRIPLES)
        ]
        rivals = (rival for key in keys for rival in sharing.get(key, ()))
        if any(sum(x != y for x, y in zip(tag, rival, strict=True)) < MIN_DISTANCE for rival in rivals):
            continue
        tags.append(tag)
        for key in keys:
            sharing.setdefault(key, []).append(tag)
    return tuple(tags)


def make_labels(seed: int, nonce: str, n: int) -> tuple[str, ...]:
    """`n` labels of two plain words, a prefix of the answer for any larger `n`.

    Unique, none part of another, and the first few hundred share no word. Raises ValueError when the words run out.
    """
    if n > len(FIRST) * len(SECOND):
        raise ValueError(f"there are words for {len(FIRST) * len(SECOND)} labels, not for {n}")
    first, second = _shuffled(seed, nonce, FIRST), _shuffled(seed, nonce, SECOND)
    rounds = (divmod(k, len(first)) for k in range(n))
    return tuple(f"{first[place]} {second[(place + turn) % len(second)]}" for turn, place in rounds)


def _shuffled(seed: int, nonce: str, words: tuple[str, ...]) -> list[str]:
    return sorted(words, key=lambda word: hashlib.sha256(f"infermaxx label\n{seed}\n{nonce}\n{word}".encode()).digest())


class Owner(msgspec.Struct, frozen=True):
    """Whose a tag is."""

    session: int
    label: str
    kind: Literal["own", "tail"] = "own"


class Registry(msgspec.Struct, frozen=True):
    """Every tag that this run or an earlier one made, and whose it is."""

    owners: Mapping[str, Owner]
    """Tags of this run's sessions, tail sentinels included."""
    by_session: Mapping[int, Mapping[str, str]]
    """The same by session: tag to label."""
    decoys: Collection[str]
    stale: Mapping[str, str]
    """Tags of earlier runs, and which run."""

    @classmethod
    def build(
        cls, own: Iterable[tuple[str, int, str]], decoys: Iterable[str] = (), stale: Mapping[str, str] | None = None
    ) -> Registry:
        """A registry of `own` = (tag, session, label), `decoys`, and `stale` = tag to the run that made it."""
        owners = {tag: Owner(session, label) for tag, session, label in own}
        by_session: dict[int, dict[str, str]] = {}
        for tag, owner in owners.items():
            by_session.setdefault(owner.session, {})[tag] = owner.label
        return cls(owners, by_session, frozenset(decoys), dict(stale or {}))

    def own(self, session: int) -> Mapping[str, str]:
        """Tags issued to `session` (tail sentinels included), with their labels."""
        return self.by_session.get(session, {})

    def hits(self, session: int, content: str, reasoning: str, tool_args: str) -> tuple[Hit, ...]:
        """Every exact foreign, stale or decoy tag in a reply of `session`.

        Each tag once, in the first channel that shows it; channels in the order of the arguments.
        """
        found: dict[str, Hit] = {}
        channels: tuple[tuple[Literal["content", "reasoning", "tool"], str], ...]
        channels = ("content", content), ("reasoning", reasoning), ("tool", tool_args)
        for channel, text in channels:
            for tag in windows(text) if text else ():
                hit = None if tag in found else self._hit(session, tag, channel)
                if hit is not None:
                    found[tag] = hit
        return tuple(found.values())

    def _hit(self, session: int, tag: str, channel: Literal["content", "reasoning", "tool"]) -> Hit | None:
        owner = self.owners.get(tag)
        if owner is not None:
            return None if owner.session == session else Hit(tag, "foreign", owner.session, channel)
        if tag in self.decoys:
            return Hit(tag, "decoy", None, channel)
        return Hit(tag, "stale", None, channel) if tag in self.stale else None


class RegistryBuilder(msgspec.Struct):
    """A registry that grows as a log is read."""

    _owners: Table[str, Owner] = msgspec.field(default_factory=Table)
    _by_session: Table[int, dict[str, str]] = msgspec.field(default_factory=Table)
    _decoys: set[str] = set()
    _stale: Table[str, str] = msgspec.field(default_factory=Table)

    def add_issued(self, event: TagIssued) -> None:
        """Learns a tag of this run; an absent label has none and changes nothing."""
        if not event.tag or event.kind == "absent":
            return
        if event.kind == "decoy" or event.session is None:
            self._decoys.add(event.tag)
            return
        self._owners.put(event.tag, Owner(event.session, event.label, event.kind))
        self._by_session.by.setdefault(event.session, {})[event.tag] = event.label

    def add_known(self, event: TagsKnown) -> None:
        """Learns the tags of an earlier run."""
        for tag in event.tags:
            self._stale.by.setdefault(tag, event.run)

    def retire(self, session: int, run: str) -> None:
        """Makes all tags of `session` stale tags of `run`, for a session that starts again with new ones."""
        for tag in self._by_session.drop(session) or {}:
            self._owners.drop(tag)
            self._stale.by.setdefault(tag, run)

    @property
    def registry(self) -> Registry:
        """What is known now. It is a view: it grows with this builder."""
        return Registry(self._owners.by, self._by_session.by, self._decoys, self._stale.by)

    def hits(self, session: int, content: str, reasoning: str, tool_args: str) -> tuple[Hit, ...]:
        """As `Registry.hits`, with what is known now."""
        return self.registry.hits(session, content, reasoning, tool_args)
