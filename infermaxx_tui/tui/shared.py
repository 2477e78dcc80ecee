"""What every screen needs to know and nothing may change."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from infermaxx_tui.core.glyphs import Glyphs


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """How to draw, how often, and where runs are."""

    glyphs: Glyphs
    fps: float
    root: Path
    """Where runs are."""
    runs_dir: str | None
    """As it was given on the command line, to be given again."""

    def run_flag(self) -> str:
        """What a command needs to find a run here."""
        return "" if self.runs_dir is None else f" --runs-dir {shlex.quote(self.runs_dir)}"
