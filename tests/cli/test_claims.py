"""Claims in a run folder: scored by `judge`, and what is written into scenario.toml later is shown as later."""

from __future__ import annotations

from pathlib import Path

import pytest

from infermaxx_tui.core.predictions import TAKEN_OUT
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.selftest import play_in_memory
from infermaxx_tui.verdicts import claims_now, fold_run, judge_folder, restated

CLAIM = 'claim = "Nothing is lost"\nmeasure = "recall.miss_rate"\nband = [0, 0]\nrefuted_if = "> 0.1"\n'


@pytest.fixture(scope="module")
def lines() -> tuple[bytes, ...]:
    inline = CLAIM.strip().replace("\n", ", ")
    return play_in_memory(("clean",), (f"predictions=[{{{inline}}}]",))


def folder(root: Path, lines: tuple[bytes, ...], scenario: str | None) -> RunFolder:
    run = RunFolder(root / "20261130-000000-demo-0001")
    run.path.mkdir()
    run.events.write_bytes(b"".join(lines))
    if scenario is not None:
        run.scenario.write_text(scenario)
    return run


@pytest.mark.parametrize(
    ("scenario", "shown"),
    [
        (f"[[predictions]]\n{CLAIM}", [("HIT", "registered", None)]),
        (f'[[predictions]]\n{CLAIM}retracted = "wrong model"\n', [("HIT", "registered", "wrong model")]),
        ("", [("HIT", "registered", TAKEN_OUT)]),
        (
            f"[[predictions]]\n{CLAIM.replace('[0, 0]', '[0, 0.05]')}",
            [("HIT", "registered", None), ("HIT", "post_hoc", None)],
        ),
        (
            f"[[predictions]]\n{CLAIM}[[predictions]]\n{CLAIM.replace('Nothing', 'All').replace('miss', 'mis')}",
            [("HIT", "registered", None), ("UNTESTED", "post_hoc", None)],
        ),
        ("[[predictions]\n", [("HIT", "registered", None)]),
        ('predictions = "none"', [("HIT", "registered", None)]),
        (None, [("HIT", "registered", None)]),
    ],
)
def test_what_is_written_later_is_shown_as_later(
    tmp_path: Path, lines: tuple[bytes, ...], scenario: str | None, shown: list[tuple[str, str, str | None]]
) -> None:
    run = folder(tmp_path, lines, scenario)
    verdict = judge_folder(run)
    assert verdict.verdict == "PASS"
    assert [(one.result, one.origin, one.retracted) for one in verdict.predictions] == shown
    assert verdict.predictions_sha256 is not None


def test_a_verdict_that_was_written_is_shown_with_what_was_said_since(tmp_path: Path, lines: tuple[bytes, ...]) -> None:
    run = folder(tmp_path, lines, f"[[predictions]]\n{CLAIM}")
    verdict, state = judge_folder(run), fold_run(run)
    assert restated(verdict, state, run) is verdict
    run.scenario.write_text("")
    again = restated(verdict, state, run)
    assert claims_now(run) == ()
    assert [one.retracted for one in again.predictions] == [TAKEN_OUT]
    assert again.checks == verdict.checks
