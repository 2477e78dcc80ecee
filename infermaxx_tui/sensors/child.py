"""A program that prints readings, kept open: its lines are collected beside, so that a slow one holds nothing up."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Final

_MOST_LINES: Final = 1024
_LONGEST: Final = 16384
_WAIT_S: Final = 1.0
_WORDS: Final = 200


class LineChild:
    """The program while it runs, and what it said."""

    def __init__(self, command: str | Sequence[str]) -> None:
        """Starts it: a text goes through the shell, words do not. Raises OSError if there is no such program."""
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._said: deque[str] = deque(maxlen=3)
        self._some = threading.Event()
        self._process = subprocess.Popen(
            command,
            shell=isinstance(command, str),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._readers = [
            threading.Thread(target=self._collect, args=(stream, kept), daemon=True)
            for stream, kept in ((self._process.stdout, self._lines), (self._process.stderr, self._said))
        ]
        for reader in self._readers:
            reader.start()

    def _collect(self, stream: IO[bytes] | None, kept: deque[str]) -> None:
        if stream is None:
            return
        with suppress(ValueError, OSError):  # closed while it is read
            for line in iter(lambda: stream.readline(_LONGEST), b""):
                kept.append(line.decode("utf-8", "replace").rstrip("\r\n"))
                if kept is self._lines:
                    self._some.set()
        self._some.set()

    def wait_for_lines(self, seconds: float) -> None:
        """Waits until it said something or ended."""
        self._some.wait(seconds)

    def take(self) -> list[str]:
        """The lines since the last time."""
        lines = []
        with suppress(IndexError):
            while True:
                lines.append(self._lines.popleft())
        return lines

    @property
    def ended(self) -> int | None:
        """Its exit code, once it has ended and all that it said was taken up; None before."""
        code = self._process.poll()
        if code is not None:
            for reader in self._readers:
                reader.join(_WAIT_S)
        return code

    @property
    def last_words(self) -> str:
        """What it said last to complain, in one line."""
        return " ".join(" ".join(self._said).split())[:_WORDS]

    def stop(self) -> None:
        """Ends it and all that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(_WAIT_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for reader in self._readers:
            reader.join(_WAIT_S)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
