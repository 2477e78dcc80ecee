"""A terminal as the program meets it: a pty whose bytes are kept, and the screen that they draw.

Only what Textual, bash and ssh write is understood; every other control sequence is passed over.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil
from living import PATIENCE_S, until

from infermaxx_tui.core.glyphs import cells
from infermaxx_tui.rundir import RunFolder

T = TypeVar("T")

PROGRAM = (sys.executable, "-m", "infermaxx_tui")
ENTER_SCREEN = b"\x1b[?1049h"
LEAVE_SCREEN = b"\x1b[?1049l"
COLOR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")
"""An SGR sequence that sets a colour."""
_PIECE = re.compile(
    r"\x1b\[(?P<args>[0-?]*)[ -/]*(?P<final>[@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|(?P<one>.)", re.S
)
_UNDONE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[ -/]*)?\Z")
_SIZE = (80, 24)


class Screen:
    """What a person would see of the bytes so far."""

    def __init__(self, columns: int, rows: int) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self.resize(columns, rows)

    def resize(self, columns: int, rows: int) -> None:
        """Another size; what was shown is gone."""
        self._columns, self._rows = columns, rows
        self._lines = [[" "] * columns for _ in range(rows)]
        self._x = self._y = 0

    @property
    def text(self) -> str:
        """The lines, without blanks at their ends."""
        return "\n".join("".join(line).rstrip() for line in self._lines).rstrip()

    def feed(self, data: bytes) -> None:
        """Draws."""
        text = self._rest + self._decode.decode(data)
        undone = _UNDONE.search(text)
        self._rest = "" if undone is None else text[undone.start() :]
        for piece in _PIECE.finditer(text, 0, len(text) - len(self._rest)):
            if piece["one"] is not None:
                self._put(piece["one"])
            elif piece["final"] is not None:
                self._control(piece["final"], piece["args"])

    def _put(self, char: str) -> None:
        if char == "\r":
            self._x = 0
        elif char == "\n":
            self._line_feed()
        elif char == "\b":
            self._x = max(self._x - 1, 0)
        elif char.isprintable():
            width = cells(char)
            if self._x + width > self._columns:
                self._x = 0
                self._line_feed()
            if width:
                self._lines[self._y][self._x : self._x + width] = [char, *[""] * (width - 1)]
            self._x += width

    def _line_feed(self) -> None:
        if self._y + 1 < self._rows:
            self._y += 1
        else:
            self._lines = [*self._lines[1:], [" "] * self._columns]

    def _control(self, final: str, args: str) -> None:
        numbers = [int(n) if n.isdigit() else 0 for n in args.split(";")]
        match final:
            case "H":
                row, column = (*numbers, 0, 0)[:2] if len(numbers) > 1 else (numbers[0], 0)
                self._y = min(max(row, 1), self._rows) - 1
                self._x = min(max(column, 1), self._columns) - 1
            case "C":
                self._x = min(self._x + max(numbers[0], 1), self._columns - 1)
            case "K":
                self._lines[self._y][self._x :] = [" "] * (self._columns - self._x)
            case "J" | "h" | "l" if args in ("2", "?1049"):
                self.resize(self._columns, self._rows)
            case _:
                pass


class Terminal:
    """A process on a pty of its own."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], cwd: Path, size: tuple[int, int] = _SIZE) -> None:
        self.seen = bytearray()
        """Every byte that came."""
        self.screen = Screen(*size)
        self.open = True
        """Whether the other side is still there."""
        self._master, slave = pty.openpty()
        self.resize(*size)
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *words], stdin=slave, stdout=slave, stderr=slave, env=dict(env), cwd=cwd
        )
        os.close(slave)

    def resize(self, columns: int, rows: int) -> None:
        """As when a person drags the window's corner."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(columns, rows)

    def type(self, keys: str) -> None:
        """Types."""
        os.write(self._master, keys.encode())

    def read(self, wait_s: float) -> bool:
        """Takes in what comes within a time; whether anything came."""
        if not self.open or not select.select([self._master], [], [], wait_s)[0]:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            # Linux says EIO once nobody holds the other side
            data = b""
        self.open = bool(data)
        self.seen += data
        self.screen.feed(data)
        return self.open

    def until(self, look: Callable[[], T | None], patience_s: float = PATIENCE_S) -> T:
        """Waits for something while reading on; a picture of the screen says what was seen instead."""
        try:
            return until(look, patience_s, self.read)
        except AssertionError:
            raise AssertionError(f"never came about; the screen says\n{self.screen.text}") from None

    def shows(self, text: str) -> str:
        """The whole screen, as soon as it holds this text."""
        return self.until(lambda: self.screen.text if text in self.screen.text else None)

    def settled(self) -> str:
        """The whole screen between two pictures: nothing came for a while."""
        while self.read(0.3):
            pass
        return self.screen.text

    def sees(self, data: bytes, start: int = 0) -> int:
        """Waits for these bytes; where they end."""
        self.until(lambda: data in self.seen[start:])
        return self.seen.index(data, start) + len(data)

    def end(self) -> int:
        """The exit status, after everything was read."""
        code = self.until(lambda: None if self.process.poll() is None else (self.process.returncode,))[0]
        while self.read(0.2):
            pass
        return code

    def hang_up(self) -> None:
        """Closes the terminal's side."""
        if self._master >= 0:
            os.close(self._master)
        self._master, self.open = -1, False

    def close(self) -> None:
        """Ends what is left."""
        self.hang_up()
        self.process.kill()
        self.process.wait(PATIENCE_S)


@contextmanager
def terminal(
    words: Sequence[str], env: Mapping[str, str], cwd: Path, size: tuple[int, int] = _SIZE
) -> Iterator[Terminal]:
    """A terminal for the length of a block."""
    opened = Terminal(words, env, cwd, size)
    try:
        yield opened
    finally:
        opened.close()


def environment(root: Path, **more: str) -> dict[str, str]:
    """What the program sees: its own cache and runs, a terminal with all colours, UTF-8."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("INFERMAXX_", "VLLM_", "SSH_", "LC_")) and name not in ("NO_COLOR", "TMUX")
    }
    env |= {"INFERMAXX_RUNS": str(root / "runs"), "INFERMAXX_CACHE": str(root / "cache")}
    env |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
    env["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    return env | more


def state_of(pid: int) -> str | None:
    """The letter of the process's state, as in ps; None: there is none, or only its remains."""
    try:
        letter = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if letter in "ZX" else letter


def written_by(pid: int) -> int:
    """Bytes that the process has written so far, anywhere."""
    return int(Path(f"/proc/{pid}/io").read_text(encoding="ascii").split("wchar:")[1].split()[0])


def children_of(pid: int) -> list[int]:
    """Its child processes."""
    return [child.pid for child in psutil.Process(pid).children()]


def lines_with(run: RunFolder, event: bytes) -> list[bytes]:
    """The log's whole lines that hold an event of this sort."""
    mark = b'"e":"' + event + b'"'
    return [line for line in run.events.read_bytes().split(b"\n")[:-1] if mark in line]


def kill_runner(run: RunFolder) -> None:
    """Ends a run's runner without any warning, if it is alive."""
    pid = run.pid()
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        until(lambda: not run.alive())
