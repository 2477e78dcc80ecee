"""One run from its preparation to its verdict, in the runner process: what is heavy to import is imported here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import anyio
import msgspec

from infermaxx_tui import calibrated, rundir
from infermaxx_tui.certificate import cited
from infermaxx_tui.core.events import StartupRead
from infermaxx_tui.core.gpu_regime import sensor_lines, with_gpus
from infermaxx_tui.core.scenario_toml import to_toml
from infermaxx_tui.earlier import earlier_conversation, known_tags
from infermaxx_tui.ending import Ending
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.index import keep_index
from infermaxx_tui.log import Appender
from infermaxx_tui.pace import plan_lines
from infermaxx_tui.prepare import prepare_now
from infermaxx_tui.resume import Earlier, continued, make_way
from infermaxx_tui.rundir import RunError, RunFolder
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.clock import SystemClock
from infermaxx_tui.runner.context import Prepared, Stopper
from infermaxx_tui.runner.play import play
from infermaxx_tui.sensors.machine import standing
from infermaxx_tui.sensors.sampler import Sampler
from infermaxx_tui.traps import trap_lines, with_traps
from infermaxx_tui.verdicts import exit_code, judge_folder, write_verdict
from infermaxx_tui.wish import Loaded, Wish

_RESERVE_BYTES = 4 << 20
"""Room for a last part of the log and a verdict."""


def prepare_run(
    wish: Wish,
    loaded: Loaded,
    folder: RunFolder,
    url: str,
    note: Callable[[str], None],
    startup: StartupRead,
    sensors: Sampler,
    api_key: str | None,
    before: Earlier | None = None,
) -> Prepared:
    """What the run will do, or what is left of it after what was done `before`.

    Raises ScenarioError, TokenizerError or ServerUnusableError, and RunError for a run that cannot be gone on with.
    """
    marked, earlier = earlier_conversation(wish.faults, folder.id)
    stale = (*known_tags(folder.path.parent, folder), *marked)
    prepared, notes = prepare_now(loaded, wish, url, api_key, stale, startup)
    bound = () if wish.exclude is None else plan_lines(prepared.scenario, prepared.plan, folder.path.parent)
    for line in (*notes, *bound):
        note(line)
    comments = [line for line in loaded.text.splitlines() if line.startswith("#")]
    text = "\n".join([*comments, to_toml(prepared.scenario)])
    probes = sensors.probes()
    for line in sensor_lines(probes) if loaded.scenario.sensors.gpu else ():
        note(line)
    regime = with_gpus(prepared.regime, probes)
    wanted = loaded.scenario.server
    startup = with_traps(startup, regime, wanted.launch, wanted.env)
    for line in trap_lines(startup):
        note(line)
    prepared = msgspec.structs.replace(
        prepared,
        scenario_text=text,
        earlier=earlier,
        regime=regime,
        startup=startup,
        selftest=cited(),
        calibrated=calibrated.cited(time.time_ns() // 1_000_000),
    )
    return prepared if before is None else continued(folder, before, prepared)


class Run(msgspec.Struct, frozen=True):
    """A run that is about to begin."""

    prepared: Prepared
    folder: RunFolder
    url: str
    api_key: str | None
    ending: Ending
    server_alive: Callable[[], bool] | None
    """Whether the server's process still lives, if it is ours."""
    sensors: Sampler | None = None
    server_pid: int | None = None
    """The server's process, if it is ours."""


def play_run(run: Run, begin: Callable[[], None]) -> ExitCode:
    """Plays the run and writes its verdict, whose exit code comes out. `begin` is called when the log stands.

    Raises RunError, before `begin`, if there is no space for a run. A fault of this program is raised, but only after
    the verdict on what was seen until then is written.
    """
    folder = run.folder
    reserve(folder)
    sink = _first_part(run) if run.prepared.continued is None else _next_part(run)
    begin()
    try:
        anyio.run(_play, run, sink)
    finally:
        sink.close()
        folder.reserve.unlink(missing_ok=True)
        verdict = judge_folder(folder)
        try:
            write_verdict(folder, verdict)
        except OSError as error:  # a full disk: whoever wants the verdict judges the log, which says the same
            sys.stderr.write(f"verdict.json cannot be written: {error.strerror or error}\n")
    if verdict.ended != "stopped":  # whoever asked it to end waits for that
        keep_index(folder.path)
    return exit_code(verdict)


def _first_part(run: Run) -> Appender:
    rundir.replace_file(run.folder.scenario, run.prepared.scenario_text.encode())
    return Appender(run.folder.events, secret=run.api_key)


def _next_part(run: Run) -> Appender:
    path, part = make_way(run.folder)
    return Appender(path, part, secret=run.api_key)


def reserve(folder: RunFolder) -> None:
    """Takes space now that is set free for the last lines if the disk is full then. Raises RunError."""
    try:
        with open(folder.reserve, "wb", opener=_private) as file:
            for _ in range(_RESERVE_BYTES >> 20):
                file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            folder.reserve.unlink(missing_ok=True)
        what = error.strerror or str(error)
        raise RunError(f"{folder.path}: no space for a run ({what}); free some or give --runs-dir DIR") from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


async def _play(run: Run, sink: Appender) -> None:
    stopper, folder = Stopper(), run.folder

    def spare() -> Appender | None:
        folder.reserve.unlink(missing_ok=True)
        try:
            return Appender(folder.path / f"events-{sink.part + 1}.jsonl", part=sink.part + 1, secret=run.api_key)
        except OSError:
            return None

    look = partial(standing, run.url, run.server_pid)
    async with make_client(run.url, run.api_key) as client, anyio.create_task_group() as group:
        await group.start(run.ending.obey, stopper.ask)
        clock, alive = SystemClock(), run.server_alive
        await play(run.prepared, folder.id, client, sink, clock, stopper, spare, alive, run.sensors, look)
        group.cancel_scope.cancel()


def tell(wish: Wish, folder: RunFolder) -> None:
    """Runs the user's command with the verdict's place in its environment; what it prints goes to runner.log."""
    if wish.on_verdict is None:
        return
    env = {**os.environ, "INFERMAXX_RUN": str(folder.path), "INFERMAXX_VERDICT": str(folder.verdict)}
    done = subprocess.run(wish.on_verdict, shell=True, env=env, check=False)
    sys.stderr.write(f"--on-verdict exited with {done.returncode}\n")
