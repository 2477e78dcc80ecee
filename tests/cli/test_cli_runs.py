"""Looking at runs afterwards: the list, the verdict judged again, other limits, other Pythons."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from clitools import Done, Place

from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.rundir import RunFolder


@pytest.fixture
def copied(place: Place, passed: tuple[Done, Path]) -> Path:
    """A run that passed, in a place of its own."""
    return _copy(passed[1], place)


def _copy(folder: Path, place: Place) -> Path:
    copied = Path(shutil.copytree(folder, place.runs / folder.name))
    RunFolder(copied).read_mark.unlink(missing_ok=True)
    return copied


def test_no_runs_yet(place: Place) -> None:
    assert "infermaxx demo" in place.inside("runs").out
    assert place.inside("runs", "--json").rows == []


def test_the_list_tells_when_what_how_and_whether_it_was_read(
    place: Place, passed: tuple[Done, Path], forgot: tuple[Done, Path]
) -> None:
    folders = [_copy(run[1], place) for run in (passed, forgot)]
    for foreign in ("notes", "20260101-000000", "20260101-000000-demo-xyz0", "20260101-000000-demo-00zz.tmp"):
        (place.runs / foreign).mkdir()
    (place.runs / "20260101-000000-demo-0000").write_text("a file", encoding="utf-8")
    (place.runs / "20260101-000000-demo-0001").symlink_to(folders[0])
    rows = place.inside("runs", "--json").rows
    assert [row["run"] for row in rows] == sorted((folder.name for folder in folders), reverse=True)
    assert {row["verdict"] for row in rows} == {"PASS", "FAIL"}
    assert {(row["state"], row["scenario"], row["read"]) for row in rows} == {("ended", "demo", False)}
    lines = place.inside("runs").out.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("* ") for line in lines[1:])
    assert place.inside("judge", folders[0].name).code == ExitCode.PASS
    assert [row["read"] for row in place.inside("runs", "--json").rows].count(True) == 1


def test_a_folder_in_which_no_run_began_is_shown_as_empty(place: Place) -> None:
    (place.runs / "20260101-000000-demo-0000").mkdir(parents=True)
    (row,) = place.inside("runs", "--json").rows
    assert (row["state"], row["verdict"], row["when"]) == ("empty", None, "2026-01-01 00:00:00")
    assert place.inside("judge", "latest").code == ExitCode.USAGE


def test_judging_again_gives_the_same_bytes(
    place: Place, passed: tuple[Done, Path], forgot: tuple[Done, Path], capped: tuple[Done, Path]
) -> None:
    for run in (passed, forgot, capped):
        folder = _copy(run[1], place)
        done = place.inside("judge", folder.name, "--json")
        assert done.code == run[0].code
        assert done.out.encode() == (folder / "verdict.json").read_bytes()
        assert place.inside("attach", str(folder), "--json").out == done.out


@pytest.mark.parametrize("name", ["INFERMAXX_PY312", "INFERMAXX_PY313"])
def test_judging_again_on_another_python_gives_the_same_bytes(
    place: Place, passed: tuple[Done, Path], forgot: tuple[Done, Path], capped: tuple[Done, Path], name: str
) -> None:
    python = os.environ.get(name)
    if python is None:
        pytest.skip(f"{name} names no Python with msgspec, orjson and platformdirs")
    for run in (passed, forgot, capped):
        words = [python, "-m", "infermaxx_tui", "judge", str(run[1]), "--json"]
        done = subprocess.run(words, env=place.env, capture_output=True, check=False)
        assert done.returncode == run[0].code, done.stderr
        assert done.stdout == (run[1] / "verdict.json").read_bytes()


def test_other_limits_are_marked_and_change_nothing_on_disk(place: Place, copied: Path) -> None:
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    limits = place.root / "strict.toml"
    limits.write_text("[limits]\nmin_recalls = 31\n", encoding="utf-8")
    done = place.inside("judge", copied.name, "--limits", str(limits), "--json")
    assert done.code == ExitCode.INCONCLUSIVE
    assert done.verdict["post_hoc"] is True
    assert done.verdict["limits"]["min_recalls"] == 31
    assert "post hoc" in place.inside("judge", copied.name, "--limits", str(limits)).out.splitlines()[0]
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("min_recals = 3", "min_recalls"),
        ("[limits]\nmin_recals = 3", "limits.min_recalls"),
        ("min_recalls = 'many'", "min_recalls"),
        ("max_excluded = 2.0", "between 0 and 1"),
        ("[limits]\nstall_s = -1.0", "limits.stall_s"),
        ("min_recalls = ", "not TOML"),
        ("limits = 3", "table"),
    ],
)
def test_limits_that_are_wrong(place: Place, copied: Path, text: str, said: str) -> None:
    (place.root / "bad.toml").write_text(text, encoding="utf-8")
    done = place.inside("judge", copied.name, "--limits", "bad.toml")
    assert done.code == ExitCode.USAGE
    assert "bad.toml" in done.complaint
    assert said in done.complaint


def test_limits_that_are_not_there(place: Place, copied: Path) -> None:
    done = place.inside("judge", copied.name, "--limits", "none.toml")
    assert done.code == ExitCode.USAGE
    assert "none.toml" in done.complaint


def test_a_run_is_found_by_its_folder_its_id_and_the_start_of_it(place: Place, copied: Path) -> None:
    for name in (str(copied), copied.name, copied.name[:15], "latest"):
        assert place.inside("judge", name).code == ExitCode.PASS
    twin = place.runs / f"{copied.name[:15]}-other-0000"
    shutil.copytree(copied, twin)
    done = place.inside("judge", copied.name[:15])
    assert done.code == ExitCode.USAGE
    assert "2 runs" in done.complaint


def test_what_a_log_says_cannot_steer_the_terminal(place: Place, copied: Path) -> None:
    log = copied / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"scenario":"demo"', b'"scenario":"de\\u001b]0;x\\u0007mo"'))
    out = place.inside("judge", copied.name).out + place.inside("runs").out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "␛" in out


def test_plain_characters_only(place: Place, copied: Path) -> None:
    done = place.inside("--ascii", "attach", copied.name)
    assert (done.out + done.err).isascii()
    assert not place.inside("attach", copied.name).err.isascii()
    assert place.inside("attach", copied.name, "--ascii").err.isascii()
