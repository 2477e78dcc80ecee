"""The command line's grammar: verbs, flags and their help. What they do is in `cli`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

import infermaxx_tui

_Verb = Callable[[str, str], argparse.ArgumentParser]
_ABOUT = "Replays agent transcripts as concurrent sessions against a vLLM server and says whether it can be trusted."

MAKE_PRESETS = ("field-note", "claude-code-local", "swe-eval", "codex-pro", "nasty")
"""What `transcripts make` knows; said here so that help needs none of the generator."""

EXPORTS = ("json", "csv", "parquet", "html", "svg", "junit")
"""Formats of `export`, for the same reason."""


class UsageError(Exception):
    """The command line is wrong: one line for people."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        raise UsageError(f"{self.prog}: {message}; see {self.prog} --help")


def make_parser(with_runner: bool) -> argparse.ArgumentParser:
    """The whole grammar. `with_runner` adds the verb by which the program starts its own runner process."""
    parser = _Parser(prog="infermaxx", description=_ABOUT, parents=[_common()], allow_abbrev=False)
    parser.set_defaults(debug=False, fps=None, ascii=False, no_color=False)
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", title="commands")

    def verb(name: str, text: str) -> argparse.ArgumentParser:
        return verbs.add_parser(name, help=text, description=text, parents=[_common()], allow_abbrev=False)

    _add_run_verbs(verb)
    _add_look_verbs(verb)
    _add_export(verb)
    _add_tool_verbs(verb)
    if with_runner:
        verbs.add_parser("_runner")
    return parser


def _common() -> _Parser:
    """Flags that stand before or after the verb; a verb's own defaults must not undo what stood before it.

    Made anew for each parser: argparse shares the actions of a parent, and with them their defaults.
    """
    common = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--version", action="version", version=f"infermaxx {infermaxx_tui.__version__}")
    common.add_argument("--debug", action="store_true", help="show tracebacks")
    common.add_argument("--fps", type=float, metavar="N", help="redraws a second")
    common.add_argument("--ascii", action="store_true", help="plain characters only")
    common.add_argument("--no-color", action="store_true", help="no colours")
    return common


def _add_run_verbs(verb: _Verb) -> None:
    demo = verb("demo", "the main job on the embedded server: three streams, canaries, a verdict, in seconds")
    _add_fault(demo, "make the server sick (repeatable)")
    run = verb("run", "replay a scenario: a file, or the bare name of a shipped one")
    run.add_argument("scenario", metavar="SCENARIO")
    run.add_argument("--url", help="the server, with or without /v1")
    run.add_argument("--model", metavar="NAME", help="the served model's name")
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key (repeatable)")
    run.add_argument("--duration", metavar="30m", help="end after this time")
    run.add_argument("--exclude", metavar="1%", help="plan the recalls that exclude this failure rate at 95 %%")
    run.add_argument("--on-verdict", metavar="CMD", help="command to run when the verdict is written")
    run.add_argument("--api-key-env", default="VLLM_API_KEY", metavar="NAME", help="variable that holds the key")
    run.add_argument("--dry-run", action="store_true", help="plan and check only: nothing is sent to the model")
    run.add_argument("--gpu-metrics", metavar="URL", help="GPU readings of dcgm-exporter or nvidia_gpu_exporter")
    run.add_argument("--gpu-ssh", metavar="HOST", help="GPU readings of nvidia-smi over ssh")
    run.add_argument("--sensor-cmd", metavar="CMD", help="a command that prints key=value GPU readings")
    for made in (demo, run):
        made.add_argument("--no-gpu", action="store_true", help="read no GPU sensor")
        made.add_argument("--headless", action="store_true", help="no TUI")
        made.add_argument("--detach", action="store_true", help="start it and return")
        made.add_argument("--seed", type=_number(0, 2**63 - 1), metavar="N", help="what the plan is drawn from")
        made.add_argument("--nonce", metavar="HEX", help="make the tags of an earlier run again")
        _add_runs_dir(made, "where run folders go")
        _add_json(made, "print verdict.json")


def _add_look_verbs(verb: _Verb) -> None:
    attach = verb("attach", "follow a run that is going on, or see how one ended")
    runs = verb("runs", "list the runs")
    stop = verb("stop", "end a run cleanly, with a verdict")
    judge = verb("judge", "fold a run's log again and print the verdict")
    compare = verb("compare", "runs side by side; figures only where their regimes agree, else the keys that differ")
    compare.add_argument("runs", metavar="RUN", nargs="+", help="folders, ids, or latest; two or more")
    resume = verb("resume", "play the unfinished sessions of a run that was broken off, with new tags")
    resume.add_argument("--headless", action="store_true", help="no TUI")
    resume.add_argument("--detach", action="store_true", help="start it and return")
    resume.add_argument("--on-verdict", metavar="CMD", help="command to run when the verdict is written")
    resume.add_argument("--api-key-env", default="VLLM_API_KEY", metavar="NAME", help="variable that holds the key")
    for made in (attach, stop, resume, judge):
        made.add_argument("run", metavar="RUN", help="a folder, an id, or latest")
    attach.add_argument("--headless", action="store_true", help="follow in lines and exit as the verdict")
    judge.add_argument("--limits", metavar="FILE", help="TOML of limits; the verdict is marked post hoc and not kept")
    for made in (attach, runs, stop, resume, judge, compare):
        _add_runs_dir(made, "where run folders are")
        _add_json(made, "print JSON")


def _add_export(verb: _Verb) -> None:
    text = "a run as a file for people, spreadsheets, pipelines or CI systems"
    export = verb("export", text)
    export.add_argument("run", metavar="RUN", help="a folder, an id, or latest")
    export.add_argument("--format", choices=EXPORTS, required=True, help="csv and parquet: one row for each request")
    export.add_argument("--output", default="-", metavar="FILE", help="where it goes; - is stdout (-)")
    export.add_argument("--redact", action="store_true", help="take keys, people, hosts, folders and addresses out")
    export.add_argument("--content-free", action="store_true", help="redacted, without tags and the machine's names")
    export.add_argument("--include-text", action="store_true", help="what the log kept of replies and errors")
    _add_runs_dir(export, "where run folders are")


def _add_tool_verbs(verb: _Verb) -> None:
    doctor = verb("doctor", "this host, its cards and a server: what works, what is missing, what to type")
    doctor.add_argument("--url", help="the server, with or without /v1")
    doctor.add_argument("--model", metavar="NAME", default="auto", help="the served model's name")
    doctor.add_argument("--log", metavar="FILE", help="the server's start-up log")
    text = "do not measure this host's own errors, which takes some seconds"
    doctor.add_argument("--no-calibration", action="store_true", help=text)
    doctor.add_argument("--api-key-env", default="VLLM_API_KEY", metavar="NAME", help="variable that holds the key")
    _add_runs_dir(doctor, "where run folders go")
    _add_json(doctor, "print JSON")
    _add_experiment(verb)
    sim = verb("sim", "the embedded server by itself")
    sim.add_argument("--port", type=_number(0, 65535), default=8000, metavar="N", help="0 takes a free one")
    _add_fault(sim, "make it sick (repeatable)")
    sim.add_argument("--list-faults", action="store_true", help="name the faults and the verdict each must earn")
    selftest = verb("selftest", "prove that each judge passes the healthy, fails the sick and refuses the blind")
    _add_fault(selftest, "these faults only (repeatable)")
    selftest.add_argument("--sockets", action="store_true", help="by runner processes over loopback, some minutes")
    _add_json(selftest, "print JSON")
    transcripts = verb("transcripts", "what recorded sessions would do to the KV pool")
    inner = transcripts.add_subparsers(dest="action", metavar="ACTION", required=True)
    text = "peaks, losses, and how many sessions fit"
    stats = inner.add_parser("stats", help=text, description=text, parents=[_common()], allow_abbrev=False)
    stats.add_argument("paths", nargs="+", metavar="PATH")
    stats.add_argument("--tokenizer", default="shipped", metavar="T", help="a directory, a hub name, or shipped")
    stats.add_argument("--pool", type=_number(1, 10**12), metavar="N", help="KV pool in tokens")
    _add_kv(stats)
    stats.add_argument("--prefix", action="store_true", help="what the chat template loses of each last prompt")
    stats.add_argument("--prefill", type=_number(1, 10**9), metavar="N", help="speed of prefill in tokens per second")
    stats.add_argument("--decode", type=_number(1, 10**9), metavar="N", help="tokens per second of one reply")
    _add_json(stats, "print JSON")
    text = "convert what agents wrote into OpenAI chat JSONL"
    convert = inner.add_parser("import", help=text, description=text, parents=[_common()], allow_abbrev=False)
    convert.add_argument("paths", nargs="+", metavar="PATH")
    convert.add_argument("--out", required=True, metavar="DIR", help="where the new files go; none is overwritten")
    _add_making(inner)


def _add_experiment(verb: _Verb) -> None:
    made = verb("experiment", "start the arms of an experiment one after another, and say what moved between them")
    made.add_argument("file", metavar="FILE", nargs="?", help="a file, or the bare name of a shipped experiment")
    made.add_argument("--dry-run", action="store_true", help="arms, levers, boots and hours; nothing is started")
    made.add_argument("--new", action="store_true", help="start anew, though one of the same file is not finished")
    made.add_argument("--list", action="store_true", help="the experiments that were conducted")
    made.add_argument("--fleet", action="store_true", help="the newest results of all of them, and a page of them")
    made.add_argument("--show", metavar="ID", help="what the results of one say: a folder, an id, or latest")
    again = verb("sweep", "conduct all experiments of a folder anew, and say what moved since the last time")
    again.add_argument("folder", metavar="DIR", help="a folder of experiment files")
    for one in (made, again):
        one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key (repeatable)")
        one.add_argument("--api-key-env", default="VLLM_API_KEY", metavar="NAME", help="variable that holds the key")
        one.add_argument("--no-gpu", action="store_true", help="read no GPU sensor")
        _add_runs_dir(one, "where run folders go")
        _add_json(one, "print JSON")


def _add_kv(stats: argparse.ArgumentParser) -> None:
    """What is known of the server whose pool is asked about."""
    stats.add_argument("--model-config", metavar="FILE", help="the model's config.json, for what a token costs")
    stats.add_argument("--kv-dtype", default="auto", metavar="D", help="as vLLM's --kv-cache-dtype (auto)")
    stats.add_argument("--kv-memory", type=_gib, metavar="GIB", help="memory of the pool, instead of --pool")
    stats.add_argument("--max-model-len", type=_number(1, 10**9), metavar="N", help="the window that is served")
    stats.add_argument("--block-size", type=_number(1, 10**6), default=16, metavar="N", help="tokens in a block (16)")
    stats.add_argument("--mtp", action="store_true", help="the model's own draft head is in use")
    stats.add_argument("--seed", type=_number(0, 2**63 - 1), default=1, metavar="S", help="of the plays (1)")


def _gib(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of GiB")
    return value


def _add_making(inner: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verbs that make transcripts: out of nothing, or out of private ones."""
    text = "make synthetic sessions with the shape of real ones, and hold them against published figures"
    make = inner.add_parser("make", help=text, description=text, parents=[_common()], allow_abbrev=False)
    make.add_argument("--preset", choices=MAKE_PRESETS, default=MAKE_PRESETS[0], help="whose shape")
    make.add_argument("--sessions", type=_number(1, 10_000), default=15, metavar="N", help="how many (15)")
    make.add_argument("--seed", type=_number(0, 2**63 - 1), default=1, metavar="S", help="what they are drawn from (1)")
    make.add_argument("--out", required=True, metavar="DIR", help="where the new files go; none is overwritten")
    make.add_argument("--tokenizer", default="shipped", metavar="T", help="a directory, a hub name, or shipped")
    text = (
        "take keys, passwords, people, hosts and home paths out of transcripts, or all text, so that they can be shared"
    )
    redact = inner.add_parser("redact", help=text, description=text, parents=[_common()], allow_abbrev=False)
    redact.add_argument("paths", nargs="+", metavar="PATH")
    redact.add_argument("--out", required=True, metavar="DIR", help="where the new files go; none is overwritten")
    redact.add_argument("--content-free", action="store_true", help="lengths, roles, block ids and delays, and no text")
    redact.add_argument("--tokenizer", default="shipped", metavar="T", help="a directory, a hub name, or shipped")


def _number(least: int, most: int) -> Callable[[str], int]:
    """Reads a whole number between two bounds."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return read


def _add_fault(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--fault", action="append", default=[], metavar="NAME", help=text)


def _add_json(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--json", action="store_true", help=text)


def _add_runs_dir(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--runs-dir", metavar="DIR", help=text)
