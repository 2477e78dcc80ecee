"""What makes no sense in a scenario although every value has the right type."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from infermaxx_tui.core.abilities import wrong_with as ability_wrong_with
from infermaxx_tui.core.limits import DRIFT_MARGINS
from infermaxx_tui.core.predictions import wrong_with
from infermaxx_tui.core.probes import wrong_with as probe_wrong_with
from infermaxx_tui.core.words import FIRST, SECOND

if TYPE_CHECKING:
    from infermaxx_tui.core.limits import Limits
    from infermaxx_tui.core.scenario import Scenario

Complaint = tuple[str, str]
"""A key path, and what is wrong with its value."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_SEED = 2**63 - 1
"""Servers take seeds of 64 bits with a sign."""
_MAX_TOKENS = 100_000_000
"""Beyond any context window; keeps sums inside what a server's JSON takes."""
_MAX_SECONDS = 7 * 86400.0
_LEAST_INTERVAL_S = 0.5
"""Drivers refresh their readings about ten times a second, and asking costs them a lock."""
_MOST_INTERVAL_S = 60.0
_MAX_TASKS = 960
"""Quality tasks of a set; more of the same kinds would tell no more."""
_MAX_CONTROLS = 64
"""Prompts of a control; more of them take long and tell no more."""
_KEY_FLAG = re.compile(r"--?(?:api[-_]key|hf[-_]token)(?:=|$)")
_KEY_NAME = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_WRITTEN_DOWN = "what a scenario says is written down: put it into a variable of your own environment"
"""Process lists, logs and run folders show a scenario; they do not show the environment that it is started in."""
MAX_LABELS = len(FIRST) * len(SECOND)
"""Lot tags, sentinels and absent labels that one run can name."""


def complaints(s: Scenario) -> Iterator[Complaint]:
    """All that is wrong, in the order of the file."""
    if not _NAME.fullmatch(s.name):
        yield "name", "use letters, digits, dot, dash and underscore, at most 64, and begin with a letter or digit"
    if not 0 <= s.seed <= _MAX_SEED:
        yield "seed", f"must lie between 0 and {_MAX_SEED}"
    yield from _server(s)
    yield from _counts(s)
    yield from _seconds(s)
    yield from _canaries(s)
    if s.quality.tasks and not s.quality.when:
        yield "quality.when", "is empty: name before, during or after, or set quality.tasks=0"
    if len(set(s.quality.when)) < len(s.quality.when):
        yield "quality.when", "names a phase twice"
    yield from _sensors(s)
    yield from limit_complaints(s.limits, "limits.")
    yield from _predictions(s)
    yield from _probes(s)
    yield from _abilities(s)


def _probes(s: Scenario) -> Iterator[Complaint]:
    for place, one in enumerate(s.probes):
        wrong = probe_wrong_with(one)
        if wrong is not None:
            yield f"probes[{place}].{wrong[0]}", wrong[1]
        elif one.kind == "identity" and s.reply.temperature:
            yield f"probes[{place}].kind", "identity can be looked for at reply.temperature=0 alone"


def _abilities(s: Scenario) -> Iterator[Complaint]:
    for place, one in enumerate(s.abilities):
        wrong = ability_wrong_with(one)
        if wrong is not None:
            yield f"abilities[{place}].{wrong[0]}", wrong[1]
        elif one.name in (other.name for other in s.abilities[:place]):
            yield f"abilities[{place}].kind", f"{one.name} is asked for twice; its figures could not be told apart"


def _predictions(s: Scenario) -> Iterator[Complaint]:
    claims = [one.claim for one in s.predictions]
    for place, one in enumerate(s.predictions):
        wrong = wrong_with(one)
        if wrong is None and claims.index(one.claim) < place:
            wrong = "claim", "is said twice; what becomes of it could not be told apart"
        if wrong is not None:
            yield f"predictions[{place}].{wrong[0]}", wrong[1]


def _server(s: Scenario) -> Iterator[Complaint]:
    given = [key for key, value in (("url", s.server.url), ("launch", s.server.launch), ("sim", s.server.sim)) if value]
    if len(given) > 1:
        yield f"server.{given[1]}", f"server.{given[0]} is given too; keep one of url, launch and sim"
    if s.server.log is not None and (s.server.launch or s.server.sim):
        yield "server.log", "belongs to server.url: a server that the run starts has a log of its own in the run folder"
    if any(_KEY_FLAG.match(word) for word in s.server.launch):
        yield "server.launch", f"holds a key, and {_WRITTEN_DOWN}, which a launched server has too"
    for name in s.server.env:
        if _KEY_NAME.search(name):
            yield (
                f"server.env.{name}",
                f"holds a key, and {_WRITTEN_DOWN} of that name, which a launched server has too",
            )
    if not s.transcripts.paths:
        yield "transcripts.paths", "names no transcript"


def _counts(s: Scenario) -> Iterator[Complaint]:
    for key, number, least, most in (
        ("sessions.count", s.sessions.count, 1, MAX_LABELS),
        ("sessions.rounds", s.sessions.rounds, 1, MAX_LABELS),
        ("sessions.target_depth", s.sessions.target_depth, 64, _MAX_TOKENS),
        ("reply.max_tokens", s.reply.max_tokens, 1, _MAX_TOKENS),
        ("canaries.max_tokens", s.canaries.max_tokens, 1, _MAX_TOKENS),
        ("canaries.per_session", s.canaries.per_session, 0, MAX_LABELS),
        ("quality.tasks", s.quality.tasks, 0, _MAX_TASKS),
        ("quality.max_tokens", s.quality.max_tokens, 1, _MAX_TOKENS),
        ("controls.repeat", s.controls.repeat, 0, _MAX_CONTROLS),
        ("controls.cache", s.controls.cache, 0, _MAX_CONTROLS),
        ("controls.alike", s.controls.alike, 0, _MAX_CONTROLS),
        ("controls.salt", s.controls.salt, 0, _MAX_CONTROLS),
        ("controls.after", s.controls.after, 0, _MAX_CONTROLS),
    ):
        if number < least:
            yield key, f"{number} is too small; the least is {least}"
        if number > most:
            yield key, f"{number} is too large; the most is {most}"
    if s.controls.alike == 1:
        yield "controls.alike", "one prompt has no other beside it: use at least 2, or 0 for none"
    if s.sessions.at_once is not None and not 1 <= s.sessions.at_once <= s.sessions.count:
        yield "sessions.at_once", f"must lie between 1 and sessions.count={s.sessions.count}"
    if not 0 <= s.reply.temperature <= 100:
        yield "reply.temperature", "must lie between 0 and 100"


def _seconds(s: Scenario) -> Iterator[Complaint]:
    limit, slack = s.gates.power_limit_w, s.gates.power_slack_w
    if limit is not None and not 0 < limit <= 10_000:
        yield "gates.power_limit_w", "watts must lie between 0 and 10000"
    if not 0 <= slack <= 1000:
        yield "gates.power_slack_w", "watts must lie between 0 and 1000"
    think = s.sessions.think_time
    for key, seconds in (
        ("server.idle_s", s.server.idle_s),
        ("server.quiet_s", s.server.quiet_s),
        ("server.start_s", s.server.start_s),
        ("sessions.think_time", think if isinstance(think, float) else 0.0),
        ("sessions.max_think_s", s.sessions.max_think_s),
        ("sessions.max_tool_s", s.sessions.max_tool_s or 0.0),
        ("sessions.ramp_s", s.sessions.ramp_s),
    ):
        if not 0 <= seconds <= _MAX_SECONDS:
            yield key, f"seconds must lie between 0 and {_MAX_SECONDS:.0f}"


def _canaries(s: Scenario) -> Iterator[Complaint]:
    canaries = s.canaries
    if canaries.plant_at and len(canaries.plant_at) != canaries.per_session:
        yield (
            "canaries.plant_at",
            f"has {len(canaries.plant_at)} places for canaries.per_session={canaries.per_session} tags",
        )
    for key, fractions in (("canaries.plant_at", canaries.plant_at), ("canaries.ask_at", canaries.ask_at)):
        if any(not 0.0 <= f <= 1.0 for f in fractions):
            yield key, "fractions of target_depth lie between 0 and 1"
    per_session = canaries.per_session + canaries.head + canaries.tail + canaries.absent
    labels = per_session * (s.sessions.count * s.sessions.rounds + s.controls.solo) + s.controls.salt
    if labels > MAX_LABELS:
        yield (
            "sessions.rounds",
            f"sessions x rounds x tags need {labels} labels and there are {MAX_LABELS}:"
            " make sessions.rounds, sessions.count or canaries.per_session smaller, or start several runs",
        )


def _sensors(s: Scenario) -> Iterator[Complaint]:
    sensors = s.sensors
    if sensors.metrics_url is not None and not re.fullmatch(r"https?://[^/\s@?#]+(/[^\s?#]*)?", sensors.metrics_url):
        yield "sensors.metrics_url", "write http://HOST:PORT/metrics, without a user, a password or a query"
    if sensors.metrics_url is not None and sensors.ssh is not None:
        yield "sensors.ssh", "sensors.metrics_url is given too; keep one of them"
    if sensors.ssh is not None and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]*", sensors.ssh):
        yield "sensors.ssh", "write HOST or USER@HOST, as ssh takes it"
    if sensors.command is not None and not sensors.command.strip():
        yield "sensors.command", "is empty"
    if not _LEAST_INTERVAL_S <= sensors.interval_s <= _MOST_INTERVAL_S:
        yield "sensors.interval_s", f"must lie between {_LEAST_INTERVAL_S:g} and {_MOST_INTERVAL_S:g} seconds"


def limit_complaints(limits: Limits, prefix: str) -> Iterator[Complaint]:
    """What is wrong with limits alone; `prefix` stands before each key."""
    for key in ("min_recalls", "max_lost", "max_degenerate_recalls"):
        if getattr(limits, key) < 0:
            yield f"{prefix}{key}", f"{getattr(limits, key)} is too small; the least is 0"
    for key in (
        "max_excluded",
        "max_delivery_share",
        "max_degenerate_share",
        "min_tail_recalled",
        "min_overlap",
        "deep",
        "max_loop_lag_share",
        "max_quality_excluded",
        "min_quality",
    ):
        if getattr(limits, key) is not None and not 0.0 <= getattr(limits, key) <= 1.0:
            yield f"{prefix}{key}", "a share lies between 0 and 1"
    for key in (
        "stall_s",
        "max_ttft_p99_ms",
        "max_gap_p99_ms",
        "max_loop_lag_ms",
        "max_dispatch_delay_ms",
        "max_loop_cpu_share",
        "min_drift_hours",
        *DRIFT_MARGINS,
    ):
        value = getattr(limits, key)
        if value is not None and not (value > 0 and math.isfinite(value)):
            yield f"{prefix}{key}", "must be more than 0"
