"""What a scenario may say, what it must not, and that its text comes back."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.scenario import (
    MAX_DURATION_S,
    Canaries,
    Reply,
    Scenario,
    ScenarioError,
    Server,
    Sessions,
    Stop,
    Transcripts,
    parse_duration,
    parse_scenario,
)
from infermaxx_tui.core.scenario_checks import MAX_LABELS, complaints
from infermaxx_tui.core.scenario_toml import to_toml

_CONTRACT = """
name = "soak-4x36k"
seed = 7
[server]
url = "http://127.0.0.1:8000"
model = "auto"
[transcripts]
paths = ["../transcripts/*.jsonl"]
tokenizer = "auto"
[sessions]
count = 4
rounds = 1
prompt = "tokens"
replies = "live"
target_depth = 36000
think_time = "none"
control = "none"
[reply]
max_tokens = 400
temperature = 0.0
[canaries]
per_session = 5
plant = "exchange"
plant_at = [0.17, 0.33, 0.5, 0.67, 0.83]
ask_at = [0.5, 1.0]
ask = "branch"
max_tokens = 2048
[stop]
duration = "2h"
[limits]
min_recalls = 28
max_lost = 0
max_excluded = 0.1
"""

_texts = st.text(st.characters(codec="utf-8"), max_size=12)
_shares = st.floats(0, 1)
_seconds = st.floats(0, 1000, allow_nan=False)


@st.composite
def _scenarios(draw: st.DrawFn) -> Scenario:
    """Scenarios that make sense, with every key drawn."""
    count = draw(st.integers(1, 8))
    per_session = draw(st.integers(0, 6))
    kind = draw(st.sampled_from(["url", "launch", "sim", "none"]))
    return Scenario(
        name=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)),
        seed=draw(st.integers(0, 2**63 - 1)),
        server=Server(
            url=draw(_texts) if kind == "url" else None,
            launch=draw(st.tuples(_texts, _texts)) if kind == "launch" else (),
            sim=("clean",) if kind == "sim" else (),
            env=draw(st.dictionaries(_texts, _texts, max_size=3)),
            model=draw(_texts),
        ),
        transcripts=Transcripts(paths=(draw(_texts), draw(_texts)), tokenizer=draw(_texts)),
        sessions=Sessions(
            count=count,
            at_once=draw(st.none() | st.integers(1, count)),
            rounds=draw(st.integers(1, 5)),
            prompt=draw(st.sampled_from(["tokens", "chat"])),
            replies=draw(st.sampled_from(["live", "recorded"])),
            target_depth=draw(st.integers(64, 100_000)),
            think_time=draw(st.one_of(st.just("none"), st.just("recorded"), _seconds)),
            max_think_s=draw(_seconds),
            ramp_s=draw(_seconds),
            control=draw(st.sampled_from(["none", "serial"])),
            cache_salt=draw(st.sampled_from(["none", "session"])),
        ),
        reply=Reply(max_tokens=draw(st.integers(1, 4096)), temperature=draw(st.floats(0, 2))),
        canaries=Canaries(
            per_session=per_session,
            plant=draw(st.sampled_from(["exchange", "inline"])),
            plant_at=draw(st.just(()) | st.lists(_shares, min_size=per_session, max_size=per_session).map(tuple)),
            ask_at=draw(st.lists(_shares, max_size=3).map(tuple)),
            max_tokens=draw(st.integers(1, 4096)),
            head=draw(st.booleans()),
            tail=draw(st.booleans()),
            absent=draw(st.booleans()),
            thinking=draw(st.sampled_from(["auto", "off"])),
        ),
        stop=Stop(duration=draw(st.none() | st.sampled_from(["90s", "30m", "2h", "1h30m", "250ms", "7"]))),
        limits=Limits(
            min_recalls=draw(st.integers(0, 99)),
            max_excluded=draw(_shares),
            stall_s=draw(st.floats(0.5, 500)),
            max_ttft_p99_ms=draw(st.none() | st.floats(1, 1e6)),
        ),
    )


def test_the_contracts_example_is_read_as_written() -> None:
    scenario = parse_scenario(_CONTRACT, "soak-4x36k.toml")
    assert scenario.sessions == Sessions(count=4, target_depth=36000)
    assert scenario.plant_fractions == (0.17, 0.33, 0.5, 0.67, 0.83)
    assert scenario.duration_s == 7200.0
    assert scenario.limits == Limits(min_recalls=28)
    assert parse_scenario(to_toml(scenario), "again.toml") == scenario


@given(_scenarios())
def test_the_text_of_a_scenario_gives_it_back(scenario: Scenario) -> None:
    assert not list(complaints(scenario))
    assert parse_scenario(to_toml(scenario), "x.toml") == scenario


@given(_scenarios(), st.data())
def test_an_override_sets_one_key_and_no_other(scenario: Scenario, data: st.DataObject) -> None:
    depth = data.draw(st.integers(64, 100_000))
    changed = parse_scenario(to_toml(scenario), "x.toml", (f"sessions.target_depth={depth}",))
    sessions = msgspec.structs.replace(scenario.sessions, target_depth=depth)
    assert changed == msgspec.structs.replace(scenario, sessions=sessions)


@pytest.mark.parametrize(
    ("override", "look", "value"),
    [
        ("name=other", "name", "other"),
        ('name="other"', "name", "other"),
        ("sessions.count=9", "sessions.count", 9),
        ("sessions.think_time=2", "sessions.think_time", 2.0),
        ("sessions.think_time=recorded", "sessions.think_time", "recorded"),
        ("stop.duration=30m", "stop.duration", "30m"),
        ("canaries.ask_at=[0.25, 1]", "canaries.ask_at", (0.25, 1.0)),
        ("canaries.head=true", "canaries.head", True),
        ("server.env.SOME_FLAG=1 or 2", "server.env", {"SOME_FLAG": "1 or 2"}),
        ("server.url=http://[::1]:8000/v1", "server.url", "http://[::1]:8000/v1"),
        ("transcripts.tokenizer=a=b", "transcripts.tokenizer", "a=b"),
    ],
)
def test_overrides(override: str, look: str, value: Any) -> None:
    found: Any = parse_scenario('name = "x"', "x.toml", (override,))
    for name in look.split("."):
        found = getattr(found, name)
    assert found == value


def test_the_last_override_of_a_key_counts() -> None:
    scenario = parse_scenario('name = "x"', "x.toml", ("sessions.count=2", "sessions.count=3"))
    assert scenario.sessions.count == 3


def test_an_override_is_one_value() -> None:
    with pytest.raises(ScenarioError, match=r"sessions\.count"):
        parse_scenario('name = "x"', "x.toml", ("sessions.count=2\nname = 'y'",))


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("seed = 1", "name", "is missing"),
        ('name = "x"\nsede = 1', "sede", "seed"),
        ('name = "x"\n[sessions]\nrouds = 1', "sessions.rouds", "sessions.rounds"),
        ('name = "x"\n[limits]\nmax_los = 1', "limits.max_los", "limits.max_lost"),
        ('name = "x"\nsessions = 3', "sessions", "object"),
        ('name = "x"\n[sessions]\ncount = 1.5', "sessions.count", "int"),
        ('name = "x"\n[sessions]\ncount = true', "sessions.count", "int"),
        ('name = "x"\n[sessions]\nprompt = "words"', "sessions.prompt", "words"),
        ('name = "x"\n[sessions]\ncount = 1\nat_once = 2', "sessions.at_once", "between 1 and"),
        ('name = "x"\n[sessions]\nthink_time = nan', "sessions.think_time", "seconds"),
        ('name = "x"\n[sessions]\nramp_s = inf', "sessions.ramp_s", "seconds"),
        ('name = "x"\n[sessions]\ntarget_depth = 63', "sessions.target_depth", "least is 64"),
        ('name = "x"\n[sessions]\ncount = 100000000000000000000', "sessions.count", "too large"),
        ('name = "x"\nseed = -1', "seed", "between 0"),
        ('name = "x"\n[reply]\ntemperature = nan', "reply.temperature", "between 0"),
        ('name = "x"\n[reply]\nmax_tokens = 0', "reply.max_tokens", "least is 1"),
        ('name = "x"\n[canaries]\nplant_at = [0.5]', "canaries.plant_at", "1 places for canaries.per_session=5"),
        ('name = "x"\n[canaries]\nask_at = [1.5]', "canaries.ask_at", "between 0 and 1"),
        ('name = "x"\n[canaries]\nask_at = [nan]', "canaries.ask_at", "between 0 and 1"),
        ('name = "x"\n[canaries]\nper_session = -1', "canaries.per_session", "least is 0"),
        ('name = "x"\n[sessions]\nrounds = 30000', "sessions.rounds", "labels"),
        ('name = "x"\n[transcripts]\npaths = []', "transcripts.paths", "no transcript"),
        ('name = "x"\n[limits]\nmax_excluded = -0.1', "limits.max_excluded", "share"),
        ('name = "x"\n[limits]\nstall_s = 0', "limits.stall_s", "more than 0"),
        ('name = "x"\n[limits]\nmin_recalls = -1', "limits.min_recalls", "least is 0"),
        ('name = "x"\n[stop]\nduration = "0s"', "stop.duration", "more than nothing"),
        ('name = "a b"', "name", "letters"),
        ('name = ""', "name", "letters"),
        (f'name = "{"a" * 65}"', "name", "64"),
        ("name = ", "", "not TOML"),
        ('name = "x"\nname = "y"', "", "not TOML"),
    ],
)
def test_what_is_refused_is_refused_with_file_key_and_reason(text: str, key: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "x.toml")
    assert (caught.value.file, caught.value.key) == ("x.toml", key)
    message = str(caught.value)
    assert message.startswith("x.toml: ")
    assert said in message
    assert "\n" not in message


@given(st.text(max_size=60))
def test_any_text_is_a_scenario_or_one_line(text: str) -> None:
    said = None
    try:
        parse_scenario(text, "x.toml")
    except ScenarioError as error:
        said = str(error)
    assert said is None or len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("30m", 1800.0),
        ("2h", 7200.0),
        ("1h30m", 5400.0),
        ("250ms", 0.25),
        ("7", 7.0),
        ("1.5h", 5400.0),
        ("1d", 86400.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert parse_duration(f" {text} ") == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "-1s", "0", "0h", "1 h", "h", "1h30", "1x", "1e3s", "nan", "inf", "999999d", "٣s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"30m|more than nothing"):
        parse_duration(text)


@given(st.integers(1, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_duration_is_the_sum_of_its_parts(hours: int, minutes: int, seconds: int) -> None:
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


@given(st.floats(0.001, MAX_DURATION_S))
def test_any_number_of_seconds_is_a_duration(seconds: float) -> None:
    assert math.isclose(parse_duration(f"{seconds:.6f}"), seconds, rel_tol=1e-3)


@given(st.integers(1, 30))
def test_tags_without_places_are_spread_evenly(n: int) -> None:
    scenario = Scenario(name="x", canaries=Canaries(per_session=n))
    fractions = scenario.plant_fractions
    assert len(fractions) == n
    assert list(fractions) == sorted(fractions)
    assert all(0.17 <= fraction <= 0.83 for fraction in fractions)


def test_more_labels_than_there_are_words_for_are_refused_before_they_are_made() -> None:
    rounds = MAX_LABELS // (5 + 2)
    at_most = Scenario(name="x", sessions=Sessions(rounds=rounds))
    assert not list(complaints(at_most))
    one_more = msgspec.structs.replace(at_most, sessions=Sessions(rounds=rounds + 1))
    assert [key for key, _ in complaints(one_more)] == ["sessions.rounds"]
