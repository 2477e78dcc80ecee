"""Starts a runner as a process of its own, and asks one to stop. Leaving a runner is not stopping it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Literal

import msgspec

from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.rundir import RunError, RunFolder

HANDED_ON = (signal.SIGINT, signal.SIGTERM)
"""Signals that ask for an end."""


class Said(msgspec.Struct, frozen=True):
    """One line that a runner says before it lets go of the one who started it."""

    kind: Literal["note", "run", "error"]
    text: str
    """The remark, the run folder's path, or the error."""
    code: int = 0
    trace: str = ""
    log: str = ""
    """Of an error: the log of the server that did not come up, if one was left."""


class StartError(Exception):
    """The runner refused to start: one line, and the exit code that goes with it."""

    def __init__(self, message: str, code: ExitCode, trace: str = "", log: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.trace = trace
        self.log = log


class Interrupted(Exception):
    """Somebody asked twice: the command is to end at once, without a verdict."""


class Relay:
    """Ctrl-C and SIGTERM of this process, handed on to a runner: first for a clean end, then for one at once."""

    def __init__(self, on_start: Callable[[int], None] = lambda pid: None) -> None:
        self.pid: int | None = None
        """The runner, as soon as there is one."""
        self.on_start = on_start
        """Told the runner's process as soon as there is one."""
        self.asked = False
        """Whether somebody wished for an end."""

    def hand_on(self, number: int, frame: FrameType | None) -> None:
        """The signal handler. Raises Interrupted the second time, and when there is no runner to ask."""
        if self.pid is not None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                self.pid = None
        if self.asked or self.pid is None:
            raise Interrupted
        self.asked = True


@contextmanager
def relayed() -> Iterator[Relay]:
    """While the block lasts, a wish to stop this process goes to the runner instead."""
    relay = Relay()
    before = {number: signal.signal(number, relay.hand_on) for number in HANDED_ON}
    try:
        yield relay
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def own_program(module: str, *words: str) -> tuple[str, ...]:
    """A command that runs one of our modules on this Python, whatever modules lie in the current folder.

    Only where that folder is the one that this program was loaded from may it be looked into.
    """
    try:
        at_home = Path.cwd() == Path(__file__).resolve().parents[1]
    except OSError:  # the current folder is gone
        at_home = False
    return (sys.executable, *(() if at_home else ("-P",)), "-m", module, *words)


def start_runner(wish: bytes, narrate: Callable[[str], None], relay: Relay) -> RunFolder:
    """Starts a runner detached from this terminal and returns once its log stands.

    `wish` is JSON of wish.Wish; remarks go to `narrate`. Raises StartError.
    """
    # held back until the runner can obey: it inherits the mask and lifts it itself
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON)
    try:
        process = subprocess.Popen(
            own_program("infermaxx_tui", "_runner"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        relay.pid = process.pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    relay.on_start(process.pid)
    if process.stdin is None or process.stdout is None:
        raise StartError("the runner has no pipes", ExitCode.INTERNAL)
    with process.stdout:
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
                        raise StartError(said.text, ExitCode(said.code), said.trace, said.log)
        except (msgspec.DecodeError, OSError) as error:
            raise StartError(f"the runner said something else: {error}", ExitCode.INTERNAL) from None
        raise StartError(f"the runner ended without a word (exit {process.wait()})", ExitCode.INTERNAL)


def signal_runner(run: RunFolder, sig: signal.Signals) -> None:
    """Sends a signal to the run's runner. Raises RunError if none is alive."""
    pid = run.pid()
    if pid is None:
        raise RunError(f"{run.id}: no runner is alive; `infermaxx judge {run.id}` shows its verdict")
    try:
        os.kill(pid, sig)
    except PermissionError:
        raise RunError(f"{run.id}: the runner (process {pid}) belongs to another user") from None
    except ProcessLookupError:
        return
