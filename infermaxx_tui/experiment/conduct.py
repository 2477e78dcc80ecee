"""Conducts a whole experiment: registers it, plays what is left of it step by step, and closes it."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

import infermaxx_tui
from infermaxx_tui.core.experiment.file import Experiment, parse_experiment
from infermaxx_tui.core.experiment.levers import settings
from infermaxx_tui.core.experiment.order import Step, steps
from infermaxx_tui.core.experiment.rows import Closed, Registered, pending, registered, text_sha256
from infermaxx_tui.core.predictions import sha256_of
from infermaxx_tui.core.scenario import Scenario, ScenarioError
from infermaxx_tui.experiment import folder as folders
from infermaxx_tui.experiment.adopt import adopt
from infermaxx_tui.experiment.folder import ExperimentFolder, left
from infermaxx_tui.experiment.peaks import peaks_of
from infermaxx_tui.experiment.step import Conditions, blank_row, conduct_step, wish_of
from infermaxx_tui.follow import StatusLine
from infermaxx_tui.launch import Interrupted, Relay, relayed
from infermaxx_tui.leftover import wait_for_servers
from infermaxx_tui.rundir import RunError, replace_file
from infermaxx_tui.secret import read_key
from infermaxx_tui.shipped import find_experiment, find_scenario, find_transcripts
from infermaxx_tui.sim.faults import UnknownFaultError, check_faults
from infermaxx_tui.wish import load

Conducted = Literal["whole", "waiting", "interrupted"]
"""Whether each step has a row, one waits for a condition that did not hold, or somebody asked to stop."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment as the command line asked for it."""

    experiment: Experiment
    text: str
    source: Path
    overrides: tuple[str, ...] = ()
    scenario_text: str = ""
    """Of the scenario that every arm plays."""

    @property
    def sha256(self) -> str:
        """Of the file, of what was set over it, and of the scenario: another of them is another experiment."""
        whole = msgspec.json.encode(self.experiment).decode()
        return text_sha256("\n".join((self.text, *self.overrides, whole, self.scenario_text)))


def read_experiment(name: str, overrides: Sequence[str] = (), api_key_env: str = "VLLM_API_KEY") -> Asked:
    """The experiment file of that path or bare name, its arms' scenarios checked too.

    Raises ScenarioError, also for one in which the key would be written down.
    """
    path = find_experiment(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(name, "", f"cannot be read: {error}") from None
    asked = Asked(
        experiment=parse_experiment(text, path.name, os.environ, overrides),
        text=text,
        source=path,
        overrides=tuple(overrides),
    )
    key = read_key(api_key_env)
    if key is not None and key in msgspec.json.encode(asked.experiment).decode():
        raise ScenarioError(
            path.name, "", f"holds the key of {api_key_env}, and rows are written down: a launched server has it anyway"
        )
    _check_scenarios(asked)
    scenario = Path(conditions_of(asked, ".", "", no_gpu=True).scenario)
    return msgspec.structs.replace(asked, scenario_text=scenario.read_text(encoding="utf-8"))


def _check_scenarios(asked: Asked) -> None:
    """Raises ScenarioError for an arm whose scenario is none, that sets keys to what they are for its parent, or whose
    embedded server has a fault that there is not; and for sessions that are not there."""
    name = asked.source.name
    if asked.experiment.sessions:
        find_transcripts(asked.experiment.sessions, asked.source.parent, name)
    played: dict[str, Scenario] = {}
    for one in settings(asked.experiment):
        try:
            check_faults(one.sim)
        except UnknownFaultError as error:
            raise ScenarioError(name, f"{one.arm}: sim", str(error)) from None
        played[one.arm] = load(wish_of(conditions_of(asked, ".", "", no_gpu=True), one)).scenario
    for place, one in enumerate(settings(asked.experiment)):
        if one.parent is None or not all(name.startswith("set ") for name in one.moved):
            continue
        if played[one.arm] == played[one.parent]:
            said = f"{one.arm} plays what its parent {one.parent} plays: {', '.join(one.moved)} changes nothing"
            raise ScenarioError(name, f"arms[{place}].set", said)


def conditions_of(asked: Asked, runs_dir: str, api_key_env: str, no_gpu: bool) -> Conditions:
    """What all steps share. The scenario lies beside the experiment's file, or is a shipped one."""
    named = asked.experiment.scenario
    beside = asked.source.parent / named
    scenario = beside if beside.is_file() else find_scenario(named)
    return Conditions(asked.experiment, str(scenario), runs_dir, api_key_env, no_gpu)


def open_folder(root: Path, asked: Asked, anew: bool) -> tuple[ExperimentFolder, bool]:
    """The folder, and whether it is one that is gone on with. A new one has its first row before anything starts."""
    name = asked.experiment.name
    if not anew and (known := folders.unfinished(root, name, asked.sha256)) is not None:
        return known, True
    peaks = peaks_of(asked.experiment.sessions, asked.source.parent, asked.source.name)
    made = folders.create(root, time.strftime("%Y%m%d-%H%M%S"), name, secrets.token_hex(2))
    replace_file(made.file, asked.text.encode())
    made.append(
        Registered(
            at_ms=time.time_ns() // 1_000_000,
            experiment=name,
            program=f"infermaxx {infermaxx_tui.__version__}",
            question=asked.experiment.question,
            file=asked.text,
            file_sha256=asked.sha256,
            scenario_sha256=text_sha256(asked.scenario_text),
            arms=settings(asked.experiment),
            order=tuple((step.arm, step.boot) for step in steps(asked.experiment)),
            margin=asked.experiment.margin,
            matrix=asked.experiment.matrix,
            peaks_tokens=peaks.tokens,
            peaks_names=peaks.names,
            peaks_by=peaks.counted_by,
            claims=asked.experiment.predictions,
            claims_sha256=sha256_of(asked.experiment.predictions),
        )
    )
    return made, False


def conduct(
    conditions: Conditions, folder: ExperimentFolder, status: Callable[[], StatusLine], narrate: Callable[[str], None]
) -> Conducted:
    """Plays every step that has no row yet. Raises RunError if somebody else is at it."""
    lock = folder.hold()
    try:
        with relayed() as relay:
            reason = _play_rest(conditions, folder, status, narrate, relay)
    finally:
        os.close(lock)
    rows = folder.rows()
    rest = len(left(rows))
    planned = len(conditions.experiment.arms) * conditions.experiment.boots
    folder.append(
        Closed(
            at_ms=time.time_ns() // 1_000_000,
            experiment=conditions.experiment.name,
            done=planned - rest,
            planned=planned,
            reason=reason,
        )
    )
    if reason is not None:
        return "interrupted"
    return "waiting" if rest else "whole"


def _play_rest(
    conditions: Conditions,
    folder: ExperimentFolder,
    status: Callable[[], StatusLine],
    narrate: Callable[[str], None],
    relay: Relay,
) -> str | None:
    rows = folder.rows()
    first = registered(rows)
    if first is None:
        raise RunError(f"{folder.id}: its results have no first line; start it anew with --new")
    conditions = msgspec.structs.replace(conditions, session_sizes=first.peaks_tokens)
    by_arm = {one.arm: one for one in first.arms}
    planned = {step: place for place, step in enumerate(first.order)}
    for arm, boot in left(rows):
        place = planned[arm, boot]
        narrate(f"step {place + 1} of {len(planned)}: {arm}, start {boot + 1}")
        blank = blank_row(conditions, by_arm[arm], Step(place, arm, boot))
        row = None
        try:
            if (last := pending(rows, arm, boot)) is not None:
                row = adopt(last, blank, Path(conditions.runs_dir), status(), narrate)
            if row is None:
                row = conduct_step(wish_of(conditions, by_arm[arm]), blank, folder, status(), narrate, relay)
            folder.append(row)
            narrate(f"{arm}, start {boot + 1}: {row.verdict or row.outcome}{f' ({row.reason})' if row.reason else ''}")
            _see_out(Path(conditions.runs_dir), narrate)
        except Interrupted:
            return "interrupted at once"
        if row.outcome == "interrupted":
            return "interrupted"
    return None


def _see_out(root: Path, narrate: Callable[[str], None]) -> None:
    """Waits for the server of the run that is over: it ends after the verdict, and holds its card till then."""
    try:
        wait_for_servers(root)
    except RunError as error:
        narrate(str(error))
