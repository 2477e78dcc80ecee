"""Finds replies in which the model no longer says anything, so that babble is never counted as fast tokens.

The rules look at stretches and not at whole replies: compressing a whole reply misses babble after good prose and
accuses tables (gpu-and-verdicts §2.7). What ends in a loop is judged more strictly than what came out of one, since a
table border, a zeroed buffer and a ruler are loops that a healthy model leaves again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

MIN_REPEATS: Final = 6
"""Repeats that make a cycle (gpu-and-verdicts §2.7)."""
MAX_PERIOD_TOKENS: Final = 64
TAIL_TOKENS: Final = 32
"""Tokens of a cycle that a reply ends in, an end-of-turn token apart."""
INNER_REPEATS: Final = 8
INNER_TOKENS: Final = 128
"""Tokens of a cycle that a reply left again."""
WINDOW_TOKENS: Final = 128
WINDOW_SHARE: Final = 3 / 4
"""Share of a window that one token may have. Half is too strict where each digit is a token: a table of 0.00 reaches
it, and the dump of a file header 0.67."""

MAX_PERIOD_CHARS: Final = 1024
TAIL_CHARS: Final = (96, 256)
INNER_CHARS: Final = (240, 1024)
"""Characters of a cycle that has words in it, and of one that has none."""
_PICTURES: Final = "\u2600"
"""From here on characters are pictures and scripts: below it are the lines, blocks and dots that rulers are made of."""
MAX_SPECIALS: Final = 3
MAX_SPECIALS_QUOTED: Final = 64
"""Special tokens, those in code and quotes too, beyond which nobody can be writing about them."""
REPLACEMENT_SHARE: Final = 0.01
MIN_REPLACEMENTS: Final = 8
"""Fewer can come from one broken character of an else healthy reply."""
ONE_WORD_OF: Final = 128
ONE_WORD_SHARE: Final = 1 / 2
"""Share of a stretch of running text that one word may have (gpu-and-verdicts §2.7). Words can be held to half where
token ids cannot: digits, blanks and bars of a table are no words."""
WORDS: Final = 160
MAX_DISTINCT_WORDS: Final = 8
WORDS_SHARE: Final = 0.9
"""Share of such a stretch that is words and single blanks: JSON has few words too, and other things between them."""

_SPECIAL: Final = re.compile(
    r"</?(?:think|tool_call|tool_response|unk|pad|bos|eos)>|</s>|<\|[A-Za-z_]{2,32}\|>|<(?:start|end)_of_turn>|\[/?INST\]"
)
_WELL_FORMED: Final = re.compile(
    r"<tool_call>(?=[^<]*[A-Za-z])[^<]*+(?:<(?!/?tool_call>)[^<]*+)*+</tool_call>|\A\s*<think>[^<]*+(?:<(?!/?think>)[^<]*+)*+</think>"
)
_QUOTED: Final = re.compile(r"```[^`]*+(?:`(?!``)[^`]*+)*+```|`[^`\n]*+`|(?P<q>[\"'])[^\"'\n]{0,80}(?P=q)")
_RUN: Final = re.compile(r"!{32,}|/{200,}")
_SHORTEST_RUNS: Final = ("!" * 32, "/" * 200)
"""Looking for these costs a tenth of looking for the pattern."""
_WORD: Final = re.compile(r"[^\W\d_]+")


class _Cycle(NamedTuple):
    start: int
    end: int
    period: int

    @property
    def repeats(self) -> int:
        return (self.end - self.start) // self.period


def find(ids: Sequence[int]) -> str | None:
    """The rule that a reply's token ids break, with its figures, None for a healthy reply.

    A cycle of at most 64 tokens that repeats, or one token that fills most of a 128-token window. Time is linear in the
    number of ids.
    """
    text = "".join(chr(token % 0x110000) for token in ids)
    for cycle in _cycles(text, needle=12, reach=MAX_PERIOD_TOKENS):
        length = cycle.end - cycle.start
        at_end = cycle.end >= len(text) - 1 and length >= TAIL_TOKENS
        if at_end or (cycle.repeats >= INNER_REPEATS and length >= INNER_TOKENS):
            return f"cycle: {cycle.period} tokens {cycle.repeats} times from token {cycle.start}"
    return _dominant(ids)


def find_text(text: str) -> str | None:
    """The rule that the text of one channel breaks, with its figures, None for a healthy text.

    Special tokens as text, runs of one character, replacement characters, cycles, and long stretches of a few words
    only, or of one word for the most part. Time is linear in the length of the text.
    """
    return _specials(text) or _runs(text) or _text_cycle(text) or _poor(text)


def find_reply(texts: Iterable[str | None], anomalies: Collection[str], ids: Sequence[int] = ()) -> str | None:
    """The rule that a whole reply breaks, in its ids or in the text of any channel; None for a healthy reply.

    Replacement characters that stand for damaged bytes (`bad_utf8`, `lone_surrogate`) are the wire's, not the model's.
    """
    damaged = "bad_utf8" in anomalies or "lone_surrogate" in anomalies
    found = (find_text(text.replace("\ufffd", "") if damaged else text) for text in texts if text)
    return (find(ids) if ids else None) or next((rule for rule in found if rule is not None), None)


def _cycles(text: str, needle: int, reach: int) -> Iterator[_Cycle]:
    """Stretches of `text` that repeat with a period of at most `reach` for MIN_REPEATS or more.

    `text` is cut into needles; where a needle occurred shortly before, the distance is a candidate period and the
    stretch is grown from there. A stretch that is long enough for any rule here holds a whole needle in its repeated
    part.
    """
    passed = 0
    for anchor in range(needle, len(text) - needle + 1, needle):
        if anchor < passed:
            continue
        piece = text[anchor : anchor + needle]
        before = anchor
        for _ in range(8):
            before = text.rfind(piece, max(0, anchor - reach), before + needle - 1)
            if before < 0:
                break
            period = anchor - before
            start, end = _grow(text, anchor, period)
            if end - start >= MIN_REPEATS * period:
                passed = end
                yield _Cycle(start, end, period)
                break


def _grow(text: str, inside: int, period: int) -> tuple[int, int]:
    """The longest stretch around `inside` in which each character equals the one a period before."""
    end = inside
    while (chunk := text[end : end + 64]) and text[end - period : end - period + len(chunk)] == chunk:
        end += len(chunk)
    while end < len(text) and text[end] == text[end - period]:
        end += 1
    start = inside
    while start - period >= 64 and text[start - 64 : start] == text[start - 64 - period : start - period]:
        start -= 64
    while start > period and text[start - 1] == text[start - 1 - period]:
        start -= 1
    return start - period, end


def _dominant(ids: Sequence[int]) -> str | None:
    """One token that has more than WINDOW_SHARE of some window."""
    need = int(WINDOW_TOKENS * WINDOW_SHARE) + 1
    places: dict[int, list[int]] = {token: [] for token, count in Counter(ids).items() if count >= need}
    for place, token in enumerate(ids):
        if token in places:
            places[token].append(place)
    for token, where in places.items():
        for first, last in zip(where, where[need - 1 :], strict=False):
            if last - first < WINDOW_TOKENS:
                return f"one token: id {token} is {need} of {WINDOW_TOKENS} tokens from token {first}"
    return None


def _specials(text: str) -> str | None:
    """Special-token strings that are neither a well-formed block nor quoted."""
    everywhere = _SPECIAL.findall(text)
    if len(everywhere) <= MAX_SPECIALS:
        return None
    found = everywhere
    if len(everywhere) <= MAX_SPECIALS_QUOTED:
        found = _SPECIAL.findall(_QUOTED.sub(" ", _WELL_FORMED.sub(" ", text)))
        if len(found) <= MAX_SPECIALS:
            return None
    token, count = Counter(found).most_common(1)[0]
    return f"special tokens: {len(found)} as text, {token} {count} times"


def _runs(text: str) -> str | None:
    run = _RUN.search(text) if any(run in text for run in _SHORTEST_RUNS) else None
    if run is not None:
        return f"run: {run.group(0)[0]} {len(run.group(0))} times from character {run.start()}"
    broken = text.count("\ufffd")
    if broken >= MIN_REPLACEMENTS and broken > REPLACEMENT_SHARE * len(text):
        return f"replacement characters: {broken} of {len(text)}"
    return None


def _text_cycle(text: str) -> str | None:
    shown = len(text.rstrip(" \r\n\t`"))
    for cycle in _cycles(text, needle=32, reach=MAX_PERIOD_CHARS):
        unit = text[cycle.end - cycle.period : cycle.end]
        wordless = not any(char.isalpha() or char >= _PICTURES for char in unit) or (len(unit) == 1 and unit.isascii())
        length = cycle.end - cycle.start
        least = TAIL_CHARS if cycle.end >= shown else INNER_CHARS
        if length >= least[wordless]:
            return f"cycle: {cycle.period} characters {cycle.repeats} times from character {cycle.start}"
    return None


def _poor(text: str) -> str | None:
    """Running text of hardly any words."""
    if len(text) < 2 * ONE_WORD_OF - 1:  # a character each, and one between two of them
        return None
    words = _WORD.findall(text)
    return _few_words(text, words) or _one_word(text, words)


def _one_word(text: str, words: list[str]) -> str | None:
    """One word that has more than ONE_WORD_SHARE of ONE_WORD_OF words, with single blanks between nearly all."""
    need = int(ONE_WORD_OF * ONE_WORD_SHARE) + 1
    if len(words) < ONE_WORD_OF:
        return None
    often = [word for word, count in Counter(words).most_common(len(words) // need) if count >= need]
    if not often:
        return None
    spans = [found.span() for found in _WORD.finditer(text)]
    letters = [0, *accumulate(map(len, words))]
    for word in often:
        where = [place for place, one in enumerate(words) if one == word]
        for first, last in zip(where, where[need - 1 :], strict=False):
            if last - first >= ONE_WORD_OF:
                continue
            start, end = spans[first][0], spans[last][1]
            said = letters[last + 1] - letters[first] + text.count(" ", start, end)
            if said >= WORDS_SHARE * (end - start):
                return f"one word: {word!r} is {need} of {last - first + 1} words from character {start}"
    return None


def _few_words(text: str, words: list[str]) -> str | None:
    """A stretch of WORDS words, hardly anything between them, of MAX_DISTINCT_WORDS different ones at most."""
    step = WORDS // 4
    quarters = [set(words[at : at + step]) for at in range(0, len(words) - step + 1, step)]
    few = [len(quarter) <= MAX_DISTINCT_WORDS for quarter in quarters]
    poor = [
        at * step
        for at in range(len(quarters) - 3)
        if all(few[at : at + 4]) and len(set().union(*quarters[at : at + 4])) <= MAX_DISTINCT_WORDS
    ]
    if not poor:
        return None
    places = [word.span() for word in _WORD.finditer(text)]
    for first in poor:
        start, end = places[first][0], places[first + WORDS - 1][1]
        letters = sum(map(len, words[first : first + WORDS]))
        if letters + WORDS >= WORDS_SHARE * (end - start):
            distinct = len(set(words[first : first + WORDS]))
            return f"few words: {distinct} different in {WORDS} words from character {start}"
    return None
