"""What each arm really is, with all that it takes over, and by which levers it differs from its parent.

Levers are read off what is started or asked in the end, and not off the words of the file: an arm that says the same in
other words moves nothing, and what never reaches a server is no lever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from infermaxx_tui.core.experiment.commandline import (
    Setting,
    command,
    given_flags,
    is_flag,
    key_text,
    lever_of,
    moved_keys,
    same_value,
)

if TYPE_CHECKING:
    from infermaxx_tui.core.experiment.file import Arm, Experiment

HEALTHY = "clean"
"""The fault of the embedded server that is none."""


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

    def lever(self, name: str) -> str:
        """The text of a lever in this arm. A flag that is not given has its default, and that may be on."""
        if name in self.levers:
            return self.levers[name]
        flag, _, key = name.partition(".")
        return key_text(self.levers.get(flag, ""), key) or ("default" if is_flag(name) else "without")


def settings(experiment: Experiment) -> tuple[Settings, ...]:
    """Each arm, in the order of the file. The file has no complaints."""
    by_name = {arm.name: arm for arm in experiment.arms}
    return tuple(_settings(experiment, arm, by_name) for arm in experiment.arms)


def _settings(experiment: Experiment, arm: Arm, by_name: Mapping[str, Arm]) -> Settings:
    one = _effective(experiment, line_of(arm, by_name))
    if arm.parent is None:
        return one
    parent = _effective(experiment, line_of(by_name[arm.parent], by_name))
    return msgspec.structs.replace(one, moved=differing(parent.levers, one.levers), parent=arm.parent)


def _effective(experiment: Experiment, line: Sequence[Arm]) -> Settings:
    """What is started or asked for the last of the line."""
    server, arm = experiment.server, line[-1]
    flags: dict[str, tuple[str, Setting]] = {one_flag(name): (name, value) for name, value in server.flags.items()}
    env = dict(server.env)
    url, sim = server.url, server.sim
    sets: dict[str, str] = keyed(experiment.set)
    start_s = server.start_s
    for one in line:
        for name, value in one.flags.items():
            flags.pop(one_flag(name), None)
            flags[one_flag(name)] = (name, value)
        env |= one.env
        sets |= keyed(one.set)
        url = one.url if one.url is not None else url
        sim = one.sim if one.sim is not None else sim
        start_s = one.start_s if one.start_s is not None else start_s
    launch = command(server.launch, dict(flags.values())) if server.launch and url is None else ()
    effective = Settings(
        arm=arm.name,
        launch=launch,
        start_s=start_s if launch else None,
        url=url,
        sim=sim if url is None and not server.launch else (),
        env=env,
        set=tuple(f"{key}={value}" for key, value in sets.items()),
        confounded=arm.confounded.strip(),
    )
    return msgspec.structs.replace(effective, levers=dict(_levers(effective)))


def one_flag(name: str) -> str:
    """What two spellings of one flag share; a key of JSON is set apart from the flag that it is of."""
    _, dot, keys = name.partition(".")
    return lever_of(name) + dot + keys


def _levers(one: Settings) -> Iterator[tuple[str, str]]:
    """Of a server that is not started here only its address is known."""
    yield from ((f"set {key}", value) for key, value in keyed(one.set).items())
    if one.url is not None:
        yield "url", _address(one.url)
        return
    yield from given_flags(one.launch).items()
    if "serve" in one.launch and (model := one.launch[one.launch.index("serve") + 1 :][:1]):
        yield from (("--model", word) for word in model if not word.startswith("-"))
    yield from ((f"env {name}", value) for name, value in one.env.items())
    yield from ((f"sim {fault}", "on") for fault in one.sim if fault != HEALTHY)


def _address(url: str) -> str:
    """One spelling of an address: `/v1` and a slash at its end say nothing, and without a scheme it is `http`."""
    whole = url.strip() if "://" in url else f"http://{url.strip()}"
    return whole.rstrip("/").removesuffix("/v1").rstrip("/")


def differing(left: Mapping[str, str], right: Mapping[str, str]) -> tuple[str, ...]:
    """Levers that are not the same in both, sorted; of a flag that is JSON in both, the keys if more than one differs.

    Beside a server that is not started here any other is another server, whatever its flags.
    """
    names = {name for name in {*left, *right} if not _same(name, left.get(name), right.get(name))}
    if "url" in names:
        names = {name for name in names if name == "url" or name.startswith("set ")}
    found: list[str] = []
    for name in names:
        keys = moved_keys(left.get(name), right.get(name)) if is_flag(name) else ()
        found += [f"{name}.{key}" for key in keys] if len(keys) > 1 else [name]
    return tuple(sorted(found))


def _same(name: str, left: str | None, right: str | None) -> bool:
    return same_value(left, right) if is_flag(name) else left == right


def line_of(arm: Arm, by_name: Mapping[str, Arm]) -> list[Arm]:
    """The arm's forebears from the first on, and itself."""
    line = [arm]
    while line[0].parent is not None:
        line.insert(0, by_name[line[0].parent])
    return line


def keyed(words: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` words by key; of two the last one counts."""
    return {key.strip(): value.strip() for key, _, value in (word.partition("=") for word in words)}
