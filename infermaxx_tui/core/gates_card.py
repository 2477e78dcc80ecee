"""The gates of the cards: what is answered from what sensors said of them, before a run and after it."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from infermaxx_tui.core.gpu import GpuCard
from infermaxx_tui.core.gpu_summary import CardSummary
from infermaxx_tui.core.scenario import Scenario

Outcome = Literal["pass", "fail", "unknown"]
WORKED: Final = 0.1
"""Share of the readings with a request open from which a card is in use: a reading looks at the last part of a second
only, and may miss the short steps of a small model on a large card."""


class Answer(msgspec.Struct, frozen=True):
    """What one gate says."""

    outcome: Outcome
    said: str
    advice: str | None = None


class Worked(msgspec.Struct, frozen=True):
    """The server generated for some seconds, and its cards were read meanwhile."""

    readings: int
    worked: int
    """Those in which a card did more than at rest; trying ends with the first."""
    why: str = ""
    """Why it is not known, if it is not."""


def limit_in_force(scenario: Scenario, limits: list[float | None], blind: str) -> Answer:
    """Of each card of the server, against what the scenario names; `blind`: why there is no card."""
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


def limit_held(scenario: Scenario, cards: list[CardSummary], blind: str) -> Answer:
    """The same over a run: a limit that moved meanwhile fails, whatever it is now."""
    moved = [card for card in cards if card.limit_changed]
    if moved and scenario.gates.power_limit_w is not None:
        change = moved[0].limit_changes[0] if moved[0].limit_changes else None
        said = "it changed during the run" if change is None else f"went from {change.from_w:g} to {change.to_w:g} W"
        return Answer("fail", said, "find out what reset it, and run again: times before and after are not one run's")
    return limit_in_force(scenario, [card.limit_w for card in cards], blind)


def holds_memory(cards: list[GpuCard], blind: str) -> Answer:
    """Whether processes of the server hold memory of its cards."""
    if not cards:
        return Answer("unknown", f"no card is known to be the server's: {blind}")
    held = [p.vram_mib for card in cards for p in card.processes or () if p.server and p.vram_mib is not None]
    if not held:
        return Answer("unknown", "the driver does not say what the server holds")
    if sum(held) > 0:
        return Answer("pass", f"the server holds {sum(held):.0f} MiB")
    return _unused("the server holds no memory of its card")


def in_use(held: Answer, tried: Worked | None) -> Answer:
    """Memory that is held, and work that was seen while the server had something to do."""
    if tried is None or held.outcome == "fail":
        return held
    if not tried.readings or tried.why:
        return Answer(held.outcome, f"{held.said}; whether it computes is not known: {tried.why}", held.advice)
    if not tried.worked:
        return _unused(
            f"{held.said}; while it generated, its card did in {tried.readings} readings no more than at rest"
        )
    return Answer("pass", f"{held.said}; its card worked while it generated")


def at_work(cards: list[CardSummary], blind: str) -> Answer:
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


def alone(cards: list[GpuCard], blind: str) -> Answer:
    """Whether no process but the server's is on its cards."""
    if not cards:
        return Answer("unknown", f"no card is known to be the server's: {blind}")
    if any(card.processes is None for card in cards):
        return Answer("unknown", "the driver does not name the processes on the card")
    seen = [process for card in cards for process in card.processes or ()]
    if any(process.server is None for process in seen):
        return Answer("unknown", "whose the processes on the card are is not to be seen from here")
    others = [process for process in seen if process.server is False]
    return _others([(process.pid, process.name, process.vram_mib) for process in others])


def stayed_alone(cards: list[CardSummary], blind: str) -> Answer:
    """The same over a run: one that came and went fails."""
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
