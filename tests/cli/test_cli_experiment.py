"""`infermaxx experiment`: arms on real servers one after another, failed starts as rows, and what a crash leaves."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import stat
import sys
from pathlib import Path

import psutil
import pytest
from clitools import Command, Place, kill_runner
from living import until

from infermaxx_tui.core.experiment.rows import AnyRow, ArmRow, Began, Closed, Registered, decode_rows
from infermaxx_tui.rundir import RunFolder

_HEAD = """
name = "small-arms"
question = "Does a server that leaks show, and does one that never comes up stop the others?"
scenario = "{scenario}"
boots = {boots}
[server]
launch = {launch}
env = {{ PYTHONPATH = "{source}" }}
idle_s = 30.0
"""
_SOURCE = Path(__file__).resolve().parents[2]


def _experiment(
    place: Place, small: Path, port: int, arms: str, boots: int = 1, launch: list[str] | None = None
) -> str:
    words = launch or [sys.executable, "-m", "infermaxx_tui.sim", "--port", str(port)]
    text = _HEAD.format(scenario=small, boots=boots, launch=json.dumps(words), source=_SOURCE)
    path = place.root / "arms.toml"
    path.write_text(text + arms, encoding="utf-8")
    return str(path)


def _arm(name: str, parent: str | None = None, **keys: object) -> str:
    lines = [f'[[arms]]\nname = "{name}"']
    lines += [] if parent is None else [f'parent = "{parent}"']
    for key, value in keys.items():
        text = (
            "{" + ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in value.items()) + "}"
            if isinstance(value, dict)
            else json.dumps(value)
        )
        lines.append(f"{key} = {text}")
    return "\n".join(lines) + "\n"


def _rows(place: Place) -> tuple[AnyRow, ...]:
    (folder,) = (place.runs / "experiments").iterdir()
    with (folder / "rows.jsonl").open("rb") as lines:
        return decode_rows(lines)


def _arm_rows(place: Place) -> list[ArmRow]:
    return [row for row in _rows(place) if isinstance(row, ArmRow)]


def _runs(place: Place) -> list[str]:
    return sorted(path.name for path in place.runs.iterdir() if path.name != "experiments")


_SICK = _arm("clean") + _arm("leak", "clean", flags={"fault": "leak"}) + _arm("odd", "clean", flags={"nonsense": "1"})


def test_arms_are_rows_and_a_start_that_fails_does_not_stop_the_others(
    place: Place, small: Path, free_port: int
) -> None:
    file = _experiment(place, small, free_port, _SICK)
    done = place.run("experiment", file, "--no-gpu")
    assert done.code == 3, done.err
    clean, leak, odd = _arm_rows(place)
    assert (clean.outcome, clean.verdict, leak.verdict) == ("judged", "PASS", "FAIL")
    assert leak.checks["isolation"] == "fail"
    assert (odd.outcome, odd.run, odd.verdict) == ("boot_failed", None, None)
    assert "nonsense" in (odd.reason or "")
    assert "leak (against clean: --fault leak): FAIL (isolation)" in done.out
    assert "start 1: boot failed: server.launch: exited with 2" in done.out
    assert "SIMULATED" in done.out
    assert sorted(str(row.run) for row in (clean, leak)) == _runs(place)
    (folder,) = (place.runs / "experiments").iterdir()
    assert "nonsense" in (folder / "odd-1.server.log").read_text(encoding="utf-8")
    for path in (folder, *folder.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    shown = place.run("experiment", "--show", "latest")
    assert (shown.code, shown.out) == (3, done.out)
    assert json.loads(place.run("experiment", "--show", folder.name, "--json").out)["finished"] is True
    assert place.run("experiment", "--list").out == f"{folder.name}: 3 of 3 starts, finished\n"


def test_the_register_stands_before_the_first_start_and_the_end_is_written(
    place: Place, small: Path, free_port: int
) -> None:
    file = _experiment(place, small, free_port, _arm("clean"))
    assert place.run("experiment", file, "--no-gpu").code == 0
    kinds = [type(row) for row in _rows(place)]
    assert kinds == [Registered, Began, Began, ArmRow, Closed]
    first = _rows(place)[0]
    assert isinstance(first, Registered)
    assert first.file == Path(file).read_text(encoding="utf-8")


def test_hours_are_told_beforehand_once_the_arms_have_run_here(place: Place, small: Path, free_port: int) -> None:
    file = _experiment(place, small, free_port, _SICK)
    ahead = place.inside("experiment", file, "--dry-run")
    assert ahead.code == 0
    assert "3 boots: 3 arms, 1 each, interleaved" in ahead.out
    assert "leak: against clean, moves --fault=leak\n" in ahead.out
    assert "hours: not known" in ahead.out
    assert not place.runs.exists()
    place.run("experiment", file, "--no-gpu")
    again = place.run("experiment", file, "--dry-run").out
    assert "by the newest starts here, 1 of them failed then, and would take longer if they came up\n" in again


def test_a_taken_port_is_a_failed_start(place: Place, small: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file = _experiment(place, small, int(taken.getsockname()[1]), _arm("clean"))
        done = place.run("experiment", file, "--no-gpu")
    (row,) = _arm_rows(place)
    assert (done.code, row.outcome) == (3, "boot_failed")
    assert "another server listens at" in (row.reason or "")


_LATE = """
import fcntl, runpy, sys
fcntl.flock(open({gate!r}), fcntl.LOCK_SH)
sys.argv = ["sim", *sys.argv[1:]]
runpy.run_module("infermaxx_tui.sim", run_name="__main__")
"""


def test_a_model_whose_folder_is_not_there_is_a_failed_start_that_nobody_waits_for(
    place: Place, small: Path, free_port: int
) -> None:
    words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--port", str(free_port)]
    arms = _arm("gone", flags={"model": "/nowhere/at/all"})
    file = _experiment(place, small, free_port, arms, launch=words)
    ahead = place.inside("experiment", file, "--dry-run")
    assert "    WILL NOT START: the model's folder /nowhere/at/all is not there\n" in ahead.out
    assert place.run("experiment", file, "--no-gpu").code == 3
    (row,) = _arm_rows(place)
    assert (row.outcome, row.reason) == (
        "boot_failed",
        "server.launch: the model's folder /nowhere/at/all is not there",
    )
    assert row.settings.levers["--model"] == "/nowhere/at/all"


def test_the_next_step_and_the_prompt_come_when_the_last_server_is_gone(
    place: Place, small: Path, free_port: int
) -> None:
    """A process of it that is deaf to SIGTERM is killed two seconds later, which is after the verdict."""
    script = f'(trap "" TERM; exec sleep 600) & exec {sys.executable} -m infermaxx_tui.sim --port {free_port}'
    file = _experiment(place, small, free_port, _arm("deaf"), launch=["sh", "-c", script], boots=2)
    done = place.run("experiment", file, "--no-gpu")
    assert [row.verdict for row in _arm_rows(place)] == ["PASS", "PASS"], done.err
    assert not any(RunFolder(place.runs / name).server_alive() for name in _runs(place))


class _Gate:
    """A server that comes up only once this is opened: it waits for a lock that is held here."""

    def __init__(self, place: Place, port: int) -> None:
        path = place.root / "gate"
        self._held = path.open("w")
        fcntl.flock(self._held, fcntl.LOCK_EX)
        self.launch = [sys.executable, "-c", _LATE.format(gate=str(path)), "--port", str(port)]

    def open(self) -> None:
        """Lets servers come up from now on."""
        self._held.close()


def _begun(place: Place) -> bool:
    found = list((place.runs / "experiments").glob("*/rows.jsonl"))
    return bool(found) and any(isinstance(row, Began) for row in _rows(place))


def test_ctrl_c_ends_the_step_and_the_same_command_goes_on_there(place: Place, small: Path, free_port: int) -> None:
    gate = _Gate(place, free_port)
    file = _experiment(place, small, free_port, _arm("late"), boots=2, launch=gate.launch)
    with place.started("experiment", file, "--no-gpu") as command:
        until(lambda: _begun(place))
        command.process.send_signal(signal.SIGINT)
        stopped = command.end()
    assert stopped.code == 130, stopped.err
    assert [row.outcome for row in _arm_rows(place)] == ["interrupted"]
    gate.open()
    done = place.run("experiment", file, "--no-gpu")
    assert done.code == 0, done.err
    assert "goes on where it was left" in done.err
    assert [(row.boot, row.outcome) for row in _arm_rows(place)] == [(0, "interrupted"), (0, "judged"), (1, "judged")]
    assert len(_runs(place)) == 2
    other = place.run("experiment", file, "--no-gpu", "--dry-run")
    assert "2 boots" in other.out


def _kill(command: Command) -> None:
    command.process.kill()
    command.end()


def test_a_killed_experiment_goes_on_at_its_arm_and_ends_the_runner_that_never_began(
    place: Place, small: Path, free_port: int
) -> None:
    gate = _Gate(place, free_port)
    file = _experiment(place, small, free_port, _arm("late"), launch=gate.launch)
    with place.started("experiment", file, "--no-gpu") as command:
        until(lambda: _begun(place))
        _kill(command)
    (began,) = [row for row in _rows(place) if isinstance(row, Began)]
    os.kill(began.pid, 0)
    gate.open()
    done = place.run("experiment", file, "--no-gpu")
    assert done.code == 0, done.err
    assert [row.outcome for row in _arm_rows(place)] == ["judged"]
    until(lambda: not psutil.pid_exists(began.pid) or psutil.Process(began.pid).status() == psutil.STATUS_ZOMBIE)


def test_a_run_that_outlived_its_experiment_is_followed_and_not_played_again(
    place: Place, small: Path, free_port: int
) -> None:
    file = _experiment(place, small, free_port, _arm("slow", set=["sessions.rounds=30"]))
    with place.started("experiment", file, "--no-gpu") as command:
        named = until(lambda: next((row.run for row in _rows_if(place) if isinstance(row, Began) and row.run), None))
        _kill(command)
    try:
        done = place.run("experiment", file, "--no-gpu")
    finally:
        kill_runner(place.runs / named)
    assert done.code == 0, done.err
    assert [row.run for row in _arm_rows(place)] == [named]
    assert _runs(place) == [named]


def _rows_if(place: Place) -> tuple[AnyRow, ...]:
    return _rows(place) if list((place.runs / "experiments").glob("*/rows.jsonl")) else ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["experiment"], "name a FILE, or --list, or --show ID"),
        (["experiment", "gone.toml"], "no such file and no shipped experiment"),
        (["experiment", "--show", "latest"], "no such experiment"),
        (["experiment", "arms.toml", "--set", "boots=0"], "boots: must lie between 1 and 20"),
        (["experiment", "arms.toml", "--set", "scenario=gone"], "no such file and no shipped scenario"),
        (["experiment", "arms.toml", "--set", 'set=["sessions.cuont=2"]'], "unknown key; the nearest known key is"),
    ],
)
def test_what_cannot_be_conducted_is_refused_in_one_line(
    place: Place, small: Path, free_port: int, words: list[str], said: str
) -> None:
    _experiment(place, small, free_port, _arm("clean"))
    done = place.inside(*words)
    assert done.code == 2
    assert said in done.complaint
    assert not place.runs.exists()


def test_two_at_once_are_refused(place: Place, small: Path, free_port: int) -> None:
    gate = _Gate(place, free_port)
    file = _experiment(place, small, free_port, _arm("late"), launch=gate.launch)
    with place.started("experiment", file, "--no-gpu") as command:
        until(lambda: _begun(place))
        second = place.run("experiment", file, "--no-gpu")
        command.process.send_signal(signal.SIGINT)
        command.end()
    gate.open()
    assert second.code == 2
    assert "is being conducted already" in second.err


def test_a_sweep_conducts_all_again_and_says_no_movement_where_there_is_none(
    place: Place, small: Path, free_port: int
) -> None:
    _experiment(place, small, free_port, _arm("clean"))
    folder = place.root / "fleet"
    folder.mkdir()
    (place.root / "arms.toml").rename(folder / "arms.toml")
    (folder / "broken.toml").write_text("name = 1\n", encoding="utf-8")
    first = place.run("sweep", str(folder), "--no-gpu")
    assert "the first of its kind" in first.out
    assert "  clean: PASS\n" in first.out
    assert "broken.toml: not conducted: name: expected `str`" in first.out
    assert (first.code, first.err) == (3, ""), "cron mails it"
    (folder / "broken.toml").unlink()
    lock = RunFolder(place.runs / "experiments").hold()
    other = place.inside("sweep", str(folder))
    os.close(lock)
    assert other.code == 2
    assert "another sweep is going on" in other.complaint
    second = place.run("sweep", str(folder), "--no-gpu")
    assert second.code == (3 if "CANNOT SAY" in second.out else 0), (
        "an answer that could not be had is not `no movement`"
    )
    assert "no movement" in second.out or "CANNOT SAY" in second.out
    assert "clean: PASS; 0 moved" in second.out
    assert second.out.count("unread: ") == 1
    assert "unread: small-arms: 2 verdicts of 2 times; `infermaxx experiment --show " in second.out
    assert "against 20" in (place.runs / "experiments" / "index.html").read_text(encoding="utf-8")
    assert len(list((place.runs / "experiments").glob("*/report.html"))) == 2
    with (place.runs / "experiments" / "sweeps.jsonl").open("rb") as lines:
        kept = [json.loads(line) for line in lines]
    assert [row["outcome"][:9] for row in kept] == ["conducted", "not condu", "conducted"]
    assert kept[0]["since"]["last"] is None
    assert [row["drift"] for row in kept[:2]] == ["first", None]
    assert kept[2]["since"]["last"] == kept[0]["since"]["now"]
    assert place.inside("sweep", str(place.root / "fleet2")).complaint.endswith("no such folder")
    (place.root / "fleet2").mkdir()
    assert place.inside("sweep", str(place.root / "fleet2")).complaint.endswith("holds no experiment files (*.toml)")


def test_a_key_that_a_variable_would_bring_into_the_rows_is_refused(place: Place, small: Path, free_port: int) -> None:
    file = _experiment(place, small, free_port, _arm("clean"), launch=["server", "--x", "${OUR_KEY}"])
    text = Path(file).read_text(encoding="utf-8").replace("[server]", '[vars]\nOUR_KEY = ""\n[server]')
    Path(file).write_text(text, encoding="utf-8")
    key = "sk-CANARY-0123456789"
    done = place.run("experiment", file, "--api-key-env", "OUR_KEY", env={"OUR_KEY": key})
    assert done.code == 2
    assert "holds the key of OUR_KEY" in done.complaint
    assert key not in done.err
    assert not place.runs.exists()


def test_each_rung_of_a_ladder_serves_the_largest_session_that_fits_and_refuses_the_next(
    place: Place, small: Path, free_port: int
) -> None:
    """Pools of 5,808 and 6,656 tokens for sessions of 5,047 to 7,193."""
    arms = _arm("low", flags={"pool": 5808, "max-model-len": 5808})
    arms += _arm("high", "low", flags={"pool": 6656, "max-model-len": 6656}, confounded="the window is the pool")
    file = Path(_experiment(place, small, free_port, arms))
    shipped = _SOURCE / "transcripts"
    names = [f"{shipped}/{name}-*.jsonl" for name in ("iniconfig", "pluggy", "own-split", "tomli")]
    probes = 'set = ["probes=[{kind=\\"fit\\", max_tokens=16}]"]'
    text = file.read_text(encoding="utf-8").replace("boots =", f"{probes}\nsessions = {json.dumps(names)}\nboots =")
    file.write_text(text, encoding="utf-8")
    done = place.run("experiment", str(file), "--no-gpu")
    assert done.code == 0, done.err
    figures = [{one.name: one.values for one in row.measures if one.name[:4] == "fit."} for row in _arm_rows(place)]
    assert figures == [
        {"fit.served_tokens": (5047.0,), "fit.refused_tokens": (6618.0,)},
        {"fit.served_tokens": (6618.0,), "fit.refused_tokens": (6880.0,)},
    ]
    assert "1 of 4 real sessions clear a pool of 5,808 tokens alone" in done.out
    assert "served: a request of 6,618 tokens, as long as own-split-cr (1 of 1 starts)" in done.out
    assert "refused: a request of 6,880 tokens, as long as iniconfig-form-feed (1 of 1 starts)" in done.out
    (folder,) = (place.runs / "experiments").iterdir()
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "exceeds, x 1.14" in page
    assert "served: 6,618 tokens, 1 of 1 starts" in page


def _outcomes(place: Place) -> list[tuple[str, str]]:
    """Arm and outcome of each row of the only experiment, also where a sweep has left files beside it."""
    (file,) = (place.runs / "experiments").glob("*/rows.jsonl")
    with file.open("rb") as lines:
        return [(row.arm, row.outcome) for row in decode_rows(lines) if isinstance(row, ArmRow)]


def test_an_arm_whose_power_limit_is_not_in_force_waits_until_somebody_has_set_it(
    place: Place, small: Path, free_port: int
) -> None:
    limit = place.root / "limit"
    limit.write_text("350", encoding="utf-8")
    sensor = f"while :; do echo gpu=0 power_w=200 limit_w=$(cat {limit}); sleep 0.2; done"
    shared = ["sensors.gpu=true", f"sensors.command={sensor}", 'sensors.server_gpus=["0"]', "sensors.interval_s=0.5"]
    arms = _arm("high", set=[*shared, "gates.power_limit_w=350"])
    arms += _arm("low", "high", set=["gates.power_limit_w=275"])
    file = _experiment(place, small, free_port, arms)
    first = place.run("sweep", str(place.root))
    assert first.code == 3, "nobody asked to stop"
    assert _outcomes(place) == [("high", "judged"), ("low", "gated")]
    assert "  high: PASS\n" in first.out
    assert "  low: gated; start 1: gated: power_limit: 350 W in force, gates.power_limit_w=275" in first.out
    assert limit.read_text(encoding="utf-8") == "350", "limits are read and never set"
    limit.write_text("275", encoding="utf-8")
    second = place.run("experiment", file)
    assert second.code == 0, second.err
    assert "goes on where it was left" in second.err
    assert _outcomes(place)[2:] == [("low", "judged")]
    assert "low (against high: set gates.power_limit_w 275): PASS" in second.out
