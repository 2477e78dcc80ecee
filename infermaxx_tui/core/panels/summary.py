"""The few lines that answer "is it going well": speed, recalls with their bound, and the verdict so far."""

from __future__ import annotations

from functools import lru_cache

from infermaxx_tui.core.classify import RECALLED
from infermaxx_tui.core.glyphs import UNICODE, Glyphs, bar, settle, sparkline
from infermaxx_tui.core.judges.check import Check, figures_text
from infermaxx_tui.core.judges.held_back import held_back
from infermaxx_tui.core.panels.row import Piece, Row, row
from infermaxx_tui.core.panels.table import figure, share
from infermaxx_tui.core.panels.texts import ms_text, word_piece
from infermaxx_tui.core.panels.withheld import WITHHELD, shown
from infermaxx_tui.core.rows import away_of, duration_text, more_of, tokens_text, worth_of
from infermaxx_tui.core.scenario import ScenarioError, parse_scenario
from infermaxx_tui.core.state import Instrument, RunState
from infermaxx_tui.core.timeline import TimelineView
from infermaxx_tui.core.verdict import Verdict

_SPARK = 24


def rows_summary(
    state: RunState,
    timeline: TimelineView | None,
    width: int,
    glyphs: Glyphs = UNICODE,
    verdict: Verdict | None = None,
    duration_s: float | None = None,
) -> tuple[Row, ...]:
    """Four lines: run and time, speed, recalls, and the verdict so far.

    `verdict` is core.verdict.judge_run(state), which a caller may keep for a while, since it costs milliseconds in a
    long run; without it the line says that it was not judged. While the run goes on the word is marked `so far`, and
    the check that decides is named with its figures. `duration_s` is what the run may take, if the scenario in the log
    is not to be asked.
    """
    timeline = shown(state, timeline)
    if state.meta is None:
        return (row([("waiting for the run's first line", "dim")], width, glyphs),)
    lines = (_run(state, duration_s, glyphs), _speed(state, timeline, glyphs), _recalls(state, glyphs))
    return (*(row(pieces, width, glyphs) for pieces in lines), row(_verdict(state, verdict, glyphs), width, glyphs))


@lru_cache(maxsize=8)
def planned_s(scenario_text: str) -> float | None:
    """Seconds that the scenario of a log allows; None if it sets no time, or cannot be read by this program."""
    try:
        return parse_scenario(scenario_text, "log").duration_s
    except ScenarioError:
        return None


def _run(state: RunState, duration_s: float | None, glyphs: Glyphs) -> list[Piece]:
    meta = state.meta
    pieces: list[Piece] = [(settle(meta.scenario if meta is not None else "", glyphs), "title")]
    if state.regime is not None and state.regime.simulated:
        pieces.append(("  SIMULATED", "warn"))
    planned = duration_s or (planned_s(meta.scenario_text) if meta is not None else None)
    elapsed = duration_text(state.elapsed_ms)
    if planned is None:
        pieces.append((f"  {elapsed}", None))
    else:
        gauge = bar(state.elapsed_ms / 1000, planned, 10, glyphs)
        pieces.append((f"  {elapsed} of {duration_text(planned * 1000)} {gauge}", None))
    if state.ended is not None:
        pieces.append((f"  ended: {settle(state.ended, glyphs).replace('_', ' ')}", "accent"))
    else:
        still = sum(session.ended is None for session in state.sessions)
        pieces.append((f"  {still} open, {state.in_flight} in flight, {state.decoding} decoding", None))
        if state.stop_by is not None:
            pieces.append((f"  stopping: {settle(state.stop_by, glyphs)}", "warn"))
    over = sum(session.ended is not None and session.parent is None for session in state.sessions)
    total = meta.sessions if meta is not None else 0
    pieces.append((f"  conversations {over}/{total}", "dim"))
    return pieces


def _speed(state: RunState, timeline: TimelineView | None, glyphs: Glyphs) -> list[Piece]:
    """Of a run that is over, how much it came to: a speed has no meaning then."""
    speed = "n/a" if state.tokens_per_s is None else f"{state.tokens_per_s:,.0f}"
    text = f"{speed} tok/s" if state.ended is None else f"{state.generated_tokens:,} tokens"
    pieces: list[Piece] = [(text, "accent")]
    if state.degenerate.forced:
        pieces.append(("  forced lengths", "warn"))
    if state.speed_withheld is not None:
        pieces.append((f"  speed {WITHHELD}: {state.speed_withheld}", "bad"))
    if timeline is not None:
        spark = sparkline(timeline.tokens_per_s, min(_SPARK, timeline.buckets), 0.0, timeline.total_hi, glyphs)
        pieces += [(f" {spark}", None), (f" 0-{timeline.total_hi:g}", "dim")]
    target = state.regime.target_depth if state.regime is not None else None
    depth = tokens_text(state.depth_reached) + (f" of {tokens_text(target)}" if target else "")
    seen = state.instrument
    pieces += [
        (f"  depth {depth}", None),
        (f"  ttft p50 {ms_text(seen.ttft_ms.p50)} p99 {ms_text(seen.ttft_ms.p99)}", None),
    ]
    if state.speed_withheld is not None:
        return pieces
    gap = f"  gap p50 {figure(seen.gap_ms.p50, 1)} p99 {figure(seen.gap_ms.p99, 1)} ms"
    return [*pieces, (gap, None), *_self(seen)]


def _self(seen: Instrument) -> list[Piece]:
    """How well the client itself can see; what it has not measured it does not speak of."""
    sight = seen.sight
    pieces: list[Piece] = [(f"  lag p99 {figure(seen.loop_lag_p99_ms, 1)} ms", "dim")]
    if sight.dispatch.n:
        pieces.append((f"  sent late p99 {figure(sight.dispatch.p99_ms, 1)} ms", "dim"))
    if sight.coalesced_share is not None:
        pieces.append((f"  reads in clumps {share(sight.coalesced_share)}", "dim"))
    if held_back(seen):
        pieces.append(("  stream held back on its way", "warn"))
    if sight.suspends or sight.steps:
        pieces.append((f"  clock jumps {sight.suspends + sight.steps}", "warn"))
    return pieces


def _recalls(state: RunState, glyphs: Glyphs) -> list[Piece]:
    """What went wrong stands before what the recalls are worth: a narrow terminal cuts the end of a line."""
    complete = sum(recall.complete for recall in state.recalls)
    recalled = sum(recall.cls in RECALLED for recall in state.recalls)
    lost = sum(recall.miss for recall in state.recalls)
    pieces: list[Piece] = [(f"recalled {recalled} of {complete} counted, {state.planned.recalls} planned", None)]
    for count, what in (
        (lost, "missed"),
        (sum(state.leak_counts.get(kind, 0) for kind in ("foreign", "stale")), "LEAKED"),
        (state.delivery.failed.count, "undelivered"),
        (state.degenerate.found.count, "degenerate"),
        *away_of(state),
    ):
        if count:
            pieces.append((f" {glyphs.dot} {glyphs.bad} {count} {what}", "bad"))
    capped = sum(recall.capped for recall in state.recalls)
    if capped:
        pieces.append((f" {glyphs.dot} {capped} capped", "warn"))
    more = more_of(state)
    worth = worth_of(state) + (f", {more}" if more is not None else "")
    return [*pieces, (f" {glyphs.dot} {worth}", None)]


def _verdict(state: RunState, verdict: Verdict | None, glyphs: Glyphs) -> list[Piece]:
    if verdict is None:
        return [("verdict: not judged yet", "dim")]
    pieces: list[Piece] = [
        ("so far " if state.ended is None else "verdict ", "dim"),
        word_piece(verdict.verdict, glyphs),
    ]
    check = deciding(verdict)
    if check is not None:
        pieces += [(f"  {check.name}", "title"), (f" {figures_text(check)}", None)]
        if check.advice:
            pieces.append((f"  {settle(check.advice, glyphs)}", "dim"))
    return pieces


def deciding(verdict: Verdict) -> Check | None:
    """The check that the word hangs on: the first that fails, the first required one that cannot say, or recall."""
    failed = next((check for check in verdict.checks if check.outcome == "fail"), None)
    blind = next((check for check in verdict.checks if check.required and check.outcome == "not_evaluable"), None)
    recall = next((check for check in verdict.checks if check.name == "recall"), None)
    return failed or blind or recall
