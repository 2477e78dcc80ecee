"""Did the server stay as it was? A pass needs the whole interval inside the margin: no sign of drift is not enough."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from infermaxx_tui.core import drift
from infermaxx_tui.core.drift import Blind, Series, Trend
from infermaxx_tui.core.drift_fit import Slope
from infermaxx_tui.core.fold_gauges import MIN_TIMED_TOKENS
from infermaxx_tui.core.judges import timing
from infermaxx_tui.core.judges.check import AnswerOutcome, Check, Evidence, by_reason, plural, shown
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import RunState


class Quantity(msgspec.Struct, frozen=True):
    """One thing that a limit can be set on."""

    limit: str
    names: tuple[str, ...]
    """Series that it means; `vram` means one of each card."""
    title: str
    unit: str
    kind: Literal["time", "stock"]
    """A `time` is judged as a share of itself and must move neither way; a `stock` may fall."""


QUANTITIES: Final = (
    Quantity("max_drift_share_per_hour", ("decode",), "decode time per token", "ms", "time"),
    Quantity("max_ttft_drift_share_per_hour", ("ttft",), "time to first token", "ms", "time"),
    Quantity("max_vram_mib_per_hour", ("vram", "board vram"), "VRAM", "MiB", "stock"),
    Quantity("max_client_rss_mib_per_hour", ("client rss",), "this program's memory", "MiB", "stock"),
    Quantity("max_kv_floor_per_hour", ("kv floor",), "KV held when idle", "of the pool", "stock"),
)
_EXCUSED: Final = ("preempted", "throttled")
"""Reasons to leave samples out that explain slowness: a run full of them says nothing of drift."""
_LONGEST_H: Final = 1000.0


class Answer(msgspec.Struct, frozen=True):
    """What is to be said of one quantity."""

    outcome: AnswerOutcome
    said: str
    at: tuple[int, int] | None = None


def judge(state: RunState, limits: Limits) -> Check:
    """Fails where an interval lies wholly beyond its margin; cannot say where it straddles, and names the hours."""
    demanded = [quantity for quantity in QUANTITIES if getattr(limits, quantity.limit) is not None]
    answers = [answer for quantity in demanded for answer in _answers(quantity, state, limits)]
    failed = [answer for answer in answers if answer.outcome == "fail"]
    open_ = [answer for answer in answers if answer.outcome == "not_evaluable"]
    figures = "" if demanded else _figures(state)
    said = [answer.said for answer in failed or open_ or answers]
    decode = next((one for one in state.drift.series if one.name == "decode"), None)
    return Check(
        name="drift",
        outcome="fail" if failed else "not_evaluable" if open_ or not demanded else "pass",
        required=bool(demanded),
        n_evaluated=decode.n if decode is not None else 0,
        excluded=decode.excluded if decode is not None else {},
        evidence=shown(Evidence(event=one.at, what=one.said) for one in failed if one.at is not None),
        advice="; ".join(said) or f"no drift limit was set{figures}",
    )


def _answers(quantity: Quantity, state: RunState, limits: Limits) -> list[Answer]:
    blind = blind_to_times(quantity.names[0], state, limits) if quantity.kind == "time" else []
    if blind:
        return [Answer("not_evaluable", f"{quantity.title}: {'; '.join(blind)}")]
    found = _series(quantity, state)
    if not any(one.n for one in found):
        return [Answer("not_evaluable", f"{quantity.title}: {_nothing(quantity, found, state)}")]
    return [_answer(quantity, one, limits) for one in found if one.n]


def blind_to_times(name: str, state: RunState, limits: Limits) -> list[str]:
    """Why the client could not time this well enough: a lag is held against the shortest time that is counted."""
    seen = state.instrument
    if name == "ttft":
        return timing.blind(state, limits, "the median TTFT", seen.ttft_ms.p50)
    shortest = None if seen.gap_ms.p50 is None else seen.gap_ms.p50 * MIN_TIMED_TOKENS
    return timing.blind(state, limits, f"the time of {MIN_TIMED_TOKENS} tokens", shortest)


def _series(quantity: Quantity, state: RunState) -> list[Series]:
    """All series that the quantity means.

    Of a card: what the server's processes hold, where that was read often enough, else what the board holds, as long as
    nobody else's process is on it.
    """
    shared = any(card.foreign for card in state.gpus.of_server)
    found: list[Series] = []
    for name in quantity.names:
        if name == "board vram" and shared:
            continue
        of_name = [one for one in state.drift.series if one.name == name or one.name.rpartition(" ")[0] == name]
        if of_name and all(one.n >= drift.least_samples(one) for one in of_name):
            return of_name
        found = found or of_name
    return found


def _nothing(quantity: Quantity, found: list[Series], state: RunState) -> str:
    excluded = {reason: n for one in found for reason, n in one.excluded.items()}
    counted = f"nothing counted ({by_reason(excluded)})" if excluded else "never read"
    if not state.drift.warm:
        return f"{counted}: no clean conversation has ended yet, and before that all is warm-up"
    if set(excluded) == {"warm_up"}:
        return f"{counted}: all of it came before the end of the first clean conversation; replay more rounds"
    if "preempted" in excluded:
        return f"{counted}: the KV pool is too small for this load, and whatever is slow is so for that"
    if "throttled" in excluded:
        return f"{counted}: a card of the server was held back by heat or its power brake all the time"
    if quantity.limit == "max_vram_mib_per_hour" and state.gpus.reason is not None:
        return f"{counted}: {state.gpus.reason}"
    return counted


def _answer(quantity: Quantity, series: Series, limits: Limits) -> Answer:
    title = quantity.title if " " not in series.name else f"{quantity.title} ({series.name})"
    excused = {reason: n for reason, n in series.excluded.items() if reason in _EXCUSED}
    if (out := sum(excused.values())) > limits.max_excluded * (out + series.n):
        return Answer(
            "not_evaluable",
            f"{title}: {by_reason(excused)} of {plural(out + series.n, 'reply', 'replies')}, more than"
            f" limits.max_excluded={limits.max_excluded:g}: what was slow then was slow for that, not by drift",
        )
    margin = getattr(limits, quantity.limit)
    match drift.trend(series, limits.min_drift_hours):
        case Blind() as reason:
            return Answer("not_evaluable", f"{title}: {reason.said}{_more(reason.more_hours)}")
        case Trend() as found:
            return _weighed(quantity, title, found, series, margin)


def _weighed(quantity: Quantity, title: str, found: Trend, series: Series, margin: float) -> Answer:
    slope = found.slope if quantity.kind == "stock" else _share(found)
    if slope is None:
        return Answer("not_evaluable", f"{title}: its mean is {found.level:.4g}, so it has no share")
    said = f"{title} {_moved(quantity, slope)}, limits.{quantity.limit}={margin:g}"
    if slope.low > margin:
        return Answer("fail", said, series.at)
    if slope.high < -margin and quantity.kind == "time":
        return Answer("not_evaluable", f"{said}: it became faster all the time, so this is no steady state to judge")
    if slope.high <= margin and (quantity.kind == "stock" or slope.low >= -margin):
        return Answer("pass", f"{said} (n {found.n}, {found.hours:.3g} h)")
    more = drift.more_hours(slope, found.hours, margin)
    return Answer("not_evaluable", f"{said}: the interval straddles it{_more(more)}")


def _share(found: Trend) -> Slope | None:
    if found.level <= 0:
        return None
    return Slope(*(value / found.level for value in (found.slope.middle, found.slope.low, found.slope.high)))


def _moved(quantity: Quantity, slope: Slope) -> str:
    if quantity.kind == "time":
        return f"{100 * slope.middle:+.3g} %/h [{100 * slope.low:+.3g}, {100 * slope.high:+.3g}]"
    return f"{slope.middle:+.4g} {quantity.unit}/h [{slope.low:+.4g}, {slope.high:+.4g}]"


def _more(hours: float | None) -> str:
    if hours is None:
        return ""
    if hours > _LONGEST_H:
        return "; no run of a bearable length would tell"
    return f"; about {hours:.2g} more hours" if hours >= 0.1 else f"; about {max(round(hours * 60), 1)} more minutes"


def _figures(state: RunState) -> str:
    """What was seen although nobody asked, where it can be said."""
    said = []
    for quantity in QUANTITIES:
        for series in _series(quantity, state):
            found = drift.trend(series)
            if isinstance(found, Trend):
                slope = _share(found) if quantity.kind == "time" else found.slope
                said.append("" if slope is None else f"{quantity.title} {_moved(quantity, slope)}")
    return f"; {'; '.join(filter(None, said))}" if any(said) else ""
