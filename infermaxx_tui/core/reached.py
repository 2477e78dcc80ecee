"""The regime as a run reached it: what was asked for, and what it came to on the server and on its cards."""

from __future__ import annotations

from typing import Final

import msgspec

from infermaxx_tui.core.gpu import why_none
from infermaxx_tui.core.gpu_summary import GpuSummary
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.state import RunState


class RegimeReached(Regime, frozen=True, kw_only=True):
    """The regime as asked for, and what the run came to."""

    concurrency_admitted_peak: int | None = None
    """Most streams that decoded beside one another, or that the server ran of ours at once."""
    depth_reached: int | None = None
    """Tokens of the deepest prompt and reply that the server processed."""
    sessions: int | None = None
    at_once: int | None = None
    interleaved: int | None = None
    """Conversations that take turns with one request in flight; None where they do not."""
    segments: int = 1
    duration_s: float = 0.0
    generated_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    """Prompt tokens that the server took from its cache, by its own count."""
    sm_mhz_median: int | None = None
    """Of the readings in which it was at work, of the server's slowest card; so are the memory's."""
    mem_mhz_median: int | None = None
    gpu_power_mean_w: float | None = None
    """Of all the server's cards together."""
    thermal_share: float | None = None
    """Share of the time in which heat held the clocks of the server's hottest card down."""
    power_capped_share: float | None = None
    """The same for the power limit; being at a limit is not being slowed by it."""
    power_limit_changed: int | None = None
    """How often the limit in force was another than before."""


def reached(state: RunState) -> RegimeReached:
    """The regime of a log; what is not known has its reason."""
    regime = state.regime if state.regime is not None else Regime(missing={"regime": "the log does not say"})
    missing = dict(regime.missing)
    if state.depth_reached is None:
        missing["depth_reached"] = "no prompt with a known length was answered"
    if state.cached_tokens is None:
        missing["cached_tokens"] = "the server does not say"
    noted = {name: getattr(regime, name) for name in Regime.__struct_fields__}
    meta = state.meta
    if meta is not None and regime.concurrency_requested is None:
        noted["concurrency_requested"] = meta.at_once
        missing.pop("concurrency_requested", None)
    cards = _during(state.gpus)
    for name, value in noted.items():
        if value is None:
            missing.setdefault(name, "not noted")
    if meta is None or meta.interleaved is None:
        missing["interleaved"] = "conversations did not take turns"
    for name, figure in msgspec.structs.asdict(cards).items():
        if figure is None:
            missing.setdefault(name, _why_not(name, state.gpus))
    noted["missing"] = dict(sorted(missing.items()))
    return RegimeReached(
        **noted,
        concurrency_admitted_peak=_admitted(state),
        depth_reached=state.depth_reached,
        sessions=meta.sessions if meta is not None else None,
        at_once=meta.at_once if meta is not None else None,
        interleaved=meta.interleaved if meta is not None else None,
        segments=state.segments,
        duration_s=state.elapsed_ms / 1000.0,
        generated_tokens=state.generated_tokens,
        prompt_tokens=state.prompt_tokens,
        cached_tokens=state.cached_tokens,
        sm_mhz_median=cards.sm_mhz_median,
        mem_mhz_median=cards.mem_mhz_median,
        gpu_power_mean_w=cards.gpu_power_mean_w,
        thermal_share=cards.thermal_share,
        power_capped_share=cards.power_capped_share,
        power_limit_changed=cards.power_limit_changed,
    )


_READ_FOR: Final = {
    "sm_mhz_median": ("sm_mhz",),
    "mem_mhz_median": ("mem_mhz",),
    "gpu_power_mean_w": ("power_w", "power_instant_w"),
    "thermal_share": ("thermal_ms", "sw_thermal_ms", "hw_thermal_ms"),
    "power_capped_share": ("power_capped_ms",),
}
"""By field, the readings that it is made of: one of them would do."""


def _why_not(name: str, gpus: GpuSummary) -> str:
    """Why the server's cards give no such figure: there are none, they do not say, or never when it counted."""
    if not gpus.of_server:
        return gpus.reason or f"no card is known to be the server's: {why_none(gpus.probes)}"
    needed = _READ_FOR.get(name, ())
    for one in gpus.of_server:
        if not one.readings:
            return one.lost_why or "the server's card was never read"
        said = [one.card.why_not(reading) for reading in needed]
        if said and all(said):
            return f"{needed[0]}: {said[0]}"
    if name.endswith("_median"):
        read, worked = (sum(n) for n in zip(*((one.readings, one.loaded) for one in gpus.of_server), strict=True))
        at_work = f"the server's card was at work in {worked or 'none'} of {read} readings"
        return f"{at_work}, and they came without this one" if worked else at_work
    return "the server's card was read less than twice"


class _During(msgspec.Struct, frozen=True):
    """What the server's cards did meanwhile, by the names of RegimeReached; the worst card stands for all."""

    sm_mhz_median: int | None
    mem_mhz_median: int | None
    gpu_power_mean_w: float | None
    thermal_share: float | None
    power_capped_share: float | None
    power_limit_changed: int | None


def _during(gpus: GpuSummary) -> _During:
    cards = gpus.of_server
    power = [card.power_mean_w for card in cards if card.power_mean_w is not None]
    capped = [card.throttle_share["power_capped"] for card in cards if "power_capped" in card.throttle_share]
    return _During(
        sm_mhz_median=min((c.sm_mhz.median for c in cards if c.sm_mhz.median is not None), default=None),
        mem_mhz_median=min((c.mem_mhz.median for c in cards if c.mem_mhz.median is not None), default=None),
        gpu_power_mean_w=sum(power) if power and len(power) == len(cards) else None,
        thermal_share=max((c.thermal_share for c in cards if c.thermal_share is not None), default=None),
        power_capped_share=max(capped, default=None),
        power_limit_changed=sum(card.limit_changed for card in cards) if cards else None,
    )


def _admitted(state: RunState) -> int | None:
    """What the server says it ran may include others' requests, so it counts up to the number that we had open."""
    if state.first_token is None:
        return None
    running = 0 if state.running_peak is None else min(int(state.running_peak), state.in_flight_peak)
    return max(state.decoding_peak, running)
