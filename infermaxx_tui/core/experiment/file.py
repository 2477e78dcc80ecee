"""What an experiment file may say, and the errors it can raise."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from infermaxx_tui.core.experiment.checks import complaints
from infermaxx_tui.core.experiment.commandline import Setting
from infermaxx_tui.core.predictions import Prediction
from infermaxx_tui.core.scenario import ScenarioError, misfit, parse_toml, refuse_unknown

_VARIABLE = re.compile(r"\$\{(\w+)\}", re.ASCII)


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file; unknown keys are refused."""


class Base(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server that all arms start from: a command, a URL, or the embedded server."""

    launch: tuple[str, ...] = ()
    """The command without what the arms change, e.g. `["vllm", "serve", "${MODEL}", "--port", "8000"]`."""
    url: str | None = None
    sim: tuple[str, ...] = ()
    flags: dict[str, Setting] = {}
    """Flags by name without dashes; `true`: the bare flag, `false`: without it."""
    env: dict[str, str] = {}
    model: str = "auto"
    idle_s: float = 120.0
    """A start that neither writes nor works for so long is given up, and is a row."""
    quiet_s: float = 900.0
    """The same of one that works and writes nothing."""
    start_s: float = 3600.0
    """A start that is not up after so long is given up, whatever it writes, and is a row."""
    check_args: bool = True


class Arm(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One configuration, told by what it changes of its parent."""

    name: str
    parent: str | None = None
    """The arm whose settings it takes over; None: the base, and this arm is a control."""
    flags: dict[str, Setting] = {}
    env: dict[str, str] = {}
    url: str | None = None
    sim: tuple[str, ...] | None = None
    set: tuple[str, ...] = ()
    """Keys of the scenario, `KEY=VALUE`."""
    start_s: float | None = None
    """Seconds that its start has, where that is not the server's; no lever, since nothing is measured in them."""
    confounded: str = ""
    """Why more than one lever moves against the parent. Without it more than one is refused."""
    why: str = ""
    """What the arm is there for, in words."""


class Matrix(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Four arms of two levers, by name."""

    none: str
    a: str
    b: str
    both: str


class Claim(Prediction, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A claim about one arm beside another: the figure is the ratio of their medians (1.03: 3 % more)."""

    arm: str
    against: str
    depth_tokens: int | None = None
    streams: int | None = None


class Experiment(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole experiment file."""

    name: str
    question: str
    """What it answers, in one sentence."""
    scenario: str = "probes"
    """What every arm plays: a file relative to this one, or the bare name of a shipped scenario."""
    set: tuple[str, ...] = ()
    """Keys of the scenario for all arms."""
    vars: dict[str, str] = {}
    """Values of `${NAME}` in launch, flags, env, url and set; an environment variable of that name stands over
    them, and `--set vars.NAME=…` over both."""
    server: Base = Base()
    order: Literal["interleaved", "sequence"] = "interleaved"
    """`interleaved`: A B A B, so that a room that becomes warm touches all arms; `sequence`: A A B B."""
    boots: int = 2
    """Starts of each arm; a claim that crosses boots needs two at the least."""
    margin: float = 0.03
    """Share within which an arm counts as not having moved."""
    arms: tuple[Arm, ...] = ()
    matrix: Matrix | None = None
    """Two levers alone and together, so that their interaction is reckoned."""
    sessions: tuple[str, ...] = ()
    """Transcripts, as globs or bare names: how many of them each arm's pool holds."""
    predictions: tuple[Claim, ...] = ()


def parse_experiment(
    text: str, source: str, environment: Mapping[str, str], overrides: Sequence[str] = ()
) -> Experiment:
    """The experiment in TOML `text`, its variables filled in; `source` names the file in errors.

    Raises ScenarioError for the first thing that is wrong.
    """
    raw = parse_toml(text, source, overrides)
    refuse_unknown(raw, Experiment, "", source)
    arms = raw.get("arms")
    for place, arm in enumerate(arms if isinstance(arms, list) else ()):
        if isinstance(arm, dict):
            refuse_unknown(arm, Arm, f"arms[{place}].", source)
    known = raw.get("vars", {})
    named = {str(k): str(v) for k, v in known.items()} if isinstance(known, dict) else {}
    told = {key.removeprefix("vars.") for key, _, _ in (word.partition("=") for word in overrides)}
    values = {name: value if name in told else environment.get(name, value) for name, value in named.items()}
    filled = _fill(raw, values, source, "")
    try:
        experiment = msgspec.convert(filled, Experiment, strict=True)
    except msgspec.ValidationError as error:
        raise misfit(error, "", source) from None
    for key, message in complaints(experiment):
        raise ScenarioError(source, key, message)
    return experiment


def _fill(value: object, known: Mapping[str, str], source: str, where: str) -> object:
    """The same with each `${NAME}` replaced. Raises ScenarioError for one without a value."""
    match value:
        case str():
            return _VARIABLE.sub(lambda hit: _value(hit[1], known, source, where), value)
        case dict():
            return {
                str(_fill(k, known, source, where)): v
                if not where and k == "vars"
                else _fill(v, known, source, _at(where, k))
                for k, v in value.items()
            }
        case list():
            return [_fill(one, known, source, f"{where}[{place}]") for place, one in enumerate(value)]
        case _:
            return value


def _at(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _value(name: str, known: Mapping[str, str], source: str, where: str) -> str:
    if not (value := known.get(name)):
        raise ScenarioError(
            source, where, f"${{{name}}} has no value: set the variable {name}, or give --set vars.{name}=…"
        )
    return value
