"""Starts the server that a scenario launches, waits while it makes progress, and ends its whole process group.

Who ends it when this program itself is killed: `keeper`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from infermaxx_tui.core.events import StartupRead
from infermaxx_tui.server.describe import ServerUnusableError
from infermaxx_tui.server.keeper import Keeper
from infermaxx_tui.server.startup import Patience, read_startup, work_of

_POLL_S = 0.25
_STOP_S = 10.0
_CHILDREN_S = 2.0
"""How long the group may outlive its first process."""
_STOP_POLL_S = 0.02
_TAIL_LINES = 3
_PORT = re.compile(r"(?:^|\s)--port[=\s]+(\d+)\b", re.ASCII)


class LaunchedServer:
    """A server process of ours."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Path, secret: str | None = None) -> None:
        """Starts it; raises ServerUnusableError if there is no such command. Once it has ended `secret` is masked in
        `log`, whoever ended it."""
        self._log = log
        around = {**os.environ, **env}
        _refuse_missing(command[0], around.get("PATH"))
        try:
            self._keeper = Keeper(log.with_name(f".{log.name}.lock"), log, secret)
            self._process = self._keeper.start(command, around)
        except OSError as error:
            raise ServerUnusableError(f"server.launch: cannot start {command[0]!r}: {error.strerror}") from None

    def wait_ready(
        self,
        url: str,
        sleep: Callable[[float], None],
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Returns when /health answers. Raises ServerUnusableError if the server dies, makes no progress or has used up
        its time, all of which is counted by `clock`, in seconds: an answer that does not come takes time too.
        """
        patience = patience or Patience()
        last_s = clock()
        with httpx.Client(base_url=url, trust_env=False, verify=False, timeout=2.0) as client:
            while not self._healthy(client):
                if self._process.poll() is not None:
                    raise ServerUnusableError(
                        f"server.launch: exited with {self._process.returncode}{self._stage()}: {self.last_words()}"
                    )
                now_s = clock()
                stuck = patience.over(work_of(self._process.pid, self._log), now_s - last_s)
                last_s = now_s
                if stuck is not None:
                    where = f"{stuck}{self._stage()} and is not up at {url}"
                    raise ServerUnusableError(f"server.launch: {where}: {self.last_line()}")
                sleep(_POLL_S)

    def _stage(self) -> str:
        """The last stage of the start that a vLLM log shows, as part of a sentence."""
        facts = self.startup().facts
        return "" if facts is None else f" after the stage '{facts.stage}'"

    def startup(self) -> StartupRead:
        """What the log says of the start, as far as it has come."""
        return read_startup(self._log, "launched")

    @staticmethod
    def _healthy(client: httpx.Client) -> bool:
        try:
            return client.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def last_words(self) -> str:
        """Why the start failed, as the log says; else its last error line, else its last lines, on one line."""
        facts = self.startup().facts
        if facts is not None and facts.failure is not None:
            return facts.failure
        lines = self._lines()
        errors = [line for line in lines if "Error" in line]
        return (errors[-1] if errors else " | ".join(lines[-_TAIL_LINES:]))[:300]

    def last_line(self) -> str:
        """Why a start that lives does not go on, if its log shows a failure, else where it stands: what a log warned of
        before that is no reason."""
        facts = self.startup().facts
        if facts is not None and facts.failure is not None:
            return facts.failure
        return f"its last line is {next(reversed(self._lines()), 'none, its log is empty')}"[:300]

    def _lines(self) -> list[str]:
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return [line.strip() for line in text.splitlines() if line.strip()]

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends the process group at once."""
        self._signal_group(signal.SIGKILL)

    def stop(self) -> None:
        """Ends the process and all of its group: asked first, then killed, so that no child keeps the GPU's memory."""
        self._signal_group(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)
        until = time.monotonic() + _CHILDREN_S
        while self._signal_group(0) and time.monotonic() < until:
            self._process.poll()
            time.sleep(_STOP_POLL_S)
        self._signal_group(signal.SIGKILL)
        self._process.wait(_STOP_S)
        self._keeper.dismiss()

    def _signal_group(self, sig: int) -> bool:
        """Whether there was anybody left in the group to be signalled."""
        try:
            os.killpg(self._process.pid, sig)
        except ProcessLookupError:
            return False
        return True


def _refuse_missing(program: str, path: str | None) -> None:
    """Raises ServerUnusableError if there is no such program: a shell would only say so in the log."""
    if shutil.which(program, path=path) is not None:
        return
    why = "Permission denied" if os.sep in program and os.path.exists(program) else "No such file or directory"
    raise ServerUnusableError(f"server.launch: cannot start {program!r}: {why}")


def refuse_taken(url: str) -> None:
    """Raises ServerUnusableError if somebody listens there already: a run would measure that server, not its own."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 80), timeout=1.0).close()
    except OSError:
        return
    raise ServerUnusableError(
        f"server.launch: another server listens at {url}: end it, give another --port, or measure that one by its url"
    )


def launch_url(command: Sequence[str]) -> str:
    """Where a `vllm serve` command will listen, by its last `--port`, also one in the text of a shell's script."""
    port = "8000"
    for place, word in enumerate(command):
        if word == "--port" and place + 1 < len(command):
            port = command[place + 1]
        elif named := _PORT.findall(word):
            port = named[-1]
    return f"http://127.0.0.1:{port}"
