"""What a scenario may say, and the errors it can raise: the file a user writes."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from typing import Literal

import msgspec

from infermaxx_tui.core.limits import Limits


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
    """Recorded think times and tool delays are cut to this."""
    ramp_s: float = 0.0
    """Seconds between the starts of two conversations of a wave."""
    control: Literal["none", "serial"] = "none"
    cache_salt: Literal["none", "session"] = "none"
    """`session`: a salt of its own for each conversation, so that none shares another's prefix cache."""


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


class Stop(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a run ends by itself."""

    duration: str | None = None
    """E.g. `90s`, `30m`, `2h`; this or the rounds, whichever comes first."""


class Scenario(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole scenario file."""

    name: str
    seed: int = 0
    server: Server = Server()
    transcripts: Transcripts = Transcripts()
    sessions: Sessions = Sessions()
    reply: Reply = Reply()
    canaries: Canaries = Canaries()
    stop: Stop = Stop()
    limits: Limits = Limits()

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


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> float:
    """Seconds of `90s`, `30m`, `2h`, `1h30m` or a bare number of seconds. Raises ValueError."""
    parts = list(_DURATION.finditer(text.strip()))
    if not parts or "".join(part.group(0) for part in parts) != text.strip():
        raise ValueError(f"{text!r} is not a duration: write 90s, 30m or 2h")
    return sum(float(part.group(1)) * _UNIT_S[part.group(2) or "s"] for part in parts)


def parse_scenario(text: str, source: str, overrides: tuple[str, ...] = ()) -> Scenario:
    """The scenario in TOML `text` with dotted `KEY=VALUE` overrides applied; `source` names the file in errors.

    Raises ScenarioError for the first thing that is wrong.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(source, "", f"not TOML: {error}") from None
    for override in overrides:
        _override(raw, override)
    _refuse_unknown(raw, Scenario, "", source)
    try:
        scenario = msgspec.convert(raw, Scenario, strict=True)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        raise ScenarioError(source, where.rstrip("`"), message[:1].lower() + message[1:]) from None
    _check(scenario, source)
    return scenario


def to_toml(scenario: Scenario) -> str:
    """TOML text of a scenario with every key that has a value; `parse_scenario` gives the same scenario back."""
    tables, lines = [], []
    for key, value in msgspec.to_builtins(scenario).items():
        if isinstance(value, dict):
            tables.append((key, value))
        else:
            lines.append(f"{key} = {_toml_value(value)}")
    for name, table in tables:
        lines += ["", f"[{name}]"]
        lines += [f"{key} = {_toml_value(value)}" for key, value in table.items() if value is not None]
    return "\n".join(lines) + "\n"


def _toml_value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
        case list() | tuple():
            return f"[{', '.join(map(_toml_value, value))}]"
        case dict():
            return "{" + ", ".join(f"{_toml_value(k)} = {_toml_value(v)}" for k, v in value.items()) + "}"
        case _:
            return str(value)


def _override(raw: dict[str, object], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise ScenarioError("--set", override, "write KEY=VALUE, e.g. --set sessions.count=4")
    try:
        parsed: object = tomllib.loads(f"v = {value}")["v"]
    except tomllib.TOMLDecodeError:
        parsed = value
    *path, last = key.split(".")
    table = raw
    for part in path:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ScenarioError("--set", key, f"{part} is a value, not a table")
        table = inner
    table[last] = parsed


def _refuse_unknown(raw: dict[str, object], struct: type[msgspec.Struct], prefix: str, source: str) -> None:
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
    for key, value in raw.items():
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1, cutoff=0.0)
            raise ScenarioError(source, f"{prefix}{key}", f"unknown key; the nearest known key is {prefix}{near[0]}")
        kind = fields[key]
        if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            _refuse_unknown(value, kind, f"{prefix}{key}.", source)


def _check(s: Scenario, source: str) -> None:
    """Refuses values that have the right type and make no sense."""

    def refuse(key: str, message: str) -> None:
        raise ScenarioError(source, key, message)

    if not _NAME.fullmatch(s.name):
        refuse("name", "use letters, digits, dot, dash and underscore, at most 64, and begin with a letter or digit")
    given = [key for key, value in (("url", s.server.url), ("launch", s.server.launch), ("sim", s.server.sim)) if value]
    if len(given) > 1:
        refuse(f"server.{given[1]}", f"server.{given[0]} is given too; keep one of url, launch and sim")
    for key, number, least in (
        ("sessions.count", s.sessions.count, 1),
        ("sessions.rounds", s.sessions.rounds, 1),
        ("sessions.target_depth", s.sessions.target_depth, 64),
        ("reply.max_tokens", s.reply.max_tokens, 1),
        ("canaries.max_tokens", s.canaries.max_tokens, 1),
        ("canaries.per_session", s.canaries.per_session, 0),
        ("limits.min_recalls", s.limits.min_recalls, 0),
    ):
        if number < least:
            refuse(key, f"{number} is too small; the least is {least}")
    if s.sessions.at_once is not None and not 1 <= s.sessions.at_once <= s.sessions.count:
        refuse("sessions.at_once", f"must lie between 1 and sessions.count={s.sessions.count}")
    if s.reply.temperature < 0:
        refuse("reply.temperature", "must not be negative")
    if isinstance(s.sessions.think_time, float) and (s.sessions.think_time < 0 or math.isnan(s.sessions.think_time)):
        refuse("sessions.think_time", "seconds must not be negative")
    if s.canaries.plant_at and len(s.canaries.plant_at) != s.canaries.per_session:
        refuse(
            "canaries.plant_at",
            f"has {len(s.canaries.plant_at)} places for canaries.per_session={s.canaries.per_session} tags",
        )
    for key, fractions in (("canaries.plant_at", s.canaries.plant_at), ("canaries.ask_at", s.canaries.ask_at)):
        if any(not 0.0 <= f <= 1.0 for f in fractions):
            refuse(key, "fractions of target_depth lie between 0 and 1")
    for key, share in (
        ("limits.max_excluded", s.limits.max_excluded),
        ("limits.max_delivery_share", s.limits.max_delivery_share),
        ("limits.max_degenerate_share", s.limits.max_degenerate_share),
    ):
        if not 0.0 <= share <= 1.0:
            refuse(key, "a share lies between 0 and 1")
    if s.stop.duration is not None:
        try:
            parse_duration(s.stop.duration)
        except ValueError as error:
            refuse("stop.duration", str(error))
