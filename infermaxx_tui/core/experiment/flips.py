"""Answers that change between two arms: each task beside itself, and beside how often it changes from start to start.

A share of right answers can stay the same while half of the answers are others (answer flips; note A quotes
arXiv 2606.09864). Two right answers are the same answer however they are worded; two wrong ones are when they say the
same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from infermaxx_tui.core.experiment.rows import ArmRow
from infermaxx_tui.core.quality.answer import number_of
from infermaxx_tui.core.stats import wilson

_AROUND = "*_`'\"“”.,;:! "
"""What may stand around an answer without making it another one."""


class Flips(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs of whole answers to the same task under the same conditions; capped and missing ones make no pair."""

    pairs: int
    tasks: int
    """Different tasks among them: a task that is asked in several phases and starts is still one task."""
    flipped: int
    """Pairs whose answers differ."""
    to_wrong: int
    to_right: int
    to_other: int
    """From one wrong answer to another one."""
    left_out: int
    """Pairs of which a side has no whole answer: it was capped, failed or never came."""
    interval: tuple[float, float] | None
    """Of the share flipped, with 95 %; None without pairs."""
    noise_pairs: int
    """Pairs of two starts of the control."""
    noise_flipped: int
    noise_interval: tuple[float, float] | None
    reason: str | None = None


class _Pair(msgspec.Struct, frozen=True):
    task: str
    left: str
    right: str

    @property
    def whole(self) -> bool:
        return all(said.startswith(("right", "wrong")) for said in (self.left, self.right))

    @property
    def flipped(self) -> bool:
        """Whether it is another answer."""
        marks = (_mark(self.left), _mark(self.right))
        return marks != ("right", "right") and (marks[0] != marks[1] or not _same(self.left, self.right))


def flips(control: Sequence[ArmRow], arm: Sequence[ArmRow]) -> Flips | None:
    """Start by start: the n-th of the arm beside the n-th of the control. None without tasks, or before both began."""
    left, right = {row.boot: row.answers for row in control}, {row.boot: row.answers for row in arm}
    if not left or not right or not (any(left.values()) or any(right.values())):
        return None
    shared = sorted(left.keys() & right.keys())
    every = [pair for boot in shared for pair in _pairs(left[boot], right[boot])]
    pairs = [pair for pair in every if pair.whole]
    changed = [(_mark(pair.left), _mark(pair.right)) for pair in pairs if pair.flipped]
    noise = [pair for a, b in pairwise(sorted(left)) for pair in _pairs(left[a], left[b]) if pair.whole]
    return Flips(
        pairs=len(pairs),
        tasks=len({pair.task for pair in pairs}),
        flipped=len(changed),
        to_wrong=changed.count(("right", "wrong")),
        to_right=changed.count(("wrong", "right")),
        to_other=changed.count(("wrong", "wrong")),
        left_out=len(every) - len(pairs),
        interval=_interval(pairs),
        noise_pairs=len(noise),
        noise_flipped=sum(pair.flipped for pair in noise),
        noise_interval=_interval(noise),
        reason=None if pairs else _why_none(bool(shared), len(every)),
    )


def _why_none(shared: bool, asked: int) -> str:
    if not shared:
        return "no start of the arm has one of the control's beside it"
    return f"none of {asked} tasks was answered whole by both"


def _pairs(left: dict[str, str], right: dict[str, str]) -> list[_Pair]:
    """Every task that either was asked; one that a side does not have is not whole."""
    keys = sorted(left.keys() | right.keys())
    return [_Pair(key.rpartition("/")[2], left.get(key, ""), right.get(key, "")) for key in keys]


def _interval(pairs: Iterable[_Pair]) -> tuple[float, float] | None:
    """Wilson 1927, with each task as one observation: the mean of its pairs.

    Starts and phases repeat a task and draw no new one; at temperature 0 they mostly say the same again, so as
    observations of their own they would make the interval too narrow (Kish 1965: the effective size of a sample of
    clusters that are alike within is the number of clusters).
    """
    by_task: dict[str, list[bool]] = defaultdict(list)
    for pair in pairs:
        by_task[pair.task].append(pair.flipped)
    return wilson(sum(sum(some) / len(some) for some in by_task.values()), len(by_task))


def _mark(said: str) -> str:
    return said.partition(":")[0]


def _same(left: str, right: str) -> bool:
    """Whether two wrong answers say the same: the same number, or the same words."""
    a, b = (" ".join(said.partition(":")[2].casefold().split()).strip(_AROUND) for said in (left, right))
    number = number_of(a)
    return a == b or (number is not None and number == number_of(b))


def flips_text(one: Flips) -> str:
    """In one line: how many answers changed and of how many tasks, beside how many change between two starts."""
    if one.interval is None:
        return f"answers that changed: not compared: {one.reason}"
    said = f"answers that changed: {_share(one.flipped, one.pairs, one.interval)}, {one.tasks} tasks"
    if one.flipped:
        said += f", {one.to_wrong} to wrong, {one.to_right} to right, {one.to_other} to another wrong one"
    if one.left_out:
        said += f"; {one.left_out} left out, not answered whole by both"
    if one.noise_interval is None:
        return f"{said}; how many change by themselves is not known: no two starts of the control answered"
    return f"{said}; between starts of the control {_share(one.noise_flipped, one.noise_pairs, one.noise_interval)}"


def _share(flipped: int, pairs: int, interval: tuple[float, float]) -> str:
    return f"{flipped} of {pairs} ({100 * interval[0]:.2g} to {100 * interval[1]:.2g} % at 95 %, by task)"
