"""What reaches a terminal or a pipe: results on stdout, narration on stderr, nothing that steers a terminal."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from infermaxx_tui.exitcodes import ExitCode


class OutputError(Exception):
    """The result could not be printed."""


class Console:
    """The two streams of this process; `ascii_only` may be set at any time."""

    def __init__(self) -> None:
        self.ascii_only = False
        self._masked: Callable[[str], str] = str

    def conceal(self, secret: str | None) -> None:
        """From here on this is masked in all that is shown."""
        if secret:
            from infermaxx_tui.secret import Mask

            self._masked = Mask(secret.strip()).text

    def open(self) -> None:
        """From here on a character that a stream cannot encode is shown as a question mark."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")

    def emit(self, lines: Iterable[str]) -> None:
        """The result, on stdout. Whoever closes it early has seen enough. Raises OutputError if it takes no more."""
        with _writing():
            for line in lines:
                sys.stdout.write(f"{self.shown(line)}\n")
            sys.stdout.flush()

    def emit_whole(self, made: str | bytes) -> None:
        """A whole file as the result: text as lines, bytes as they are. Raises OutputError if stdout takes no more."""
        if isinstance(made, str):
            self.emit(made.removesuffix("\n").split("\n") if made else ())
            return
        with _writing():
            sys.stdout.buffer.write(made)
            sys.stdout.flush()

    def narrate(self, text: str) -> None:
        """A remark on stderr; that nobody listens there is no reason to stop."""
        try:
            sys.stderr.write(f"{self.shown(text)}\n")
            sys.stderr.flush()
        except OSError:
            return

    def trace(self, text: str) -> None:
        """A traceback, on stderr, line by line."""
        for line in text.splitlines():
            self.narrate(line)

    def complain(self, text: str, code: ExitCode) -> int:
        """One line about what is wrong, and the exit code that goes with it."""
        self.narrate(" ".join(text.splitlines()))
        return int(code)

    def shown(self, text: str) -> str:
        """The text without any character that could steer a terminal, in ASCII if only that is wanted."""
        from infermaxx_tui.core.display import harmless

        text = self._masked(text)
        if not self.ascii_only:
            return harmless(text)
        from infermaxx_tui.core.rows import plain

        return plain(harmless(text))


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _silence_stdout()
        if not isinstance(error, BrokenPipeError):
            raise OutputError(f"stdout: {error.strerror}") from None


def _silence_stdout() -> None:
    """What Python still holds for stdout goes nowhere, instead of failing when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
