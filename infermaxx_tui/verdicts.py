"""Verdicts on disk: fold a run's log, judge it, keep the file, and read limits for a second opinion."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path

import msgspec

from infermaxx_tui.core.events import Unknown
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.predictions import Prediction
from infermaxx_tui.core.report import verdict_lines
from infermaxx_tui.core.scenario import ScenarioError, convert
from infermaxx_tui.core.scenario_checks import limit_complaints
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.verdict import Verdict, exit_code, judge_run, read_verdict, verdict_bytes
from infermaxx_tui.log import Follower, parts, resumes
from infermaxx_tui.rundir import RunError, RunFolder, replace_file

__all__ = [
    "Verdict",
    "exit_code",
    "fold_run",
    "judge_folder",
    "load_or_judge",
    "read_limits",
    "restated",
    "verdict_bytes",
    "verdict_lines",
    "write_verdict",
]


def fold_run(run: RunFolder) -> RunState:
    """What the run's log says. Raises RunError if there is none or it may not be read."""
    fold = Fold()
    try:
        found = parts(run.path)
        torn = 0
        for path in found:
            follower = Follower(path)
            for record in follower.read():
                fold.add(record)
            torn = follower.torn
        if torn and not run.alive():
            fold.add(Unknown("invalid", f"a torn tail of {torn} bytes"))
    except OSError as error:
        raise RunError(f"{run.path}: the log cannot be read ({error.strerror})") from None
    if not found:
        raise RunError(f"{run.path}: no events.jsonl in it, so it is not a run")
    return fold.snapshot()


def judge_folder(run: RunFolder, limits: Limits | None = None) -> Verdict:
    """The verdict that the run's log earns now. Raises RunError."""
    return judge_run(fold_run(run), limits, claims_now(run))


def claims_now(run: RunFolder) -> tuple[Prediction, ...] | None:
    """What the run's scenario.toml claims now, whatever it claimed when the run began; None if it cannot be read."""
    try:
        raw = tomllib.loads(run.scenario.read_text(encoding="utf-8"))
        return msgspec.convert(raw.get("predictions", ()), tuple[Prediction, ...])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError):
        return None


def restated(verdict: Verdict, state: RunState, run: RunFolder) -> Verdict:
    """The same verdict with what the run's scenario.toml claims by now beside what was claimed when it began."""
    claims = claims_now(run)
    known = state.meta.predictions if state.meta is not None else ()
    if claims is None or claims == known:
        return verdict
    now = judge_run(state, verdict.limits if verdict.post_hoc else None, claims)
    return msgspec.structs.replace(verdict, predictions=now.predictions)


def write_verdict(run: RunFolder, verdict: Verdict) -> None:
    """Keeps the verdict in the run folder."""
    replace_file(run.verdict, verdict_bytes(verdict))


def load_or_judge(run: RunFolder) -> Verdict:
    """The verdict that the run wrote; for a runner that died, the one its log earns, kept from now on if it can be.

    One that is older than the log's newest segment is none of it.
    """
    try:
        verdict = read_verdict(run.verdict.read_bytes())
        newest = verdict.regime.segments > len(resumes(run.path))
    except (OSError, msgspec.DecodeError):
        newest = False
    if not newest:
        verdict = judge_folder(run)
        if not run.alive():
            with suppress(OSError):
                write_verdict(run, verdict)
    return verdict


def read_limits(file: str) -> Limits:
    """Limits from a TOML file, with or without a `[limits]` table. Raises ScenarioError."""
    try:
        raw = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(file, "", error.strerror or "cannot be read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(file, "", f"not TOML: {error}") from None
    table = raw.get("limits", raw)
    if not isinstance(table, dict):
        raise ScenarioError(file, "limits", "must be a table")
    prefix = "limits." if "limits" in raw else ""
    limits = convert(table, Limits, prefix, file)
    for key, message in limit_complaints(limits, prefix):
        raise ScenarioError(file, key, message)
    return limits
