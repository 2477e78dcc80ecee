"""Where the user's own system prompts part ways early: a date, a folder, an id, the state of a repository.

What stands behind such a place is computed anew for each session, and inside one session for each request at which it
changed, although nearly all of it is the same.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.transcript import Session

ALIKE: Final = 0.5
"""Share of their lines that two system prompts must have in common to be the same prompt with a change in it."""
LEAST_TOKENS: Final = 32
"""Tokens behind the change below which nothing is lost worth saying."""
_AROUND: Final = 60
_SHOWN: Final = 40

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
_KINDS: Final = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("an id", r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"),
        ("a date", rf"\b\d{{4}}[-/]\d{{2}}[-/]\d{{2}}(?:[T ][\d:.]+Z?)?|\b\d{{1,2}} {_MONTH} \d{{4}}\b"),
        ("a date", rf"\b{_MONTH} \d{{1,2}},? \d{{4}}\b|\b{_DAY}\b|\b\d{{1,2}}/\d{{1,2}}/\d{{2,4}}\b"),
        ("a time", r"\b\d{1,2}:\d{2}(?::\d{2})?\b"),
        ("the state of a repository", r"(?mi)^.*\b(?:branch|git status|commits?|untracked|modified)\b.*$"),
        ("the state of a repository", r"(?m)^\s?(?:[MADRU?]{1,2}) [\w./-]+$"),
        ("a folder", r"(?:[A-Za-z]:\\|~?/)[\w.@~\\/-]+"),
        ("a nonce", r"\b(?=\w*\d)[0-9a-zA-Z_]{10,}\b"),
        ("a number", r"\b\d+(?:\.\d+)?\b"),
    )
)


class Parting(msgspec.Struct, frozen=True):
    """Two system prompts that are one and the same but for a change."""

    first: str
    """Name of the session."""
    second: str
    kind: str
    """What differs first: `a date`, `a time`, `an id`, `a folder`, `the state of a repository`, `a nonce`, `a number`
    or `a text`."""
    here: str
    there: str
    shared_tokens: int
    lost_tokens: int
    """Tokens of the second prompt from there on."""

    @property
    def inside(self) -> bool:
        """Whether one session changed its own prompt."""
        return self.first == self.second


class PromptWatch:
    """Takes sessions in their order and keeps where a system prompt parts from the one before it that it is most like.

    Of each session those prompts count with which its contexts began. Only the newest prompts are kept.
    """

    def __init__(self, renderer: Renderer) -> None:
        self.found: list[Parting] = []
        self.without = 0
        """Sessions whose files hold no system prompt."""
        self._renderer = renderer
        self._known: deque[tuple[str, str]] = deque(maxlen=_KEPT)

    def take(self, session: Session) -> None:
        """The next session."""
        prompts = list(_system_prompts(session))
        self.without += not prompts and not session.content_free
        for text in prompts:
            alike = self._nearest(text)
            if alike is not None:
                parting = _parting(alike, (session.id, text), self._renderer)
                if parting.lost_tokens >= LEAST_TOKENS:
                    self.found.append(parting)
            if (session.id, text) not in self._known:
                self._known.append((session.id, text))

    def _nearest(self, text: str) -> tuple[str, str] | None:
        """Of those that are alike the one that shares the longest beginning; None also if one is equal."""
        if any(other == text for _, other in self._known):
            return None
        lines = set(text.split("\n"))
        alike = [one for one in self._known if _alike(lines, set(one[1].split("\n")))]
        return max(alike, key=lambda one: _shared(one[1], text), default=None)


_KEPT: Final = 64
"""Prompts that a new one is held against, the newest."""


def partings(sessions: Iterable[Session], renderer: Renderer) -> tuple[Parting, ...]:
    """What a PromptWatch finds in all of them."""
    watch = PromptWatch(renderer)
    for session in sessions:
        watch.take(session)
    return tuple(watch.found)


def _system_prompts(session: Session) -> Iterator[str]:
    for window in session.windows:
        for request in window.requests[:1]:
            text = next((m.content for m in request.delta if m.role == "system"), "")
            if text:
                yield text


def _alike(a: set[str], b: set[str]) -> bool:
    return len(a & b) >= ALIKE * max(len(a), len(b))


def _shared(a: str, b: str) -> int:
    pairs = enumerate(zip(a, b, strict=False))
    return next((n for n, (x, y) in pairs if x != y), min(len(a), len(b)))


def _parting(before: tuple[str, str], now: tuple[str, str], renderer: Renderer) -> Parting:
    at = _shared(before[1], now[1])
    kind, there = _named(now[1], at)
    return Parting(
        first=before[0],
        second=now[0],
        kind=kind,
        here=_named(before[1], at)[1],
        there=there,
        shared_tokens=len(renderer.encode(now[1][:at])),
        lost_tokens=len(renderer.encode(now[1][at:])),
    )


def _named(text: str, at: int) -> tuple[str, str]:
    """What stands at a place of a text, and the words of it."""
    start = max(0, at - _AROUND)
    piece = text[start : at + _AROUND]
    for kind, pattern in _KINDS:
        for match in pattern.finditer(piece):
            if match.start() <= at - start <= match.end():
                return kind, match.group(0).strip()[:_SHOWN]
    line = text[at : at + _SHOWN].split("\n")[0]
    return "a text", line


def parting_lines(found: Sequence[Parting], without: int) -> tuple[str, ...]:
    """For people: what the prompts part at, how often, and what it costs."""
    lines = []
    if without:
        lines.append(f"system prompts: {without} sessions have none in their files, so nothing can be said of those")
    kinds: dict[tuple[str, bool], list[Parting]] = {}
    for one in found:
        kinds.setdefault((one.kind, one.inside), []).append(one)
    for (kind, inside), some in kinds.items():
        worst = max(some, key=lambda one: one.lost_tokens)
        where = "inside a session" if inside else "from session to session"
        lost = sum(one.lost_tokens for one in some)
        lines.append(
            f"system prompts part at {kind} {where}, {len(some)} times, {lost:,} tokens computed anew;"
            f" at worst {worst.lost_tokens:,} behind the first {worst.shared_tokens:,}:"
            f' "{worst.here}" and then "{worst.there}" ({worst.second})'
        )
    if found:
        lines.append("what changes belongs at the end of a prompt, or into the first message of a user")
    return tuple(harmless(line) for line in lines)
