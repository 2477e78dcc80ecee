"""The register of claims: what is scored how, what comes later, and that the log's first line holds what was said."""

from __future__ import annotations

import msgspec
import pytest
from drifttools import Soak
from drifttools import state_of as soak_state
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core import events as e
from infermaxx_tui.core.glyphs import UNICODE
from infermaxx_tui.core.histories import Shape, history, records, state_of
from infermaxx_tui.core.judges import judge_all
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.panels.verdict import rows_verdict
from infermaxx_tui.core.predictions import (
    MEASURE_NAMES,
    TAKEN_OUT,
    Figure,
    Prediction,
    Result,
    crosses,
    result_of,
    sha256_of,
    with_later,
    wrong_with,
)
from infermaxx_tui.core.register import MEASURES, score
from infermaxx_tui.core.report import verdict_lines
from infermaxx_tui.core.scenario import ScenarioError, parse_scenario
from infermaxx_tui.core.scenario_toml import to_toml
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.verdict import judge_run, read_verdict, verdict_bytes

CLAIM = Prediction(
    claim="A gentler power limit costs less than a tenth",
    measure="decode.ms_per_token",
    band=(22.0, 26.0),
    refuted_if="> 30",
    before=20.0,
    noise=0.5,
    min_n=24,
)
MISSES = Prediction(claim="Nothing is lost", measure="recall.miss_rate", band=(0.0, 0.0), refuted_if="> 0.05")

RESULTS: list[tuple[float | None, int, Result]] = [
    (24.0, 300, "HIT"),
    (22.0, 24, "HIT"),
    (26.0, 24, "HIT"),
    (31.0, 300, "REFUTED"),
    (30.0, 300, "MISS"),
    (28.0, 300, "MISS"),
    (15.0, 300, "MISS"),
    (20.3, 300, "NO MOVEMENT"),
    (19.5, 300, "NO MOVEMENT"),
    (19.4, 300, "MISS"),
    (24.0, 23, "UNTESTED"),
    (31.0, 0, "UNTESTED"),
    (None, 300, "UNTESTED"),
]


@pytest.mark.parametrize(("value", "n", "result"), RESULTS)
def test_what_becomes_of_a_claim(value: float | None, n: int, result: Result) -> None:
    assert result_of(CLAIM, Figure(value, n))[0] == result


def test_not_moving_can_be_the_line_that_refutes() -> None:
    claim = msgspec.structs.replace(CLAIM, refuted_if="<= 21")
    assert result_of(claim, Figure(20.1, 99))[0] == "REFUTED"


@given(st.floats(-1e9, 1e9), st.floats(0, 1e6), st.floats(0.001, 1e6), st.sampled_from(("<", "<=", ">", ">=")))
def test_a_hit_is_never_refuted(low: float, wide: float, beyond: float, sign: str) -> None:
    line = low - beyond if "<" in sign else low + wide + beyond
    claim = Prediction(claim="x", measure="ttft.p50_ms", band=(low, low + wide), refuted_if=f"{sign} {line!r}")
    if wrong_with(claim) is not None:
        return
    for value in (low, low + wide / 2, low + wide):
        assert not crosses(claim.refuted_if, value)
        assert result_of(claim, Figure(min(max(value, low), low + wide), 1))[0] == "HIT"


WRONG: dict[str, tuple[str, object]] = {
    "no claim": ("claim", " "),
    "too much of it": ("claim", "x" * 301),
    "unknown measure": ("measure", "decode.ms_per_tokens"),
    "band upside down": ("band", (3.0, 2.0)),
    "band without end": ("band", (3.0, float("inf"))),
    "no line": ("refuted_if", "30"),
    "line through the band": ("refuted_if", "> 24"),
    "line on the band": ("refuted_if", ">= 26"),
    "negative noise": ("noise", -1.0),
    "before is no number": ("before", float("nan")),
    "nothing observed": ("min_n", 0),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_claim_that_makes_no_sense_is_refused(name: str) -> None:
    key, value = WRONG[name]
    wrong = wrong_with(msgspec.structs.replace(CLAIM, **{key: value}))
    assert wrong is not None
    assert wrong[0] == key
    assert wrong_with(CLAIM) is None


def test_the_measures_are_those_that_are_named() -> None:
    assert tuple(MEASURES) == MEASURE_NAMES


SCENARIO = """name = "x"
[[predictions]]
claim = "Nothing is lost, \\"whatever\\" happens"
measure = "recall.miss_rate"
band = [0, 0]
refuted_if = "> 0.05"
[[predictions]]
claim = "Steady"
measure = "decode.drift_share_per_hour"
band = [-0.01, 0.01]
refuted_if = ">= 0.05"
before = 0.2
"""


def test_a_scenario_holds_claims_and_writes_them_again() -> None:
    scenario = parse_scenario(SCENARIO, "x.toml")
    assert [one.measure for one in scenario.predictions] == ["recall.miss_rate", "decode.drift_share_per_hour"]
    assert parse_scenario(to_toml(scenario), "again.toml") == scenario


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("band = [0, 0]", "band = [0.0, 0.2]", "predictions[0].refuted_if"),
        ("recall.miss_rate", "recall.mis_rate", "predictions[0].measure"),
        ('claim = "Steady"', 'claim = "Nothing is lost, \\"whatever\\" happens"', "predictions[1].claim"),
        ("before = 0.2", "befor = 0.2", "predictions[1]"),
    ],
)
def test_a_scenario_with_a_bad_claim_is_refused(old: str, new: str, key: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(SCENARIO.replace(old, new), "x.toml")
    assert caught.value.key == key


def registered(*claims: Prediction, ended: bool = True, sha256: str | None = None) -> RunState:
    """A healthy run of which this was said beforehand."""
    events = history(Shape())
    first = events[0]
    assert isinstance(first, e.RunStarted)
    started = msgspec.structs.replace(
        first, predictions=claims, predictions_sha256=sha256_of(claims) if sha256 is None else sha256
    )
    return state_of([started, *(events[1:] if ended else events[1:-1])])


def result(state: RunState, later: tuple[Prediction, ...] | None = None) -> list[tuple[str, str, str | None]]:
    scored = score(state, judge_all(state, Limits()), Limits(), later)
    return [(one.result, one.origin, one.retracted) for one in scored]


def test_the_first_line_carries_the_claims_through_a_log() -> None:
    state = registered(MISSES, CLAIM)
    assert state.meta is not None
    assert state.meta.predictions == (MISSES, CLAIM)
    line = e.encode(next(iter(records([_first(MISSES, CLAIM)]))))
    back = e.decode(line)
    assert isinstance(back, e.Record)
    assert back.event == _first(MISSES, CLAIM)


def _first(*claims: Prediction) -> e.RunStarted:
    first = history(Shape())[0]
    assert isinstance(first, e.RunStarted)
    return msgspec.structs.replace(first, predictions=claims, predictions_sha256=sha256_of(claims))


def test_an_older_log_has_no_claims() -> None:
    state = state_of(history(Shape()))
    assert judge_run(state).predictions == ()
    assert judge_run(state).predictions_sha256 is None


def test_claims_are_scored_when_the_run_is_over() -> None:
    assert result(registered(MISSES)) == [("HIT", "registered", None)]
    wrong = msgspec.structs.replace(MISSES, band=(0.2, 0.3), refuted_if="< 0.01")
    assert result(registered(wrong)) == [("REFUTED", "registered", None)]
    assert result(registered(MISSES, ended=False)) == [("UNTESTED", "registered", None)]
    assert result(registered(CLAIM)) == [("UNTESTED", "registered", None)]


def test_a_register_that_was_changed_in_the_log_scores_nothing() -> None:
    state = registered(MISSES, sha256=sha256_of((msgspec.structs.replace(MISSES, band=(0.0, 0.01)),)))
    assert result(state) == [("UNTESTED", "registered", None)]
    assert result(registered(MISSES, sha256="")) == [("UNTESTED", "registered", None)]


def test_what_is_said_later_is_shown_beside_and_never_instead() -> None:
    wider = msgspec.structs.replace(MISSES, band=(0.0, 0.04))
    added = msgspec.structs.replace(MISSES, claim="I knew it", measure="isolation.leaks")
    assert result(registered(MISSES), (MISSES,)) == [("HIT", "registered", None)]
    assert result(registered(MISSES), (wider, added)) == [
        ("HIT", "registered", None),
        ("HIT", "post_hoc", None),
        ("HIT", "post_hoc", None),
    ]


def test_a_retraction_is_kept() -> None:
    retracted = msgspec.structs.replace(MISSES, retracted="it was another model")
    assert result(registered(MISSES), (retracted,)) == [("HIT", "registered", "it was another model")]
    assert result(registered(MISSES), ()) == [("HIT", "registered", TAKEN_OUT)]
    assert result(registered(retracted)) == [("HIT", "registered", "it was another model")]
    assert result(registered(MISSES), None) == [("HIT", "registered", None)]


claims = st.lists(
    st.builds(
        Prediction,
        claim=st.sampled_from("abcde"),
        measure=st.just("ttft.p50_ms"),
        band=st.tuples(st.integers(0, 3), st.integers(4, 6)).map(lambda b: (float(b[0]), float(b[1]))),
        refuted_if=st.just("> 9"),
        retracted=st.sampled_from(("", "no")),
    ),
    unique_by=lambda one: one.claim,
    max_size=5,
)


@given(claims, claims)
def test_nothing_that_was_registered_is_lost_or_moved(before: list[Prediction], now: list[Prediction]) -> None:
    rows = with_later(before, now)
    assert [one for one, origin, _ in rows if origin == "registered"] == before
    for one, origin, retracted in rows:
        if origin == "post_hoc":
            assert one in now
            assert msgspec.structs.replace(one, retracted="") not in [
                msgspec.structs.replace(other, retracted="") for other in before
            ]
        elif one.claim not in {other.claim for other in now}:
            assert retracted


def test_a_verdict_prints_all_of_it_and_reads_it_back() -> None:
    retracted = msgspec.structs.replace(MISSES, retracted="another model")
    wider = msgspec.structs.replace(CLAIM, band=(10.0, 26.0))
    verdict = judge_run(registered(MISSES, CLAIM), later=(retracted, wider))
    assert read_verdict(verdict_bytes(verdict)).predictions == verdict.predictions
    text = "\n".join(verdict_lines(verdict, 400))
    assert f"predictions, hashed before the first request: {sha256_of((MISSES, CLAIM))[:12]}" in text
    assert "HIT         ~~Nothing is lost~~: recall.miss_rate 0 (n 24), said 0 to 0, refuted if > 0.05" in text
    assert "retracted: another model" in text
    assert "POST HOC A gentler power limit" in text
    shown = "\n".join(one.text for one in rows_verdict(verdict, 200, UNICODE))
    assert "~~Nothing is lost~~" in shown
    assert "UNTESTED" in shown


@pytest.mark.parametrize(
    ("measure", "low", "high"),
    [
        ("decode.ms_per_token", 30, 40),
        ("decode.ms_per_1k_depth", 0.45, 0.65),
        ("decode.drift_share_per_hour", 0.04, 0.06),
        ("vram.max_mib", 70_599, 70_601),
        ("depth.reached_tokens", 36_000, 37_000),
        ("server.preemptions", 0, 0),
        ("cache.share", 0.5, 1.0),
    ],
)
def test_figures_of_a_soak(measure: str, low: float, high: float) -> None:
    state = soak_state(Soak(pace=lambda h: 1 + 0.05 * h))
    meta = state.meta
    assert meta is not None
    claim = Prediction(claim="x", measure=measure, band=(low, high), refuted_if="> 1e9")
    meta = msgspec.structs.replace(meta, predictions=(claim,), predictions_sha256=sha256_of((claim,)))
    state = msgspec.structs.replace(state, meta=meta)
    (scored,) = score(state, judge_all(state, Limits()), Limits())
    assert scored.result == "HIT", scored


def test_a_blind_clock_leaves_times_untested() -> None:
    claim = Prediction(claim="x", measure="ttft.p50_ms", band=(0.0, 1e6), refuted_if="< -1")
    state = registered(claim)
    limits = Limits(max_loop_lag_ms=0.01)
    (scored,) = score(state, judge_all(state, limits), limits)
    assert (scored.result, scored.value) == ("UNTESTED", None)
    assert scored.why is not None
    assert "lagged" in scored.why
