"""Ends a launched server when the process that launched it is gone: who is killed has no time to tidy up.

A small shell, in a session of its own, waits at the end of a pipe whose other end the launcher holds. It learns the
number of the server's process group from the server's own first words, before the server's program begins, so that
there is no moment in which a server runs and nobody looks after it.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_WATCH: Final = """
wait_gone() {
    tries=0
    while [ "$tries" -lt "$1" ] && kill -s 0 -- "-$group" 2>/dev/null; do
        sleep 0.1
        tries=$((tries + 1))
    done
}
read group || exit 0
read word && exit 0
kill -s TERM -- "-$group" 2>/dev/null || exit 0
wait_gone 100
kill -s KILL -- "-$group" 2>/dev/null && wait_gone 100
exit 0
"""
"""A second line says that all is over; the end of the pipe without it says that the launcher is gone. The group is then
asked to end, and killed after 10 s; one that was killed has up to 10 s more to give its memory back."""
_BEGIN: Final = 'echo $$ >&0; exec "$@" </dev/null'
"""Tells the keeper the own process, which leads its group, and becomes the server."""
_SHELL: Final = "/bin/sh"


class Keeper:
    """Looks after one server process group."""

    def __init__(self, lock: Path) -> None:
        """Starts waiting. The file `lock` is locked until the server's group is gone, and waited for if an earlier
        server's still is. Raises OSError where no shell can be started."""
        theirs, self._pipe = os.pipe()
        held = -1
        try:
            held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            fcntl.flock(held, fcntl.LOCK_EX)
            self._process = subprocess.Popen(
                [_SHELL, "-c", _WATCH],
                stdin=theirs,
                pass_fds=(held,),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            os.close(theirs)
            if held >= 0:
                os.close(held)

    def start(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        """The server's process, leader of a group of its own; its output goes to the end of `log`. Raises OSError."""
        with log.open("ab") as out:
            return subprocess.Popen(
                [_SHELL, "-c", _BEGIN, _SHELL, *command],
                stdin=self._pipe,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(env),
                start_new_session=True,
            )

    def dismiss(self) -> None:
        """The server and its group have ended: nobody is to be looked after any more."""
        if self._pipe < 0:
            return
        with suppress(OSError):
            os.write(self._pipe, b"over\n")
        os.close(self._pipe)
        self._pipe = -1
        self._process.wait()
