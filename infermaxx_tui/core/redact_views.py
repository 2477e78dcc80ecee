"""The same text as others would read it: escapes resolved, colours and line ends taken out, each place known again.

A key is as usable with a colour code in its middle or as `%73%6b…` as it is plain, so rules look at all readings, and
what they find is taken out of the text as it stands.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator

_ESCAPE = re.compile(r"""\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|\\([nrt"'/\\])""")
_PERCENT = re.compile(r"%([0-9a-fA-F]{2})")
_INVISIBLE = re.compile(
    "\x1b\\[[0-9;?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[\u200b-\u200d\u2060\ufeff\u00ad]"
)
_JOINT = re.compile(r"""(?<=[\w+/=.-])(?:\\?\r?\n[ \t>|+]*|["'][ \t]*\+?\s*["'])(?=[\w+/=.-])""")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}
_ROUNDS = 2
"""How often escapes are resolved: text in JSON in JSON is common in logs of agents."""


class View:
    """A reading of a text."""

    def __init__(self, text: str, parent: View | None = None, cuts: tuple[tuple[int, int, int, int], ...] = ()) -> None:
        self.text = text
        self._parent = parent
        self._cuts = cuts
        """Start here, length here, start in the parent, length in the parent of all that was replaced, in order."""
        self._starts = [cut[0] for cut in cuts]

    def rewritten(self, pattern: re.Pattern[str], put: Callable[[re.Match[str]], str]) -> View:
        """The reading with each match replaced; this one itself where nothing matches."""
        parts: list[str] = []
        cuts: list[tuple[int, int, int, int]] = []
        done = length = 0
        for match in pattern.finditer(self.text):
            new = put(match)
            parts += (self.text[done : match.start()], new)
            length += match.start() - done
            cuts.append((length, len(new), match.start(), match.end() - match.start()))
            length += len(new)
            done = match.end()
        if not cuts:
            return self
        parts.append(self.text[done:])
        return View("".join(parts), self, tuple(cuts))

    def source(self, start: int, end: int) -> tuple[int, int]:
        """Where a stretch of this reading stands in the text that all readings come from."""
        if self._parent is None:
            return start, end
        return self._parent.source(self._up(start)[0], self._up(end - 1)[1])

    def _up(self, place: int) -> tuple[int, int]:
        """Start and end, in the parent, of what the character at `place` was made of."""
        index = bisect_right(self._starts, place) - 1
        if index < 0:
            return place, place + 1
        here, length, there, size = self._cuts[index]
        if place < here + length:
            return there, there + size
        at = there + size + place - here - length
        return at, at + 1


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code is None:
        return _LETTERS.get(match[3], match[3])
    value = int(code, 16)
    return "\ufffd" if 0xD800 <= value < 0xE000 else chr(value)


def readings(text: str) -> Iterator[View]:
    """The text itself, then with its escapes, percent signs and invisible characters resolved, where it has any."""
    view = View(text)
    yield view
    for _ in range(_ROUNDS):
        for sign, pattern, put in (
            ("\\", _ESCAPE, _unescaped),
            ("%", _PERCENT, lambda match: chr(int(match[1], 16))),
            ("", _INVISIBLE, lambda match: ""),
        ):
            if sign in view.text:
                new = view.rewritten(pattern, put)
                if new is not view:
                    view = new
                    yield view


def joined(view: View) -> View:
    """The reading with its lines, and strings that are put together, made one."""
    return view.rewritten(_JOINT, lambda match: "")
