"""Runs as they lie on disk: played in memory once a session, written into folders as a runner does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tuitools import MakeRun, recorded

from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.verdicts import load_or_judge


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio alone."""
    return "asyncio"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of runs."""
    return tmp_path


@pytest.fixture
def make_run(root: Path) -> MakeRun:
    """Makes a run folder of a recorded demo."""

    def make(
        *faults: str, id: str = "20300102-030405-demo-a1b2", judged: bool = True, keep: int | None = None
    ) -> RunFolder:
        run = RunFolder(root / id)
        run.path.mkdir()
        run.events.write_bytes(b"".join(recorded(*faults)[:keep]))
        if judged:
            load_or_judge(run)
        return run

    return make
