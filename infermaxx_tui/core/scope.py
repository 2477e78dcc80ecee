"""What a run shows and what it does not, in words: a verdict that is read without its limits is read wrongly."""

from __future__ import annotations

from collections.abc import Mapping

from infermaxx_tui.core.events_resume import gap_in_words, how_in_words
from infermaxx_tui.core.judges.check import Check, plural
from infermaxx_tui.core.judges.control_findings import findings
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import Meta, RunState

_RESUMES_SHOWN = 3


def scope(state: RunState, checks: Mapping[str, Check], limits: Limits) -> str:
    """Sentences for people: what was seen, how strong it is, and what stays open."""
    sentences = [*_seen(state, checks["recall"]), *_strength(state, checks), *_open(state, checks, limits)]
    return " ".join(sentences)


def _seen(state: RunState, recall: Check) -> list[str]:
    meta = state.meta
    if meta is None:
        return ["The log has no first line, so nothing is known of the run."]
    what = (
        f"Shown: {recall.n_evaluated} of {recall.n_planned} planned recalls in {plural(meta.sessions, 'conversation')},"
        f" {_together(meta)}, at most {plural(state.decoding_peak, 'stream')} decoding beside one another"
    )
    depth = "at no known depth" if state.depth_reached is None else f"down to {state.depth_reached} tokens"
    return [f"{what}, {depth}, in {_hours(state.elapsed_ms)}."]


def _resumed(state: RunState) -> str:
    """How it was taken up again, each time, and what that means for what is shown."""
    each = "; ".join(
        f"{how_in_words(one.how)}, taken up again after {gap_in_words(one.gap_ms)} ({one.verdict} until then)"
        for one in state.resumes[-_RESUMES_SHOWN:]
    )
    left = len(state.resumes) - _RESUMES_SHOWN
    more = f" ({left} earlier times are in the log)" if left > 0 else ""
    whole = "What passed was seen in whole conversations: one that was broken off was played again from its first turn."
    return f"{each[:1].upper()}{each[1:]}{more}. {whole}" if each else whole


def _together(meta: Meta) -> str:
    if meta.interleaved is None:
        return f"{meta.at_once} at once"
    return f"{meta.interleaved} open together and taking turns, one request at a time"


def _hours(elapsed_ms: float) -> str:
    seconds = elapsed_ms / 1000.0
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _strength(state: RunState, checks: Mapping[str, Check]) -> list[str]:
    said = []
    recall, isolation = checks["recall"], checks["isolation"]
    if recall.outcome == "pass" and recall.bound95 is not None and recall.bound95_sessions is not None:
        said.append(
            f"At 95 % confidence fewer than {recall.bound95:.2%} of recalls are lost"
            f" ({recall.bound95_sessions:.1%} with whole sessions as the unit)."
        )
    if isolation.outcome == "pass" and isolation.bound95 is not None:
        said.append(f"No foreign tag was seen; fewer than {isolation.bound95:.2%} of recall replies hold one.")
    absents = [recall for recall in state.absents if recall.complete]
    if absents:
        invented = sum(recall.cls != "none" for recall in absents)
        said.append(f"{invented} of {plural(len(absents), 'label')} that were never planted got a tag all the same.")
    return said


def _open(state: RunState, checks: Mapping[str, Check], limits: Limits) -> list[str]:
    said = []
    if state.regime is not None and state.regime.simulated:
        said.append("The server was simulated: nothing here is about a real engine or model.")
    meta = state.meta
    if meta is not None and meta.sessions == 1:
        said.append("One session was asked for, so isolation and the effect of concurrency are not shown.")
    elif meta is not None and meta.interleaved is not None:
        said.append("Conversations took turns, one request at a time, so the effect of concurrency is not shown.")
    elif meta is not None and meta.at_once == 1:
        said.append("Conversations ran one at a time, so the effect of concurrency is not shown.")
    said += [f"A control found: {one.said}." for one in findings(state) if one.outcome in ("differs", "sick")]
    blind = [check.name for check in checks.values() if check.required and check.outcome == "not_evaluable"]
    if blind:
        said.append(f"Not shown, because it could not be judged: {', '.join(blind)}.")
    if checks["recall"].cause == "alone_too":
        said.append("Model, KV dtype and quantisation are not told apart: a control arm would.")
    if state.segments > 1:
        said.append(f"The run was started {state.segments} times; what the server did in between is not shown.")
        said.append(_resumed(state))
    if state.ended is None:
        said.append("The log has no last line: what the runner would have seen later is not shown.")
    said.append(
        f"Not shown: deeper conversations, longer runs, other workloads, speed"
        f"{'' if checks['timing'].required else ' (no timing was demanded)'},"
        f" {'answers to other tasks' if state.quality.tasks else 'quality of answers'}."
    )
    said += _replay(state)
    if state.speed_withheld is not None:
        said.append(f"Speeds are withheld: {state.speed_withheld}.")
    return said


def _replay(state: RunState) -> list[str]:
    """What the way of playing hides, and how far prompts went on with the ones before them where not all of it did."""
    said = []
    if state.degenerate.forced:
        said.append(
            "Main-line replies had forced lengths: they are blind to degeneration, and speeds of this run are speeds of"
            " forced lengths, no headline."
        )
    if state.prefix.worst is not None and state.prefix.said is not None:
        said.append(state.prefix.said)
    return said
