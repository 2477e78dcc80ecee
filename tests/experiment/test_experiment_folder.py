"""Which folder an experiment goes on in, and that one which it does not go on in is not passed over."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest
from experimenttools import arm_row, first_row, parsed

from infermaxx_tui.experiment.conduct import open_folder, read_experiment
from infermaxx_tui.experiment.folder import ExperimentFolder, asked_otherwise, create, unfinished
from infermaxx_tui.shipped import find_scenario, shipped_root


def _folder(root: Path, sha256: str, arms: tuple[str, ...], stamp: str = "20261201-000000") -> ExperimentFolder:
    experiment = parsed()
    made = create(root, stamp, experiment.name, "0a0b")
    made.append(msgspec.structs.replace(first_row(experiment), file_sha256=sha256, order=(("auto", 0), ("fp8", 0))))
    for arm in arms:
        made.append(arm_row(experiment, arm, 0))
    return made


@pytest.mark.parametrize(
    ("sha256", "arms", "goes_on", "otherwise"),
    [
        ("mine", ("auto",), True, False),
        ("mine", ("auto", "fp8"), False, False),
        ("other", ("auto",), False, True),
        ("other", ("auto", "fp8"), False, False),
    ],
)
def test_one_with_starts_left_goes_on_or_is_named(
    tmp_path: Path, sha256: str, arms: tuple[str, ...], goes_on: bool, otherwise: bool
) -> None:
    made = _folder(tmp_path, sha256, arms)
    known, other = unfinished(tmp_path, "ladder", "mine"), asked_otherwise(tmp_path, "ladder", "mine")
    assert (known is not None, other is not None) == (goes_on, otherwise)
    assert {one.path for one in (known, other) if one is not None} <= {made.path}


def test_only_the_newest_of_the_name_counts(tmp_path: Path) -> None:
    _folder(tmp_path, "other", ("auto",))
    _folder(tmp_path, "mine", ("auto", "fp8"), "20261202-000000")
    assert asked_otherwise(tmp_path, "ladder", "mine") is None
    assert asked_otherwise(tmp_path, "another", "mine") is None


def test_one_whose_scenario_was_edited_is_another_experiment(tmp_path: Path) -> None:
    file, scenario = tmp_path / "x.toml", tmp_path / "played.toml"
    file.write_text(
        'name = "x"\nquestion = "?"\nscenario = "played.toml"\n[server]\nsim = ["clean"]\n[[arms]]\nname = "a"\n',
        encoding="utf-8",
    )
    played = find_scenario("demo").read_text(encoding="utf-8").replace("../", f"{shipped_root()}/")
    scenario.write_text(played, encoding="utf-8")
    made, again = open_folder(tmp_path, read_experiment(str(file)), anew=False)
    assert not again
    same, again = open_folder(tmp_path, read_experiment(str(file)), anew=False)
    assert (same.path, again) == (made.path, True)
    scenario.write_text(f"# edited\n{played}", encoding="utf-8")
    other, again = open_folder(tmp_path, read_experiment(str(file)), anew=False)
    assert (other.path != made.path, again) == (True, False)


def test_every_folder_that_is_made_on_the_way_is_closed_to_others(tmp_path: Path) -> None:
    folder = create(tmp_path / "above" / "runs", "20260101-000000", "x", "0a0b")
    made = (folder.path, *list(folder.path.parents)[:3])
    assert {stat.S_IMODE(one.stat().st_mode) for one in made} == {0o700}
