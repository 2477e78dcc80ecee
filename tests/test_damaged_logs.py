"""A log that was torn, or in which lines stand twice, is known for what it is and passes nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from infermaxx_tui.core.events import decode
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.verdict import Verdict, judge_run
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.selftest import play_in_memory
from infermaxx_tui.verdicts import judge_folder


@pytest.fixture(scope="module")
def healthy() -> tuple[bytes, ...]:
    """The lines of a run that passes."""
    return play_in_memory(("clean",))


def _judged(lines: tuple[bytes, ...]) -> Verdict:
    fold = Fold()
    for line in lines:
        fold.add(decode(line))
    return judge_run(fold.snapshot())


def _on_disk(folder: Path, data: bytes) -> Verdict:
    (folder / "events.jsonl").write_bytes(data)
    return judge_folder(RunFolder(folder))


def test_a_line_that_stands_twice_counts_once_and_is_refused(healthy: tuple[bytes, ...]) -> None:
    whole = _judged(healthy)
    assert whole.verdict == "PASS"
    for place in range(0, len(healthy), 7):
        doubled = _judged((*healthy[: place + 1], healthy[place], *healthy[place + 1 :]))
        assert doubled.verdict == "INCONCLUSIVE"
        assert doubled.instrument.invalid_lines == 1
        assert [c.n_evaluated for c in doubled.checks if c.name != "instrument"] == [
            c.n_evaluated for c in whole.checks if c.name != "instrument"
        ]


def test_a_log_written_twice_is_refused(healthy: tuple[bytes, ...]) -> None:
    twice = _judged(healthy + healthy)
    assert twice.verdict == "INCONCLUSIVE"
    assert twice.instrument.invalid_lines == len(healthy)


def test_a_torn_tail_is_named_and_passes_nothing(healthy: tuple[bytes, ...], tmp_path: Path) -> None:
    data = b"".join(healthy)
    assert not _on_disk(tmp_path, data).instrument.torn_tail
    start = len(data) - len(healthy[-1])
    for cut in (start + 1, start + len(healthy[-1]) // 2, len(data) - 1):
        torn = _on_disk(tmp_path, data[:cut])
        assert torn.instrument.torn_tail
        assert torn.verdict == "INCONCLUSIVE"
    at_the_border = _on_disk(tmp_path, data[:start])
    assert not at_the_border.instrument.torn_tail
    assert at_the_border.verdict == "INCONCLUSIVE"
