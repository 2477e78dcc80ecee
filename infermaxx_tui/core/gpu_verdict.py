"""What the sensors said over a run, as it stands in verdict.json: each card, and energy per token where it is known."""

from __future__ import annotations

import msgspec

from infermaxx_tui.core.gpu import FAST, SLOW, GpuProcess
from infermaxx_tui.core.gpu_summary import CardSummary, EnergyPerToken, GpuSummary, Spread


class CardReport(msgspec.Struct, frozen=True, kw_only=True):
    """One card; only what is the server's entered the verdict. None: not read, and `missing` says why."""

    gpu: int
    uuid: str | None
    name: str | None
    source: str
    local: bool
    server: bool | None
    server_why: str
    readings: int
    while_open: int
    """Readings while a request of ours was open."""
    at_work: int
    """Those of them in which the card computed."""
    power_rest_w: float | None
    """Before the first request."""
    power_mean_w: float | None
    power_max_w: float | None
    limit_w: float | None
    limit_changed: int
    sm_mhz: Spread
    """Of the readings at work; so is the memory's."""
    sm_mhz_highest: int | None
    """The highest that the card can be set to."""
    mem_mhz: Spread
    mem_mhz_highest: int | None
    edge_max_c: int | None
    vram_max_c: int | None
    hotspot_max_c: int | None
    margin_min_c: int | None
    throttle_share: dict[str, float]
    throttle_window_s: float
    reason_share: dict[str, float]
    slowed_below_cap: float | None
    energy_j: float | None
    energy_source: str
    vram_max_mib: float | None
    vram_total_mib: float | None
    server_vram_max_mib: float | None
    ecc_corrected: int | None
    ecc_uncorrected: int | None
    pcie_replays: int | None
    pcie_gen_min: int | None
    pcie_width_min: int | None
    xids: dict[int, int]
    recovery: str | None
    foreign: tuple[GpuProcess, ...]
    lost: int
    lost_why: str | None
    missing: dict[str, str]
    """Sensors that the card does not give, each with its reason."""


class SensorReport(msgspec.Struct, frozen=True, kw_only=True):
    """All cards that were read."""

    reason: str | None = "no GPU sensors were read"
    """Why no card was read; None if one was."""
    driver: str | None = None
    rounds: int = 0
    covered_s: float = 0.0
    """Time between rounds, all together."""
    fast_mean_ms: float | None = None
    """What the rounds cost the sampler, beside the client and not within it."""
    fast_max_ms: float | None = None
    slow_mean_ms: float | None = None
    slow_max_ms: float | None = None
    energy: EnergyPerToken = GpuSummary().energy
    cards: tuple[CardReport, ...] = ()


def sensor_report(gpus: GpuSummary, withheld: str | None = None) -> SensorReport:
    """What a summary says. `withheld`: why no speed of the run may be quoted, which energy per token would be."""
    return SensorReport(
        reason=gpus.reason,
        driver=next((probe.driver for probe in gpus.probes if probe.driver is not None), None),
        rounds=gpus.rounds,
        covered_s=gpus.covered_ms / 1000.0,
        fast_mean_ms=gpus.fast_mean_ms,
        fast_max_ms=gpus.fast_max_ms,
        slow_mean_ms=gpus.slow_mean_ms,
        slow_max_ms=gpus.slow_max_ms,
        energy=gpus.energy if withheld is None else _without_speed(gpus.energy, withheld),
        cards=tuple(_card(one) for one in gpus.cards),
    )


def _without_speed(energy: EnergyPerToken, why: str) -> EnergyPerToken:
    return msgspec.structs.replace(energy, per_output_token=None, per_token=None, reason=why)


def sensor_lines(report: SensorReport) -> tuple[str, ...]:
    """A line for each card of the server, and one for its energy, for people; nothing if no card was read."""
    lines = [_line(card) for card in report.cards if card.server]
    energy = report.energy
    if lines and energy.joules is not None:
        each = "" if energy.per_output_token is None else f", {energy.per_output_token:.3g} J for each token generated"
        lines.append(f"energy {energy.joules:,.0f} J{each}" + (f" ({energy.reason})" if energy.reason else ""))
    return tuple(lines)


def _line(card: CardReport) -> str:
    said = [f"at work in {card.at_work} of {card.while_open} readings"]
    if card.power_mean_w is not None:
        limit = "" if card.limit_w is None else f" of {card.limit_w:g} W"
        rest = "" if card.power_rest_w is None else f" ({card.power_rest_w:.0f} W at rest)"
        said.append(f"{card.power_mean_w:.0f}{limit or ' W'}{rest}")
    if card.sm_mhz.median is not None:
        most = "" if card.sm_mhz_highest is None else f" of {card.sm_mhz_highest}"
        said.append(f"SM {card.sm_mhz.median}{most} MHz")
    degrees = {"edge": card.edge_max_c, "VRAM": card.vram_max_c, "hotspot": card.hotspot_max_c}
    said += [f"{name} {degree} C" for name, degree in degrees.items() if degree is not None]
    held = [f"{name} {share:.0%}" for name, share in card.throttle_share.items() if share > 0]
    if card.throttle_share:
        said.append(f"held down: {', '.join(held)}" if held else "never held down")
    return f"{card.name or f'GPU {card.gpu}'}: {', '.join(said)}"


def _card(one: CardSummary) -> CardReport:
    card = one.card
    same = {name: getattr(one, name) for name in CardReport.__struct_fields__ if hasattr(one, name)}
    of_card = {name: getattr(card, name) for name in ("gpu", "uuid", "name", "server", "server_why", "vram_total_mib")}
    why = {name: card.why_not(name) for name in (*FAST, *SLOW)}
    return CardReport(
        **same,
        **of_card,
        while_open=one.streamed,
        at_work=one.worked,
        power_rest_w=one.quiet_w,
        sm_mhz_highest=card.max_sm_mhz,
        mem_mhz_highest=card.max_mem_mhz,
        throttle_window_s=one.throttle_window_ms / 1000.0,
        missing={name: reason for name, reason in why.items() if reason},
    )
