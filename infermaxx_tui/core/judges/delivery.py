"""Did the answers arrive? A 200 that brings nothing, or only reasoning, is a failure like a broken stream."""

from __future__ import annotations

from collections import Counter

from infermaxx_tui.core.fold_delivery import DELIVERY_KINDS
from infermaxx_tui.core.judges.check import Check, by_reason, plural, shown_findings
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stats import bound95


def judge(state: RunState, limits: Limits) -> Check:
    """Fails from a share of `max_delivery_share` of the turns and questions whose delivery could be judged."""
    judged, failed = state.delivery.judged, state.delivery.failed
    ended = Counter[str]()
    for kind in DELIVERY_KINDS:
        ended.update(state.outcomes.get(kind, {}))
    excluded = {name: n for name in _NOT_DELIVERY if (n := ended[name])}
    if state.delivery.lost_with_server:
        excluded["lost_with_server"] = state.delivery.lost_with_server
    if state.instrument.unparsed.count:
        excluded["unparsed"] = state.instrument.unparsed.count
    if rejected := ended.total() - judged - sum(excluded.values()):
        excluded["rejected"] = rejected
    too_many = judged > 0 and failed.count / judged >= limits.max_delivery_share and failed.count > 0
    advice = None
    if not judged:
        advice = "no turn ended in a way that says whether it was delivered"
        if excluded:
            advice += f" ({by_reason(excluded)})"
    elif failed.count:
        what = Counter(one.what for one in failed.kept).most_common(1)[0][0]
        advice = (
            f"{failed.count} of {plural(judged, 'reply', 'replies')} failed (mostly: {what}),"
            f" {'at least' if too_many else 'below'} limits.max_delivery_share={limits.max_delivery_share:g}"
        )
    return Check(
        name="delivery",
        outcome="fail" if too_many else "pass" if judged else "not_evaluable",
        n_evaluated=judged,
        n_planned=ended.total(),
        excluded=dict(sorted(excluded.items())),
        bound95=bound95(failed.count, judged) if judged else None,
        evidence=shown_findings(failed),
        advice=advice,
    )


_NOT_DELIVERY = ("shed", "too_long", "refused_connection", "stalled", "timeout", "cancelled")
"""Outcomes that say nothing about delivery: load, our own prompt, or the server's absence."""
