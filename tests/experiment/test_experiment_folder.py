"""Which folder an experiment goes on in, and that one which it does not go on in is not passed over."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from experimenttools import arm_row, first_row, parsed

from infermaxx_tui.experiment.folder import ExperimentFolder, asked_otherwise, create, unfinished


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
