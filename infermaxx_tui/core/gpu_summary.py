"""What the cards did over a whole run, as far as their sensors said it: for judges, panels and reports."""

from __future__ import annotations

import msgspec

from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.gpu import GpuCard, GpuProbe, GpuProcess, GpuReading


class Spread(msgspec.Struct, frozen=True):
    """Of readings at work: how many, the least, the median and the most; None where n is 0."""

    n: int
    least: int | None
    median: int | None
    most: int | None


class LimitChange(msgspec.Struct, frozen=True):
    """The enforced power limit was another than before."""

    at: Ref
    from_w: float
    to_w: float


class CardSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One card over the run. None: nothing was read; `card.why_not` says why."""

    card: GpuCard
    source: str
    local: bool
    readings: int
    """Rounds in which the card answered."""
    streamed: int
    """Those of them that were taken while a request of ours was open, or had been a round before."""
    worked: int
    """Those of `streamed` in which it was at work."""
    loaded: int
    """Those of `readings` in which it was at work (core.gpu_card.at_work says from what that is seen)."""
    quiet_w: float | None
    """Least power before the first request; None: it was not read then."""
    quiet_busy: int | None
    """The same for the share of time in which a kernel ran, in percent."""
    last: GpuReading | None
    """The newest value of each reading."""
    power_mean_w: float | None
    """Weighted by time."""
    power_max_w: float | None
    """Of the instant power where the card gives it."""
    limit_w: float | None
    limit_changes: tuple[LimitChange, ...]
    """The first of them; a limit that is set with `nvidia-smi -pl` is gone after a reboot."""
    limit_changed: int
    """All of them."""
    sm_mhz: Spread
    mem_mhz: Spread
    edge_max_c: int | None
    hotspot_max_c: int | None
    vram_max_c: int | None
    margin_min_c: int | None
    throttle_share: dict[str, float]
    """By `power_capped`, `thermal`, `sw_thermal`, `hw_thermal`, `power_brake`: share of the time in which the card's
    counters grew. A counter that the card has not is not there."""
    throttle_ms: dict[str, float]
    throttle_window_ms: float
    """Time that the shares are of."""
    reason_share: dict[str, float]
    """By name: share of the rounds in which that reason held the clocks."""
    slowed_below_cap: float | None
    """Share of loaded rounds with the SM clock below 90 % of its maximum, power below 95 % of its limit and no word of
    the power cap: the mark of heat on a card without a hotspot sensor."""
    energy_j: float | None
    energy_source: str
    """`counter`, or `integrated` from power; empty without energy."""
    energy_window_ms: float
    vram_first_mib: float | None
    vram_max_mib: float | None
    server_vram_max_mib: float | None
    """Of the server's processes together."""
    ecc_corrected: int | None
    """New ones during the run; so are the two after it."""
    ecc_uncorrected: int | None
    pcie_replays: int | None
    pcie_gen_min: int | None
    """Under load; an idle card lowers it."""
    pcie_width_min: int | None
    recovery: str | None
    """The last that was not `none`, else `none`."""
    xids: dict[int, int]
    """How often each XID came."""
    foreign: tuple[GpuProcess, ...]
    """Processes on the card that are not the server's, with the most VRAM that each held; the first of them."""
    lost: int
    """Rounds in which the card could not be read."""
    lost_why: str | None
    """The first reason."""
    lost_at: Ref | None
    back: bool
    """Whether it answered again after it was lost."""

    @property
    def thermal_share(self) -> float | None:
        """The largest share of time in which any thermal counter grew; None without such a counter."""
        return max((self.throttle_share[k] for k in _THERMAL if k in self.throttle_share), default=None)


_THERMAL = ("thermal", "sw_thermal", "hw_thermal")


class EnergyPerToken(msgspec.Struct, frozen=True, kw_only=True):
    """Energy of the server's boards over the run, without the host's."""

    joules: float | None
    per_output_token: float | None
    per_token: float | None
    """Prompt tokens counted too."""
    cached_share: float | None
    """Share of the prompt tokens that came from the prefix cache, and so were nearly free."""
    reason: str
    """Why a figure is None; empty if none is."""


class GpuSummary(msgspec.Struct, frozen=True, kw_only=True):
    """All cards that sensors were read of."""

    probes: tuple[GpuProbe, ...] = ()
    """The newest of each source."""
    cards: tuple[CardSummary, ...] = ()
    rounds: int = 0
    covered_ms: float = 0.0
    """Time between rounds, all together."""
    fast_mean_ms: float | None = None
    """What a round cost the sampler."""
    fast_max_ms: float | None = None
    slow_mean_ms: float | None = None
    slow_max_ms: float | None = None
    energy: EnergyPerToken = EnergyPerToken(
        joules=None, per_output_token=None, per_token=None, cached_share=None, reason="no GPU sensors were read"
    )

    @property
    def of_server(self) -> tuple[CardSummary, ...]:
        """Cards that the server is known to compute on: only these may enter a verdict."""
        return tuple(one for one in self.cards if one.card.server)

    @property
    def reason(self) -> str | None:
        """Why no card was read, in the words of the sources; None if one was."""
        if any(one.readings for one in self.cards):
            return None
        said = [probe.error for probe in self.probes if probe.error is not None]
        lost = [one.lost_why for one in self.cards if one.lost_why is not None]
        return "; ".join(dict.fromkeys([*said, *lost])) or "no GPU sensors were read"
