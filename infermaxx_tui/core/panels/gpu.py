"""What the cards do: power against limit, clocks, temperatures, throttling, VRAM; a reason where a card says nothing.

With several cards each line shows the worst of those that the server computes on. A card that is not known to be the
server's is shown under a heading that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.glyphs import UNICODE, Glyphs, pad, settle, sparkline
from infermaxx_tui.core.gpu_reasons import ALARMS
from infermaxx_tui.core.gpu_summary import CardSummary
from infermaxx_tui.core.panels.row import Piece, Role, Row, row, wrapped
from infermaxx_tui.core.panels.table import share
from infermaxx_tui.core.panels.withheld import WITHHELD
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.timeline import TimelineView

_LABEL: Final = 12
_VALUE: Final = 16
_AXIS: Final = 8
_LEAST_SPARK: Final = 8
_LEAST_SHARE: Final = 0.005
"""Below half a percent of the time nothing is said of a reason."""


class GpuLine(msgspec.Struct, frozen=True):
    """A reading of a GPU: its label, the reading of GpuReading behind it, the series, and which of several is shown."""

    label: str
    field: str
    series: str
    unit: str
    worst: Callable[[Iterable[float]], float] = max
    scale: float = 1.0
    rank: int = 3
    """Lanes of the highest rank go first where the height is short."""


GPU_LINES: Final[tuple[GpuLine, ...]] = (
    GpuLine("power", "power_w", "gpu_power_w", "W"),
    GpuLine("SM clock", "sm_mhz", "sm_clock_mhz", "MHz", min),
    GpuLine("memory clock", "mem_mhz", "mem_clock_mhz", "MHz", min, rank=5),
    GpuLine("edge", "edge_c", "edge_temp_c", "C"),
    GpuLine("hotspot", "hotspot_c", "hotspot_temp_c", "C"),
    GpuLine("VRAM temp", "vram_c", "vram_temp_c", "C", rank=5),
    GpuLine("throttled", "thermal_ms", "throttle_s", "s"),
    GpuLine("VRAM used", "vram_used_mib", "vram_used_gib", "GiB", scale=1 / 1024, rank=5),
)
"""The lines of the panel, and the lanes of the time axis."""


def shown_cards(state: RunState) -> tuple[CardSummary, ...]:
    """The server's cards; if none is known to be, all that there are."""
    return state.gpus.of_server or state.gpus.cards


def gpu_lanes(state: RunState) -> tuple[GpuLine, ...]:
    """The readings that some card has given: each is a lane of the time axis."""
    cards = shown_cards(state)
    return tuple(one for one in GPU_LINES if any(_given(card, one) for card in cards))


def _given(card: CardSummary, one: GpuLine) -> bool:
    return card.last is not None and getattr(card.last, one.field) is not None


def rows_gpu(state: RunState, timeline: TimelineView | None, width: int, glyphs: Glyphs = UNICODE) -> tuple[Row, ...]:
    """A heading for the cards, a line for each reading with its sparkline, what is wrong, and what cannot be seen."""
    cards = shown_cards(state)
    if not any(card.readings or card.lost for card in cards):
        return _nothing(state, width, glyphs)
    rows = [*_heading(state, cards, width, glyphs)]
    rows += [_reading_row(one, cards, timeline, width, glyphs) for one in gpu_lanes(state)]
    rows += _energy(state, width, glyphs)
    rows += [made for text, role in _said(cards) for made in wrapped(text, width, glyphs, role=role)]
    rows += _unseen(cards, width, glyphs)
    return tuple(rows)


def _nothing(state: RunState, width: int, glyphs: Glyphs) -> tuple[Row, ...]:
    """No card was read: the reason, of the sensors or of the regime."""
    reason = state.regime.missing.get("gpu") if state.regime is not None else None
    if state.gpus.probes or reason is None:
        reason = state.gpus.reason or "no reading yet"
    labels = ", ".join(one.label for one in GPU_LINES)
    return wrapped(f"GPU {labels}: n/a ({reason})", width, glyphs, role="dim")


def _heading(state: RunState, cards: Sequence[CardSummary], width: int, glyphs: Glyphs) -> Iterator[Row]:
    names = list(dict.fromkeys(card.card.name or "GPU" for card in cards))
    simulated = any(probe.simulated for probe in state.gpus.probes)
    text = f"{len(cards)}x {names[0]}, the worst of them" if len(cards) > 1 else names[0]
    if simulated and "simulated" not in text.lower():
        text += " (simulated)"
    yield row([(settle(text, glyphs), "title")], width, glyphs)
    if state.gpus.of_server:
        return
    where = "LOCAL GPU" if all(card.local for card in cards) else "GPU"
    known_not = all(card.card.server is False for card in cards)
    what = "not the server's" if known_not else "not known to be the server's"
    why = cards[0].card.server_why
    yield from wrapped(f"{where}, {what}: {why}", width, glyphs, role="warn")


def _reading_row(
    one: GpuLine, cards: Sequence[CardSummary], timeline: TimelineView | None, width: int, glyphs: Glyphs
) -> Row:
    values = [
        value * one.scale
        for card in cards
        if card.last is not None and (value := getattr(card.last, one.field)) is not None
    ]
    lost = all(card.lost and not card.back for card in cards)
    text = f"{one.worst(values):.0f}{_bound(one, cards)} {one.unit}"
    if one.field == "thermal_ms":
        text = _throttled(cards)
    pieces: list[Piece] = [
        (pad(one.label, _LABEL, glyphs) + " ", "dim"),
        (pad(settle("n/a: GPU lost" if lost else text, glyphs), _VALUE, glyphs), "dim" if lost else None),
    ]
    room = width - _LABEL - _VALUE - _AXIS - 3
    if timeline is not None and one.series in timeline.series and room >= _LEAST_SPARK:
        hi = timeline.hi[one.series]
        pieces.append((" " + pad(f"0-{hi:g}", _AXIS, glyphs) + " ", "dim"))
        pieces.append((sparkline(timeline.series[one.series], min(room, timeline.buckets), 0.0, hi, glyphs), None))
    return row(pieces, width, glyphs)


def _bound(one: GpuLine, cards: Sequence[CardSummary]) -> str:
    """What the reading can be at most, where the card says so."""
    match one.field:
        case "power_w":
            bounds = [card.limit_w for card in cards]
        case "sm_mhz":
            bounds = [card.card.max_sm_mhz for card in cards]
        case "mem_mhz":
            bounds = [card.card.max_mem_mhz for card in cards]
        case "vram_used_mib":
            bounds = [None if card.card.vram_total_mib is None else card.card.vram_total_mib / 1024 for card in cards]
        case _:
            bounds = []
    known = [bound for bound in bounds if bound is not None]
    return f" of {min(known):.0f}" if known else ""


def _throttled(cards: Sequence[CardSummary]) -> str:
    """Share of the time by heat, of the worst card."""
    shares = [card.thermal_share for card in cards if card.thermal_share is not None]
    return f"{share(max(shares))} of time" if shares else "n/a"


def _energy(state: RunState, width: int, glyphs: Glyphs) -> Iterator[Row]:
    energy = state.gpus.energy
    if energy.joules is None:
        return
    text = f"{energy.joules / 1000:,.1f} kJ"
    if state.speed_withheld is not None:
        text += f"  per token {WITHHELD}"
    elif energy.per_output_token is not None:
        text += f"  {energy.per_output_token:.2f} J/token out"
    if energy.per_token is not None and state.speed_withheld is None:
        text += f"  {energy.per_token:.3f} with the prompt's"
        if energy.cached_share is not None:
            text += f", {energy.cached_share:.0%} of it cached"
    yield row([(pad("energy", _LABEL, glyphs) + " ", "dim"), (settle(text, glyphs), None)], width, glyphs)


def _said(cards: Sequence[CardSummary]) -> Iterator[tuple[str, Role]]:
    """What somebody ought to know, the gravest first."""
    for card in cards:
        who = f"GPU {card.card.gpu}: " if len(cards) > 1 else ""
        if card.lost:
            state = "and came back" if card.back else "and is gone"
            yield f"{who}lost ({card.lost_why}) {state}: {card.lost} rounds without a reading", "bad"
        if card.xids:
            names = ", ".join(f"XID {number}" + (f" x{n}" if n > 1 else "") for number, n in card.xids.items())
            yield f"{who}{names}: the driver reports errors of the card", "bad"
        if card.recovery not in (None, "none"):
            yield f"{who}the driver asks: {card.recovery}", "bad"
        if card.ecc_uncorrected:
            yield f"{who}{card.ecc_uncorrected} memory errors that could not be corrected", "bad"
        if card.foreign and card.card.server:
            others = ", ".join(f"{one.name or 'process'} {one.pid}" for one in card.foreign)
            yield f"{who}others compute on this card: {others}", "warn"
        for change in card.limit_changes[-1:]:
            yield f"{who}the power limit went from {change.from_w:g} to {change.to_w:g} W", "warn"
        yield from _reasons(card, who)


def _reasons(card: CardSummary, who: str) -> Iterator[tuple[str, Role]]:
    held = {name: part for name, part in card.reason_share.items() if name != "idle" and part >= _LEAST_SHARE}
    if held:
        text = ", ".join(f"{name} {part:.0%}" for name, part in sorted(held.items(), key=lambda item: -item[1]))
        alarm = any(name in ALARMS for name in held)
        yield f"{who}clocks held by: {text}", "warn" if alarm else "dim"
    if card.slowed_below_cap is not None and card.slowed_below_cap >= 0.05 and not held.keys() & ALARMS:
        text = f"clocks were down below the power cap in {card.slowed_below_cap:.0%} of the time under load"
        yield f"{who}{text}: heat that no sensor here shows", "warn"


def _unseen(cards: Sequence[CardSummary], width: int, glyphs: Glyphs) -> Iterator[Row]:
    """Readings that no card gives, by reason."""
    reasons: dict[str, list[str]] = {}
    for one in GPU_LINES:
        if not any(_given(card, one) for card in cards):
            why = cards[0].card.why_not(one.field) or "no reading yet"
            reasons.setdefault(why, []).append(one.label)
    for why, labels in reasons.items():
        yield from wrapped(f"{', '.join(labels)}: n/a ({why})", width, glyphs, role="dim")
