"""Did the questions have room for an answer? A capped reply scored as a miss is the oldest false alarm."""

from __future__ import annotations

from collections import Counter

from infermaxx_tui.core.evidence import Recall
from infermaxx_tui.core.judges.check import Check, of_recall, plural, shown
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.quality.gate import PhaseCount, gate
from infermaxx_tui.core.quality.outcome import QualityAnswer
from infermaxx_tui.core.state import RunState


def judge(state: RunState, limits: Limits) -> Check:
    """Cannot say when more than `max_excluded` of the recall and quality replies hit a cap, or when there was none."""
    replies = [recall for recall in state.recalls if recall.outcome == "ok"]
    capped = [recall for recall in replies if recall.capped]
    tasks = [answer for answer in state.quality.answers if answer.phase != "alone" and answer.mark != "error"]
    cut = [answer for answer in tasks if answer.mark == "capped"]
    n = len(replies) + len(tasks)
    n_capped = len(capped) + len(cut)
    too_many = n > 0 and n_capped / n > limits.max_excluded
    advice = None
    if not n:
        advice = "no recall reply came to an end"
    elif n_capped:
        advice = "; ".join(_advice(capped, len(replies)) + _task_advice(cut, len(tasks)))
    return Check(
        name="budget",
        outcome="pass" if n and not too_many else "not_evaluable",
        n_evaluated=n,
        n_planned=state.planned.recalls + sum(phase.planned for phase in _phases(state, limits)),
        excluded={"capped": n_capped} if n_capped else {},
        evidence=shown(of_recall(recall, what="capped") for recall in capped),
        advice=advice,
    )


def _phases(state: RunState, limits: Limits) -> tuple[PhaseCount, ...]:
    return gate(state.quality, limits).phases if state.quality.tasks else ()


def _advice(capped: list[Recall], n: int) -> list[str]:
    """The most frequent way in which replies hit their cap, and the key to turn."""
    ways = Counter(_way(recall) for recall in capped)
    return [f"{count} of {plural(n, 'recall reply', 'recall replies')} {way}" for way, count in ways.most_common()]


def _task_advice(capped: list[QualityAnswer], n: int) -> list[str]:
    if not capped:
        return []
    most = max(answer.max_tokens for answer in capped)
    return [f"{len(capped)} of {plural(n, 'quality reply', 'quality replies')} hit quality.max_tokens={most}: raise it"]


def _way(recall: Recall) -> str:
    if recall.finish_reason is None:
        return "ended without a finish_reason, so nobody knows whether they were cut"
    tokens = recall.completion_tokens
    if recall.max_tokens and (tokens is None or tokens >= recall.max_tokens - 1):
        return f"hit canaries.max_tokens={recall.max_tokens}: raise it"
    return "hit the server's max_model_len: lower sessions.target_depth or raise it"
