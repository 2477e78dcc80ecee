"""Does the model still say something? Babble is fast, and every other figure looks better for it."""

from __future__ import annotations

from infermaxx_tui.core.judges.check import Check, plural, shown_findings
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stats import bound95
from infermaxx_tui.core.withholding import babble


def judge(state: RunState, limits: Limits) -> Check:
    """Fails from `max_degenerate_share` of replies, or on more than `max_degenerate_recalls` recall replies, or as many
    replies to the trivial prompts after the run.

    A speed that is too good to be true (core.inflation) is noted, and fails nobody.
    """
    n, found, recalls = state.degenerate.replies, state.degenerate.found, state.degenerate.recalls
    failed, after = babble(state.degenerate, limits) is not None, state.degenerate.after
    advice = None
    if not n and state.degenerate.forced:
        advice = f"blind to degeneration: {_forced(state)}, and nothing was answered freely"
    elif not n:
        advice = "no reply had any text"
    elif found.count:
        advice = (
            f"{found.count} of {plural(n, 'reply', 'replies')} degenerate, {recalls} of them to recall questions"
            f" (limits.max_degenerate_share={limits.max_degenerate_share:g},"
            f" limits.max_degenerate_recalls={limits.max_degenerate_recalls}); do not quote speeds of this run"
        )
    elif state.degenerate.forced:
        advice = f"judged by {plural(n, 'reply', 'replies')} that were free; blind for the rest: {_forced(state)}"
    if after and advice is not None:
        advice += f"; {after} of them after the run, to trivial prompts: the server did not come out of it sound"
    if state.inflation is not None and state.inflation.said is not None:
        advice = "; ".join(said for said in (advice, state.inflation.said) if said is not None)
    return Check(
        name="degeneration",
        outcome="fail" if failed else "pass" if n else "not_evaluable",
        n_evaluated=n,
        n_planned=n + state.degenerate.forced if state.degenerate.forced else None,
        excluded={"forced_length": state.degenerate.forced} if state.degenerate.forced else {},
        bound95=bound95(found.count, n) if n else None,
        evidence=shown_findings(found),
        advice=advice,
    )


def _forced(state: RunState) -> str:
    """How many replies nobody can judge."""
    return f"{plural(state.degenerate.forced, 'reply', 'replies')} had a forced length"
