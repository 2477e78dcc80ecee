"""Hours before a run begins: only from a run that is like it, and silent without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infermaxx_tui.core.plan import Lengths, Plan, plan
from infermaxx_tui.core.scenario import Scenario, parse_scenario
from infermaxx_tui.pace import last_pace, plan_lines
from infermaxx_tui.wish import Wish, load

SOAK = 'name = "soak"\n[sessions]\ncount = 4\ntarget_depth = 1000\nrounds = 3\n[stop]\nduration = "20m"\n'


def soak() -> tuple[Scenario, Plan]:
    scenario = parse_scenario(SOAK, "soak.toml")
    return scenario, plan(scenario, (Lengths((2000,), (10,)),), 1, "00")


def keep(root: Path, run: str, **other: object) -> None:
    folder = root / run
    folder.mkdir(parents=True)
    regime = {"duration_s": 600.0, "simulated": False, "at_once": 4, "target_depth": 1000, **other}
    verdict = {"run": run, "checks": [{"name": "recall", "n_evaluated": 14, "more": 1}], "regime": regime}
    (folder / "verdict.json").write_text(json.dumps(verdict))


def test_hours_come_from_the_newest_run_that_is_alike(tmp_path: Path) -> None:
    scenario, planned = soak()
    keep(tmp_path, "20261101-000000-soak-0001", duration_s=60.0)
    keep(tmp_path, "20261102-000000-soak-0002")
    keep(tmp_path, "20261103-000000-soak-0003", target_depth=2000)
    keep(tmp_path, "20261104-000000-soak-0004", at_once=8)
    keep(tmp_path, "20261105-000000-soak-0005", simulated=True)
    keep(tmp_path, "20261106-000000-other-0006")
    (tmp_path / "20261107-000000-soak-0007").mkdir()
    assert last_pace(scenario, planned.at_once, tmp_path) == ("20261102-000000-soak-0002", 14, 600.0)
    worth, pace, warning = plan_lines(scenario, planned, tmp_path)
    assert worth.startswith("84 recalls planned: if all come back, a miss rate above 3.5")
    assert "with the 12 whole conversations as the units" in worth
    assert pace == "they take about 60 min at the pace of 20261102-000000-soak-0002 (14 recalls in 10 min)"
    assert warning == "stop.duration=20m ends the run before that: --duration 75m"


@pytest.mark.parametrize("damage", ["", "{", '{"run": null, "checks": [], "regime": {"duration_s": 1.0}}'])
def test_without_a_run_like_it_no_hours_are_made_up(tmp_path: Path, damage: str) -> None:
    scenario, planned = soak()
    folder = tmp_path / "20261101-000000-soak-0001"
    folder.mkdir()
    (folder / "verdict.json").write_text(damage)
    assert len(list(plan_lines(scenario, planned, tmp_path))) == 1
    assert len(list(plan_lines(scenario, planned, tmp_path / "none"))) == 1
    assert len(list(plan_lines(scenario, planned, None))) == 1


@pytest.mark.parametrize(("exclude", "recalls", "least"), [("1%", 299, 332), ("0.05", 59, 65), ("5 %", 59, 65)])
def test_exclude_plans_the_rounds(exclude: str, recalls: int, least: int) -> None:
    scenario = load(Wish(scenario="demo", exclude=exclude)).scenario
    assert scenario.limits.min_recalls == recalls
    planned = plan(scenario, (Lengths((4000,), (10,)),), 1, "00")
    assert planned.planned_recalls >= least
