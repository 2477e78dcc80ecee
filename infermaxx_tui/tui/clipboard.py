"""Copies text to where a person at the other end can paste it.

tmux drops the plain escape sequence with its default settings but takes the text from its own command; a file in the
run folder is always written too, for terminals that take neither.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from infermaxx_tui.rundir import replace_file

FILE = "clipboard.txt"
_TMUX_S = 2.0


def copy(text: str, env: Mapping[str, str], osc52: Callable[[str], None], folder: Path | None) -> str:
    """Copies the text and says where to, in one line for people. `osc52` asks the terminal itself."""
    places = []
    if env.get("TMUX") and _to_tmux(text):
        places.append("the tmux buffer")
    else:
        osc52(text)
        places.append("the terminal, if it takes OSC 52,")
    if folder is not None:
        try:
            replace_file(folder / FILE, text.encode("utf-8", "replace") + b"\n")
            places.append(f"{FILE} in the run folder")
        except OSError as error:
            places.append(f"not to a file ({error.strerror})")
    return f"copied to {' and '.join(places)}"


def _to_tmux(text: str) -> bool:
    try:
        done = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],
            input=text.encode("utf-8", "replace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TMUX_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
