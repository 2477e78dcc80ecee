"""The long-context scenario: five tags in one deep prompt, judged both ways, refused where the window is too small."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from clitools import Done, Place, sim

from infermaxx_tui.core.scenario import parse_scenario
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.importers import load
from infermaxx_tui.shipped import find_transcripts, shipped_root, shipped_scenario

_FULL_TOKENS = 105_000
_NEEDED_WINDOW = 107_608
_LONG = sorted((shipped_root() / "transcripts" / "long").glob("*.jsonl"))


def _run(place: Place, folder: Path, depth: int, *flags: str) -> Done:
    with sim(folder, "--max-model-len", str(_NEEDED_WINDOW), *flags) as url:
        words = ("--set", f"sessions.target_depth={depth}", "--no-gpu", "--json")
        return place.run("run", "long-context", "--headless", "--url", url, *words)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_server_that_keeps_all_passes(place: Place, tmp_path: Path, share: Callable[[int], int]) -> None:
    depth = share(_FULL_TOKENS)
    done = _run(place, tmp_path, depth)
    assert done.code == ExitCode.PASS, done.out
    checks = {check["name"]: check for check in json.loads(done.out)["checks"]}
    assert (checks["recall"]["outcome"], checks["recall"]["n_evaluated"]) == ("pass", 5)
    assert (checks["isolation"]["outcome"], checks["isolation"]["required"]) == ("not_evaluable", False)


@pytest.mark.parametrize(("fault", "code"), [("forget-oldest", ExitCode.FAIL), ("capped", ExitCode.INCONCLUSIVE)])
def test_a_sick_or_a_blind_server_does_not(place: Place, tmp_path: Path, fault: str, code: ExitCode) -> None:
    done = _run(place, tmp_path, 3000, "--fault", fault, "--healthy-turns", "1")
    assert done.code == code, done.out


def test_a_window_that_is_too_small_is_refused_before_the_first_token(place: Place, tmp_path: Path) -> None:
    with sim(tmp_path, "--max-model-len", str(_NEEDED_WINDOW - 1)) as url:
        done = place.run("run", "long-context", "--headless", "--url", url)
    assert done.code == ExitCode.USAGE
    assert f"need {_NEEDED_WINDOW}, and max_model_len is {_NEEDED_WINDOW - 1}" in done.err
    assert not place.runs.exists()


def test_the_scenario_says_the_window_that_it_needs() -> None:
    text = shipped_scenario("long-context").read_text(encoding="utf-8")
    scenario = parse_scenario(text, "long-context")
    assert f"{_NEEDED_WINDOW:,}" in text
    assert scenario.sessions.target_depth == _FULL_TOKENS
    assert scenario.canaries.plant_at == (0.17, 0.335, 0.5, 0.665, 0.83)


@pytest.mark.parametrize("path", _LONG, ids=[path.stem for path in _LONG])
def test_a_long_transcript_is_found_by_its_name_and_by_no_glob_over_the_short_ones(path: Path, tmp_path: Path) -> None:
    assert find_transcripts((path.stem,), tmp_path, "x.toml") == (path,)
    assert find_transcripts((f"long/{path.name}",), shipped_root() / "transcripts", "x.toml") == (path,)
    assert path not in find_transcripts(("*.jsonl",), tmp_path, "x.toml")
    (session,) = load(path)
    assert len(session.requests) >= 60
    assert dict(session.loss) == {"no_timing": 1}
