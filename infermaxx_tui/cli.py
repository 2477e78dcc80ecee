"""What each verb does: it calls one part of the program, prints what comes out and returns the exit code.

Everything heavy is imported inside the verb that needs it, so that `--help` costs nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from infermaxx_tui.console import Console, OutputError
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.flags import UsageError, make_parser

if TYPE_CHECKING:
    from infermaxx_tui.follow import StatusLine
    from infermaxx_tui.rundir import RunFolder
    from infermaxx_tui.verdicts import Verdict
    from infermaxx_tui.wish import Wish

_console = Console()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    if sys.platform == "win32":
        return _console.complain("infermaxx: native Windows is not supported; use WSL2", ExitCode.USAGE)
    _console.open()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        args = make_parser(with_runner=words[:1] == ["_runner"]).parse_args(words)
    except UsageError as error:
        return _console.complain(str(error), ExitCode.USAGE)
    _console.ascii_only = args.ascii
    _console.conceal(os.environ.get(getattr(args, "api_key_env", "VLLM_API_KEY")))
    try:
        return _home(args) if args.verb is None else _VERBS[args.verb](args)
    except KeyboardInterrupt:
        return _console.complain("infermaxx: interrupted", ExitCode.INTERRUPTED)
    except Exception as error:  # the boundary of the program: one line for people, a traceback with --debug
        return _explain(error, args.debug)


def _explain(error: Exception, debug: bool) -> int:
    """One line about an error, and the exit code that goes with it."""
    from infermaxx_tui.core.scenario import ScenarioError
    from infermaxx_tui.core.transcript import TranscriptError
    from infermaxx_tui.core.turns import TokenizerError
    from infermaxx_tui.export.errors import ExportError
    from infermaxx_tui.launch import Interrupted, StartError
    from infermaxx_tui.rundir import RunError

    if debug:
        _console.trace(traceback.format_exc())
    match error:
        case StartError():
            if debug and error.trace:
                _console.trace(error.trace)
            hint = "; --debug shows where" if error.code is ExitCode.INTERNAL and not debug else ""
            return _console.complain(f"infermaxx: {error}{hint}", error.code)
        case Interrupted():
            return _console.complain("infermaxx: ended at once, without a verdict", ExitCode.INTERRUPTED)
        case ExportError() | UsageError() | ScenarioError() | TranscriptError() | TokenizerError() | RunError():
            return _console.complain(f"infermaxx: {error}", ExitCode.USAGE)
        case OutputError():
            return _console.complain(f"infermaxx: {error}", ExitCode.INTERNAL)
        case PermissionError() if error.filename is not None:
            return _console.complain(f"infermaxx: {error.filename}: no right to read or write it", ExitCode.USAGE)
        case _:
            hint = "" if debug else "; --debug shows where"
            return _console.complain(
                f"infermaxx: internal error: {type(error).__name__}: {error}{hint}", ExitCode.INTERNAL
            )


def _home(args: argparse.Namespace) -> int:
    """The TUI on all runs and scenarios."""
    if not _terminal():
        return _console.complain(
            "infermaxx: the TUI needs a terminal; try `infermaxx run SCENARIO --headless`", ExitCode.USAGE
        )
    return _show(args, None)


def _terminal() -> bool:
    """Whether a TUI can be drawn here."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _show(args: argparse.Namespace, run: RunFolder | None) -> int:
    """The TUI until it is left, then one line about the run that was looked at last. Leaving is not stopping."""
    from infermaxx_tui.tui.main import TuiArgs, run_tui

    left = run_tui(
        TuiArgs(
            run=run,
            runs_dir=getattr(args, "runs_dir", None),
            fps=args.fps,
            ascii_only=args.ascii,
            no_color=args.no_color,
        )
    )
    _console.emit(left.lines)
    return left.code


def _runner(args: argparse.Namespace) -> int:
    from infermaxx_tui.process import main as run_process

    return run_process(sys.stdin.buffer.read())


def _demo(args: argparse.Namespace) -> int:
    from infermaxx_tui.shipped import shipped_scenario
    from infermaxx_tui.sim.faults import demanded
    from infermaxx_tui.wish import Wish

    faults = tuple(args.fault) or ("clean",)
    _check_faults(faults)
    path = str(shipped_scenario("demo"))
    wish = Wish(
        scenario=path,
        overrides=demanded(faults),
        faults=faults,
        runs_dir=args.runs_dir,
        seed=args.seed,
        nonce=args.nonce,
        no_gpu=args.no_gpu,
    )
    return _start(wish, args)


def _check_faults(faults: tuple[str, ...]) -> None:
    import difflib

    from infermaxx_tui.sim.faults import FAULTS

    for fault in faults:
        if fault not in FAULTS:
            near = difflib.get_close_matches(fault, FAULTS, n=1, cutoff=0.0)[0]
            advice = f"the nearest is {near}; `infermaxx sim --list-faults` names all"
            raise UsageError(f"--fault {fault}: no such fault; {advice}")


def _run(args: argparse.Namespace) -> int:
    from infermaxx_tui.wish import Wish

    wish = Wish(
        scenario=args.scenario,
        overrides=tuple(args.set),
        url=args.url,
        model=args.model,
        runs_dir=args.runs_dir,
        seed=args.seed,
        nonce=args.nonce,
        duration=args.duration,
        exclude=args.exclude,
        gpu_metrics=args.gpu_metrics,
        gpu_ssh=args.gpu_ssh,
        sensor_cmd=args.sensor_cmd,
        no_gpu=args.no_gpu,
        api_key_env=args.api_key_env,
        on_verdict=args.on_verdict,
    )
    return _dry_run(wish) if args.dry_run else _start(wish, args)


def _resume(args: argparse.Namespace) -> int:
    from infermaxx_tui.wish import Wish

    run = _find(args)
    wish = Wish(scenario="", resume=str(run.path), api_key_env=args.api_key_env, on_verdict=args.on_verdict)
    return _start(wish, args)


def _dry_run(wish: Wish) -> int:
    from infermaxx_tui.dryrun import dry_run
    from infermaxx_tui.secret import read_key
    from infermaxx_tui.server.describe import ServerUnusableError

    try:
        _console.emit(dry_run(wish, read_key(wish.api_key_env)))
    except ServerUnusableError as error:
        return _console.complain(f"infermaxx: {error}", ExitCode.SERVER)
    return int(ExitCode.PASS)


def _start(wish: Wish, args: argparse.Namespace) -> int:
    import msgspec

    from infermaxx_tui.launch import relayed, start_runner

    with relayed() as relay:
        run = start_runner(msgspec.json.encode(wish), _console.narrate, relay)
        in_tui = not (args.detach or args.headless or args.json) and _terminal()
        if not args.detach and not in_tui:
            _console.narrate(f"run {run.path}")
            verdict = _follow(run)
    if args.detach:
        _console.emit((run.id,))
        where = "" if args.runs_dir is None else f" --runs-dir {args.runs_dir}"
        _console.narrate(
            f"running; `infermaxx attach {run.id}{where}` follows it, `infermaxx stop {run.id}{where}` ends it"
        )
        return int(ExitCode.PASS)
    if in_tui:
        return _shown_to_its_end(args, run)
    if sys.stdout.isatty():
        run.mark_read()
    return _print_verdict(verdict, args.json)


def _shown_to_its_end(args: argparse.Namespace, run: RunFolder) -> int:
    """The TUI on a run that was just started. The verdict and its exit code, if the run is over when it is left."""
    from infermaxx_tui.verdicts import load_or_judge

    code = _show(args, run)
    if code or run.alive():
        return code
    return _print_verdict(load_or_judge(run), as_json=False)


def _follow(run: RunFolder) -> Verdict:
    from infermaxx_tui.follow import follow

    return follow(run, _status())


def _status() -> StatusLine:
    """Where a run's status goes."""
    import shutil

    from infermaxx_tui.follow import StatusLine

    tty = sys.stderr.isatty()
    return StatusLine(sys.stderr, tty, lambda: shutil.get_terminal_size((119, 24)).columns - 1, _console.shown)


def _print_verdict(verdict: Verdict, as_json: bool) -> int:
    import shutil

    from infermaxx_tui.verdicts import exit_code, verdict_bytes, verdict_lines

    if as_json:
        _console.emit(verdict_bytes(verdict).decode("ascii").splitlines())
    else:
        _console.emit(verdict_lines(verdict, shutil.get_terminal_size((100, 24)).columns))
    return int(exit_code(verdict))


def _find(args: argparse.Namespace) -> RunFolder:
    from infermaxx_tui import rundir

    return rundir.find(rundir.runs_dir(args.runs_dir), args.run)


def _attach(args: argparse.Namespace) -> int:
    run = _find(args)
    if not (args.headless or args.json) and _terminal():
        return _show(args, run)
    return _follow_to_its_end(args, run)


def _follow_to_its_end(args: argparse.Namespace, run: RunFolder) -> int:
    try:
        verdict = _follow(run)
    except KeyboardInterrupt:
        going_on = "; the run goes on" if run.alive() else ""
        return _console.complain(f"infermaxx: left{going_on}", ExitCode.INTERRUPTED)
    run.mark_read()
    return _print_verdict(verdict, args.json)


def _stop(args: argparse.Namespace) -> int:
    import signal

    from infermaxx_tui.launch import signal_runner

    run = _find(args)
    signal_runner(run, signal.SIGTERM)
    return _follow_to_its_end(args, run)


def _runs(args: argparse.Namespace) -> int:
    from infermaxx_tui import rundir
    from infermaxx_tui.runlist import describe_runs, runs_json, runs_lines

    rows = describe_runs(rundir.list_runs(rundir.runs_dir(args.runs_dir)))
    _console.emit((runs_json(rows),) if args.json else runs_lines(rows))
    return int(ExitCode.PASS)


def _judge(args: argparse.Namespace) -> int:
    from infermaxx_tui.verdicts import judge_folder, read_limits

    run = _find(args)
    limits = read_limits(args.limits) if args.limits else None
    verdict = judge_folder(run, limits)
    if limits is None and not run.alive():
        run.mark_read()
    return _print_verdict(verdict, args.json)


def _compare(args: argparse.Namespace) -> int:
    from infermaxx_tui.comparing import compared

    return int(compared(args, _console.emit))


def _export(args: argparse.Namespace) -> int:
    from infermaxx_tui.export.verb import exported

    _console.emit_whole(exported(args, _find(args), sys.stdout.isatty()))
    return int(ExitCode.PASS)


def _doctor(args: argparse.Namespace) -> int:
    from infermaxx_tui.doctor.verb import examined

    return int(examined(args, _console.emit, _console.narrate))


def _sim(args: argparse.Namespace) -> int:
    from infermaxx_tui.sim.faults import FAULTS

    if args.list_faults:
        rows = FAULTS.items()
        _console.emit(
            f"{name:16} {fault.verdict:13} {fault.check or '-':13} {fault.description}" for name, fault in rows
        )
        return int(ExitCode.PASS)
    _check_faults(tuple(args.fault))
    from infermaxx_tui.sim.__main__ import main as sim_main

    flags = [word for fault in args.fault for word in ("--fault", fault)]
    return sim_main(["--port", str(args.port), *flags])


def _selftest(args: argparse.Namespace) -> int:
    from infermaxx_tui.selftest_rows import proved, selftest_json, selftest_lines

    _check_faults(tuple(args.fault))
    if args.sockets:
        from infermaxx_tui.selftest_sockets import run_over_sockets as prove
    else:
        from infermaxx_tui.selftest import run_selftest as prove
    rows = prove(tuple(args.fault), _console.narrate)
    _console.emit((selftest_json(rows),) if args.json else selftest_lines(rows))
    return int(ExitCode.PASS if proved(rows) else ExitCode.INTERNAL)


def _experiment(args: argparse.Namespace) -> int:
    from infermaxx_tui.experiment.command import experiment

    return int(experiment(args, _console.emit, _console.narrate, _status))


def _sweep(args: argparse.Namespace) -> int:
    from infermaxx_tui.experiment.sweep import sweep

    return int(sweep(args, _console.emit, _console.narrate, _status))


def _transcripts(args: argparse.Namespace) -> int:
    from infermaxx_tui.transcripts_cli import output

    _console.emit(output(args))
    return int(ExitCode.PASS)


_VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "demo": _demo,
    "run": _run,
    "attach": _attach,
    "runs": _runs,
    "stop": _stop,
    "resume": _resume,
    "judge": _judge,
    "compare": _compare,
    "export": _export,
    "doctor": _doctor,
    "sim": _sim,
    "selftest": _selftest,
    "experiment": _experiment,
    "sweep": _sweep,
    "transcripts": _transcripts,
    "_runner": _runner,
}
