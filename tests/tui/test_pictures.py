"""Whole screens as pictures, compared as text.

The log is a made-up history, so that the pictures depend on nothing but how screens are drawn. INFERMAXX_GOLDEN=write
makes them anew; look at them before keeping them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tuitools import make_app, shows, svg_lines, until

from infermaxx_tui.core.events import encode
from infermaxx_tui.core.histories import Ask, Reply, history, honest, records
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.tui.screens.run import RunScreen
from infermaxx_tui.verdicts import load_or_judge

pytestmark = pytest.mark.anyio
GOLDEN = Path(__file__).parent / "golden"


def forgetful(ask: Ask) -> Reply:
    """A server that forgets some tags of one conversation, under load and alone."""
    if ask.kind not in ("absent", "tail") and ask.session == 1 and ask.tag < "H":
        return Reply(content=f"I have no note of a lot tag for the {ask.label}.")
    return honest(ask)


@pytest.fixture
def run(root: Path) -> RunFolder:
    """A made-up run that fails."""
    folder = RunFolder(root / "20231114-221320-made-up-0000")
    folder.path.mkdir()
    folder.events.write_bytes(b"".join(encode(record) for record in records(history(answer=forgetful))))
    load_or_judge(folder)
    return folder


@pytest.mark.parametrize(
    ("name", "size", "color", "keys"),
    [
        ("run-80x24", (80, 24), True, []),
        ("run-140x45", (140, 45), True, ["n"]),
        ("run-80x24-nocolor", (80, 24), False, ["n"]),
        ("verdict-100x40", (100, 40), True, ["v"]),
        ("stream-100x40", (100, 40), True, ["enter"]),
    ],
)
async def test_a_screen_looks_as_it_did(
    run: RunFolder,
    root: Path,
    name: str,
    size: tuple[int, int],
    color: bool,
    keys: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not color:
        monkeypatch.setenv("NO_COLOR", "1")
    app = make_app(root, run, no_color=not color)
    async with app.run_test(size=size, notifications=True) as pilot:
        await shows(pilot, "FAIL")
        for key in keys:
            await pilot.press(key)
        if keys == ["n"]:
            await shows(pilot, "failure at event")
        else:
            await until(pilot, lambda: isinstance(app.screen, RunScreen) == (not keys))
            await shows(pilot, {"v": "isolation", "enter": "over at"}.get("".join(keys), "at the end"))
        await pilot.pause()
        svg = without_ids(app.export_screenshot(title="infermaxx", simplify=True))
    path = GOLDEN / f"{name}.svg"
    if os.environ.get("INFERMAXX_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(svg, encoding="utf-8")
    kept = path.read_text(encoding="utf-8")
    assert svg_lines(svg) == svg_lines(kept), "the words are the same"
    assert svg == kept, "the looks are the same"


def without_ids(svg: str) -> str:
    """Rich names its styles after a hash of everything; with a name of ours a small change is a small difference."""
    return re.sub(r"terminal-\d+", "terminal", svg) + "\n"
