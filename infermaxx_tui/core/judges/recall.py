"""Does each conversation still know the tags it was told? A miss counts only if the reply was whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.evidence import Recall
from infermaxx_tui.core.judges.check import Cause, Check, Evidence, by_reason, of_recall, plural, shown
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.power import clustered95
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stats import bound95


class Miss(msgspec.Struct, frozen=True):
    """A complete reply without its tag, and what asking again said.

    `confirmed`: it stands. `listed`: alone it recalls, and under load it did not repeat. `open`: alone it recalls, and
    under load no answer could be judged.
    """

    recall: Recall
    standing: Literal["confirmed", "listed", "open"]
    cause: Cause | None


class Counted(msgspec.Struct, frozen=True):
    """Which recall replies enter n, and why the others do not."""

    complete: tuple[Recall, ...]
    excluded: dict[str, int]
    n_planned: int


def count(state: RunState) -> Counted:
    """Complete recall replies, and all that was planned and left out, by reason; the parts add up to the plan."""
    complete = tuple(recall for recall in state.recalls if recall.complete)
    excluded = Counter(_reason(recall) for recall in state.recalls if not recall.complete)
    went_out = len(state.recalls) + state.asked_unanswered
    if state.asked_unanswered:
        excluded["unanswered"] = state.asked_unanswered
    if state.planned.recalls > went_out:
        excluded["not_asked"] = state.planned.recalls - went_out
    return Counted(complete, dict(sorted(excluded.items())), max(state.planned.recalls, went_out))


def _reason(recall: Recall) -> str:
    """Why a reply does not count: its class, or the outcome of a request that brought no reply at all."""
    return recall.outcome if recall.cls == "empty" and recall.outcome in _NO_REPLY else recall.cls


_CAUSES: Final[tuple[Cause, ...]] = ("under_load", "unsalted", "alone_too")
_NO_REPLY = ("shed", "too_long", "rejected", "refused_connection", "stalled", "timeout")


def weigh(recall: Recall, one_at_once: bool = False) -> Miss:
    """What a miss is worth after it was asked again; a miss that nobody asked again is a witness as it stands.

    Where one request runs at once there is no load to ask it under: it is asked again as it was, without a salt.
    """
    recalls_alone: Cause = "unsalted" if one_at_once else "under_load"
    alone = [again for again in recall.reasks if again.kind == "reask_alone" and again.complete]
    if not alone:
        return Miss(recall, "confirmed", None)
    if all(again.miss for again in alone):
        return Miss(recall, "confirmed", "alone_too")
    loaded = [again for again in recall.reasks if again.kind == "reask_load" and again.complete]
    if any(again.miss for again in loaded):
        return Miss(recall, "confirmed", recalls_alone)
    return Miss(recall, "listed" if loaded else "open", recalls_alone)


def judge(state: RunState, limits: Limits) -> Check:
    """Fails on more than `max_lost` confirmed misses; cannot say below `min_recalls` or above `max_excluded`.

    Misses of a conversation that was played alone, as a control, count; its recalls enter neither n nor a bound.

    So many misses that do not repeat that they exceed `max_excluded` are no pass either.
    """
    counted = count(state)
    misses = _misses(state, counted)
    certain = [miss for miss in misses if miss.standing == "confirmed"]
    of_plan = [miss for miss in misses if miss.recall.solo is None]
    blind = _blind(counted, misses, limits)
    n = len(counted.complete)
    asked_sessions = {recall.session for recall in counted.complete}
    missing_sessions = {miss.recall.session for miss in of_plan}
    causes = {miss.cause for miss in certain}
    interval = clustered95(by_session(counted.complete))
    cause: Cause | None = next((one for one in _CAUSES if one in causes), None)
    failed = len(certain) > limits.max_lost
    return Check(
        name="recall",
        outcome="fail" if failed else "not_evaluable" if blind else "pass",
        n_evaluated=n,
        n_planned=counted.n_planned,
        excluded=counted.excluded,
        bound95=bound95(len(of_plan), n) if n else None,
        bound95_sessions=bound95(len(missing_sessions), len(asked_sessions)) if n else None,
        interval95=None if interval is None else (interval.low, interval.high),
        design_effect=None if interval is None else interval.design_effect,
        cause=cause,
        evidence=shown(_witness(miss) for miss in sorted(misses, key=lambda miss: miss.standing)),
        advice=_advice(misses, n, failed, cause, limits) if failed else "; ".join(blind) or _listed(misses),
    )


def confirmed(state: RunState) -> int:
    """Recalls that were lost for sure."""
    return sum(miss.standing == "confirmed" for miss in _misses(state, count(state)))


def _misses(state: RunState, counted: Counted) -> tuple[Miss, ...]:
    serial = state.meta is not None and state.meta.at_once == 1
    alone = [recall for recall in state.alone if recall.kind == "recall" and recall.complete]
    return tuple(weigh(recall, serial) for recall in (*counted.complete, *alone) if recall.miss)


def by_session(complete: Iterable[Recall]) -> list[tuple[int, int]]:
    """Misses and complete replies of each session."""
    misses: Counter[int] = Counter()
    replies: Counter[int] = Counter()
    for recall in complete:
        replies[recall.session] += 1
        misses[recall.session] += recall.miss
    return [(misses[session], n) for session, n in sorted(replies.items())]


def _blind(counted: Counted, misses: tuple[Miss, ...], limits: Limits) -> list[str]:
    """Why the check cannot say `pass`; empty if it can."""
    n, planned, excluded = len(counted.complete), counted.n_planned, sum(counted.excluded.values())
    reasons = []
    if n == 0 or n < limits.min_recalls:
        reasons.append(
            f"{plural(n, 'recall reply', 'recall replies')} counted, limits.min_recalls={limits.min_recalls}"
        )
    if planned and excluded / planned > limits.max_excluded:
        reasons.append(
            f"{excluded} of {planned} left out ({by_reason(counted.excluded)}),"
            f" more than limits.max_excluded={limits.max_excluded:g}"
        )
    listed = sum(miss.standing == "listed" for miss in misses)
    if listed > limits.max_excluded * n:
        reasons.append(
            f"{listed} of {n} missed once and recalled when asked again, more than"
            f" limits.max_excluded={limits.max_excluded:g}: asking again does not bring back what made them miss"
        )
    unresolved = sum(miss.standing == "open" for miss in misses)
    if unresolved:
        reasons.append(f"{plural(unresolved, 'miss', 'misses')} recalled alone and could not be asked again under load")
    return reasons


def _witness(miss: Miss) -> Evidence:
    words = {
        "confirmed": miss.recall.cls,
        "listed": f"{miss.recall.cls}, not repeated",
        "open": f"{miss.recall.cls}, not asked again under load",
    }
    return of_recall(miss.recall, miss.cause, words[miss.standing])


def _advice(misses: tuple[Miss, ...], n: int, failed: bool, cause: Cause | None, limits: Limits) -> str:
    lost = sum(miss.standing == "confirmed" for miss in misses)
    said = f"{lost} of {n} recalls lost, limits.max_lost={limits.max_lost}"
    match cause:
        case "under_load":
            return f"{said}; asked again alone it recalls, under load it misses again: look at what concurrency shares"
        case "unsalted":
            return (
                f"{said}; with a salt of its own it recalls, as it was asked it misses again, with one request at a"
                " time: look at the prefix cache"
            )
        case "alone_too":
            return (
                f"{said}; alone it misses too, so concurrency is cleared: model, KV dtype and quantisation are not told"
                " apart, run a control arm"
            )
        case _:
            return f"{said}; they were not asked again, so the cause is open"


def _listed(misses: tuple[Miss, ...]) -> str | None:
    listed = sum(miss.standing == "listed" for miss in misses)
    confirmed = len(misses) - listed
    parts = []
    if confirmed:
        parts.append(f"{confirmed} lost, allowed by limits.max_lost")
    if listed:
        parts.append(f"{listed} missed once and recalled when asked again, alone and under load: counted in the bound")
    return "; ".join(parts) or None
