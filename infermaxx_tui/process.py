"""The runner process: start a server if there is none, prepare, let go of the terminal, play, judge.

What it needs to start a server is light; the rest is imported while the server starts.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from infermaxx_tui import rundir
from infermaxx_tui.core.scenario import ScenarioError
from infermaxx_tui.core.transcript import TranscriptError
from infermaxx_tui.core.turns import TokenizerError
from infermaxx_tui.ending import AskedToStop, Ending
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.hosting import hosted
from infermaxx_tui.launch import Said
from infermaxx_tui.origin import keep_origin, origin_of
from infermaxx_tui.rundir import RunError, RunFolder
from infermaxx_tui.secret import Mask, MaskedStream, read_key
from infermaxx_tui.sensing import sensing
from infermaxx_tui.server.describe import ServerUnusableError
from infermaxx_tui.shipped import find_scenario
from infermaxx_tui.wish import Loaded, Wish, load

if TYPE_CHECKING:
    from infermaxx_tui.resume import Earlier


def main(wish_json: bytes) -> int:
    """Plays what the wish says and returns the verdict's exit code; says how the start went on stdout, line by line."""
    ending = Ending()
    try:
        ending.install()
        return _run(msgspec.json.decode(wish_json, type=Wish), ending)
    except (ScenarioError, TranscriptError, TokenizerError, RunError) as error:
        return _refuse(str(error), ExitCode.USAGE)
    except ServerUnusableError as error:
        return _refuse(str(error), ExitCode.SERVER, log=error.log)
    except AskedToStop:
        return _refuse("interrupted before the run began", ExitCode.INTERRUPTED)
    except Exception as error:  # the boundary of a process: whatever it was is said and coded
        return _refuse(f"internal error: {type(error).__name__}: {error}", ExitCode.INTERNAL, traceback.format_exc())


def _say(said: Said) -> None:
    """One line to whoever started this process. If nobody listens any more, the run goes on all the same."""
    try:
        line = msgspec.json.encode(said) + b"\n"
        sys.stdout.buffer.write(sys.stdout.mask.raw(line) if isinstance(sys.stdout, MaskedStream) else line)
        sys.stdout.buffer.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _note(text: str) -> None:
    _say(Said("note", text))


def _refuse(text: str, code: ExitCode, trace: str = "", log: str = "") -> int:
    _say(Said("error", text, int(code), trace, log))
    return int(code)


def _take_key(name: str) -> str | None:
    """The key. From here on no process that this one starts inherits it, and nothing that this one prints shows it."""
    key = read_key(name)
    os.environ.pop(name, None)
    if key is not None:
        mask = Mask(key)
        sys.stdout, sys.stderr = MaskedStream(sys.stdout.buffer, mask), MaskedStream(sys.stderr.buffer, mask)
    return key


def _run(wish: Wish, ending: Ending) -> int:
    key = _take_key(wish.api_key_env)
    at = _new(wish) if wish.resume is None else _taken_up(wish, Path(wish.resume), key)
    wish, loaded, folder = at.wish, at.loaded, at.folder
    try:
        with hosted(loaded, folder, at.base, _note, _given(wish, key), key) as host:
            from infermaxx_tui.playing import Run, play_run, prepare_run, tell

            if host.server is not None:
                ending.last_act = host.server.kill
            url = host.wait()
            pid = None if host.server is None else host.server.pid
            with sensing(loaded.scenario, url, pid) as sensors:
                prepared = prepare_run(wish, loaded, folder, url, _note, host.startup(), sensors, key, at.earlier)
                alive = host.alive if host.server is not None else None
                keep_origin(folder, at.base, wish)
                code = play_run(Run(prepared, folder, url, key, ending, alive, sensors, pid), lambda: _begin(folder))
            os.close(at.lock)
            tell(wish, folder)
            return int(code)
    except ServerUnusableError as error:
        if kept := _discard(folder, at.known_root, keep_log=bool(loaded.scenario.server.launch)):
            raise ServerUnusableError(f"{error}; its log is {kept}", str(kept)) from None
        raise
    except BaseException:
        _discard(folder, at.known_root, keep_log=False)
        raise


class _Beginning(NamedTuple):
    """A run that holds its folder and is about to prepare itself."""

    wish: Wish
    loaded: Loaded
    base: Path
    """The folder to which the scenario's files are relative."""
    folder: RunFolder
    lock: int
    known_root: bool
    """Whether the folder of all runs was there before."""
    earlier: Earlier | None = None
    """What the run's log says, if it is taken up again."""


def _new(wish: Wish) -> _Beginning:
    """A run of its own."""
    loaded = load(wish)
    base = find_scenario(wish.scenario).parent
    root = rundir.runs_dir(wish.runs_dir)
    known_root = root.exists()
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = rundir.create(root, stamp, loaded.scenario.name, secrets.token_hex(2))
    return _Beginning(wish, loaded, base, folder, folder.hold(), known_root)


def _taken_up(wish: Wish, path: Path, key: str | None) -> _Beginning:
    """A run that was broken off. Raises RunError where there is nothing to take up."""
    from infermaxx_tui.resume import load_again, put_aside_server_log, read_earlier, refuse_over

    folder = RunFolder(path)
    refuse_over(folder)
    lock = folder.hold()
    earlier, origin = read_earlier(folder), origin_of(folder)
    loaded = load_again(earlier, origin)
    if (aside := put_aside_server_log(folder)) is not None:
        Mask(key).file(aside)
    replace = msgspec.structs.replace
    wish = replace(wish, nonce=earlier.meta.nonce, faults=origin.faults, segment=earlier.segment)
    return _Beginning(wish, loaded, Path(origin.base), folder, lock, True, earlier)


def _given(wish: Wish, key: str | None) -> dict[str, str]:
    """What a server that the run starts has in its environment beside ours: the key that it will be asked with."""
    return {} if key is None else {wish.api_key_env: key}


def _begin(folder: RunFolder) -> None:
    """Names the run to whoever started it, and lets go: from here on nothing this process does reaches a terminal."""
    _say(Said("run", str(folder.path)))
    quiet = os.open(os.devnull, os.O_RDWR)
    log = os.open(folder.runner_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os.dup2(quiet, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(quiet)
    os.close(log)


def _discard(folder: RunFolder, known_root: bool, keep_log: bool) -> Path | None:
    """Removes a folder in which no run began. A launched server's log stays if it says something: that comes out."""
    if keep_log and folder.server_log.exists() and folder.server_log.stat().st_size:
        return folder.server_log
    if folder.events.exists():
        return None
    for path in folder.path.iterdir():
        path.unlink()
    folder.path.rmdir()
    if not known_root:
        with suppress(OSError):
            folder.path.parent.rmdir()
    return None
