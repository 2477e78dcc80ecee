"""Each gate in three directions: it passes the healthy, fails the sick and does not know the blind; and their judge."""

from __future__ import annotations

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.events import GateChecked
from infermaxx_tui.core.fold_server import newest_gate
from infermaxx_tui.core.gates import Probe, Thought, Tried, after, asked, before, standing
from infermaxx_tui.core.gates_card import Worked
from infermaxx_tui.core.gpu import GpuCard, GpuProbe, GpuProcess, GpuReading
from infermaxx_tui.core.gpu_summary import GpuSummary
from infermaxx_tui.core.histories import history, state_of
from infermaxx_tui.core.judges import gates, judge_all, overall
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.scenario import Scenario, parse_scenario
from infermaxx_tui.core.server_seen import ServerSeen
from infermaxx_tui.core.verdict import judge_run

EVERYTHING = """
name = "x"
[gates]
power_limit_w = 275
gpu_used = true
card_exclusive = true
thinking = "off"
prefix_cache = true
slots = true
"""
SCENARIO = parse_scenario(EVERYTHING, "x.toml")
QUIET = parse_scenario('name = "x"', "x.toml")
OURS, OTHER = GpuProcess(10, 9000.0, "vllm", server=True), GpuProcess(20, 512.0, "game", server=False)
CARD = GpuCard(gpu=0, name="NVIDIA RTX 3090", server=True, limit_w=275.0, processes=(OURS,))
REGIME = Regime(max_num_seqs=8, block_size=16, prefix_caching=True)
SERVER = ServerSeen(
    readings=9,
    running_peak=4.0,
    waiting_share=0.0,
    prefix_queries=9000,
    prefix_hits=5000,
    replied={"recall": 20, "turn": 40},
)


def probed(*cards: GpuCard) -> GpuSummary:
    return GpuSummary(probes=(GpuProbe(source="nvml", cards=cards),))


def folded(card: GpuCard, *readings: GpuReading, quiet: GpuReading | None = None, late: bool = False) -> GpuSummary:
    """Readings while the first request is open, or after the last one; `quiet`: one before the first."""
    events = history()
    sent = next(at for at, event in enumerate(events) if isinstance(event, e.RequestStarted))
    first: list[e.AnyEvent] = [e.GpuProbed(probe=GpuProbe(source="nvml", cards=(card,)))]
    first += [] if quiet is None else [e.GpuRead(gpus=(quiet,), window_ms=0.0)]
    seen = [e.GpuRead(gpus=(reading,), window_ms=1000.0, fast_ms=0.1) for reading in readings]
    cut = len(events) - 1 if late else sent + 1
    return state_of([*events[:sent], *first, *events[sent:cut], *seen, *events[cut:]]).gpus


def first(
    name: str,
    scenario: Scenario = SCENARIO,
    at_once: int = 4,
    regime: Regime = REGIME,
    gpu: GpuSummary | None = None,
    probe: Probe | None = None,
    thought: Thought | None = None,
    worked: Worked | None = None,
) -> GateChecked | None:
    tried = Tried(prefix=probe, thought=thought, worked=worked)
    found = before(scenario, at_once, regime, probed(CARD) if gpu is None else gpu, tried)
    return next((gate for gate in found if gate.name == name), None)


def last(
    name: str,
    scenario: Scenario = SCENARIO,
    at_once: int = 4,
    regime: Regime = REGIME,
    gpu: GpuSummary | None = None,
    server: ServerSeen = SERVER,
) -> GateChecked | None:
    found = after(scenario, at_once, regime, GpuSummary() if gpu is None else gpu, server)
    return next((gate for gate in found if gate.name == name), None)


def check(gate: GateChecked | None, outcome: str, words: str) -> None:
    assert gate is not None
    assert gate.outcome == outcome, gate
    assert words in gate.said
    assert bool(gate.advice) is (outcome == "fail")


def card(**changes: object) -> GpuSummary:
    return probed(msgspec.structs.replace(CARD, **changes))


NO_CARD = GpuSummary(probes=(GpuProbe(source="none", error="no NVIDIA driver here"),))
BEFORE = [
    ("power_limit", probed(CARD), "pass", "275 W in force"),
    ("power_limit", card(limit_w=450.0), "fail", "450 W in force, gates.power_limit_w=275"),
    ("power_limit", probed(CARD, msgspec.structs.replace(CARD, gpu=1, limit_w=350.0)), "fail", "275 W, 350 W"),
    ("power_limit", card(limit_w=None), "unknown", "does not say"),
    ("power_limit", NO_CARD, "unknown", "no NVIDIA driver here"),
    ("power_limit", card(server=False, server_why="the server is elsewhere"), "unknown", "elsewhere"),
    ("gpu_used", probed(CARD), "pass", "9000 MiB"),
    ("gpu_used", card(processes=(msgspec.structs.replace(OURS, vram_mib=0.0),)), "fail", "no memory"),
    ("gpu_used", card(processes=(msgspec.structs.replace(OURS, vram_mib=None),)), "unknown", "does not say"),
    ("gpu_used", NO_CARD, "unknown", "no NVIDIA driver here"),
    ("card_exclusive", probed(CARD), "pass", "nobody else"),
    ("card_exclusive", card(processes=(OURS, OTHER)), "fail", "game 20 with 512 MiB"),
    ("card_exclusive", card(processes=(OURS, *[OTHER] * 5)), "fail", "and 2 more"),
    ("card_exclusive", card(processes=None), "unknown", "does not name"),
    ("card_exclusive", card(processes=(OURS, GpuProcess(7, None))), "unknown", "not to be seen"),
    ("card_exclusive", NO_CARD, "unknown", "no NVIDIA driver here"),
]


@pytest.mark.parametrize(("name", "gpu", "outcome", "words"), BEFORE)
def test_what_the_card_says_before_a_run(name: str, gpu: GpuSummary, outcome: str, words: str) -> None:
    check(first(name, gpu=gpu), outcome, words)


def test_a_card_is_used_that_works_while_the_server_generates() -> None:
    check(first("gpu_used", worked=Worked(2, 1)), "pass", "9000 MiB; its card worked while it generated")
    check(first("gpu_used", worked=Worked(3, 0)), "fail", "in 3 readings no more than at rest")
    check(first("gpu_used", worked=Worked(0, 0, "the probe got no answer")), "pass", "the probe got no answer")
    hidden = card(processes=(msgspec.structs.replace(OURS, vram_mib=None),))
    check(first("gpu_used", gpu=hidden, worked=Worked(1, 1)), "pass", "its card worked")
    check(first("gpu_used", gpu=hidden, worked=Worked(0, 0, "no round")), "unknown", "no round")
    empty = card(processes=(msgspec.structs.replace(OURS, vram_mib=0.0),))
    check(first("gpu_used", gpu=empty, worked=Worked(2, 1)), "fail", "holds no memory")


def test_thinking_is_tried_before_the_run() -> None:
    check(first("thinking_off", thought=Thought(False)), "pass", "did not reason")
    check(first("thinking_off", thought=Thought(True)), "fail", "reasoned although")
    check(first("thinking_off", thought=Thought(None, "the probe was answered with 500")), "unknown", "500")
    check(first("thinking_off"), "unknown", "after the run")


WORKING = GpuReading(gpu=0, busy_percent=98, sm_mhz=1700, power_w=270.0, limit_w=275.0, processes=(OURS,))
IDLE = GpuReading(gpu=0, busy_percent=0, sm_mhz=210, power_w=20.0, limit_w=275.0, processes=(OURS,))


def test_what_the_card_did_during_a_run() -> None:
    worked = folded(CARD, IDLE, WORKING, WORKING)
    check(last("gpu_used", gpu=worked), "pass", "at work in 2 of 3 readings")
    check(last("power_limit", gpu=worked), "pass", "275 W in force")
    check(last("card_exclusive", gpu=worked), "pass", "nobody else")
    check(last("gpu_used", gpu=folded(CARD, IDLE, IDLE)), "fail", "in none of 2 readings")
    check(last("gpu_used"), "unknown", "no card of the server was read")


BARELY = GpuReading(gpu=0, busy_percent=8, power_w=135.0, sm_mhz=1980)
RESTED = GpuReading(gpu=0, busy_percent=0, power_w=119.0, sm_mhz=1980)


def test_a_small_model_on_a_large_card_uses_it() -> None:
    check(last("gpu_used", gpu=folded(CARD, *[BARELY] * 9, quiet=RESTED)), "pass", "at work in 9 of 9 readings")
    by_power = msgspec.structs.replace(BARELY, busy_percent=0)
    check(last("gpu_used", gpu=folded(CARD, by_power, RESTED, quiet=RESTED)), "pass", "in 1 of 2")


def test_a_card_that_does_what_it_did_before_is_not_used() -> None:
    desktop = GpuReading(gpu=0, busy_percent=8, power_w=30.0)
    unused = folded(CARD, *[desktop] * 9, quiet=desktop)
    check(last("gpu_used", gpu=unused), "fail", "at work in none of 9 readings; before the first request it took 30 W")
    once = folded(CARD, *[RESTED] * 20, BARELY, quiet=RESTED)
    check(last("gpu_used", gpu=once), "fail", "at work in 1 of 21 readings")


def test_a_card_that_was_read_only_while_nothing_was_open_is_not_judged() -> None:
    rested = folded(CARD, RESTED, RESTED, RESTED, quiet=RESTED, late=True)
    assert rested.cards[0].streamed == 0
    check(last("gpu_used", gpu=rested), "unknown", "never read while a request was open")


def test_without_a_list_of_processes_nobody_can_say_who_was_there() -> None:
    blind = msgspec.structs.replace(WORKING, processes=None)
    seen = folded(msgspec.structs.replace(CARD, processes=None), blind, blind)
    check(last("card_exclusive", gpu=seen), "unknown", "does not name")


def test_a_limit_that_was_reset_during_the_run_fails() -> None:
    reset = folded(CARD, WORKING, msgspec.structs.replace(WORKING, limit_w=450.0), WORKING)
    check(last("power_limit", gpu=reset), "fail", "went from 275 to 450 W")


def test_a_process_that_came_during_the_run_fails() -> None:
    crowded = folded(CARD, WORKING, msgspec.structs.replace(WORKING, processes=(OURS, OTHER)), WORKING)
    check(last("card_exclusive", gpu=crowded), "fail", "game 20")


def server(**changes: object) -> ServerSeen:
    return msgspec.structs.replace(SERVER, **changes)


def test_thinking_off_is_off_by_its_effect() -> None:
    check(last("thinking_off"), "pass", "none of 60 replies reasoned")
    check(last("thinking_off", server=server(reasoned={"turn": 3})), "fail", "3 of 60 replies reasoned")
    check(last("thinking_off", server=server(replied={})), "unknown", "no replies")


def test_thinking_off_of_recalls_is_looked_for_in_recalls() -> None:
    closed = parse_scenario('name = "x"\n[canaries]\nthinking = "off"', "x.toml")
    check(last("thinking_off", closed, server=server(reasoned={"turn": 30})), "pass", "none of 20 recall replies")
    check(last("thinking_off", closed, server=server(reasoned={"recall": 1})), "fail", "1 of 20 recall replies")


def test_a_prefix_cache_works_by_its_hits() -> None:
    check(first("prefix_cache", probe=Probe(400, 384)), "pass", "384 of 400")
    check(first("prefix_cache", probe=Probe(400, 0)), "fail", "nothing was cached")
    check(first("prefix_cache", probe=Probe(400, None, "the probe got no answer")), "unknown", "no answer")
    check(last("prefix_cache"), "pass", "5000 of 9000")
    check(last("prefix_cache", server=server(prefix_hits=0)), "fail", "none of 9000")
    check(last("prefix_cache", server=server(prefix_hits=0, prefix_queries=500)), "unknown", "only 500")
    check(last("prefix_cache", server=server(prefix_hits=None)), "unknown", "does not count")
    check(
        last("prefix_cache", regime=Regime(block_size=16, prefix_caching=False), server=server(prefix_hits=0)),
        "fail",
        "without a prefix cache",
    )


def test_slots_for_all_sessions() -> None:
    check(first("slots"), "pass", "8 slots for 4 sessions")
    check(first("slots", at_once=16), "fail", "8 slots for 16 sessions")
    check(first("slots", regime=Regime()), "unknown", "does not say")
    check(last("slots"), "pass", "4 of 4")
    check(last("slots", at_once=8, server=server(waiting_share=0.9)), "fail", "at most 4 of 8")
    check(last("slots", at_once=8), "unknown", "few waited")
    check(last("slots", server=ServerSeen()), "unknown", "does not say")


def test_too_few_slots_decide_even_when_nobody_asked() -> None:
    gate = first("slots", QUIET, at_once=16)
    assert gate is not None
    assert (gate.outcome, gate.required) == ("fail", True)


def test_what_is_neither_asked_for_nor_known_is_not_said() -> None:
    assert before(QUIET, 4, Regime(), NO_CARD) == []
    assert after(QUIET, 4, Regime(), NO_CARD, ServerSeen()) == []
    assert not any(asked(QUIET).values())
    assert all(asked(SCENARIO).values())


def test_what_is_known_and_not_asked_for_does_not_decide() -> None:
    gate = first("card_exclusive", QUIET, gpu=card(processes=(OURS, OTHER)))
    assert gate is not None
    assert (gate.outcome, gate.required) == ("fail", False)


def gate(outcome: str, required: bool = True, name: str = "slots") -> GateChecked:
    made = GateChecked(name=name, when="before", outcome="pass", required=required, said="so it was", advice="do this")
    return msgspec.structs.replace(made, outcome=outcome)


@pytest.mark.parametrize(
    ("one", "other", "stands"),
    [
        ("pass", "fail", "fail"),
        ("fail", "pass", "fail"),
        ("pass", "unknown", "pass"),
        ("unknown", "pass", "pass"),
        ("unknown", "unknown", "unknown"),
    ],
)
def test_a_failure_stays_and_knowing_beats_not_knowing(one: str, other: str, stands: str) -> None:
    assert newest_gate(gate(one), gate(other)).outcome == stands
    assert newest_gate(None, gate(one)).outcome == one


def test_an_answer_of_before_and_one_of_after_stand_as_one_and_are_both_kept() -> None:
    events = history()
    early, late = gate("pass"), msgspec.structs.replace(gate("fail"), when="after")
    state = state_of([*events[:2], early, *events[2:-1], late, events[-1]])
    assert [(one.when, one.outcome) for one in state.gates] == [("before", "pass"), ("after", "fail")]
    assert standing(state.gates) == [late]
    assert [(one.when, one.outcome) for one in judge_run(state).gates] == [("before", "pass"), ("after", "fail")]
    found = gates.judge(state, Limits())
    assert (found.n_evaluated, found.n_planned) == (1, 1)


def judged(*found: GateChecked) -> tuple[str, bool, str]:
    events = history()
    state = state_of([*events[:2], *found, *events[2:]])
    got = gates.judge(state, Limits())
    return got.outcome, got.required, got.advice or ""


def test_the_judge_passes_refuses_and_never_fails() -> None:
    assert judged(gate("pass"))[:2] == ("pass", True)
    assert judged(gate("fail")) == (
        "not_evaluable",
        True,
        "slots failed before the run: so it was; do this",
    )
    outcome, required, said = judged(gate("unknown"))
    assert (outcome, required) == ("not_evaluable", True)
    assert "slots is not known" in said


def test_without_gates_the_judge_demands_nothing() -> None:
    assert judged() == ("not_evaluable", False, "")


def test_what_nobody_asked_for_is_noted_and_decides_nothing() -> None:
    outcome, required, said = judged(gate("pass"), gate("fail", required=False, name="card_exclusive"))
    assert (outcome, required) == ("pass", True)
    assert "card_exclusive (not asked for) failed" in said


def test_a_failed_gate_makes_a_clean_run_inconclusive() -> None:
    events = history()
    assert overall(judge_all(state_of(events), Limits())) == "PASS"
    spoiled = [*events[:2], gate("fail"), *events[2:]]
    assert overall(judge_all(state_of(spoiled), Limits())) == "INCONCLUSIVE"
