"""Asking a vLLM's own parser: which commands can be asked, and what each of its answers means."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infermaxx_tui.server.check_args import ArgsChecked, Serve, check_args, missing_model, serve_of

PARSER = """
import argparse


class FlexibleArgumentParser(argparse.ArgumentParser):
    pass
"""
SERVE = """
class Serve:
    name = "serve"

    def subparser_init(self, commands):
        parser = commands.add_parser("serve")
        parser.add_argument("model_tag")
        parser.add_argument("--max-model-len", type=int)
        return parser

    def validate(self, args):
        if args.max_model_len == 13:
            raise ValueError("13 is no length")


def cmd_init():
    return [Serve()]
"""


def vllm_in(folder: Path, parser: str = PARSER, serve: str = SERVE) -> dict[str, str]:
    """A package of that name with the parts that are asked, and the environment in which Python finds it."""
    for name, text in (("vllm/utils/argparse_utils.py", parser), ("vllm/entrypoints/cli/serve.py", serve)):
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return {"PYTHONPATH": str(folder)}


MODULE = (sys.executable, "-m", "vllm.entrypoints.openai.api_server")


def test_arguments_that_it_takes(tmp_path: Path) -> None:
    env = vllm_in(tmp_path)
    assert check_args([*MODULE, "model", "--max-model-len", "8192"], env) == ArgsChecked("ok")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("model", "--kv-dtype", "fp8"), "unrecognized arguments: --kv-dtype fp8"),
        (("model", "--max-model-len", "many"), "invalid int value"),
        (("model", "--max-model-len", "13"), "13 is no length"),
    ],
)
def test_arguments_that_it_refuses(tmp_path: Path, args: tuple[str, ...], words: str) -> None:
    got = check_args([*MODULE, *args], vllm_in(tmp_path))
    assert got.outcome == "refused"
    assert words in got.said


def test_a_long_answer_shows_that_it_was_cut(tmp_path: Path) -> None:
    got = check_args([*MODULE, "model", "--max-model-len", "9" * 200 + "x" * 200], vllm_in(tmp_path))
    assert (len(got.said), got.said[-4:]) == (300, "x...")


def test_a_model_that_lies_nowhere_is_told_where_the_server_would_see_these_folders(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    assert missing_model([*MODULE, "--model", gone], {}) == f"the model's folder {gone} is not there"
    assert missing_model([*MODULE, "--model", str(tmp_path)], {}) is None
    assert missing_model([*MODULE, "--model", "some/name"], {}) is None
    assert missing_model(["docker", "run", "vllm", "serve", gone], {}) is None


def test_without_vllm_there_nobody_can_say(tmp_path: Path) -> None:
    got = check_args([*MODULE, "model"], {"PYTHONPATH": str(tmp_path)})
    assert got == ArgsChecked("unknown", "vllm is not importable there")


def test_a_vllm_that_does_not_load_says_nothing_of_the_arguments(tmp_path: Path) -> None:
    got = check_args([*MODULE, "model"], vllm_in(tmp_path, serve="raise RuntimeError('no device')"))
    assert got.outcome == "unknown"
    assert "RuntimeError: no device" in got.said


def test_a_parser_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    got = check_args([*MODULE, "model"], vllm_in(tmp_path, serve="import time; time.sleep(600)"), limit_s=0.2)
    assert got.outcome == "unknown"
    assert "did not answer" in got.said


def test_a_parser_that_dies_says_nothing(tmp_path: Path) -> None:
    got = check_args([*MODULE, "model"], vllm_in(tmp_path, parser="import os; os._exit(9)"))
    assert got.outcome == "unknown"


def script(folder: Path, first: str) -> str:
    path = folder / "vllm"
    path.write_text(f"{first}\n")
    path.chmod(0o755)
    return str(path)


def test_the_python_of_the_script_is_asked(tmp_path: Path) -> None:
    vllm = script(tmp_path, f"#!{sys.executable}")
    assert serve_of([vllm, "serve", "m", "--port", "1"], {}) == Serve(sys.executable, ("m", "--port", "1"))
    assert serve_of(["vllm", "serve", "m"], {"PATH": str(tmp_path)}) == Serve(sys.executable, ("m",))
    assert serve_of(["env", "A=1", vllm, "serve", "m"], {"PATH": "/usr/bin:/bin"}) == Serve(sys.executable, ("m",))


NOT_KNOWN: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "a shell": (lambda _: ["sh", "-c", "exec vllm serve m"], "sh starts it"),
    "a container": (lambda _: ["docker", "run", "vllm/vllm-openai"], "docker"),
    "a script without a Python": (lambda p: [script(p, "#!/usr/bin/env python"), "serve", "m"], "does not name"),
    "a script that is none": (lambda p: [script(p, "echo"), "serve", "m"], "does not name"),
}


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_other_ways_to_start_it_are_said_not_to_be_checked(tmp_path: Path, name: str) -> None:
    command, words = NOT_KNOWN[name]
    got = serve_of(command(tmp_path), {"PATH": "/usr/bin:/bin"})
    assert isinstance(got, str)
    assert words in got


def test_a_command_that_does_not_name_vllm_is_not_asked() -> None:
    assert check_args(["sleep", "600"], {}) == ArgsChecked("not_vllm")
    assert check_args([], {}) == ArgsChecked("not_vllm")
