"""Could this program see? The instrument is suspected first: what it did not see it must not pass."""

from __future__ import annotations

from collections import Counter

from infermaxx_tui.core.judges.check import Check, plural, shown_findings
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import RunState

_COUNTED_ALIKE = ("ok", "shed", "too_long", "rejected", "refused_connection")
"""Outcomes after which our count of tokens and the server's must agree; any other was cut off on one side."""


def judge(state: RunState, limits: Limits) -> Check:
    """Cannot say when evidence was lost, lines are damaged, tokens were not read, or the counts disagree."""
    faults = [*_log_faults(state), *_reading_faults(state), *_foreign_faults(state), *_count_faults(state)]
    seen = state.instrument
    return Check(
        name="instrument",
        outcome="not_evaluable" if faults else "pass",
        n_evaluated=state.events,
        evidence=shown_findings(seen.evidence_lost, seen.unparsed),
        advice="; ".join(faults) or None,
    )


def _log_faults(state: RunState) -> list[str]:
    seen, faults = state.instrument, []
    if seen.evidence_lost.count:
        detail = seen.evidence_lost.kept[0].what
        faults.append(f"evidence lost ({detail}): what came after is not in the log")
    if seen.unknown_events:
        faults.append(f"{plural(seen.unknown_events, 'event')} of a newer program: judge with that version")
    if seen.invalid_lines:
        faults.append(f"{plural(seen.invalid_lines, 'damaged line')} in the log")
    if seen.lines_missing:
        faults.append(f"{plural(seen.lines_missing, 'line')} missing from the log")
    if state.meta is None:
        faults.append("the log has no first line")
    elif state.regime is None and state.first_token is not None:
        faults.append("the log does not say what the run ran on")
    if state.ended is None:
        faults.append("the log has no last line: the runner died, or the run is still going")
    elif state.ended in ("internal", "evidence_lost"):
        faults.append(f"the run ended by a fault of this program ({state.ended}); see runner.log")
    return faults


def _reading_faults(state: RunState) -> list[str]:
    seen, faults = state.instrument, []
    if seen.unparsed.count:
        faults.append(
            f"{plural(seen.unparsed.count, 'reply', 'replies')} had tokens in usage that no known field showed:"
            " the server speaks a dialect that this version does not read"
        )
    if seen.unlabelled_asks:
        faults.append(f"{plural(seen.unlabelled_asks, 'question')} without a label in the log could not be judged")
    if state.leak_counts["decoy"]:
        faults.append("a decoy that was never sent came back: this program leaked its own key")
    return faults


def _foreign_faults(state: RunState) -> list[str]:
    """Others on the same server: what they do to it and to the times of ours cannot be told from a fault of it."""
    foreign = state.server.foreign
    if foreign is None:
        return []
    return [
        f"others used the server, for {foreign}: neither load nor times are this run's own;"
        " run again on a server that nobody else uses"
    ]


def _count_faults(state: RunState) -> list[str]:
    """Our token counts beside the server's, where nothing was cut off on either side."""
    counts = state.counts
    ended: Counter[str] = Counter()
    for by in state.outcomes.values():
        ended.update(by)
    ended.subtract(state.outcomes_before)  # the counts are those of the newest segment
    cut_off = any(n > 0 and outcome not in _COUNTED_ALIKE for outcome, n in ended.items())
    if counts is None or counts.reason is not None or cut_off:
        return []
    faults = []
    for name, ours, theirs in (
        ("generated", counts.generation_client, counts.generation_server),
        ("prompt", counts.prompt_client, counts.prompt_server),
    ):
        if ours is not None and theirs is not None and ours != theirs:
            why = "somebody else used it" if theirs > ours else "one of the two counts wrongly"
            faults.append(f"we counted {ours} {name} tokens and the server {theirs}: {why}")
    return faults
