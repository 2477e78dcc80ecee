"""Did the streams really run beside one another where it matters? Recalls of a lone stream prove nothing about load."""

from __future__ import annotations

from infermaxx_tui.core.judges.check import Check, of_recall, plural, shown
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import RunState


def judge(state: RunState, limits: Limits) -> Check:
    """Cannot say unless `min_overlap` of the counted deep recalls overlapped another stream's decoding."""
    required = state.meta is None or state.meta.at_once >= 2
    target = state.regime.target_depth if state.regime is not None else None
    complete = [recall for recall in state.recalls if recall.complete]
    deep = [
        recall
        for recall in complete
        if (recall.depth_tokens >= limits.deep * target if target else recall.asked_at >= limits.deep)
    ]
    lone = [recall for recall in deep if not recall.overlapped]
    n, beside = len(deep), len(deep) - len(lone)
    enough = n > 0 and beside >= limits.min_overlap * n
    advice = None
    where = f"{limits.deep:.0%} of target depth"
    if not n:
        advice = f"no counted recall at {where} or deeper; lower sessions.target_depth or use longer transcripts"
    elif not enough and not required:
        advice = (
            f"one request at a time was asked for, so {beside} of {plural(n, 'recall')} at {where} ran beside others"
        )
    elif not enough:
        advice = (
            f"{beside} of {plural(n, 'recall')} at {where} overlapped another stream's decoding,"
            f" limits.min_overlap={limits.min_overlap:g}; raise sessions.count or reply.max_tokens"
        )
    return Check(
        name="vacuity",
        outcome="pass" if enough else "not_evaluable",
        required=required,
        n_evaluated=n,
        n_planned=len(complete),
        excluded={"shallow": len(complete) - n} if len(complete) > n else {},
        evidence=() if enough else shown(of_recall(recall, what="decoded alone") for recall in lone),
        advice=advice,
    )
