"""What a scenario may say, and the errors it can raise: the file a user writes."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec

from infermaxx_tui.core.abilities import Ability
from infermaxx_tui.core.controls import Controls
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.predictions import Prediction
from infermaxx_tui.core.probes import Probe
from infermaxx_tui.core.scenario_checks import complaints

T = TypeVar("T", bound=msgspec.Struct)


class ScenarioError(Exception):
    """One line for people: which file, which key, what is wrong and what to do."""

    def __init__(self, file: str, key: str, message: str) -> None:
        super().__init__(f"{file}: {key}: {message}" if key else f"{file}: {message}")
        self.file = file
        self.key = key


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file; unknown keys are refused."""


class Server(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the server is: a URL, a command that starts it, or the embedded one with its faults."""

    url: str | None = None
    launch: tuple[str, ...] = ()
    sim: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    """Environment of a launched server."""
    log: str | None = None
    """The start-up log of a server that this run does not start, relative to the scenario file."""
    check_args: bool = True
    """Whether a launched vLLM's own parser is asked about its arguments first, which takes as long as importing it."""
    idle_s: float = 120.0
    """A start that neither writes nor works for so long is given up."""
    quiet_s: float = 900.0
    """A start that works is given up when it has written nothing for so long."""
    start_s: float = 3600.0
    """A start that is not up after so long is given up, whatever it writes."""
    model: str = "auto"


class Transcripts(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is replayed, and by which tokenizer it is counted."""

    paths: tuple[str, ...] = ("../transcripts/*.jsonl",)
    """Globs relative to the scenario file; a bare name is a shipped transcript."""
    tokenizer: str = "auto"
    """A directory, a hub name, `server` for its /tokenize, `shipped`, or `auto`."""


class Sessions(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many conversations, how deep, and how they are sent."""

    count: int = 1
    at_once: int | None = None
    """Conversations of one wave; all of them if left out."""
    rounds: int = 1
    prompt: Literal["tokens", "chat"] = "tokens"
    replies: Literal["live", "recorded"] = "live"
    target_depth: int = 8000
    think_time: Literal["none", "recorded"] | float = "none"
    max_think_s: float = 15.0
    """Recorded think times of people are cut to this, and those of tools where `max_tool_s` is not given."""
    max_tool_s: float | None = None
    """Recorded delays of tools are cut to this."""
    output: Literal["natural", "recorded"] = "natural"
    """`recorded`: main-line replies are forced to the lengths that were recorded, and then nobody can tell babble in
    them. Traces without text are always played so. Questions are answered freely in any case."""
    subagents: Literal["parallel", "alone"] = "parallel"
    """`parallel`: a subagent starts when its parent has made the reply that started it. `alone`: each is a transcript
    like any other."""
    request_nonce: bool = False
    """A random line at the head of the system prompt, another one in each request, as some clients and proxies send."""
    timestamp: Literal["none", "second", "minute", "hour", "day"] = "none"
    """The time of sending at the head of the system prompt, to the second, minute, hour or day."""
    ramp_s: float = 0.0
    """Seconds between the starts of two conversations of a wave."""
    control: Literal["none", "serial"] = "none"
    """`serial`: the same conversations take turns, with one request in flight over the whole run."""
    cache_salt: Literal["none", "session", "auto"] = "none"
    """`session`: a salt of its own for each conversation, so that none shares another's prefix cache. `auto`: only
    where one transcript serves several conversations at once."""


class Reply(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How main-line replies are generated."""

    max_tokens: int = 400
    temperature: float = 0.0


class Canaries(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tags are planted, where, and when they are asked for."""

    per_session: int = 5
    plant: Literal["exchange", "inline"] = "exchange"
    plant_at: tuple[float, ...] = ()
    """Fractions of target depth, one a tag; spread evenly between 17 % and 83 % if left out."""
    ask_at: tuple[float, ...] = (0.5, 1.0)
    ask: Literal["branch"] = "branch"
    max_tokens: int = 2048
    head: bool = False
    """One more tag at the end of the system prompt."""
    tail: bool = True
    """A sentinel told and asked in one side branch: it proves that the asking works."""
    absent: bool = True
    """A label that was never planted is asked too: the base rate of invention."""
    thinking: Literal["auto", "off"] = "auto"
    """`off` closes the think block of the recall prompt at once, where the template has one."""


class Quality(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks with one right answer, asked before the conversations, at their depth, and after them."""

    tasks: int = 24
    """0: none. A scenario without this table asks none."""
    when: tuple[Literal["before", "during", "after"], ...] = ("before", "during", "after")
    max_tokens: int = 2048
    """Quality replies have their own budget, thinking included; `canaries.thinking` holds for them too."""


class Gates(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conditions that are looked at before and after the run; one that fails before ends it there, inconclusive."""

    power_limit_w: float | None = None
    """The limit that must be in force on each card of the server; `nvidia-smi -pl` is gone after a reboot."""
    power_slack_w: float = 1.0
    gpu_used: bool = False
    """The server must hold memory of a card and compute on it."""
    card_exclusive: bool = False
    """Nobody else may be on the server's cards."""
    thinking: Literal["any", "off"] = "any"
    """`off`: no reply may reason, by its effect."""
    prefix_cache: bool = False
    """A prompt that is repeated must come from the cache; tried with a small one before the run."""
    slots: bool = False
    """So many requests as the run has sessions at once must have run at once."""


class Stop(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a run ends by itself."""

    duration: str | None = None
    """E.g. `90s`, `30m`, `2h`; this or the rounds, whichever comes first."""


class Sensors(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where GPU readings come from; the cards of this machine if nothing is said."""

    gpu: bool = True
    """`false` reads no GPU sensor at all."""
    metrics_url: str | None = None
    """dcgm-exporter or nvidia_gpu_exporter, with the path: `http://host:9400/metrics`."""
    ssh: str | None = None
    """A host on which nvidia-smi is read over ssh, without a password."""
    command: str | None = None
    """A command that prints `key=value` readings, once or again and again."""
    server_gpus: tuple[str, ...] = ()
    """The cards that the server computes on, by UUID or number, where that cannot be found out."""
    interval_s: float = 1.0
    """Seconds between two rounds of readings."""


class Scenario(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole scenario file."""

    name: str
    seed: int = 0
    server: Server = Server()
    transcripts: Transcripts = Transcripts()
    sessions: Sessions = Sessions()
    reply: Reply = Reply()
    canaries: Canaries = Canaries()
    quality: Quality = Quality(tasks=0)
    controls: Controls = Controls()
    probes: tuple[Probe, ...] = ()
    """What is measured with nothing beside, before the conversations, one `[[probes]]` each."""
    abilities: tuple[Ability, ...] = ()
    """What the server must be able to do besides, one `[[abilities]]` each: it fails no run, and is measured."""
    stop: Stop = Stop()
    gates: Gates = Gates()
    limits: Limits = Limits()
    sensors: Sensors = Sensors()
    predictions: tuple[Prediction, ...] = ()
    """What is claimed before the run, one `[[predictions]]` each."""

    @property
    def plant_fractions(self) -> tuple[float, ...]:
        """Fractions of target depth at which tags are planted, ascending."""
        if self.canaries.plant_at:
            return tuple(sorted(self.canaries.plant_at))
        n = self.canaries.per_session
        if n == 1:
            return (0.5,)
        return tuple(round(0.17 + 0.66 * i / (n - 1), 4) for i in range(n))

    @property
    def duration_s(self) -> float | None:
        """The stop duration in seconds, None if there is none."""
        return None if self.stop.duration is None else parse_duration(self.stop.duration)


_MISSING = re.compile(r"missing required field `(\w+)`")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", re.ASCII)
MAX_DURATION_S = 366 * 86400.0
"""The longest duration that a run may be told."""
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> float:
    """Seconds of `90s`, `30m`, `2h`, `1h30m` or a bare number of seconds; more than 0. Raises ValueError."""
    parts = list(_DURATION.finditer(text.strip()))
    whole = bool(parts) and "".join(part.group(0) for part in parts) == text.strip()
    if not whole or (len(parts) > 1 and not all(part.group(2) for part in parts)):
        raise ValueError(f"{text!r} is not a duration: write 90s, 30m or 2h")
    seconds = sum(float(part.group(1)) * _UNIT_S[part.group(2) or "s"] for part in parts)
    if not 0 < seconds <= MAX_DURATION_S:
        raise ValueError(f"{text!r} must be more than nothing and at most {MAX_DURATION_S / 86400:.0f} days")
    return seconds


def parse_scenario(text: str, source: str, overrides: tuple[str, ...] = ()) -> Scenario:
    """The scenario in TOML `text` with dotted `KEY=VALUE` overrides applied; `source` names the file in errors.

    Raises ScenarioError for the first thing that is wrong.
    """
    scenario = convert(parse_toml(text, source, overrides), Scenario, "", source)
    check_scenario(scenario, source)
    return scenario


def parse_toml(text: str, source: str, overrides: Iterable[str]) -> dict[str, object]:
    """The table in the text with `KEY=VALUE` overrides applied, nothing of it looked at. Raises ScenarioError."""
    try:
        raw: dict[str, object] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ScenarioError(source, "", f"not TOML: {error}") from None
    for word in overrides:
        override(raw, word)
    return raw


def convert(raw: dict[str, object], struct: type[T], prefix: str, source: str) -> T:
    """The parsed table as `struct`; `prefix` stands before each key in errors. Raises ScenarioError."""
    refuse_unknown(raw, struct, prefix, source)
    try:
        return msgspec.convert(raw, struct, strict=True)
    except msgspec.ValidationError as error:
        raise misfit(error, prefix, source) from None


def misfit(error: msgspec.ValidationError, prefix: str, source: str) -> ScenarioError:
    """What msgspec says of a value that does not fit, with the file and the key; `prefix` stands before the key."""
    message, _, where = str(error).partition(" - at `$")
    key = f"{prefix}{where.rstrip('`').lstrip('.')}".rstrip(".")
    if missing := _MISSING.search(message):
        key, message = f"{key}.{missing[1]}".lstrip("."), "is missing"
    return ScenarioError(source, key, message[:1].lower() + message[1:])


def override(raw: dict[str, object], word: str) -> None:
    """Sets one dotted `KEY=VALUE` in a parsed file; a value that is no TOML is a string. Raises ScenarioError."""
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise ScenarioError("--set", word, "write KEY=VALUE, e.g. --set sessions.count=4")
    parsed: object = value
    try:
        lone = tomllib.loads(f"v = {value}")
        parsed = lone["v"] if len(lone) == 1 else value
    except (tomllib.TOMLDecodeError, RecursionError):
        pass
    *path, last = key.split(".")
    table = raw
    for part in path:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ScenarioError("--set", key, f"{part} is a value, not a table")
        table = inner
    table[last] = parsed


def refuse_unknown(raw: dict[str, object], struct: type[msgspec.Struct], prefix: str, source: str) -> None:
    """Raises ScenarioError for the first key that `struct` does not know, and names the nearest that it knows."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
    for key, value in raw.items():
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1, cutoff=0.0)
            raise ScenarioError(source, f"{prefix}{key}", f"unknown key; the nearest known key is {prefix}{near[0]}")
        kind = fields[key]
        if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            refuse_unknown(value, kind, f"{prefix}{key}.", source)


def check_scenario(scenario: Scenario, source: str) -> None:
    """Raises ScenarioError for the first value that has the right type and makes no sense."""
    for key, message in complaints(scenario):
        raise ScenarioError(source, key, message)
    if scenario.stop.duration is not None:
        try:
            parse_duration(scenario.stop.duration)
        except ValueError as error:
            raise ScenarioError(source, "stop.duration", str(error)) from None
