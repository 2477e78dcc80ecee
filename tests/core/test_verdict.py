"""verdict.json: keys that are always there, numbers of six digits, the same bytes for the same log."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.histories import Ask, Reply, Shape, changed, history, honest, state_of
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.verdict import Verdict, exit_code, judge_run, read_verdict, verdict_bytes
from infermaxx_tui.exitcodes import ExitCode

GOLDEN = Path(__file__).parent.parent / "golden"


def capped(ask: Ask) -> Reply:
    """22 of 24 recall replies hit their cap."""
    if ask.kind == "recall" and ask.number < 22:
        return Reply(content="The lot", finish_reason="length", completion_tokens=200)
    return honest(ask)


def sick(ask: Ask) -> Reply:
    """A leak with an escape sequence beside it, and a tag that is forgotten for good."""
    if ask.kind == "recall" and ask.number == 9:
        return Reply(content=f"\x1b]0;owned\x07It is {ask.foreign[0]}. \u202eEvil\u202c")
    if ask.session == 2 and ask.kind in ("recall", "reask_alone", "reask_load"):
        return Reply(content="I do not remember that one.")
    return honest(ask)


HISTORIES = {
    "pass": lambda: history(),
    "fail": lambda: history(Shape(), sick),
    "inconclusive": lambda: history(Shape(regime=Regime(simulated=True, engine="vllm 0.32.0+infermaxxsim")), capped),
}


def verdict_of(name: str) -> Verdict:
    return judge_run(state_of(HISTORIES[name]()))


@pytest.mark.parametrize("name", HISTORIES)
def test_the_bytes_are_those_on_record(name: str) -> None:
    """A change here is a change of the contract's file: look at each line of the difference before taking it over."""
    assert verdict_bytes(verdict_of(name)).decode() == (GOLDEN / f"verdict-{name}.json").read_text(encoding="ascii")


@pytest.mark.parametrize(("name", "code"), [("pass", 0), ("fail", 1), ("inconclusive", 3)])
def test_exit_codes(name: str, code: int) -> None:
    assert exit_code(verdict_of(name)) is ExitCode(code)


def all_keys(value: object, path: str = "") -> set[str]:
    match value:
        case dict():
            return {f"{path}.{key}" for key in value}.union(*(all_keys(x, f"{path}.{key}") for key, x in value.items()))
        case list():
            return set().union(*(all_keys(x, f"{path}[]") for x in value))
        case _:
            return set()


def test_every_key_is_always_there() -> None:
    """Of a whole run and of an empty log; what depends on the run are names of reasons and oddities alone."""
    whole, empty = (json.loads(verdict_bytes(judge_run(state_of(x)))) for x in (HISTORIES["fail"](), []))
    free = (".checks[].excluded.", ".regime.missing.", ".instrument.anomalies.", ".checks[].evidence[].", ".server.")
    fixed = {key for key in all_keys(whole) if not key.startswith(free)}
    assert fixed == {key for key in all_keys(empty) if not key.startswith(free)}
    for key in ("schema", "verdict", "scenario", "run", "simulated", "post_hoc", "checks", "scope", "regime", "limits"):
        assert key in whole
    for check in whole["checks"]:
        assert list(check) == [
            "name",
            "outcome",
            "required",
            "n_evaluated",
            "n_planned",
            "excluded",
            "bound95",
            "bound95_sessions",
            "cause",
            "evidence",
            "advice",
            "interval95",
            "design_effect",
        ]
        for witness in check["evidence"]:
            assert {"event", "session", "turn", "tag", "said"} <= set(witness)


def numbers(value: object) -> list[float]:
    match value:
        case float():
            return [value]
        case dict():
            return [n for x in value.values() for n in numbers(x)]
        case list():
            return [n for x in value for n in numbers(x)]
        case _:
            return []


def test_numbers_have_six_digits_and_counts_are_exact() -> None:
    odd = changed(
        history(),
        e.InstrumentRead,
        lambda x: msgspec.structs.replace(x, loop_lag_p99_ms=0.123456789, rss_mib=1234567.891),
    )
    many = changed(odd, e.RequestEnded, lambda x: msgspec.structs.replace(x, prompt_tokens=12_345_678))
    got = json.loads(verdict_bytes(judge_run(state_of(many))))
    assert got["instrument"]["loop_lag_p99_ms"] == 0.123457
    assert got["instrument"]["rss_max_mib"] == 1234570.0
    assert got["regime"]["prompt_tokens"] == 12_345_678 * 80
    assert all(n == float(f"{n:.6g}") for n in numbers(got))


def test_what_json_cannot_say_is_null() -> None:
    infinite = msgspec.structs.replace(state_of(history()), elapsed_ms=float("inf"))
    assert json.loads(verdict_bytes(judge_run(infinite)))["regime"]["duration_s"] is None


def test_a_verdict_reads_back_as_it_was_written() -> None:
    for name in HISTORIES:
        data = verdict_bytes(verdict_of(name))
        assert verdict_bytes(read_verdict(data)) == data
        assert data.endswith(b"}\n")
        assert data.isascii()


def test_server_text_cannot_steer_a_terminal_through_the_file() -> None:
    data = verdict_bytes(verdict_of("fail"))
    assert b"\\u001b]0;owned" in data
    assert b"\\u202e" in data
    assert b"\x1b" not in data


def test_other_limits_are_post_hoc_and_printed() -> None:
    state = state_of(HISTORIES["fail"]())
    own = judge_run(state)
    other = judge_run(state, Limits(max_lost=24, min_recalls=5))
    assert (own.post_hoc, own.limits) == (False, Limits())
    assert (other.post_hoc, other.limits.max_lost) == (True, 24)
    assert other.checks[0].outcome == "pass"
    assert other.verdict == "FAIL", "a leak is no matter of limits"
    assert judge_run(state, Limits()).post_hoc is True


def test_the_run_s_own_limits_decide() -> None:
    lenient = state_of(history(Shape(tags=2, limits=Limits(min_recalls=12))))
    assert judge_run(lenient).verdict == "PASS"
    assert judge_run(state_of(history(Shape(tags=2)))).verdict == "INCONCLUSIVE"


# What travels with the numbers


def test_the_regime_says_what_was_reached_beside_what_was_asked() -> None:
    regime = verdict_of("pass").regime
    assert (regime.concurrency_requested, regime.concurrency_admitted_peak) == (4, 4)
    assert (regime.target_depth, regime.depth_reached) == (2000, 2020)
    assert regime.engine == "vllm 0.32.0"
    assert regime.generated_tokens == 1600


def running(n: float) -> list[e.AnyEvent]:
    """The history with lone recalls, of which the server says that it runs `n` at once."""
    return changed(history(Shape(meet=False)), e.MetricsRead, lambda x: msgspec.structs.replace(x, running=n))


def test_others_requests_do_not_count_as_ours() -> None:
    assert judge_run(state_of(running(64.0))).regime.concurrency_admitted_peak == 4


def test_a_server_that_takes_fewer_at_once_is_labelled_with_what_it_took() -> None:
    """Four were sent and one ran at a time."""
    serial: list[e.AnyEvent] = []
    for event in running(1.0):
        match event:
            case e.FirstToken():
                continue
            case e.RequestEnded():
                serial += [e.FirstToken(req=event.req, session=event.session, ttft_ms=40.0), event]
            case _:
                serial.append(event)
    regime = judge_run(state_of(serial)).regime
    assert (regime.concurrency_requested, regime.concurrency_admitted_peak) == (4, 1)


def test_a_field_that_could_not_be_read_says_why() -> None:
    bare = changed(history(), e.RequestEnded, lambda x: msgspec.structs.replace(x, cached_tokens=None))
    noted = Regime(missing={"gpu": "no /metrics"})
    regime = judge_run(state_of(changed(bare, e.RegimeNoted, lambda _: e.RegimeNoted(regime=noted)))).regime
    assert regime.cached_tokens is None
    assert regime.missing["cached_tokens"] == "the server does not say"
    assert regime.missing["gpu"] == "no /metrics"
    assert regime.missing["model"] == "not noted"
    empty = {name for name in regime.__struct_fields__ if getattr(regime, name) is None}
    assert set(regime.missing) == empty, "every null has its reason, and nothing else has one"


# Scope


def scope_of(events: list[e.AnyEvent]) -> str:
    return judge_run(state_of(events)).scope


def test_scope_states_n_bound_depth_and_base_rate() -> None:
    scope = scope_of(history())
    assert "24 of 24 planned recalls in 4 conversations, 4 at once" in scope
    assert "2020 tokens" in scope
    assert "fewer than 11.73% of recalls" in scope
    assert "0 of 4 labels that were never planted" in scope
    assert "Not shown: deeper conversations" in scope


def test_scope_says_what_one_session_or_one_at_a_time_cannot_show() -> None:
    assert "isolation and the effect of concurrency are not shown" in scope_of(history(Shape(sessions=1, at_once=1)))
    assert "ran one at a time" in scope_of(history(Shape(at_once=1)))


def test_scope_says_that_a_server_was_simulated() -> None:
    assert "simulated" in verdict_of("inconclusive").scope
    assert verdict_of("inconclusive").simulated is True
    assert "simulated" not in verdict_of("pass").scope


def test_scope_claims_no_bound_for_what_was_not_shown() -> None:
    scope = verdict_of("inconclusive").scope
    assert "are lost" not in scope
    assert "could not be judged: recall, isolation, budget" in scope


def test_scope_says_what_alone_too_cannot_tell_apart() -> None:
    assert "quantisation are not told apart" in verdict_of("fail").scope
    assert "told apart" not in verdict_of("pass").scope


def test_scope_says_that_the_runner_died() -> None:
    assert "no last line" in scope_of(history()[:-1])
