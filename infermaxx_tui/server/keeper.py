"""Ends a launched server when the process that launched it is gone: who is killed has no time to tidy up.

A small shell, in a session of its own, waits at the end of a pipe whose other end the launcher holds. It learns the
number of the server's process group from the server's own first words, before the server's program begins, so that
there is no moment in which a server runs and nobody looks after it.

Whoever sees the server gone masks the key in its log: the launcher, else the shell by a program that has the key from
its stdin. Neither shell has it in its environment or on its command line.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from infermaxx_tui.secret import Mask, open_to_mask

_WATCH: Final = """
wait_gone() {
    tries=0
    while [ "$tries" -lt "$1" ] && kill -s 0 -- "-$group" 2>/dev/null; do
        sleep 0.1
        tries=$((tries + 1))
    done
}
IFS= read -r key || exit 0
read group || exit 0
read word && exit 0
kill -s TERM -- "-$group" 2>/dev/null && wait_gone 100
kill -s KILL -- "-$group" 2>/dev/null && wait_gone 100
[ -z "$key" ] || printf '%s\\n' "$key" | "$@"
exit 0
"""
"""The first line is the key, empty without one. A third says that all is over; the end of the pipe without it says that
the launcher is gone. The group is then asked to end, and killed after 10 s; one that was killed has up to 10 s more to
give its memory back. Its log is masked last, also if it was gone already."""
_BEGIN: Final = 'echo $$ >&0; exec "$@" </dev/null'
"""Tells the keeper the own process, which leads its group, and becomes the server."""
_SHELL: Final = "/bin/sh"
_MASKING: Final = "infermaxx_tui.server.masking"


class Keeper:
    """Looks after one server process group."""

    def __init__(self, lock: Path, log: Path, secret: str | None = None) -> None:
        """Starts waiting. The file `lock` is locked until the server's group is gone, and waited for if an earlier
        server's still is. In the file `log`, which is made if it is missing, `secret` is masked then. Raises OSError
        where no shell can be started."""
        self._log, self._mask = log, Mask(secret)
        theirs, self._pipe = os.pipe()
        held = -1
        try:
            held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            fcntl.flock(held, fcntl.LOCK_EX)
            log.touch(mode=0o600)
            with open_to_mask(log) as file:
                self._process = subprocess.Popen(
                    [_SHELL, "-c", _WATCH, _SHELL, sys.executable, "-P", "-m", _MASKING, str(file.fileno())],
                    stdin=theirs,
                    pass_fds=(held, file.fileno()),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": _python_path()},
                    cwd="/",
                    start_new_session=True,
                )
            os.write(self._pipe, f"{secret or ''}\n".encode())
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            os.close(theirs)
            if held >= 0:
                os.close(held)

    def start(self, command: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """The server's process, leader of a group of its own; its output goes to the end of the log. Raises OSError."""
        with self._log.open("ab") as out:
            return subprocess.Popen(
                [_SHELL, "-c", _BEGIN, _SHELL, *command],
                stdin=self._pipe,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(env),
                start_new_session=True,
            )

    def dismiss(self) -> None:
        """The server and its group have ended: its log is masked, and nobody is to be looked after any more."""
        if self._pipe < 0:
            return
        with suppress(OSError):
            self._mask.file(self._log)
            os.write(self._pipe, b"over\n")
        os.close(self._pipe)
        self._pipe = -1
        self._process.wait()


def _python_path() -> str:
    """Where this program was loaded from, before all that is looked into anyway."""
    return os.pathsep.join(filter(None, (str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH"))))
