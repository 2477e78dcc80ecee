"""Memory stays what it was, however long a run goes on; the figures are printed, and no time is asserted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from memory import SHARES, Mark

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

EVENTS = 5_000_000
SHORT = 100_000
"""In the short form less than a tenth: what a loop adds for each event would show after so many too."""
PROGRAM = Path(__file__).with_name("memory.py")
MOST_MIB = {"runner": 8.0, "fold": 8.0, "screen": 64.0}
"""Between the first tenth and the end. A single byte kept for each of 5 million events is 5 MiB. The screen's log
keeps a place for each 512 lines and up to 512 copies of the fold, which is what it is for."""


@pytest.mark.parametrize("part", MOST_MIB)
def test_a_process_takes_no_more_at_the_end_than_after_a_tenth(
    part: str, share: Callable[[int], int], tell: Callable[[str], None]
) -> None:
    events = EVENTS if share(EVENTS) == EVENTS else SHORT
    done = subprocess.run(
        [sys.executable, str(PROGRAM), part, f"--events={events}"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    marks = msgspec.json.decode(done.stdout, type=list[Mark])
    tell(f"{part}: {', '.join(f'{mark.rss_mib:.1f} MiB after {mark.events:,}' for mark in marks)}")
    assert len(marks) == len(SHARES)
    assert marks[-1].events >= events
    assert marks[-1].rss_mib - marks[0].rss_mib <= MOST_MIB[part]
