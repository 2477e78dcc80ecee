"""Does a conversation ever see another one's tag? One exact tag is proof, so a single reply is enough to fail."""

from __future__ import annotations

from infermaxx_tui.core.evidence import Leak
from infermaxx_tui.core.judges.check import Cause, Check, Evidence, plural, shown
from infermaxx_tui.core.judges.recall import count
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stats import bound95


def judge(state: RunState, limits: Limits) -> Check:
    """Fails on one foreign or stale tag; cannot say below `min_recalls` replies given beside a foreign tag."""
    counted = count(state)
    beside = [recall for recall in counted.complete if recall.foreign_present]
    excluded = dict(counted.excluded)
    if alone := len(counted.complete) - len(beside):
        excluded["no_foreign_tag"] = alone
    n, sessions = len(beside), len({recall.session for recall in beside})
    found = state.leak_counts["foreign"] + state.leak_counts["stale"]
    blind = n == 0 or n < limits.min_recalls
    cause: Cause | None = "foreign" if state.leak_counts["foreign"] else "stale" if found else None
    advice = None
    if found:
        advice = _advice(state)
    elif blind:
        advice = (
            f"{plural(n, 'recall reply', 'recall replies')} given while another conversation's tag was on the server,"
            f" limits.min_recalls={limits.min_recalls}"
        )
    return Check(
        name="isolation",
        outcome="fail" if found else "not_evaluable" if blind else "pass",
        required=state.meta is None or state.meta.sessions != 1,
        n_evaluated=n,
        n_planned=counted.n_planned,
        excluded=dict(sorted(excluded.items())),
        bound95=None if found else bound95(0, n),
        bound95_sessions=None if found else bound95(0, sessions),
        cause=cause,
        evidence=shown(_witness(leak) for leak in state.leaks if leak.kind != "decoy"),
        advice=advice,
    )


def _witness(leak: Leak) -> Evidence:
    whose = "an earlier run's tag" if leak.owner is None else f"session {leak.owner}'s tag"
    if leak.owner is not None and leak.owner < 0:
        whose = "a control's tag"
    return Evidence(
        event=leak.at,
        session=leak.session if leak.session >= 0 else None,
        turn=leak.turn,
        tag=leak.tag,
        said=leak.said,
        what=f"{whose} in the {leak.channel} of a {leak.request_kind} reply",
        owner=leak.owner,
        channel=leak.channel,
        planted_depth_tokens=leak.planted_depth_tokens,
        overlapped=leak.overlapped,
        cause="stale" if leak.kind == "stale" else "foreign",
    )


def _advice(state: RunState) -> str:
    foreign, stale = state.leak_counts["foreign"], state.leak_counts["stale"]
    parts = []
    if foreign:
        beside = sum(leak.kind == "foreign" and leak.overlapped is True for leak in state.leaks)
        parts.append(
            f"{plural(foreign, 'tag')} of another conversation seen, {beside} while its owner was decoding:"
            " run the same with sessions.control=serial to see whether it needs concurrency"
        )
    if stale:
        parts.append(f"{plural(stale, 'tag')} of an earlier run seen: a cache outlived the run that filled it")
    return "; ".join(parts)
