"""What the tests of the TUI share: the text of a whole screen, and waiting for something to be seen."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from textual.pilot import Pilot

from infermaxx_tui.core.glyphs import ASCII, UNICODE, cells
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.selftest import play_in_memory
from infermaxx_tui.tui.app import InfermaxxApp
from infermaxx_tui.tui.shared import Shared
from infermaxx_tui.tui.terminal import capability

_TEXT = re.compile(
    r'<text class="[^"]*" x="([\d.]+)" y="[\d.]+" textLength="[\d.]+" clip-path="[^"]*-line-(\d+)\)">(.*?)</text>'
)
_CELL = 12.2
"""Width of a character in the SVG that Rich writes."""
_TRIES = 400
MakeRun = Callable[..., RunFolder]
"""Faults, and `id`, `judged`, `keep`: makes a run folder of a recorded demo."""


@cache
def recorded(*faults: str) -> tuple[bytes, ...]:
    """The log of a demo with these faults. It is played in a thread, since tests have an event loop of their own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(play_in_memory, faults or ("clean",)).result()


def make_app(
    root: Path,
    run: RunFolder | None = None,
    pair: tuple[RunFolder, RunFolder] | None = None,
    *,
    env: dict[str, str] | None = None,
    ascii_only: bool = False,
    no_color: bool = False,
) -> InfermaxxApp:
    """The application as `run_tui` makes it, at ten pictures a second."""
    can = capability(
        env if env is not None else {"COLORTERM": "truecolor"},
        "utf-8",
        fps=10,
        ascii_only=ascii_only,
        no_color=no_color,
    )
    shared = Shared(glyphs=UNICODE if can.unicode else ASCII, fps=can.fps, root=root, runs_dir=str(root))
    return InfermaxxApp(shared, can, run, pair)


def svg_lines(svg: str) -> list[str]:
    """The lines of text in a screenshot, blanks at the right end left out."""
    lines: dict[int, str] = {}
    for x, line, text in _TEXT.findall(svg):
        column = round(float(x) / _CELL)
        row = lines.get(int(line), "")
        plain = html.unescape(text).replace("\xa0", " ")
        lines[int(line)] = row + " " * max(column - cells(row), 0) + plain
    return [lines.get(n, "").rstrip() for n in range(max(lines, default=-1) + 1)]


def screen_text(app: InfermaxxApp) -> str:
    """What a person sees."""
    return "\n".join(svg_lines(app.export_screenshot()))


async def until(pilot: Pilot[None], test: Callable[[], bool]) -> None:
    """Waits until something is so; a picture of the screen says what was seen instead."""
    for _ in range(_TRIES):
        if test():
            await pilot.pause()
            return
        await pilot.pause(0.02)
    app = pilot.app
    assert isinstance(app, InfermaxxApp)
    raise AssertionError(f"never came about; the screen says\n{screen_text(app)}")


async def shows(pilot: Pilot[None], text: str) -> None:
    """Waits until the screen holds a text."""
    app = pilot.app
    assert isinstance(app, InfermaxxApp)
    await until(pilot, lambda: text in screen_text(app))
