"""The runner process: prepare, let go of the terminal, play, judge. The one place where runner and server meet."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import msgspec

from infermaxx_tui import rundir
from infermaxx_tui.core.canary import make_labels, make_tags
from infermaxx_tui.core.events import TagIssued
from infermaxx_tui.core.scenario import ScenarioError, to_toml
from infermaxx_tui.core.transcript import TranscriptError
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.launch import Said
from infermaxx_tui.log import Appender, EvidenceLostError, read_log
from infermaxx_tui.prepare import Loaded, Wish, load, prepare
from infermaxx_tui.rundir import RunError, RunFolder
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.clock import SystemClock
from infermaxx_tui.runner.context import Prepared, Stopper
from infermaxx_tui.runner.play import play
from infermaxx_tui.server.describe import ServerUnusableError, normalise_url
from infermaxx_tui.server.launch import LaunchedServer, launch_url
from infermaxx_tui.tokenize import TokenizerError
from infermaxx_tui.verdicts import exit_code, judge_folder, write_verdict

_EARLIER_RUNS = 20
"""How many runs back a tag is still known."""
_EARLIER_TAGS = 5000
"""Tags of one earlier run that are kept in mind."""
_RESERVE_BYTES = 4 << 20
_SIM_WAIT_S = 20.0


def main(wish_json: bytes) -> int:
    """Plays what the wish says and returns the verdict's exit code; says how the start went on stdout, line by line."""
    try:
        wish = msgspec.json.decode(wish_json, type=Wish)
        return _run(wish)
    except (ScenarioError, TranscriptError, TokenizerError, RunError) as error:
        return _refuse(str(error), ExitCode.USAGE)
    except ServerUnusableError as error:
        return _refuse(str(error), ExitCode.SERVER)
    except Exception as error:  # noqa: BLE001  # the boundary of a process: whatever it was is said and coded
        return _refuse(f"internal error: {type(error).__name__}: {error}", ExitCode.INTERNAL, traceback.format_exc())


def _say(said: Said) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.buffer.flush()


def _refuse(text: str, code: ExitCode, trace: str = "") -> int:
    try:
        _say(Said("error", text, int(code), trace))
    except OSError:
        sys.stderr.write(f"{text}\n{trace}")
    return int(code)


def _run(wish: Wish) -> int:
    loaded = load(wish)
    root = rundir.runs_dir(wish.runs_dir)
    api_key = os.environ.get(wish.api_key_env)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = rundir.create(root, stamp, loaded.scenario.name, secrets.token_hex(2))
    try:
        with _server(loaded, folder) as (url, server):
            stale, earlier = _earlier(root, folder, wish)
            prepared, notes = anyio.run(prepare, loaded, wish, url, api_key, stale)
            prepared = msgspec.structs.replace(prepared, earlier=earlier)
            for note in notes:
                _say(Said("note", note))
            return _play(prepared, folder, url, api_key, server, wish)
    except BaseException:
        _discard(folder)
        raise


def _discard(folder: RunFolder) -> None:
    """Removes a folder in which no run began; a launched server's log stays, since it says why."""
    if folder.events.exists():
        return
    if folder.server_log.exists() and folder.server_log.stat().st_size and not (folder.path / ".sim").exists():
        return
    for path in folder.path.iterdir():
        path.unlink()
    folder.path.rmdir()


@contextmanager
def _server(loaded: Loaded, folder: RunFolder) -> Iterator[tuple[str, LaunchedServer | None]]:
    """The server's URL, and the process if it is ours; ours is ended when the block ends."""
    wanted = loaded.scenario.server
    if wanted.url is not None:
        yield normalise_url(wanted.url), None
        return
    if not wanted.launch and not wanted.sim:
        raise ScenarioError(loaded.source, "server.url", "no server: give --url URL, or set server.url, launch or sim")
    port_file = Path(tempfile.mkdtemp()) / "port"
    command = wanted.launch
    if wanted.sim:
        (folder.path / ".sim").touch()
        command = _sim_command(wanted.sim, port_file)
    server = LaunchedServer(command, wanted.env, folder.server_log)
    os.chmod(folder.server_log, 0o600)
    try:
        url = launch_url(command) if wanted.launch else f"http://127.0.0.1:{_read_port(port_file, server)}"
        server.wait_ready(url, time.sleep)
        yield url, server
    finally:
        server.stop()
        port_file.unlink(missing_ok=True)
        port_file.parent.rmdir()


def _sim_command(faults: tuple[str, ...], port_file: Path) -> tuple[str, ...]:
    flags = [word for fault in faults for word in ("--fault", fault)]
    program = (sys.executable, "-m", "infermaxx_tui.sim", "--port", "0", "--port-file", str(port_file))
    return (*program, "--exit-with-parent", *flags)


def _read_port(port_file: Path, server: LaunchedServer) -> int:
    for _ in range(int(_SIM_WAIT_S / 0.05)):
        if port_file.exists() and (text := port_file.read_text(encoding="ascii").strip()).isdigit():
            return int(text)
        if not server.alive:
            raise ServerUnusableError(f"the embedded server did not start: {server.last_words()}")
        time.sleep(0.05)
    raise ServerUnusableError(f"the embedded server named no port within {_SIM_WAIT_S:.0f} s")


def _earlier(
    root: Path, own: RunFolder, wish: Wish
) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[tuple[str, str], ...]]:
    """Tags of the last runs, and the earlier conversation that a demo of stale caches needs."""
    known = []
    for run in [run for run in rundir.list_runs(root) if run.id != own.id][:_EARLIER_RUNS]:
        if tags := _issued_tags(run):
            known.append((run.id, tags))
    marked, earlier = earlier_conversation(wish.faults, own.id)
    return (*known, *marked), earlier


def earlier_conversation(
    faults: tuple[str, ...], key: str
) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[tuple[str, str], ...]]:
    """For a demo of stale caches: the known tags of an earlier run, and its labels and tags to send beforehand."""
    if "stale" not in faults:
        return (), ()
    labels, tags = make_labels(0, f"earlier-{key}", 3), make_tags(0, f"earlier-{key}", 3)
    return (("an earlier run of the demo", tags),), tuple(zip(labels, tags, strict=True))


def _issued_tags(run: RunFolder) -> tuple[str, ...]:
    tags = []
    try:
        for place, record in enumerate(read_log(run.path)):
            event = getattr(record, "event", None)
            if isinstance(event, TagIssued) and event.tag and event.kind != "decoy":
                tags.append(event.tag)
            elif place > 2 and not isinstance(event, TagIssued):
                break
    except OSError:
        return ()
    return tuple(tags[:_EARLIER_TAGS])


def _play(
    prepared: Prepared, folder: RunFolder, url: str, api_key: str | None, server: LaunchedServer | None, wish: Wish
) -> int:
    text = to_toml(prepared.scenario)
    comments = [line for line in prepared.scenario_text.splitlines() if line.startswith("#")]
    text = "\n".join([*comments, text])
    prepared = msgspec.structs.replace(prepared, scenario_text=text)
    lock = folder.hold()
    rundir.replace_file(folder.scenario, text.encode())
    sink = Appender(folder.events)
    _reserve(folder)
    _say(Said("run", str(folder.path)))
    _let_go(folder)
    anyio.run(_play_async, prepared, folder, url, api_key, sink, server)
    sink.close()
    verdict = judge_folder(folder)
    write_verdict(folder, verdict)
    os.close(lock)
    folder.reserve.unlink(missing_ok=True)
    _tell(wish, folder)
    return int(exit_code(verdict))


def _reserve(folder: RunFolder) -> None:
    """Takes space now that is set free for the last lines if the disk is full then."""
    fd = os.open(folder.reserve, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(fd, 0, _RESERVE_BYTES)
    except OSError as error:
        raise RunError(f"{folder.path}: no space for a run ({error.strerror}); free some or give --runs-dir DIR") from None
    finally:
        os.close(fd)


def _let_go(folder: RunFolder) -> None:
    """From here on nothing this process does reaches the terminal."""
    quiet = os.open(os.devnull, os.O_RDWR)
    log = os.open(folder.runner_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(quiet, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(quiet)
    os.close(log)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


async def _play_async(
    prepared: Prepared, folder: RunFolder, url: str, api_key: str | None, sink: Appender, server: LaunchedServer | None
) -> None:
    stopper = Stopper()

    def spare() -> Appender | None:
        folder.reserve.unlink(missing_ok=True)
        try:
            return Appender(folder.path / "events-1.jsonl", part=1)
        except OSError:
            return None

    async with make_client(url, api_key) as client, anyio.create_task_group() as group:
        group.start_soon(_obey_signals, stopper)
        await play(prepared, folder.id, client, sink, SystemClock(), stopper, spare)
        group.cancel_scope.cancel()


async def _obey_signals(stopper: Stopper) -> None:
    """The first signal ends the run cleanly, a second one at once."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for sig in signals:
            if not stopper.ask("sigint" if sig == signal.SIGINT else "sigterm"):
                os._exit(ExitCode.INTERRUPTED)


def _tell(wish: Wish, folder: RunFolder) -> None:
    """Runs the user's command with the verdict's place in its environment."""
    if wish.on_verdict is None:
        return
    env = {**os.environ, "INFERMAXX_RUN": str(folder.path), "INFERMAXX_VERDICT": str(folder.verdict)}
    done = subprocess.run(wish.on_verdict, shell=True, env=env, check=False)  # noqa: S602  # the user's own command line
    sys.stderr.write(f"--on-verdict exited with {done.returncode}\n")
