"""What this terminal can do, and what to do when it goes away.

Over SSH every byte counts and the colours of the other end are unknown, so there the rate halves, the terminal's own
colours are used and the mouse is left to it: a connection that drops would leave it in mouse mode.
"""

from __future__ import annotations

import os
import signal
import termios
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType
from typing import Final, Literal

import msgspec

FPS: Final = 2.0
"""Redraws a second."""
FPS_SSH: Final = 1.0
MOST_FPS: Final = 10.0
LEAST_FPS: Final = 0.1
WATCH_S: Final = 2.0
"""How often it is asked whether the terminal is still there."""
GRACE_S: Final = 5.0
"""How long the event loop may take to end by itself once it was asked; a stalled terminal blocks it."""

ThemeName = Literal["infermaxx-dark", "infermaxx-light", "ansi-dark", "ansi-light"]


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """How to draw on this terminal."""

    color: bool
    unicode: bool
    fps: float
    mouse: bool
    theme: ThemeName


def capability(
    env: Mapping[str, str],
    encoding: str | None,
    *,
    fps: float | None = None,
    ascii_only: bool = False,
    no_color: bool = False,
    mouse: bool | None = None,
) -> Capability:
    """What to use, by the environment, the encoding of the stream that is drawn on, and what the user asked for."""
    remote = bool(env.get("SSH_CONNECTION") or env.get("SSH_TTY"))
    color = not (no_color or "NO_COLOR" in env)
    rate = fps if fps is not None and fps > 0 else FPS_SSH if remote else FPS
    return Capability(
        color=color,
        unicode=not ascii_only and (encoding or "").lower().replace("-", "").replace("_", "") == "utf8",
        fps=min(max(rate, LEAST_FPS), MOST_FPS),
        mouse=mouse if mouse is not None else not remote,
        theme=_theme(env, color and not remote),
    )


def _theme(env: Mapping[str, str], own_colors: bool) -> ThemeName:
    """The terminal's own colours unless it is near and shows all colours; COLORFGBG tells of a light one."""
    light = env.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
    if own_colors and env.get("COLORTERM", "") in ("truecolor", "24bit"):
        return "infermaxx-light" if light else "infermaxx-dark"
    return "ansi-light" if light else "ansi-dark"


class Watch:
    """Ends the TUI when it is told to or when its terminal is gone, also when its event loop hangs on a full terminal.

    A terminal that goes away sends SIGHUP and then SIGCONT, at which Textual would set itself up again while it is on
    its way out; from the first sign of leaving on, SIGCONT does nothing.
    """

    def __init__(self) -> None:
        self._leave: Callable[[], None] = lambda: None
        self._over = threading.Event()
        self._asked: int | None = None
        self._attributes = _attributes()
        self._thread = threading.Thread(target=self._look, name="terminal-watch", daemon=True)

    def start(self, leave: Callable[[], None]) -> None:
        """Takes over SIGHUP and SIGTERM, and begins to look. To be called in the main thread.

        `leave` is called in a signal handler or in the watch's own thread, so it may only hand the wish on.
        """
        self._leave = leave
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, self._told)
        self._thread.start()

    def leaving(self) -> None:
        """From now on nothing sets the terminal up again. To be called in the main thread."""
        signal.signal(signal.SIGCONT, _nothing)

    def stop(self) -> None:
        """The TUI has ended: signals mean what they usually mean, and a process without a terminal ends here.

        A thread of Textual's that reads from a terminal that is gone never ends, and would keep the process for ever.
        """
        self._over.set()
        self._thread.join(WATCH_S + GRACE_S)
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGCONT, signal.SIGTSTP):
            signal.signal(number, signal.SIG_DFL)
        if not os.isatty(0):
            os._exit(128 + signal.SIGHUP)

    def _told(self, number: int, frame: FrameType | None) -> None:
        self.leaving()
        self._asked = self._asked or number
        self._leave()

    def _look(self) -> None:
        while not self._over.wait(WATCH_S):
            if self._asked is None and not os.isatty(0):
                self._asked = signal.SIGHUP
                self._leave()
            if self._asked is not None and not self._over.wait(GRACE_S):
                if self._attributes is not None:
                    with suppress(termios.error):
                        termios.tcsetattr(0, termios.TCSANOW, self._attributes)
                os._exit(128 + self._asked)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Not SIG_IGN: a signal that is under way already would be complained about."""


def _attributes() -> list[int | list[bytes | int]] | None:
    try:
        return termios.tcgetattr(0)
    except termios.error:
        return None
