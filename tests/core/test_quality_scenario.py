"""The [quality] table of a scenario: off without it, 24 tasks with it, and what makes no sense is refused."""

from __future__ import annotations

import pytest

from infermaxx_tui.core.scenario import ScenarioError, parse_scenario
from infermaxx_tui.core.scenario_toml import to_toml

PLAIN = 'name = "x"\n'


def test_a_scenario_without_the_table_asks_no_tasks() -> None:
    assert parse_scenario(PLAIN, "x.toml").quality.tasks == 0


def test_the_table_alone_asks_the_whole_set_in_each_phase() -> None:
    quality = parse_scenario(PLAIN + "[quality]\n", "x.toml").quality
    assert (quality.tasks, quality.when, quality.max_tokens) == (24, ("before", "during", "after"), 2048)


@pytest.mark.parametrize(
    "overrides", [(), ("quality.tasks=48", "limits.min_quality=0.9"), ('quality.when=["before","after"]',)]
)
def test_what_is_written_is_read_back(overrides: tuple[str, ...]) -> None:
    scenario = parse_scenario(PLAIN, "x.toml", overrides)
    assert parse_scenario(to_toml(scenario), "x.toml") == scenario


WRONG = {
    "quality.task=3": "the nearest known key is quality.tasks",
    "quality.tasks=-1": "too small",
    "quality.tasks=100000": "too large",
    "quality.max_tokens=0": "too small",
    'quality.when=["later"]': "quality.when",
    "quality.when=[]": "is empty",
    'quality.when=["before", "before"]': "twice",
    "limits.min_quality=1.5": "between 0 and 1",
    "limits.max_quality_excluded=-0.1": "between 0 and 1",
}


@pytest.mark.parametrize("override", WRONG)
def test_what_makes_no_sense_is_refused(override: str) -> None:
    overrides = (
        (override,)
        if override.startswith(("quality.tasks", "limits", "quality.task="))
        else (
            override,
            "quality.tasks=24",
        )
    )
    with pytest.raises(ScenarioError, match=WRONG[override]):
        parse_scenario(PLAIN, "x.toml", overrides)
