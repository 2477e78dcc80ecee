"""What the command line asked for, and the scenario and transcripts that it names.

Nothing here needs a server or a client library: the command line and the runner both start with it, quickly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from infermaxx_tui import importers, shipped
from infermaxx_tui.core.plan import check_transcripts
from infermaxx_tui.core.power import need
from infermaxx_tui.core.probes import MIN_DEPTH, Probe
from infermaxx_tui.core.scenario import (
    Scenario,
    ScenarioError,
    Sensors,
    Server,
    check_scenario,
    parse_duration,
    parse_scenario,
)
from infermaxx_tui.core.stats import needed_for
from infermaxx_tui.core.transcript import NothingToUseError, Session
from infermaxx_tui.picture import can_draw

_NONCE = re.compile(r"[0-9a-fA-F]{1,64}", re.ASCII)
_URL_ADVICE = "write http://HOST:PORT, with or without /v1"


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for; the runner process gets it as JSON. It never holds a key."""

    scenario: str
    overrides: tuple[str, ...] = ()
    url: str | None = None
    model: str | None = None
    runs_dir: str | None = None
    seed: int | None = None
    nonce: str | None = None
    duration: str | None = None
    exclude: str | None = None
    faults: tuple[str, ...] = ()
    """Faults of the embedded server, for `demo`."""
    server: Server | None = None
    """Stands in the place of the scenario's server, for an arm of an experiment."""
    session_sizes: tuple[int, ...] = ()
    """For probes of kind `fit` that name none: tokens of the largest request of each session."""
    gpu_metrics: str | None = None
    gpu_ssh: str | None = None
    sensor_cmd: str | None = None
    no_gpu: bool = False
    api_key_env: str = "VLLM_API_KEY"
    resume: str | None = None
    """A run folder: that run is taken up again, and its log says what is to be played."""
    segment: int = 0
    """How often the run was started before."""
    on_verdict: str | None = None
    """A command that the runner starts once the verdict is written."""


class Loaded(msgspec.Struct, frozen=True):
    """A scenario with its transcripts, before any server is asked."""

    scenario: Scenario
    text: str
    source: str
    transcripts: tuple[Session, ...]


def load(wish: Wish) -> Loaded:
    """The scenario and its transcripts. Raises ScenarioError or TranscriptError."""
    path = shipped.find_scenario(wish.scenario)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(wish.scenario, "", error.strerror or "cannot be read") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(path.name, "", f"not UTF-8 text: {error.reason} at byte {error.start}") from None
    scenario = _apply(parse_scenario(text, path.name, wish.overrides), wish)
    if scenario.server.url is not None:
        check_url(scenario.server.url, *(("--url", "") if wish.url is not None else (path.name, "server.url")))
    return complete(scenario, text, path.name, path.parent)


def complete(scenario: Scenario, text: str, source: str, base: Path) -> Loaded:
    """The scenario with its transcripts, which are relative to the folder `base`.

    Raises ScenarioError or TranscriptError.
    """
    check_scenario(scenario, source)
    files = shipped.find_transcripts(scenario.transcripts.paths, base, source)
    transcripts = tuple(_sessions(files, shipped.named_folders(scenario.transcripts.paths, base)))
    check_transcripts(transcripts, source)
    if any(one.kind == "vision" for one in scenario.abilities) and not can_draw():
        raise ScenarioError(source, "abilities", "vision needs Pillow: pip install 'infermaxx-tui[vision]'")
    return Loaded(scenario, text, source, transcripts)


def _sessions(files: tuple[Path, ...], folders: tuple[Path, ...]) -> Iterator[Session]:
    """The sessions of the files, each once. Raises TranscriptError, but not for what lies in a folder unasked."""
    seen: set[int] = set()
    left_out: NothingToUseError | None = None
    found = False
    for file in files:
        try:
            for session in importers.unseen(importers.stream(file), seen):
                found = True
                yield session
        except NothingToUseError as error:
            if not any(folder in file.parents for folder in folders):
                raise
            left_out = error
    if left_out is not None and not found:
        raise left_out


def _apply(scenario: Scenario, wish: Wish) -> Scenario:
    """The flags of the command line stand over the file."""
    replace = msgspec.structs.replace
    if wish.nonce is not None and not _NONCE.fullmatch(wish.nonce):
        raise ScenarioError("--nonce", "", f"{wish.nonce!r} is not hex: write an earlier run's nonce, e.g. 5e1f7e57")
    if wish.server is not None:
        scenario = replace(scenario, server=wish.server)
    if wish.url is not None:
        scenario = replace(scenario, server=replace(scenario.server, url=wish.url, launch=(), sim=()))
    if wish.faults:
        scenario = replace(scenario, server=replace(scenario.server, sim=wish.faults, url=None, launch=()))
    if wish.model is not None:
        scenario = replace(scenario, server=replace(scenario.server, model=wish.model))
    if wish.session_sizes:
        scenario = replace(scenario, probes=tuple(_sized(one, wish.session_sizes) for one in scenario.probes))
    scenario = replace(scenario, sensors=_sensors(scenario.sensors, wish))
    if wish.seed is not None:
        scenario = replace(scenario, seed=wish.seed)
    if wish.duration is not None:
        try:
            parse_duration(wish.duration)
        except ValueError as error:
            raise ScenarioError("--duration", "", str(error)) from None
        scenario = replace(scenario, stop=replace(scenario.stop, duration=wish.duration))
    return scenario if wish.exclude is None else _enough_for(scenario, wish.exclude)


def _sized(probe: Probe, sizes: tuple[int, ...]) -> Probe:
    """A fit probe that names no sizes has these; sessions that are next to nothing prove nothing."""
    if probe.kind != "fit" or probe.sizes:
        return probe
    return msgspec.structs.replace(probe, sizes=tuple(size for size in sizes if size >= MIN_DEPTH))


def _sensors(named: Sensors, wish: Wish) -> Sensors:
    """A source named on the command line takes the place of the scenario's."""
    replace = msgspec.structs.replace
    if wish.gpu_metrics is not None or wish.gpu_ssh is not None:
        named = replace(named, metrics_url=wish.gpu_metrics, ssh=wish.gpu_ssh)
    if wish.sensor_cmd is not None:
        named = replace(named, command=wish.sensor_cmd)
    return replace(named, gpu=False) if wish.no_gpu else named


def check_url(url: str, file: str, key: str) -> None:
    """Refuses what is no HTTP address, and one that holds a password, since addresses are written down."""
    full = url.strip() if "://" in url else f"http://{url.strip()}"
    try:
        parts = urlsplit(full)
        named = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise ScenarioError(file, key, f"not an address ({error}): {_URL_ADVICE}") from None
    if parts.username is not None or parts.password is not None:
        advice = "addresses are written down, so keys go into a variable (--api-key-env NAME)"
        raise ScenarioError(file, key, f"holds a user or a password: {advice}")
    if parts.query or parts.fragment:
        raise ScenarioError(file, key, f"holds a ? or a #, and addresses are written down: {_URL_ADVICE}")
    if parts.scheme not in ("http", "https") or not named:
        raise ScenarioError(file, key, f"{url!r} is not an address of a server: {_URL_ADVICE}")
    if any(char.isspace() or not char.isprintable() for char in full):
        raise ScenarioError(file, key, f"{url!r} holds a blank: {_URL_ADVICE}")


def _enough_for(scenario: Scenario, exclude: str) -> Scenario:
    """Rounds and min_recalls so that a clean run excludes a failure rate above `exclude` with 95 % confidence."""
    number = exclude.strip()
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
        needed_for(share)
    except ValueError:
        raise ScenarioError("--exclude", "", f"{exclude!r} is not a share between 0 and 1: write 1% or 0.01") from None
    per_session = sum(
        1 for ask in scenario.canaries.ask_at for at in scenario.plant_fractions if at < ask
    ) + scenario.canaries.head * sum(ask > 0 for ask in scenario.canaries.ask_at)
    if not per_session:
        raise ScenarioError("--exclude", "", "the scenario asks no recalls; set canaries.per_session")
    needed = need(share, per_session * scenario.sessions.count, scenario.limits.max_excluded)
    replace = msgspec.structs.replace
    return replace(
        scenario,
        sessions=replace(scenario.sessions, rounds=max(needed.rounds, scenario.sessions.rounds)),
        limits=replace(scenario.limits, min_recalls=needed.recalls),
    )
