"""Asks the vLLM that a launch command would start whether it takes those arguments, before anything is started.

Only its own parser knows: arguments come and go with each version. It is asked in a process of its own interpreter,
since vLLM is not installed beside this program, and with a limit, since importing it takes half a minute.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from infermaxx_tui.model_folder import model_named

LIMIT_S: Final = 120.0
_MISSING: Final = 77
_UNKNOWN: Final = 78
_MOST: Final = 300
"""Characters of what a parser says."""
_REFUSED: Final = 2
"""What argparse exits with."""
_SERVE_MODULES: Final = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.cli.main")
_ASK: Final = f"""
import importlib.util, os, sys
if importlib.util.find_spec("vllm") is None:
    sys.exit({_MISSING})
try:
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser
    from vllm.entrypoints.cli.serve import cmd_init
    parser = FlexibleArgumentParser(prog="vllm")
    commands = parser.add_subparsers(dest="subparser", required=True)
    known = {{}}
    for command in cmd_init():
        command.subparser_init(commands)
        known[command.name] = command
except BaseException as error:
    print(f"{{type(error).__name__}}: {{error}}", file=sys.stderr)
    sys.exit({_UNKNOWN})
args = parser.parse_args(["serve", *sys.argv[1:]])
try:
    known["serve"].validate(args)
except (TypeError, ValueError) as error:
    print(f"vllm serve: error: {{error}}", file=sys.stderr)
    sys.exit({_REFUSED})
"""


class ArgsChecked(msgspec.Struct, frozen=True):
    """What the server's own parser says of a launch command."""

    outcome: Literal["ok", "refused", "unknown", "not_vllm"]
    """`not_vllm`: the command does not start vLLM by name, so there is nothing to ask."""
    said: str = ""


class Serve(msgspec.Struct, frozen=True):
    """A command that starts vLLM: whose Python runs it, and its arguments."""

    python: str
    args: tuple[str, ...]


def serve_of(command: Sequence[str], env: Mapping[str, str]) -> Serve | str | None:
    """The vLLM that a command starts; why that cannot be told; None where it does not name vLLM at all."""
    words = list(command)
    if words and Path(words[0]).name == "env":
        words = words[1:]
        while words and ("=" in words[0] or words[0].startswith("-")):
            words = words[1:]
    if not any("vllm" in word for word in words):
        return None
    program = shutil.which(words[0], path=env.get("PATH"))
    if program is None:
        return f"{words[0]} is not to be found"
    if Path(program).name == "vllm" and words[1:2] == ["serve"]:
        python = _shebang(Path(program))
        return Serve(python, tuple(words[2:])) if python else f"{program} does not name its Python in its first line"
    if words[1:2] == ["-m"] and len(words) > 2 and words[2] in _SERVE_MODULES:
        return Serve(program, tuple(words[4:] if words[3:4] == ["serve"] else words[3:]))
    return f"{Path(words[0]).name} starts it, and what it gives to vLLM cannot be read from here"


def missing_model(command: Sequence[str], env: Mapping[str, str]) -> str | None:
    """What is wrong with the model that a vLLM of this machine is told to serve by its path; None where nothing is.

    What starts vLLM somewhere else, in a container or on another host, may see other folders.
    """
    named = model_named(command)
    if named is None or not named.startswith(("/", "./", "../", "~")) or Path(named).exists():
        return None
    return f"the model's folder {named} is not there" if isinstance(serve_of(command, env), Serve) else None


def _shebang(script: Path) -> str | None:
    try:
        with script.open("rb") as file:
            first = file.readline(4096)
    except OSError:
        return None
    path = first[2:].strip().decode("utf-8", "replace") if first.startswith(b"#!") else ""
    return path if path and " " not in path and Path(path).exists() else None


def check_args(command: Sequence[str], env: Mapping[str, str], limit_s: float = LIMIT_S) -> ArgsChecked:
    """Whether the vLLM that the command starts takes its arguments. Takes as long as importing that vLLM."""
    whole = {**os.environ, **env}
    serve = serve_of(command, whole)
    if serve is None:
        return ArgsChecked("not_vllm")
    if isinstance(serve, str):
        return ArgsChecked("unknown", serve)
    try:
        done = subprocess.run(
            [serve.python, "-c", _ASK, *serve.args],
            env=whole,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ArgsChecked("unknown", f"its parser did not answer within {limit_s:.0f} s")
    except OSError as error:
        return ArgsChecked("unknown", f"{serve.python}: {error.strerror}")
    return _answer(done.returncode, done.stderr.decode("utf-8", "replace"))


def _answer(code: int, stderr: str) -> ArgsChecked:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = _cut(lines[-1]) if lines else ""
    match code:
        case 0:
            return ArgsChecked("ok")
        case 2:
            errors = [line for line in lines if "error:" in line]
            return ArgsChecked("refused", _cut(errors[-1]) if errors else last)
        case 77:
            return ArgsChecked("unknown", "vllm is not importable there")
        case 78:
            return ArgsChecked("unknown", f"its parser could not be loaded ({last})")
        case _:
            return ArgsChecked("unknown", f"its parser ended with {code} ({last})")


def _cut(line: str) -> str:
    """At most so much of it, and one sees that it was cut: parsers name all of a hundred choices."""
    return line if len(line) <= _MOST else line[: _MOST - 3] + "..."
