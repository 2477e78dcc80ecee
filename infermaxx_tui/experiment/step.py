"""One start of one arm: its server and its run, by the same runner that every run has, and the row that comes of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from infermaxx_tui.checkpoint import find_checkpoint
from infermaxx_tui.core.experiment.figures import answers, bandwidth, figures, losses
from infermaxx_tui.core.experiment.file import Experiment
from infermaxx_tui.core.experiment.identity import blind_texts
from infermaxx_tui.core.experiment.levers import Settings
from infermaxx_tui.core.experiment.order import Step
from infermaxx_tui.core.experiment.rows import ArmRow, Began
from infermaxx_tui.core.model_facts import ModelFacts
from infermaxx_tui.core.probe_measures import texts, texts_cut
from infermaxx_tui.core.scenario import Server
from infermaxx_tui.core.startup_log import parse_startup
from infermaxx_tui.core.verdict import Verdict
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.experiment.folder import ExperimentFolder
from infermaxx_tui.experiment.forecasting import known_before
from infermaxx_tui.follow import StatusLine, follow
from infermaxx_tui.launch import Relay, StartError, start_runner
from infermaxx_tui.model_folder import facts_of, model_of
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.verdicts import fold_run
from infermaxx_tui.wish import Wish

_MAX_LOG_BYTES = 4 << 20
"""Of the log of a start that failed, from its end; what it died of stands there."""


class Conditions(msgspec.Struct, frozen=True):
    """What all steps of an experiment share."""

    experiment: Experiment
    scenario: str
    """Path of the scenario that every arm plays."""
    runs_dir: str
    api_key_env: str
    no_gpu: bool = False
    session_sizes: tuple[int, ...] = ()
    """Of the sessions that each arm's pool is held against."""


def wish_of(conditions: Conditions, settings: Settings) -> Wish:
    """What the runner is asked for this arm."""
    base = conditions.experiment.server
    return Wish(
        scenario=conditions.scenario,
        overrides=settings.set,
        server=Server(
            url=settings.url,
            launch=settings.launch,
            sim=settings.sim,
            env=settings.env,
            model=base.model,
            idle_s=base.idle_s,
            quiet_s=base.quiet_s,
            start_s=base.start_s if settings.start_s is None else settings.start_s,
            check_args=base.check_args,
        ),
        session_sizes=conditions.session_sizes,
        runs_dir=conditions.runs_dir,
        api_key_env=conditions.api_key_env,
        no_gpu=conditions.no_gpu,
    )


def blank_row(conditions: Conditions, settings: Settings, step: Step) -> ArmRow:
    """The row of a step that has not begun: what it is, and what can be known of it before it does."""
    now_ms = _now_ms()
    facts, follows = known_before(settings, conditions.no_gpu)
    return ArmRow(
        at_ms=now_ms,
        experiment=conditions.experiment.name,
        arm=step.arm,
        boot=step.boot,
        place=step.place,
        began_ms=now_ms,
        outcome="refused",
        settings=settings,
        facts=facts if isinstance(facts, ModelFacts) else None,
        forecast=follows,
    )


def conduct_step(
    wish: Wish,
    blank: ArmRow,
    folder: ExperimentFolder,
    status: StatusLine,
    narrate: Callable[[str], None],
    relay: Relay,
) -> ArmRow:
    """Plays one step to its end and returns its row, which says so if it never began. Raises Interrupted."""
    clock_s = time.monotonic()
    began = Began(at_ms=blank.began_ms, experiment=blank.experiment, arm=blank.arm, boot=blank.boot, pid=0)
    replace = msgspec.structs.replace
    relay.on_start = lambda pid: folder.append(replace(began, pid=pid))
    try:
        run = start_runner(msgspec.json.encode(wish), narrate, relay)
    except StartError as error:
        return _not_begun(blank, error, folder, asked=relay.asked)
    folder.append(replace(began, at_ms=_now_ms(), pid=relay.pid or 0, run=run.id))
    boot_s = round(time.monotonic() - clock_s, 1)
    narrate(f"{blank.arm}, start {blank.boot + 1}: run {run.id} began after {boot_s:.0f} s")
    return with_run(replace(blank, boot_s=boot_s), run, follow(run, status), asked=relay.asked)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _not_begun(blank: ArmRow, error: StartError, folder: ExperimentFolder, asked: bool) -> ArmRow:
    kept, startup = None, None
    if error.log:
        kept = folder.server_log(blank.arm, blank.boot)
        startup = parse_startup(_keep_log(Path(error.log), kept))
    outcome = "boot_failed" if error.code is ExitCode.SERVER else "refused"
    return msgspec.structs.replace(
        blank,
        at_ms=_now_ms(),
        outcome="interrupted" if asked or error.code is ExitCode.INTERRUPTED else outcome,
        reason=str(error) if kept is None else str(error).replace(error.log, kept.name),
        server_log=None if kept is None else kept.name,
        startup=startup,
    )


def _keep_log(log: Path, kept: Path) -> str:
    """Moves the end of a log, closed to others, and takes away the folder in which no run began. The text of it."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _MAX_LOG_BYTES))
        data = stream.read()
    kept.touch(mode=0o600)
    kept.write_bytes(data)
    shutil.rmtree(log.parent, ignore_errors=True)
    return data.decode(errors="replace")


def with_run(row: ArmRow, run: RunFolder, verdict: Verdict, asked: bool = False) -> ArmRow:
    """The row with everything that the run gave."""
    state = fold_run(run)
    died = verdict.ended is None
    stopped = asked or verdict.ended == "stopped"
    gated = verdict.ended == "gate"
    local = verdict.regime.model_root if verdict.regime.server_local else None
    folder = model_of(row.settings.launch) or find_checkpoint(local)
    facts = facts_of(folder) if folder is not None else None
    return msgspec.structs.replace(
        row,
        facts=facts if isinstance(facts, ModelFacts) else None,
        bandwidth_bytes_per_s=bandwidth(state),
        mean_length=verdict.server.mean_length,
        at_ms=_now_ms(),
        outcome="interrupted" if stopped else "died" if died else "gated" if gated else "judged",
        reason=_why(verdict, stopped),
        run=run.id,
        verdict=verdict.verdict,
        checks={check.name: check.outcome for check in verdict.checks},
        unjudged=tuple(check.name for check in verdict.checks if check.required and check.outcome == "not_evaluable"),
        simulated=verdict.simulated,
        regime=verdict.regime,
        startup=verdict.startup,
        measures=(*figures(verdict), *losses(verdict, state)),
        quality=verdict.quality,
        answers=answers(state),
        texts=texts(state.probes.replies),
        texts_cut=texts_cut(state.probes.replies),
        texts_blind=blind_texts(verdict.server, own=bool(row.settings.launch or row.settings.sim)),
        speed_withheld=verdict.speed_withheld,
    )


def _why(verdict: Verdict, stopped: bool) -> str | None:
    """What is to be known of a run that is not simply over."""
    if stopped:
        return "somebody asked to stop"
    if verdict.ended is None:
        return "the runner died"
    if verdict.ended == "gate":
        failed = [gate for gate in verdict.gates if gate.outcome == "fail"]
        return "; ".join(f"{gate.name}: {gate.said}" + (f" ({gate.advice})" if gate.advice else "") for gate in failed)
    return None
