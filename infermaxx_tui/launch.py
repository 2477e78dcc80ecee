"""Starts a runner as a process of its own, and asks one to stop. Leaving a runner is not stopping it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.rundir import RunError, RunFolder


class Said(msgspec.Struct, frozen=True):
    """One line that a runner says before it lets go of the one who started it."""

    kind: Literal["note", "run", "error"]
    text: str
    """The remark, the run folder's path, or the error."""
    code: int = 0
    trace: str = ""


class StartError(Exception):
    """The runner refused to start: one line, and the exit code that goes with it."""

    def __init__(self, message: str, code: ExitCode, trace: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.trace = trace


def start_runner(wish: bytes, narrate: Callable[[str], None]) -> RunFolder:
    """Starts a runner detached from this terminal and returns once its run folder stands.

    `wish` is JSON of prepare.Wish; remarks go to `narrate`. Raises StartError.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "infermaxx_tui", "_runner"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    if process.stdin is None or process.stdout is None:
        raise StartError("the runner has no pipes", ExitCode.INTERNAL)
    try:
        process.stdin.write(wish)
        process.stdin.close()
        for line in process.stdout:
            said = msgspec.json.decode(line, type=Said)
            match said.kind:
                case "note":
                    narrate(said.text)
                case "run":
                    return RunFolder(Path(said.text))
                case "error":
                    process.wait()
                    raise StartError(said.text, ExitCode(said.code), said.trace)
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGTERM)
        raise StartError("interrupted before the run began", ExitCode.INTERRUPTED) from None
    except msgspec.DecodeError as error:
        raise StartError(f"the runner said something else: {error}", ExitCode.INTERNAL) from None
    finally:
        process.stdout.close()
    raise StartError(f"the runner ended without a word (exit {process.wait()})", ExitCode.INTERNAL)


def signal_runner(run: RunFolder, sig: signal.Signals) -> None:
    """Sends a signal to the run's runner. Raises RunError if none is alive."""
    pid = run.pid()
    if pid is None:
        raise RunError(f"{run.id}: no runner is alive; `infermaxx judge {run.id}` shows its verdict")
    os.kill(pid, sig)
