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
from infermaxx_tui.core.gpu import GpuCard, why_none
from infermaxx_tui.core.gpu_summary import CardSummary, GpuSummary
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.scenario import Scenario
from infermaxx_tui.core.server_seen import ServerSeen

Outcome = Literal["pass", "fail", "unknown"]
LATER: Final = "to be seen after the run"
ENOUGH_BLOCKS: Final = 64
"""Blocks of prompt that must have been looked up before a prefix cache without a hit counts as dead."""
MOSTLY: Final = 0.5
"""Share of the readings with somebody waiting from which the server is short of slots, and not just busy."""


WORKED: Final = 0.1
"""Share of the readings with a request open from which a card is in use: a reading looks at the last part of a second
only, and may miss the short steps of a small model on a large card."""


class Answer(msgspec.Struct, frozen=True):
    """What one gate says."""

    outcome: Outcome
    said: str
    advice: str | None = None


class Probe(msgspec.Struct, frozen=True):
    """The same prompt sent twice to an idle server: how many of its tokens came from the prefix cache."""

    prompt_tokens: int | None
    hits: int | None
    """None: the server does not count."""
    why: str = ""


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


def before(scenario: Scenario, at_once: int, regime: Regime, gpu: GpuSummary, probe: Probe | None) -> list[GateChecked]:
    """The gates as they stand before the first request."""
    cards = [card for one in gpu.probes for card in one.of_server]
    blind = why_none(gpu.probes)
    answers = {
        "power_limit": _limit(scenario, [card.limit_w for card in cards], blind),
        "gpu_used": _holds_memory(cards, blind),
        "card_exclusive": _alone(cards, blind),
        "thinking_off": Answer("unknown", LATER),
        "prefix_cache": Answer("unknown", LATER) if probe is None else _probed(probe),
        "slots": _slots(at_once, regime),
    }
    return list(_told(scenario, answers, "before"))


def after(scenario: Scenario, at_once: int, regime: Regime, gpu: GpuSummary, server: ServerSeen) -> list[GateChecked]:
    """The gates as they stand after the last request; what only the start could show is left out."""
    cards = list(gpu.of_server)
    blind = gpu.reason or why_none(gpu.probes)
    answers = {
        "power_limit": _limit_held(scenario, cards, blind),
        "gpu_used": _worked(cards, blind),
        "card_exclusive": _stayed_alone(cards, blind),
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


def _limit(scenario: Scenario, limits: list[float | None], blind: str) -> Answer:
    wanted, slack = scenario.gates.power_limit_w, scenario.gates.power_slack_w
    known = [limit for limit in limits if limit is not None]
    if not limits or len(known) < len(limits):
        return Answer("unknown", f"the limit is not known: {blind}" if not limits else "a card does not say its limit")
    shown = ", ".join(f"{limit:g} W" for limit in known)
    if wanted is None:
        return Answer("unknown", f"{shown}, and the scenario names none")
    if all(abs(limit - wanted) <= slack for limit in known):
        return Answer("pass", f"{shown} in force, gates.power_limit_w={wanted:g}")
    return Answer(
        "fail",
        f"{shown} in force, gates.power_limit_w={wanted:g}",
        f"set it with `nvidia-smi -pl {wanted:g}`: a reboot or a driver reload takes it back",
    )


def _limit_held(scenario: Scenario, cards: list[CardSummary], blind: str) -> Answer:
    moved = [card for card in cards if card.limit_changed]
    if moved and scenario.gates.power_limit_w is not None:
        change = moved[0].limit_changes[0] if moved[0].limit_changes else None
        said = "it changed during the run" if change is None else f"went from {change.from_w:g} to {change.to_w:g} W"
        return Answer("fail", said, "find out what reset it, and run again: times before and after are not one run's")
    return _limit(scenario, [card.limit_w for card in cards], blind)


def _holds_memory(cards: list[GpuCard], blind: str) -> Answer:
    if not cards:
        return Answer("unknown", f"no card is known to be the server's: {blind}")
    held = [p.vram_mib for card in cards for p in card.processes or () if p.server and p.vram_mib is not None]
    if not held:
        return Answer("unknown", "the driver does not say what the server holds")
    if sum(held) > 0:
        return Answer("pass", f"the server holds {sum(held):.0f} MiB")
    return _unused("the server holds no memory of its card")


def _worked(cards: list[CardSummary], blind: str) -> Answer:
    """By the readings that were taken while a request of ours was open: at other times a card may rest."""
    if not cards or not any(card.readings for card in cards):
        return Answer("unknown", f"no card of the server was read: {blind}")
    read = sum(card.streamed for card in cards)
    if not read:
        return Answer("unknown", "its card was never read while a request was open")
    busy = sum(card.worked for card in cards)
    if busy >= WORKED * read:
        return Answer("pass", f"at work in {busy} of {read} readings")
    return _unused(f"its card was at work in {busy or 'none'} of {read} readings{_rested(cards)}")


def _rested(cards: list[CardSummary]) -> str:
    """What an idle card is held to be here, by what was read of it before the first request."""
    known = [f"{card.quiet_w:.0f} W" for card in cards if card.quiet_w is not None]
    return f"; before the first request it took {', '.join(known)}" if known else ""


def _unused(said: str) -> Answer:
    return Answer("fail", said, "the server computes elsewhere: look at its device in the start-up log")


def _alone(cards: list[GpuCard], blind: str) -> Answer:
    if not cards:
        return Answer("unknown", f"no card is known to be the server's: {blind}")
    if any(card.processes is None for card in cards):
        return Answer("unknown", "the driver does not name the processes on the card")
    seen = [process for card in cards for process in card.processes or ()]
    if any(process.server is None for process in seen):
        return Answer("unknown", "whose the processes on the card are is not to be seen from here")
    others = [process for process in seen if process.server is False]
    return _others([(process.pid, process.name, process.vram_mib) for process in others])


def _stayed_alone(cards: list[CardSummary], blind: str) -> Answer:
    if not cards:
        return Answer("unknown", f"no card of the server was read: {blind}")
    others = [(process.pid, process.name, process.vram_mib) for card in cards for process in card.foreign]
    if not others and any(card.server_vram_max_mib is None and card.card.processes is None for card in cards):
        return Answer("unknown", "the driver does not name the processes on the card")
    return _others(others)


def _others(others: list[tuple[int, str | None, float | None]]) -> Answer:
    if not others:
        return Answer("pass", "nobody else is on the card")
    shown = ", ".join(
        f"{name or 'process'} {pid}" + ("" if mib is None else f" with {mib:.0f} MiB") for pid, name, mib in others[:3]
    )
    more = "" if len(others) <= 3 else f" and {len(others) - 3} more"
    return Answer("fail", f"also on the card: {shown}{more}", "end them, or give the server a card of its own")


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
    return Answer(
        "fail",
        f"{reasoned} of {replies} {what} reasoned although thinking is off",
        "the model's template does not know that control: switch it off by the key that its own card names",
    )


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
