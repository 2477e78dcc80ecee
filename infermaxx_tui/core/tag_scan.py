"""Finds lot tags in text however a model dresses them: bold, spaced out, lower-case, broken over lines, full-width.

Two ways of looking, because they fail differently. A *known* tag is looked for leniently, since no prose equals a
random tag by chance. An *unknown* one is looked for strictly, since prose is full of things that look a little like a
code.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Set
from functools import lru_cache
from itertools import pairwise
from typing import Final

ALPHABET: Final = "ACDEFGHJKMNPQRTUVWXY34679"
"""No 0/O, 1/I/L, 2/Z, 5/S, 8/B: no two symbols that a reader or a model mixes up (gpu-and-verdicts §2.2)."""
INCOMPARABLE: Final = 8
"""`distance` of two strings that cannot be versions of one tag."""

# A text is first reduced to a few kinds of character: A-Z and 0-9 stay, dashes are "-", other separators " ", what only
# decorates is "_", everything else "!".
_SEPARATORS: Final = " \t\n\r\v\f.,:/|+"
_DECORATION: Final = "*_`~\"'"
_DASHES: Final = "\u2212\u02d7\u2043\u30fc"
"""Characters that look like a hyphen without being dash punctuation: minus, modifier minus, bullet, long vowel mark."""

_GAP: Final = r"_*+(?:(?: ++|-)_*+){0,3}"
_SYMBOL: Final = f"[{ALPHABET}]"
_WINDOW: Final = re.compile(rf"(?<![A-Z0-9])(?=({_SYMBOL}(?:{_GAP}{_SYMBOL}){{7}})(?![A-Z0-9]))")
_LOOSE: Final = tuple(
    re.compile(rf"(?<![A-Z0-9])(?=([A-Z0-9](?:{_GAP}[A-Z0-9]){{{n - 1}}})(?![A-Z0-9]))") for n in (8, 7, 9)
)
_BESIDE: Final = r"(?<![A-Z0-9])(?<![A-Z0-9]-)", r"(?![A-Z0-9])(?!-[A-Z0-9])"
_STRICT: Final = re.compile(
    rf"{_BESIDE[0]}(?:([A-Z0-9]{{4}})_*+-_*+([A-Z0-9]{{4}})"
    rf"|({_SYMBOL}{{4}})_*+ ?(?:-_*+ ?)?_*+({_SYMBOL}{{4}})"
    rf"|({_SYMBOL}{{4}})({_SYMBOL}{{4}})"
    rf"|({_SYMBOL}(?:_*+(?: ++|-)(?:-_*+(?: ++)?)?{_SYMBOL}){{7}})()){_BESIDE[1]}"
)
_ESCAPE: Final = re.compile(r"\\+(?:u([0-9A-Fa-f]{4})|([nrtfv])|)")
_SHAPED: Final = re.compile(
    rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?<![A-Za-z0-9]-)({_SYMBOL}{{4}})[-\u2010\u2011]({_SYMBOL}{{4}})"
    r"(?![A-Za-z0-9])(?!-[A-Za-z0-9])"
)


_RECENT: Final = 8
"""Texts whose scan is remembered: the channels of one reply are looked at several times in a row."""


@lru_cache(maxsize=8192)
def _kind_of(codepoint: int) -> str:
    """What a character of a normalised text becomes; empty for one that takes no room on a screen, and for one that
    stands for damaged bytes."""
    char = chr(codepoint)
    if char.isascii() and char.isalnum():
        return char.upper()
    category = unicodedata.category(char)
    if category in ("Cf", "Mn", "Me") or char == "\ufffd":
        return ""
    if category == "Pd" or char in _DASHES:
        return "-"
    if char in _DECORATION:
        return "_"
    return " " if char in _SEPARATORS or char.isspace() else "!"


class _Kinds(dict[int, str]):
    """A table for str.translate that works out characters as they come."""

    def __missing__(self, codepoint: int) -> str:
        return _kind_of(codepoint)


_KINDS: Final = _Kinds({code: _kind_of(code) for code in range(128)})


def _unescaped(match: re.Match[str]) -> str:
    code, blank = match.groups()
    if code is not None:
        return chr(int(code, 16))
    return " " if blank is not None else ""


@lru_cache(maxsize=_RECENT)
def _reduced(text: str) -> str:
    """`text` as kinds of characters; JSON escapes are read as what they stand for."""
    if "\\" in text:
        text = _ESCAPE.sub(_unescaped, text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return text.translate(_KINDS)


def as_tag(symbols: str) -> str:
    """Symbols with the hyphen after the fourth."""
    return f"{symbols[:4]}-{symbols[4:]}"


_BARE: Final = str.maketrans("", "", " _-")


def _bare(text: str) -> str:
    return text.translate(_BARE)


@lru_cache(maxsize=_RECENT)
def windows(text: str) -> tuple[str, ...]:
    """Every run of eight tag symbols that a lenient reader could take for a tag, as XXXX-XXXX, in order.

    Symbols may have up to three blanks, dashes or points between them, and any decoration. No letter or digit stands
    right before or after the run.
    """
    return tuple([as_tag(_bare(symbols)) for symbols in _WINDOW.findall(_reduced(text))]) if text else ()


def find_known(text: str, tags: Collection[str]) -> tuple[str, ...]:
    """Those of `tags` that stand in `text` in any decoration, each once, in order of first appearance.

    A set, a dict or a view of its keys is asked as it is; other collections are copied first.
    """
    seen = windows(text)
    if not seen:
        return ()
    known = tags if type(tags) is dict or isinstance(tags, (Set, Mapping)) else frozenset(tags)
    return tuple(dict.fromkeys([tag for tag in seen if tag in known]))


def _codelike(symbols: str) -> bool:
    """Whether eight symbols look issued by a machine, not written by a person.

    A half that mixes letters and digits is a code, and so are two halves of letters of which one has no vowel;
    JUNE-2025 and HAND-MADE are not, nor is a placeholder such as XXXX-XXXX.
    """
    halves = symbols[:4], symbols[4:]
    if len(set(symbols)) <= 2:
        return False
    if any(not half.isalpha() and not half.isdigit() for half in halves):
        return True
    return symbols.isalpha() and any(not set(half) & set("AEIOUY") for half in halves)


def find_tags(text: str) -> tuple[str, ...]:
    """Code-like groups in `text` as XXXX-XXXX, in order, repeats kept; prose and UUIDs are no candidates.

    With a tight hyphen any letter or digit counts, so that a tag with a foreign symbol in it is seen; without one, all
    eight must be tag symbols.
    """
    found = []
    for match in _STRICT.finditer(_reduced(text)):
        symbols = _bare("".join(group for group in match.groups() if group))
        in_alphabet = all(symbol in ALPHABET for symbol in symbols)
        if _codelike(symbols) and (in_alphabet or not symbols.isalpha()):
            found.append(as_tag(symbols))
    return tuple(found)


def tag_shaped(text: str) -> str | None:
    """The first string in `text` that a reader could take for a planted tag, None if there is none.

    Upper-case XXXX-XXXX over the alphabet that looks like a code, whatever its checksum, standing by itself and not in
    a longer chain of groups: a transcript that holds one would make a recall ambiguous.
    """
    for match in _SHAPED.finditer(text):
        if _codelike(match.group(1) + match.group(2)):
            return match.group(0)
    return None


def distance(a: str, b: str) -> int:
    """Symbols in which two tags differ, hyphens and case apart.

    Hamming for equal lengths, Levenshtein if one has lost or gained up to two symbols, INCOMPARABLE (8) otherwise.
    """
    left, right = ("".join(c for c in text.upper() if c.isalnum()) for text in (a, b))
    if left == right:
        return 0
    if min(len(left), len(right)) < 6 or abs(len(left) - len(right)) > 2:
        return INCOMPARABLE
    if len(left) == len(right):
        return sum(x != y for x, y in zip(left, right, strict=True))
    row = list(range(len(right) + 1))
    for i, x in enumerate(left, 1):
        row = _next_row(row, i, x, right)
    return row[-1]


def _next_row(row: list[int], i: int, x: str, right: str) -> list[int]:
    """One row of the edit distance table (Wagner and Fischer)."""
    new = [i]
    for y, (diagonal, above) in zip(right, pairwise(row), strict=True):
        new.append(min(diagonal + (x != y), above + 1, new[-1] + 1))
    return new


def nearest(candidate: str, tags: Iterable[str]) -> tuple[str, int] | None:
    """The closest of `tags` and its distance (the first in sorting order among equals), None if there are no tags."""
    best = min(((distance(candidate, tag), tag) for tag in tags), default=None)
    return None if best is None else (best[1], best[0])


def near_misses(text: str, tags: Collection[str], within: int = 2) -> tuple[tuple[str, str, int], ...]:
    """Groups of `text` at distance 1 to `within` of one of `tags`: (as found, tag, distance).

    Groups of eight symbols first, since a spaced one holds a group of seven too; then the nearest. As lenient as
    `find_known`, and it takes groups of seven to nine letters or digits, so a lost, doubled or foreign symbol is seen.
    `tags` should be one session's own: the cost is groups times tags.
    """
    reduced = _reduced(text)
    targets = [(tag, frozenset(tag) - {"-"}) for tag in sorted(tags)]
    found: dict[tuple[str, str], int] = {}
    for pattern in _LOOSE:
        for match in pattern.finditer(reduced):
            symbols = _bare(match.group(1))
            kinds = set(symbols)
            for tag, members in targets:
                if len(members - kinds) <= within and 0 < (far := distance(symbols, tag)) <= within:
                    found.setdefault((as_tag(symbols), tag), far)
    misses = ((said, tag, far) for (said, tag), far in found.items())
    return tuple(sorted(misses, key=lambda miss: (len(miss[0]) != len(miss[1]), miss[2])))
