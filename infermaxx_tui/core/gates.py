"""Conditions under which a run's figures mean what they say, looked at before it and after it.

A gate that fails makes no server guilty: it says that this run cannot show what it was to show, and what to do. One
that nobody can see is unknown, and counts against a run only if its scenario asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.events import GateChecked
from infermaxx_tui.core.fold_server import newest_gate
from infermaxx_tui.core.gates_card import (
    Answer,
    Worked,
    alone,
    at_work,
    holds_memory,
    in_use,
    limit_held,
    limit_in_force,
    stayed_alone,
)
from infermaxx_tui.core.gpu import why_none
from infermaxx_tui.core.gpu_summary import GpuSummary
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.scenario import Scenario
from infermaxx_tui.core.server_seen import ServerSeen

LATER: Final = "to be seen after the run"
ENOUGH_BLOCKS: Final = 64
"""Blocks of prompt that must have been looked up before a prefix cache without a hit counts as dead."""
MOSTLY: Final = 0.5
"""Share of the readings with somebody waiting from which the server is short of slots, and not just busy."""


class Probe(msgspec.Struct, frozen=True):
    """The same prompt sent twice to an idle server: how many of its tokens came from the prefix cache."""

    prompt_tokens: int | None
    hits: int | None
    """None: the server does not count."""
    why: str = ""


class Thought(msgspec.Struct, frozen=True):
    """One question, asked as the run will ask."""

    reasoned: bool | None
    """None: not known."""
    why: str = ""


class Tried(msgspec.Struct, frozen=True):
    """What was tried before the run; None: it was not."""

    prefix: Probe | None = None
    thought: Thought | None = None
    worked: Worked | None = None


def asked(scenario: Scenario) -> dict[str, bool]:
    """The gates by name, and whether the scenario asks for them; `slots` is always asked for where it can be known."""
    wanted = scenario.gates
    return {
        "power_limit": wanted.power_limit_w is not None,
        "gpu_used": wanted.gpu_used,
        "card_exclusive": wanted.card_exclusive,
        "thinking_off": wanted.thinking == "off" or scenario.canaries.thinking == "off",
        "prefix_cache": wanted.prefix_cache,
        "slots": wanted.slots,
    }


def before(
    scenario: Scenario, at_once: int, regime: Regime, gpu: GpuSummary, tried: Tried | None = None
) -> list[GateChecked]:
    """The gates as they stand before the first request."""
    tried = tried or Tried()
    cards = [card for one in gpu.probes for card in one.of_server]
    blind = why_none(gpu.probes)
    answers = {
        "power_limit": limit_in_force(scenario, [card.limit_w for card in cards], blind),
        "gpu_used": in_use(holds_memory(cards, blind), tried.worked),
        "card_exclusive": alone(cards, blind),
        "thinking_off": Answer("unknown", LATER) if tried.thought is None else _thought(tried.thought),
        "prefix_cache": Answer("unknown", LATER) if tried.prefix is None else _probed(tried.prefix),
        "slots": _slots(at_once, regime),
    }
    return list(_told(scenario, answers, "before"))


def after(scenario: Scenario, at_once: int, regime: Regime, gpu: GpuSummary, server: ServerSeen) -> list[GateChecked]:
    """The gates as they stand after the last request; what only the start could show is left out."""
    cards = list(gpu.of_server)
    blind = gpu.reason or why_none(gpu.probes)
    answers = {
        "power_limit": limit_held(scenario, cards, blind),
        "gpu_used": at_work(cards, blind),
        "card_exclusive": stayed_alone(cards, blind),
        "thinking_off": _thinking(scenario, server),
        "prefix_cache": _hits(regime, server),
        "slots": _admitted(at_once, server),
    }
    return list(_told(scenario, answers, "after"))


def standing(gates: Iterable[GateChecked]) -> list[GateChecked]:
    """One answer for each gate, of those before and after the run: a failure stays, knowing beats not knowing."""
    stands: dict[str, GateChecked] = {}
    for gate in gates:
        stands[gate.name] = newest_gate(stands.get(gate.name), gate)
    return list(stands.values())


def _told(scenario: Scenario, answers: dict[str, Answer], when: Literal["before", "after"]) -> Iterator[GateChecked]:
    """What is asked for, and what is known anyhow."""
    wanted = asked(scenario)
    for name, answer in answers.items():
        decides = wanted[name] or (name == "slots" and answer.outcome == "fail")
        if decides or answer.outcome != "unknown":
            yield GateChecked(
                name=name,
                when=when,
                outcome=answer.outcome,
                required=decides,
                said=answer.said,
                advice=answer.advice,
            )


_TEMPLATE: Final = "the model's template does not know that control: switch it off by the key that its own card names"


def _thought(thought: Thought) -> Answer:
    if thought.reasoned is None:
        return Answer("unknown", thought.why or LATER)
    if thought.reasoned:
        return Answer("fail", "the reply to a first question reasoned although thinking is off", _TEMPLATE)
    return Answer("pass", "the reply to a first question did not reason")


def _thinking(scenario: Scenario, server: ServerSeen) -> Answer:
    """Off is off by its effect: a control that a template does not know is ignored without a word."""
    everywhere = scenario.gates.thinking == "off"
    kinds = tuple(server.replied) if everywhere else tuple(k for k in server.replied if k in RECALLS)
    replies = sum(server.replied[kind] for kind in kinds)
    reasoned = sum(server.reasoned.get(kind, 0) for kind in kinds)
    what = "replies" if everywhere else "recall replies"
    if not replies:
        return Answer("unknown", f"no {what} came to an end")
    if not reasoned:
        return Answer("pass", f"none of {replies} {what} reasoned")
    if not asked(scenario)["thinking_off"]:
        return Answer("unknown", f"{reasoned} of {replies} {what} reasoned, and nobody asked for none")
    return Answer("fail", f"{reasoned} of {replies} {what} reasoned although thinking is off", _TEMPLATE)


RECALLS: Final = ("recall", "tail", "absent", "reask_alone", "reask_load")


def _probed(probe: Probe) -> Answer:
    if probe.hits is None:
        return Answer("unknown", probe.why or "the server does not count prefix hits")
    if probe.hits > 0:
        return Answer("pass", f"{probe.hits} of {probe.prompt_tokens or '?'} tokens of a repeated prompt were cached")
    return _dead("of a repeated prompt nothing was cached")


def _hits(regime: Regime, server: ServerSeen) -> Answer:
    queries, hits, block = server.prefix_queries, server.prefix_hits, regime.block_size
    if queries is None or hits is None or block is None:
        return Answer("unknown", "the server does not count prefix hits")
    if hits > 0:
        return Answer("pass", f"{hits} of {queries} prompt tokens came from the prefix cache")
    if queries < ENOUGH_BLOCKS * block:
        return Answer("unknown", f"only {queries} prompt tokens were looked up, in blocks of {block}")
    if regime.prefix_caching is False:
        return _dead("the server runs without a prefix cache")
    return _dead(f"none of {queries} prompt tokens came from the prefix cache")


def _dead(said: str) -> Answer:
    advice = "serve it with --enable-prefix-caching, and look for what changes at the head of each prompt"
    return Answer("fail", said, advice)


def _slots(at_once: int, regime: Regime) -> Answer:
    slots = regime.max_num_seqs
    if slots is None:
        return Answer("unknown", "the server does not say how many requests it decodes at once")
    if slots >= at_once:
        return Answer("pass", f"{slots} slots for {at_once} sessions")
    return Answer(
        "fail",
        f"{slots} slots for {at_once} sessions: the others would wait, and never decode beside them",
        f"serve it with --max-num-seqs {at_once}, or run it with --set sessions.at_once={slots}",
    )


def _admitted(at_once: int, server: ServerSeen) -> Answer:
    peak, waited = server.running_peak, server.waiting_share
    if peak is None or waited is None:
        return Answer("unknown", "the server does not say how many requests it ran")
    if peak >= at_once:
        return Answer("pass", f"{peak:g} of {at_once} ran at once")
    if waited >= MOSTLY and server.foreign is None:
        return Answer(
            "fail",
            f"at most {peak:g} of {at_once} ran at once, and in {waited:.0%} of the readings somebody waited",
            "the KV pool or --max-num-seqs is too small for that many: make it larger, or lower sessions.at_once",
        )
    return Answer("unknown", f"at most {peak:g} of {at_once} were seen running at once, and few waited")
