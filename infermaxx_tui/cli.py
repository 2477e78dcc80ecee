"""Verbs and flags: the only place that prints. stdout carries the result, stderr the narration.

Everything heavy is imported inside the verb that needs it, so that `--help` costs nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence

import infermaxx_tui
from infermaxx_tui.exitcodes import ExitCode

Handler = Callable[[argparse.Namespace], int]


class UserError(Exception):
    """One line for people, and exit code 2."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    if sys.platform == "win32":
        return _complain("infermaxx: native Windows is not supported; use WSL2", ExitCode.USAGE)
    args = _parser().parse_args(argv)
    if args.verb is None:
        return _no_tui()
    handler: Handler = args.handler
    try:
        return handler(args)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return int(ExitCode.PASS)
    except KeyboardInterrupt:
        return _complain("interrupted", ExitCode.INTERRUPTED)
    except Exception as error:  # noqa: BLE001  # the boundary of the program: one line for people, a traceback with --debug
        return _explain(error, args.debug)


def _explain(error: Exception, debug: bool) -> int:
    """One line about an error, and the exit code that goes with it."""
    from infermaxx_tui.core.scenario import ScenarioError
    from infermaxx_tui.core.transcript import TranscriptError
    from infermaxx_tui.launch import StartError
    from infermaxx_tui.rundir import RunError

    if debug:
        traceback.print_exc()
    match error:
        case StartError():
            if debug and error.trace:
                sys.stderr.write(error.trace)
            return _complain(f"infermaxx: {error}", error.code)
        case UserError() | ScenarioError() | TranscriptError() | RunError():
            return _complain(f"infermaxx: {error}", ExitCode.USAGE)
        case PermissionError():
            return _complain(f"infermaxx: {error.filename}: no right to read or write it", ExitCode.USAGE)
        case _:
            hint = "" if debug else "; --debug shows where"
            return _complain(f"infermaxx: internal error: {type(error).__name__}: {error}{hint}", ExitCode.INTERNAL)


def _complain(text: str, code: ExitCode) -> int:
    from infermaxx_tui.core.display import harmless

    print(" ".join(harmless(text).split("\n")), file=sys.stderr)
    return int(code)


def _narrate(text: str) -> None:
    from infermaxx_tui.core.display import harmless

    print(harmless(text), file=sys.stderr, flush=True)


def _no_tui() -> int:
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return _complain("infermaxx: the TUI needs a terminal; try `infermaxx run SCENARIO --headless`", ExitCode.USAGE)
    text = "infermaxx: this version has no TUI yet; try `infermaxx demo`, `infermaxx runs`, `infermaxx --help`"
    return _complain(text, ExitCode.USAGE)


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show tracebacks")
    common.add_argument("--fps", type=float, metavar="N", help="redraws a second")
    common.add_argument("--ascii", action="store_true", help="plain characters only")
    common.add_argument("--no-color", action="store_true", help="no colours")
    parser = argparse.ArgumentParser(
        prog="infermaxx",
        description="Replays agent transcripts as concurrent sessions against a vLLM server and says whether it can be trusted.",
        parents=[common],
    )
    parser.add_argument("--version", action="version", version=f"infermaxx {infermaxx_tui.__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", title="commands")

    def verb(name: str, handler: Handler, text: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=text, description=text, parents=[common])
        made.set_defaults(handler=handler)
        return made

    _add_run_verbs(verb)
    _add_look_verbs(verb)
    _add_tool_verbs(verb)
    if argv_is_runner():
        verbs.add_parser("_runner").set_defaults(handler=_runner, debug=False)
    return parser


def argv_is_runner() -> bool:
    """Whether this process was started to be a runner; that verb is not for people."""
    return sys.argv[1:2] == ["_runner"]


def _add_run_verbs(verb: Callable[[str, Handler, str], argparse.ArgumentParser]) -> None:
    demo = verb("demo", _demo, "the main job on the embedded server: three streams, canaries, a verdict, in seconds")
    demo.add_argument("--fault", action="append", default=[], metavar="NAME", help="make the server sick (repeatable)")
    run = verb("run", _run, "replay a scenario: a file, or the bare name of a shipped one")
    run.add_argument("scenario", metavar="SCENARIO")
    run.add_argument("--url", help="the server, with or without /v1")
    run.add_argument("--model", metavar="NAME", help="the served model's name")
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key, dotted (repeatable)")
    run.add_argument("--duration", metavar="30m", help="end after this time")
    run.add_argument("--exclude", metavar="1%", help="plan the recalls that exclude this failure rate at 95 %%")
    run.add_argument("--on-verdict", metavar="CMD", help="command to run when the verdict is written")
    run.add_argument("--api-key-env", default="VLLM_API_KEY", metavar="NAME", help="variable that holds the server's key")
    run.add_argument("--dry-run", action="store_true", help="plan and check only: nothing is sent to the model")
    for made in (demo, run):
        made.add_argument("--headless", action="store_true", help="no TUI")
        made.add_argument("--detach", action="store_true", help="start it and return at once")
        made.add_argument("--runs-dir", metavar="DIR", help="where run folders go")
        made.add_argument("--seed", type=int, metavar="N")
        made.add_argument("--nonce", metavar="HEX", help="make the tags of an earlier run again")
        made.add_argument("--json", action="store_true", help="print verdict.json")


def _add_look_verbs(verb: Callable[[str, Handler, str], argparse.ArgumentParser]) -> None:
    attach = verb("attach", _attach, "follow a run that is going on, or see how one ended")
    attach.add_argument("run", metavar="RUN", help="a folder, an id, or latest")
    attach.add_argument("--headless", action="store_true", help="follow in lines and exit as the verdict")
    runs = verb("runs", _runs, "list the runs")
    stop = verb("stop", _stop, "end a run cleanly, with a verdict")
    stop.add_argument("run", metavar="RUN")
    judge = verb("judge", _judge, "fold a run's log again and print the verdict")
    judge.add_argument("run", metavar="RUN")
    judge.add_argument("--limits", metavar="FILE", help="TOML of limits; the verdict is marked post hoc and not kept")
    for made in (attach, runs, stop, judge):
        made.add_argument("--runs-dir", metavar="DIR", help="where run folders are")
    for made in (attach, runs, judge):
        made.add_argument("--json", action="store_true", help="print JSON")


def _add_tool_verbs(verb: Callable[[str, Handler, str], argparse.ArgumentParser]) -> None:
    sim = verb("sim", _sim, "the embedded server by itself")
    sim.add_argument("--port", type=int, default=8000, metavar="N", help="0 takes a free one")
    sim.add_argument("--fault", action="append", default=[], metavar="NAME", help="make it sick (repeatable)")
    sim.add_argument("--list-faults", action="store_true", help="name the faults and the verdict each must earn")
    selftest = verb("selftest", _selftest, "prove that each judge passes the healthy, fails the sick, refuses the blind")
    selftest.add_argument("--json", action="store_true", help="print JSON")
    selftest.add_argument("--fault", action="append", default=[], metavar="NAME", help="these faults only (repeatable)")
    transcripts = verb("transcripts", _transcripts, "what recorded sessions would do to the KV pool")
    inner = transcripts.add_subparsers(dest="action", metavar="ACTION", required=True)
    stats = inner.add_parser("stats", help="peaks, losses, and how many sessions fit")
    stats.add_argument("paths", nargs="+", metavar="PATH")
    stats.add_argument("--tokenizer", default="shipped", metavar="T", help="a directory, a hub name, or shipped (not exact)")
    stats.add_argument("--pool", type=int, metavar="N", help="KV pool in tokens")
    stats.add_argument("--json", action="store_true", help="print JSON")


def _runner(args: argparse.Namespace) -> int:
    from infermaxx_tui.process import main as run_process

    return run_process(sys.stdin.buffer.read())


def _demo(args: argparse.Namespace) -> int:
    from infermaxx_tui.prepare import Wish

    faults = tuple(args.fault) or ("clean",)
    _check_faults(faults)
    wish = Wish(scenario="demo", faults=faults, runs_dir=args.runs_dir, seed=args.seed, nonce=args.nonce)
    return _start_and_follow(wish, args)


def _check_faults(faults: tuple[str, ...]) -> None:
    import difflib

    from infermaxx_tui.sim.faults import FAULTS

    for fault in faults:
        if fault not in FAULTS:
            near = difflib.get_close_matches(fault, FAULTS, n=1, cutoff=0.0)
            raise UserError(f"--fault {fault}: no such fault; the nearest is {near[0]}, `infermaxx sim --list-faults` names all")


def _run(args: argparse.Namespace) -> int:
    from infermaxx_tui.prepare import Wish

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
        api_key_env=args.api_key_env,
        on_verdict=args.on_verdict,
    )
    if args.dry_run:
        from infermaxx_tui.dryrun import dry_run

        for line in dry_run(wish, os.environ.get(wish.api_key_env)):
            print(line)
        return int(ExitCode.PASS)
    return _start_and_follow(wish, args)


def _start_and_follow(wish: object, args: argparse.Namespace) -> int:
    import msgspec

    from infermaxx_tui.launch import start_runner

    run = start_runner(msgspec.json.encode(wish), _narrate)
    if args.detach:
        print(run.id)
        _narrate(f"running; `infermaxx attach {run.id}` follows it, `infermaxx stop {run.id}` ends it")
        return int(ExitCode.PASS)
    _narrate(f"run {run.path}")
    return _follow(run, args.json)


def _follow(run: object, as_json: bool) -> int:
    from infermaxx_tui.follow import follow
    from infermaxx_tui.rundir import RunFolder

    if not isinstance(run, RunFolder):
        raise TypeError("not a run folder")
    verdict = follow(run, sys.stderr, sys.stderr.isatty())
    return _print_verdict(verdict, as_json)


def _print_verdict(verdict: object, as_json: bool) -> int:
    from infermaxx_tui.verdicts import Verdict, exit_code, verdict_bytes, verdict_lines

    if not isinstance(verdict, Verdict):
        raise TypeError("not a verdict")
    if as_json:
        sys.stdout.flush()
        sys.stdout.buffer.write(verdict_bytes(verdict))
        sys.stdout.buffer.flush()
    else:
        for line in verdict_lines(verdict, _width()):
            print(line)
    return int(exit_code(verdict))


def _width() -> int:
    import shutil

    return shutil.get_terminal_size((100, 24)).columns


def _attach(args: argparse.Namespace) -> int:
    from infermaxx_tui import rundir

    run = rundir.find(rundir.runs_dir(args.runs_dir), args.run)
    code = _follow(run, args.json)
    run.read_mark.touch(mode=0o600)
    return code


def _runs(args: argparse.Namespace) -> int:
    from infermaxx_tui import rundir
    from infermaxx_tui.runlist import describe_runs, runs_json, runs_lines

    rows = describe_runs(rundir.list_runs(rundir.runs_dir(args.runs_dir)))
    for line in (runs_json(rows),) if args.json else runs_lines(rows):
        print(line)
    return int(ExitCode.PASS)


def _stop(args: argparse.Namespace) -> int:
    import signal

    from infermaxx_tui import rundir
    from infermaxx_tui.launch import signal_runner

    run = rundir.find(rundir.runs_dir(args.runs_dir), args.run)
    signal_runner(run, signal.SIGTERM)
    return _follow(run, as_json=False)


def _judge(args: argparse.Namespace) -> int:
    from infermaxx_tui import rundir
    from infermaxx_tui.verdicts import judge_folder, read_limits

    run = rundir.find(rundir.runs_dir(args.runs_dir), args.run)
    limits = read_limits(args.limits) if args.limits else None
    code = _print_verdict(judge_folder(run, limits), args.json)
    if limits is None:
        run.read_mark.touch(mode=0o600)
    return code


def _sim(args: argparse.Namespace) -> int:
    if args.list_faults:
        from infermaxx_tui.sim.faults import FAULTS

        for name, fault in FAULTS.items():
            print(f"{name:16} {fault.verdict:13} {fault.check or '-':13} {fault.description}")
        return int(ExitCode.PASS)
    faults = tuple(args.fault) or ("clean",)
    _check_faults(faults)
    from infermaxx_tui.sim.__main__ import main as sim_main

    flags = [word for fault in faults for word in ("--fault", fault)]
    return sim_main(["--port", str(args.port), *flags])


def _selftest(args: argparse.Namespace) -> int:
    from infermaxx_tui.selftest import run_selftest, selftest_json, selftest_lines

    _check_faults(tuple(args.fault))
    rows = run_selftest(tuple(args.fault), _narrate)
    for line in (selftest_json(rows),) if args.json else selftest_lines(rows):
        print(line)
    return int(ExitCode.PASS if all(row.caught for row in rows) else ExitCode.INTERNAL)


def _transcripts(args: argparse.Namespace) -> int:
    from infermaxx_tui.transcripts_cli import stats_output

    for line in stats_output(tuple(args.paths), args.tokenizer, args.pool, args.json):
        print(line)
    return int(ExitCode.PASS)
