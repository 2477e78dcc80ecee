"""The advice that is printed before a run is advice that works."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.plan import Lengths, plan
from infermaxx_tui.core.readings import CacheConfig
from infermaxx_tui.core.scenario import Canaries, Reply, Scenario, ScenarioError, Sessions, parse_scenario
from infermaxx_tui.core.scenario_toml import to_toml
from infermaxx_tui.core.transcript import Message, Request, Session, Window
from infermaxx_tui.prepare import damage, preflight
from infermaxx_tui.server.describe import ServerFacts
from infermaxx_tui.wish import Wish, load

settings.register_profile("cli", deadline=None)
settings.load_profile("cli")

_LENGTHS = (Lengths((60_000,) * 10, (100,) * 10),)


def _facts(window: int | None, pool: int | None = None) -> ServerFacts:
    cache = None
    if pool is not None:
        fields = {field.name: None for field in msgspec.structs.fields(CacheConfig)}
        cache = msgspec.convert({**fields, "pool_tokens": pool}, CacheConfig)
    return ServerFacts("http://h", "m", None, None, window, cache, False, {})


def _check(scenario: Scenario, facts: ServerFacts) -> tuple[str, ...]:
    return preflight(scenario, plan(scenario, _LENGTHS, 1, "ab"), facts)


@pytest.mark.parametrize(("recalls", "fits"), [(1, False), (0, True)])
def test_no_room_is_demanded_for_questions_that_nobody_asks(recalls: int, fits: bool) -> None:
    places = (0.5,) * recalls
    none = Canaries(per_session=recalls, plant_at=places, ask_at=places or (), tail=False, absent=False)
    scenario = Scenario(name="x", sessions=Sessions(target_depth=700), reply=Reply(max_tokens=100), canaries=none)
    if fits:
        assert _check(scenario, _facts(1024)) == ()
        with pytest.raises(ScenarioError, match="700 tokens and a reply of 100 need 800, and max_model_len is 799"):
            _check(scenario, _facts(799))
    else:
        with pytest.raises(ScenarioError, match="the recall question and its budget of 2048 need"):
            _check(scenario, _facts(1024))


def _advised(text: str) -> tuple[str, ...]:
    return tuple(part.split()[0] for part in text.split("--set ")[1:])


@given(st.integers(64, 500_000), st.integers(1, 20_000), st.integers(1, 20_000), st.integers(512, 300_000))
def test_whoever_types_what_is_advised_fits_the_window(target: int, reply: int, budget: int, window: int) -> None:
    scenario = Scenario(
        name="x",
        sessions=Sessions(target_depth=target),
        reply=Reply(max_tokens=reply),
        canaries=Canaries(max_tokens=budget),
    )
    try:
        assert _check(scenario, _facts(window)) == ()
        advice: tuple[str, ...] = ()
    except ScenarioError as error:
        advice = _advised(str(error))
        assert advice
    heeded = parse_scenario(to_toml(scenario), "x.toml", advice)
    assert _check(heeded, _facts(window)) == ()
    assert heeded.sessions.target_depth >= min(target, 64)
    assert heeded.sessions.target_depth <= target


@given(st.integers(1, 511))
def test_a_window_too_small_for_anything_is_called_that(window: int) -> None:
    with pytest.raises(ScenarioError, match="max_model_len"):
        _check(Scenario(name="x"), _facts(window))


@given(st.integers(1, 8), st.integers(64, 50_000), st.integers(256, 200_000))
def test_whoever_types_what_is_advised_fits_the_pool(count: int, target: int, pool: int) -> None:
    scenario = Scenario(
        name="x",
        sessions=Sessions(count=count, target_depth=target),
        reply=Reply(max_tokens=32),
        canaries=Canaries(max_tokens=32),
    )
    notes = _check(scenario, _facts(None, pool))
    if count * (target + 32) <= pool:
        assert notes == ()
        return
    (note,) = notes
    assert f"the KV pool has {pool}" in note
    for _ in range(2):
        scenario = parse_scenario(to_toml(scenario), "x.toml", _advised(note))
        notes = _check(scenario, _facts(None, pool))
        if not notes:
            break
        (note,) = notes
    assert notes == ()


def test_what_is_not_known_is_not_checked() -> None:
    assert _check(Scenario(name="x", sessions=Sessions(target_depth=500_000)), _facts(None, None)) == ()


def test_damaged_files_are_named_once_with_their_counts() -> None:
    request = Request(delta=(Message("user", "u"),), reply=Message("assistant", "a"))

    def session(source: str, loss: tuple[tuple[str, int], ...]) -> Session:
        return Session("s", "test", source, (Window("start", (request,)),), loss=loss)

    whole = session("whole.jsonl", (("no_tools", 1),))
    torn = session("torn.jsonl", (("malformed_line", 2), ("no_tools", 1), ("torn_tail", 1)))
    (note,) = damage((whole, torn, torn))
    assert note.startswith("torn.jsonl: lines left out: 2 malformed_line, 1 torn_tail;")


@pytest.mark.parametrize(
    ("flags", "look", "value"),
    [
        ({"url": "127.0.0.1:9/v1"}, "server.url", "127.0.0.1:9/v1"),
        ({"url": "http://h:9"}, "server.sim", ()),
        ({"faults": ("leak",)}, "server.sim", ("leak",)),
        ({"model": "m"}, "server.model", "m"),
        ({"seed": 0}, "seed", 0),
        ({"duration": "5m"}, "stop.duration", "5m"),
        ({"overrides": ("sessions.count=1",)}, "sessions.count", 1),
    ],
)
def test_flags_stand_over_the_file(flags: dict[str, object], look: str, value: object) -> None:
    found: object = load(msgspec.convert({"scenario": "demo", **flags}, Wish)).scenario
    for name in look.split("."):
        found = getattr(found, name)
    assert found == value


@pytest.mark.parametrize(("exclude", "needed"), [("1%", 299), ("0.01", 299), ("10%", 29), ("50 %", 5)])
def test_a_share_to_exclude_becomes_recalls_and_rounds(exclude: str, needed: int) -> None:
    scenario = load(Wish(scenario="demo", exclude=exclude)).scenario
    assert scenario.limits.min_recalls == needed
    planned = plan(scenario, _LENGTHS, 1, "ab").planned_recalls
    assert planned * (1 - scenario.limits.max_excluded) >= needed
