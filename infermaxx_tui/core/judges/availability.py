"""Was the server there, once it had spoken? Only what cannot be the network's fault is a failure."""

from __future__ import annotations

from infermaxx_tui.core.evidence import Loss
from infermaxx_tui.core.judges.check import Check, Evidence, of_finding, plural, shown, shown_findings
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import RunState

_WORDS = {
    "refused": "connection refused",
    "pid_dead": "the server's process is dead",
    "restarted": "the server's process started anew",
    "stalled": "no token for the stall limit",
    "unhealthy": "/health did not say that all is well",
    "timeout": "timed out",
}


def judge(state: RunState, limits: Limits) -> Check:
    """Fails on evidence that the server went away after its first token; mere time-outs leave it open."""
    certain = [loss for loss in state.losses if loss.after_first_token and _certain(loss)]
    open_losses = [loss for loss in state.losses if loss.after_first_token and not _certain(loss)]
    ended = sum(n for by_outcome in state.outcomes.values() for n in by_outcome.values())
    told = {loss.req for loss in certain}
    alone = tuple(of_finding(one) for one in state.refused.kept if one.req not in told)
    evidence = tuple(_witness(loss) for loss in certain) + alone
    open_count = max(len(open_losses), state.stalled.count + state.timed_out.count)
    if evidence:
        first = min(evidence, key=lambda one: one.event)
        advice = f"{first.what} after the first token; see the server's log at that moment"
        return Check(name="availability", outcome="fail", n_evaluated=ended, evidence=shown(evidence), advice=advice)
    if state.first_token is None:
        return Check(
            name="availability",
            outcome="not_evaluable",
            n_evaluated=0,
            advice="no first token ever came, so the server was not usable from the start",
        )
    if open_count:
        waits = tuple(_witness(loss) for loss in open_losses) + shown_findings(state.stalled, state.timed_out)
        return Check(
            name="availability",
            outcome="not_evaluable",
            n_evaluated=ended,
            evidence=shown(waits),
            advice=f"{plural(open_count, 'request')} got no answer in time (limits.stall_s={limits.stall_s:g})"
            " and the host could not be asked whether it was there: network or server is not told apart",
        )
    return Check(name="availability", outcome="pass", n_evaluated=ended)


def _certain(loss: Loss) -> bool:
    if loss.how in ("stalled", "unhealthy"):
        return loss.reachable is True
    return loss.how in ("refused", "pid_dead", "restarted")


def _witness(loss: Loss) -> Evidence:
    session = loss.session if loss.session is None or loss.session >= 0 else None
    return Evidence(event=loss.at, session=session, said=loss.detail, what=_WORDS[loss.how])
