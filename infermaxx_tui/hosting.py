"""The server of a run: the one at a URL, or a process that the run starts, waits for and ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import MappingProxyType

from infermaxx_tui.core.events import StartupRead
from infermaxx_tui.core.scenario import ScenarioError, Server
from infermaxx_tui.launch import own_program
from infermaxx_tui.leftover import wait_for_servers
from infermaxx_tui.rundir import RunError, RunFolder
from infermaxx_tui.server.check_args import check_args, missing_model
from infermaxx_tui.server.describe import ServerUnusableError, normalise_url
from infermaxx_tui.server.launch import LaunchedServer, launch_url, refuse_taken
from infermaxx_tui.server.port import refuse_stranger, reserved
from infermaxx_tui.server.startup import Patience, read_startup
from infermaxx_tui.wish import Loaded

_SIM_WAIT_S = 20.0
_POLL_S = 0.02
_GONE_S = 20.0
_GONE_POLL_S = 0.25


class Host:
    """Where the server will answer. It may still be starting."""

    def __init__(
        self,
        url: str | None,
        server: LaunchedServer | None = None,
        port_file: Path | None = None,
        log: Path | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.server = server
        """The process, if it is ours."""
        self._log = log
        self._patience = patience
        self._url = url
        self._port_file = port_file

    def alive(self) -> bool:
        """Whether a server process of ours still lives."""
        return self.server is not None and self.server.alive

    def startup(self) -> StartupRead:
        """What the server's start-up log says, or why there is none; to be asked once the server answers."""
        if self.server is not None:
            return self.server.startup()
        if self._log is None:
            return StartupRead(source="none", reason="not started by this run; name its log in server.log")
        return read_startup(self._log, "file")

    def wait(self) -> str:
        """The server's URL, once a server of ours answers there. Raises ServerUnusableError."""
        url = self._url
        if self.server is not None:
            url = url or f"http://127.0.0.1:{self._read_port(self.server)}"
            self.server.wait_ready(url, time.sleep, self._patience)
            refuse_stranger(url, self.server.pid)
        if url is None:
            raise ServerUnusableError("no server")
        return url

    def _read_port(self, server: LaunchedServer) -> int:
        path = self._port_file
        until = time.monotonic() + _SIM_WAIT_S
        while path is not None and time.monotonic() < until:
            if path.exists() and (text := path.read_text(encoding="ascii").strip()).isdigit():
                path.unlink()
                return int(text)
            if not server.alive:
                raise ServerUnusableError(f"the embedded server did not start: {server.last_words()}")
            time.sleep(_POLL_S)
        raise ServerUnusableError(f"the embedded server named no port within {_SIM_WAIT_S:.0f} s")


@contextmanager
def hosted(
    loaded: Loaded,
    folder: RunFolder,
    base: Path = Path(),
    note: Callable[[str], None] = lambda text: None,
    given: Mapping[str, str] = MappingProxyType({}),
    secret: str | None = None,
) -> Iterator[Host]:
    """The run's server, started if it is ours, and ended when the block ends; `note` takes remarks for people.

    `base` is the folder of the scenario file. `given` is what such a server has in its environment beside what this
    process has; `secret` is masked in its log once it has ended.

    Raises ScenarioError, and ServerUnusableError for a command that cannot come up.
    """
    wanted = loaded.scenario.server
    if wanted.url is not None:
        log = None if wanted.log is None else base / wanted.log
        yield Host(normalise_url(wanted.url), log=log)
        return
    if not wanted.launch and not wanted.sim:
        raise ScenarioError(loaded.source, "server.url", "no server: give --url URL, or set server.url, launch or sim")
    with reserved(launch_url(wanted.launch)) if wanted.launch else nullcontext():
        if wanted.launch:
            _look_first(wanted, folder, note)
        folder.server_log.touch(mode=0o600)
        port_file = folder.path / ".port"
        port_file.unlink(missing_ok=True)
        command = wanted.launch or _sim_command(wanted.sim, port_file)
        server = LaunchedServer(command, {**given, **wanted.env}, folder.server_log, secret)
        try:
            patience = Patience(wanted.idle_s, wanted.quiet_s, wanted.start_s)
            yield Host(launch_url(command) if wanted.launch else None, server, port_file, patience=patience)
        finally:
            server.stop()


def _look_first(wanted: Server, folder: RunFolder, note: Callable[[str], None]) -> None:
    """Raises ServerUnusableError for a command that cannot come up, as far as that is known before it is started."""
    with suppress(RunError):  # one that stays may hold another card, and its port is looked at now
        wait_for_servers(folder.path.parent)
    _refuse_taken(launch_url(wanted.launch), _GONE_S if folder.events.exists() else 0.0)
    if (gone := missing_model(wanted.launch, {**os.environ, **wanted.env})) is not None:
        raise ServerUnusableError(f"server.launch: {gone}")
    _ask_parser(wanted, note)


def _refuse_taken(url: str, patience_s: float) -> None:
    """Raises ServerUnusableError if somebody listens there, and still does after so long: the server of a runner that
    was killed just now is still ending."""
    until = time.monotonic() + patience_s
    while True:
        try:
            refuse_taken(url)
        except ServerUnusableError:
            if time.monotonic() >= until:
                raise
            time.sleep(_GONE_POLL_S)
        else:
            return


def _ask_parser(wanted: Server, note: Callable[[str], None]) -> None:
    """Refuses arguments that the server's own parser refuses. Raises ServerUnusableError."""
    if not wanted.check_args:
        return
    checked = check_args(wanted.launch, wanted.env)
    if checked.outcome == "refused":
        raise ServerUnusableError(f"server.launch: {checked.said}")
    if checked.outcome == "unknown":
        note(f"server.launch: its arguments were not checked: {checked.said}")


def _sim_command(faults: tuple[str, ...], port_file: Path) -> tuple[str, ...]:
    flags = [word for fault in faults for word in ("--fault", fault)]
    where = ("--port", "0", "--port-file", str(port_file))
    return own_program("infermaxx_tui.sim", *where, "--exit-with-parent", *flags)
