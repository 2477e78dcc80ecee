"""What each arm really is, with all that it takes over, and by which levers it differs from its parent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from infermaxx_tui.core.experiment.file import Arm, Experiment

Setting = str | int | float | bool


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One arm with everything that it takes over."""

    arm: str
    launch: tuple[str, ...] = ()
    """The whole command, flags included."""
    url: str | None = None
    sim: tuple[str, ...] = ()
    env: dict[str, str] = {}
    set: tuple[str, ...] = ()
    start_s: float | None = None
    """Seconds that a start of it has to come up; None for one that is not started here."""
    levers: dict[str, str] = {}
    """What can differ between arms, by name, as text."""
    moved: tuple[str, ...] = ()
    """Levers in which it differs from its parent."""
    parent: str | None = None
    confounded: str = ""
    """Why more than one lever moved, as its author says."""


def settings(experiment: Experiment) -> tuple[Settings, ...]:
    """Each arm, in the order of the file. The file has no complaints."""
    by_name = {arm.name: arm for arm in experiment.arms}
    return tuple(_settings(experiment, arm, by_name) for arm in experiment.arms)


def _settings(experiment: Experiment, arm: Arm, by_name: Mapping[str, Arm]) -> Settings:
    levers = _levers(experiment, line_of(arm, by_name))
    parent = None if arm.parent is None else _levers(experiment, line_of(by_name[arm.parent], by_name))
    flags: dict[str, Setting] = dict(experiment.server.flags)
    env = dict(experiment.server.env)
    url, sim = experiment.server.url, experiment.server.sim
    sets: dict[str, str] = _keyed(experiment.set)
    start_s = experiment.server.start_s
    for one in line_of(arm, by_name):
        flags |= one.flags
        env |= one.env
        sets |= _keyed(one.set)
        url = one.url if one.url is not None else url
        sim = one.sim if one.sim is not None else sim
        start_s = one.start_s if one.start_s is not None else start_s
    launch = command(experiment.server.launch, flags) if experiment.server.launch and url is None else ()
    return Settings(
        arm=arm.name,
        launch=launch,
        start_s=start_s if launch else None,
        url=url,
        sim=sim if url is None and not experiment.server.launch else (),
        env=env,
        set=tuple(f"{key}={value}" for key, value in sets.items()),
        levers=levers,
        moved=() if parent is None else differing(parent, levers),
        parent=arm.parent,
        confounded=arm.confounded,
    )


def differing(left: Mapping[str, str], right: Mapping[str, str]) -> tuple[str, ...]:
    """Levers that are not the same in both, sorted."""
    return tuple(sorted(name for name in {*left, *right} if left.get(name) != right.get(name)))


def line_of(arm: Arm, by_name: Mapping[str, Arm]) -> list[Arm]:
    """The arm's forebears from the first on, and itself."""
    line = [arm]
    while line[0].parent is not None:
        line.insert(0, by_name[line[0].parent])
    return line


def _levers(experiment: Experiment, line: Sequence[Arm]) -> dict[str, str]:
    server = experiment.server
    levers = {_flag(name): _text(value) for name, value in server.flags.items()}
    levers |= {f"env {name}": value for name, value in server.env.items()}
    levers |= {f"set {key}": value for key, value in _keyed(experiment.set).items()}
    if server.url is not None:
        levers["url"] = server.url
    if server.sim:
        levers["sim"] = " ".join(server.sim)
    for arm in line:
        levers |= {_flag(name): _text(value) for name, value in arm.flags.items()}
        levers |= {f"env {name}": value for name, value in arm.env.items()}
        levers |= {f"set {key}": value for key, value in _keyed(arm.set).items()}
        if arm.url is not None:
            levers["url"] = arm.url
        if arm.sim is not None:
            levers["sim"] = " ".join(arm.sim)
    return {name: value for name, value in levers.items() if value != _text(False)}


def _flag(name: str) -> str:
    return f"--{name.lstrip('-').replace('_', '-')}"


def _text(value: Setting) -> str:
    match value:
        case bool():
            return "on" if value else "without"
        case _:
            return str(value)


def _keyed(words: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` words by key."""
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def command(launch: Sequence[str], flags: Mapping[str, Setting]) -> tuple[str, ...]:
    """The command with these flags; one that stands in `launch` already is taken out there first, with its value.

    `model` of a `vllm serve` command is the word behind `serve`, since that takes no `--model`.
    """
    words = list(launch)
    if "serve" in words and (model := flags.get("model")) is not None:
        flags = {name: value for name, value in flags.items() if name != "model"}
        at = words.index("serve") + 1
        named = at < len(words) and not words[at].startswith("-")
        words[at : at + named] = [str(model)]
    for name in flags:
        words = _without(words, _flag(name))
    for name, value in flags.items():
        match value:
            case False:
                continue
            case True:
                words.append(_flag(name))
            case _:
                words += [_flag(name), str(value)]
    return tuple(words)


def _without(words: list[str], flag: str) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip and not word.startswith("--"):
            skip = False
            continue
        skip = word == flag
        if not skip and not word.startswith(f"{flag}="):
            kept.append(word)
    return kept
