"""The figures of the abilities: how many replies of each case were right, and what their marks are beside that.

Some of them are comparisons, since a case alone cannot tell the model from the server: a call that is streamed must be
the call that comes whole, and a switch that turns thinking off is proved only beside a reply that thinks. Whether
the answer stays the same without thinking says what thinking is worth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from infermaxx_tui.core.abilities import AT_ONCE, CASES, Ability, Case
from infermaxx_tui.core.ability_marks import BLIND, as_answered, as_called, mark, reasons
from infermaxx_tui.core.events_abilities import AbilityAnswered
from infermaxx_tui.core.measures import Measure

_AS_PLAIN: tuple[Case, ...] = ("streamed", "concurrent")
"""Cases that send the very prompt of `plain`, of `concurrent` the first of those at once."""


def ability_measures(
    abilities: Sequence[Ability], answers: Iterable[AbilityAnswered], withheld: str | None = None
) -> tuple[Measure, ...]:
    """Right answers of each case, with all marks beside them; of tools whether streaming changes the call; of thinking
    also what it costs, whether on thinks, whether off is off, and whether the answer is the same.

    `withheld`: why no speed of the run may be shown.
    """
    every = list(answers)
    found: list[Measure] = []
    for place, ability in enumerate(abilities):
        by_case = {
            case: [one for one in every if (one.ability, one.case) == (place, case)] for case in CASES[ability.kind]
        }
        for case, got in by_case.items():
            planned = ability.n * (AT_ONCE if case == "concurrent" else 1)
            name = f"{ability.name}.{case}"
            found.append(_share(f"{name}.right", got, planned, lambda one: mark(one) in ("right", "reasoned")))
            if case in _AS_PLAIN:
                pairs = _pairs(by_case["plain"], got)
                found.append(_same(f"{name}.as_plain", pairs, ability.n, as_called, "alone and whole"))
            if ability.kind == "vision":
                found.append(_share(f"{name}.letters", got, planned, lambda one: mark(one) in ("right", "letters")))
            if ability.kind == "thinking":
                found += _costs(name, got, planned, withheld)
            if case == "on":
                found.append(_share(f"{name}.is_on", got, planned, reasons))
            if case == "off":
                found.append(_is_off(f"{name}.is_off", by_case["on"], got, planned))
                pairs = [pair for pair in _pairs(by_case["on"], got) if all(map(as_answered, pair))]
                found.append(_same(f"{name}.as_on", pairs, planned, as_answered, "with thinking"))
    return tuple(found)


def _share(name: str, got: list[AbilityAnswered], planned: int, holds: Callable[[AbilityAnswered], bool]) -> Measure:
    counted = [one for one in got if mark(one) not in BLIND]
    marks = Counter(mark(one) for one in got)
    return Measure(
        name=name,
        unit="of 1",
        values=tuple(float(holds(one)) for one in counted),
        better="more",
        planned=planned,
        reason=_missing(got, planned),
        note=", ".join(f"{count} {kind}" for kind, count in marks.most_common()) or None,
    )


def _pairs(base: list[AbilityAnswered], got: list[AbilityAnswered]) -> list[tuple[AbilityAnswered, AbilityAnswered]]:
    """Replies to the same prompt or question, those of `base` first."""
    first = {one.rep: one for one in base}
    return [(first[one.rep], one) for one in got if one.place == 0 and one.rep in first]


def _same(
    name: str,
    pairs: list[tuple[AbilityAnswered, AbilityAnswered]],
    planned: int,
    come_to: Callable[[AbilityAnswered], object],
    how: str,
) -> Measure:
    """How often two replies come to the same; `how` says what was different about the first."""
    seen = [(a, b) for a, b in pairs if a.question == b.question and not {mark(a), mark(b)} & BLIND]
    same = [come_to(a) == come_to(b) for a, b in seen]
    other = Counter(f"{mark(a)}, here {mark(b)}" for (a, b), held in zip(seen, same, strict=True) if not held)
    blind = _missing([one for pair in pairs for one in pair if mark(one) in BLIND], 0)
    return Measure(
        name=name,
        unit="of 1",
        values=tuple(map(float, same)),
        better="more",
        planned=planned,
        reason=(blind or f"{planned - len(seen)} of {planned} have nothing to stand beside")
        if len(seen) < planned
        else None,
        note="; ".join(f"{count} {how} {kinds}" for kinds, count in other.most_common()) or None,
    )


def _is_off(name: str, on: list[AbilityAnswered], off: list[AbilityAnswered], planned: int) -> Measure:
    """Not known where no reply thinks, on or off: then nothing was there to be switched off."""
    if not off or any(one.status == 200 and reasons(one) for one in (*on, *off)):
        return _share(name, off, planned, lambda one: not reasons(one))
    return Measure(
        name=name,
        unit="of 1",
        better="more",
        planned=planned,
        reason=_missing(off, 0) or "no reply thinks with enable_thinking on either, so off shows nothing",
    )


def _costs(name: str, got: list[AbilityAnswered], planned: int, withheld: str | None) -> list[Measure]:
    counted = [one for one in got if mark(one) not in BLIND]
    tokens = [float(one.completion_tokens) for one in counted if one.completion_tokens is not None]
    seconds = [one.total_ms / 1000 for one in counted] if withheld is None else []
    missing = _missing(got, planned)
    slow = missing if withheld is None else f"withheld: {withheld}"
    speed = Measure(
        name=f"{name}.seconds",
        unit="s",
        values=tuple(seconds),
        better="less",
        is_speed=True,
        planned=planned,
        reason=slow,
    )
    size = Measure(
        name=f"{name}.tokens", unit="tokens", values=tuple(tokens), better="less", planned=planned, reason=missing
    )
    return [speed, size]


def _missing(got: list[AbilityAnswered], planned: int) -> str | None:
    blind = next(((mark(one), one) for one in got if mark(one) in BLIND), None)
    if blind is not None:
        kind, one = blind
        said = one.error or (f"its budget of {one.max_tokens} tokens was used up" if kind == "capped" else "no answer")
        return f"{kind}: {said}"
    return f"{planned - len(got)} of {planned} were not asked" if len(got) < planned else None
