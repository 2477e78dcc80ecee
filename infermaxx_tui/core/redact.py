"""Takes secrets and identities out of one text, in whatever encoding they stand there, and changes nothing else.

Patterns find keys that look like keys. A password that is a word, in a sentence, is found by nobody: the content-free
export is the safer thing to share.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec

from infermaxx_tui.core.redact_rules import (
    COMMON,
    FIRST,
    KEYS,
    STANDS_FOR,
    VALUES,
    WHO,
    Rule,
    harmless_value,
)
from infermaxx_tui.core.redact_views import View, joined, readings

Count = Callable[[str], int]

_ALL = (*KEYS, *VALUES, *WHO)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{4,}(?:\\n|\r?\n[ \t]*)?){4,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[ :]){11,}[0-9a-fA-F]{2}|[0-9a-fA-F]{24,}")
_SPACE = re.compile(r"\\n|\s|:")
_MIXED = re.compile(r"(?=[\w+/=.-]*[0-9])(?=[\w+/=.-]*[A-Za-z])[\w+/=.-]{6,}")
_BETWEEN = "\\nrt\r\n\t >|+\"'"
_PASSES = 4


class Span(msgspec.Struct, frozen=True, order=True):
    """A stretch of a text that must go."""

    start: int
    end: int
    kind: str


class Redacted(msgspec.Struct, frozen=True):
    """A text without what must go."""

    text: str
    found: tuple[tuple[str, int], ...]
    same_length: bool
    """Whether it has as many tokens as before; False where it was changed and nobody counted."""


def find(text: str, names: Iterable[str] = ()) -> list[Span]:
    """What must go, in order, without overlaps. `names` are people and hosts that are known from elsewhere."""
    spans: list[Span] = []
    last = View(text)
    rules = (*_ALL, *_named(names))
    for view in readings(text):
        last = view
        spans += _matches(view, rules)
        spans += _blobs(view, rules)
    spans += _across_lines(text, last, spans)
    return _merged(spans)


def _named(names: Iterable[str]) -> Iterator[Rule]:
    for name in names:
        yield Rule(
            "name", re.compile(rf"(?<![A-Za-z0-9])({re.escape(name)})(?![A-Za-z0-9])", re.IGNORECASE), (name.lower(),)
        )


def identities(text: str) -> set[str]:
    """Names of people and hosts that the text gives away, in lower case: they may stand bare elsewhere."""
    out = set()
    for view in readings(text):
        for rule in WHO:
            if rule.kind in ("home", "dashed-home", "tilde", "prompt-user", "prompt-host"):
                out |= {match[1].lower() for match in rule.pattern.finditer(view.text)}
    return {name.strip(".-_") for name in out if len(name) > 2 and not name.isdigit()} - COMMON - {""}


def _worth(rules: Iterable[Rule], text: str) -> list[Rule]:
    """The rules that may match."""
    lower = text.lower()
    return [rule for rule in rules if not rule.needles or any(needle in lower for needle in rule.needles)]


def _matches(view: View, rules: Iterable[Rule]) -> Iterator[Span]:
    for rule in _worth(rules, view.text):
        for match in rule.pattern.finditer(view.text):
            group = 1 if rule.pattern.groups else 0
            if not harmless_value(rule.kind, match[group]):
                yield Span(*view.source(*match.span(group)), rule.kind)


def _across_lines(text: str, view: View, known: list[Span]) -> Iterator[Span]:
    """Keys that go on in the next line, or in the next of two strings that are put together.

    A key that is whole at the end of a line goes on only in what looks like more of it, and not in the next word.
    """
    whole = joined(view)
    if whole is view:
        return
    heads: dict[int, int] = {}
    for one in known:
        heads[one.start] = max(one.end, heads.get(one.start, 0))
    for span in _matches(whole, KEYS):
        head = heads.get(span.start, span.end)
        more = _MIXED.match(text[head : span.end].lstrip(_BETWEEN))
        yield Span(span.start, span.end if more else head, span.kind)


def _blobs(view: View, rules: tuple[Rule, ...]) -> Iterator[Span]:
    """Stretches of base64 or hexadecimal digits that hold any of it when decoded."""
    for kind, pattern, decoded in (("base64", _BASE64, _from_base64), ("hex", _HEX, _from_hex)):
        for match in pattern.finditer(view.text):
            if any(_holds(text, rules) for text in decoded(_SPACE.sub("", match[0]))):
                yield Span(*view.source(*match.span()), kind)


def _from_base64(run: str) -> Iterator[str]:
    if run.islower() or run.isupper():
        return
    plain = run.rstrip("=").replace("-", "+").replace("_", "/")
    for skip in range(4):
        part = plain[skip:]
        part = part[: len(part) - (len(part) % 4 == 1)]
        try:
            yield base64.b64decode(part + "=" * (-len(part) % 4)).decode("latin-1")
        except binascii.Error:
            continue


def _from_hex(run: str) -> Iterator[str]:
    digits = run.replace(" ", "")
    for skip in range(2):
        part = digits[skip:]
        yield bytes.fromhex(part[: len(part) - len(part) % 2]).decode("latin-1")


def _holds(text: str, rules: tuple[Rule, ...]) -> bool:
    return any(
        not harmless_value(rule.kind, match[1 if rule.pattern.groups else 0])
        for rule in _worth(rules, text)
        for match in rule.pattern.finditer(text)
    )


def _merged(spans: list[Span]) -> list[Span]:
    """The same, those that overlap made one, under the kind of the longest."""
    out: list[Span] = []
    for span in sorted(spans):
        if out and span.start < out[-1].end:
            last = out.pop()
            longer = max(last, span, key=lambda one: one.end - one.start)
            span = Span(last.start, max(last.end, span.end), longer.kind)
        out.append(span)
    return out


def redact(text: str, names: Iterable[str] = (), count: Count | None = None) -> Redacted:
    """The text without what must go, as long in tokens as before where that can be had.

    Doing it again changes nothing: it is repeated until nothing is found any more.
    """
    names = tuple(names)
    found: Counter[str] = Counter()
    out, same = text, True
    for _ in range(_PASSES):
        spans = find(out, names)
        if not spans:
            break
        found.update(span.kind for span in spans)
        out, fits = _replaced(out, spans, count)
        same = same and fits
    return Redacted(out, tuple(sorted(found.items())), same)


def _replaced(text: str, spans: list[Span], count: Count | None) -> tuple[str, bool]:
    """The text with something in the place of each span, and whether it has as many tokens as before."""
    if count is None:
        return _filled(text, spans, 0, 0), False
    wanted = count(text)
    tried = _filled(text, spans, 0, 0)
    for choice in range(8):
        tried = _filled(text, spans, choice, 0)
        short = wanted - count(tried)
        if short == 0:
            return tried, True
        if short > 0 and any(span.kind not in STANDS_FOR for span in spans):
            padded = _padded(text, spans, choice, short, wanted, count)
            if padded is not None:
                return padded, True
    return _filled(text, spans, 0, 0), False


def _padded(text: str, spans: list[Span], choice: int, short: int, wanted: int, count: Count) -> str | None:
    pad = short
    for _ in range(_PASSES):
        tried = _filled(text, spans, choice, pad)
        off = wanted - count(tried)
        if off == 0:
            return tried
        pad = max(pad + off, 0)
    return None


def _filled(text: str, spans: list[Span], choice: int, pad: int) -> str:
    """Replacements put in; `choice` takes shorter or other ones, `pad` lengthens the first placeholder."""
    parts: list[str] = []
    done = 0
    for span in spans:
        parts.append(text[done : span.start])
        names = STANDS_FOR.get(span.kind)
        if names is not None:
            parts.append(names[choice % len(names)])
        else:
            parts.append(_placeholder(span.kind, choice, pad))
            pad = 0
        done = span.end
    return "".join((*parts, text[done:]))


def _placeholder(kind: str, choice: int, pad: int) -> str:
    said = f"{FIRST}:{kind}" if choice < 2 else FIRST
    return f"{said}{' x' * pad}]"
