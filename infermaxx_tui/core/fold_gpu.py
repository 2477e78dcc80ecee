"""Readings of the GPUs, round by round, become what each card did over the run; of constant size per card."""

from __future__ import annotations

from typing import Final

import msgspec

from infermaxx_tui.core.events import GpuProbed, GpuRead, Record
from infermaxx_tui.core.gpu import GpuCard, GpuProbe, GpuReading
from infermaxx_tui.core.gpu_card import COUNTERS, KeptCard, Load, take
from infermaxx_tui.core.gpu_reasons import reason_names
from infermaxx_tui.core.gpu_summary import CardSummary, EnergyPerToken, GpuSummary, Spread

_LEAST_ENERGY_MS: Final = 2000.0
"""The counter steps every 100 ms: below 20 steps a share of it means little (gpu-and-verdicts §1.6)."""
_LEAST_COVERED: Final = 0.9


class Gpus(msgspec.Struct):
    """All cards of a log."""

    probes: dict[str, GpuProbe] = {}
    """By source."""
    cards: dict[int, KeptCard] = {}
    rounds: int = 0
    open_before: int = 0
    """Requests that were open in the last round."""
    covered_ms: float = 0.0
    costs: dict[str, list[float]] = {}
    """By `fast` and `slow`: how many, their sum and the largest, in ms."""

    def probed(self, record: Record, event: GpuProbed) -> None:
        """What a source found; the newest stands."""
        self.probes[event.probe.source] = event.probe
        for card in event.probe.cards:
            known = self.cards.get(card.gpu)
            if known is None:
                self.cards[card.gpu] = KeptCard(card, event.probe.source, event.probe.local)
            else:
                known.card, known.source, known.local = card, event.probe.source, event.probe.local

    def read(self, record: Record, event: GpuRead, open_now: int = 0, sent: bool = True) -> None:
        """One round; `open_now`: requests of ours that are open, `sent`: whether there ever was one."""
        when: Load = "quiet" if not sent else "ours" if open_now or self.open_before else "other"
        self.open_before = open_now
        self.rounds += 1
        self.covered_ms += event.window_ms
        self._cost("fast", event.fast_ms)
        self._cost("slow", event.slow_ms)
        at = (record.part, record.seq)
        for reading in event.gpus:
            card = self.cards.get(reading.gpu)
            if card is None:
                unnamed = GpuCard(gpu=reading.gpu, server_why="the log has no probe of it")
                card = self.cards[reading.gpu] = KeptCard(unnamed, "none", True)
            take(card, at, reading, event.window_ms, when)

    def _cost(self, tier: str, ms: float | None) -> None:
        if ms is None:
            return
        kept = self.costs.setdefault(tier, [0.0, 0.0, 0.0])
        kept[0] += 1
        kept[1] += ms
        kept[2] = max(kept[2], ms)

    def summary(self, generated: int, prompt: int, cached: int | None, elapsed_us: int) -> GpuSummary:
        """What the cards did so far. Tokens are those of the whole log, for energy per token."""
        cards = tuple(_summed(card) for _, card in sorted(self.cards.items()))
        fast, slow = self.costs.get("fast"), self.costs.get("slow")
        return GpuSummary(
            probes=tuple(self.probes.values()),
            cards=cards,
            rounds=self.rounds,
            covered_ms=self.covered_ms,
            fast_mean_ms=fast[1] / fast[0] if fast else None,
            fast_max_ms=fast[2] if fast else None,
            slow_mean_ms=slow[1] / slow[0] if slow else None,
            slow_max_ms=slow[2] if slow else None,
            energy=per_token(cards, generated, prompt, cached, elapsed_us / 1000.0),
        )


def _spread(counts: dict[int, int]) -> Spread:
    n, passed = sum(counts.values()), 0
    if not n:
        return Spread(0, None, None, None)
    ordered = sorted(counts)
    for step in ordered:
        passed += counts[step]
        if passed * 2 >= n:
            return Spread(n, ordered[0], step, ordered[-1])
    return Spread(n, ordered[0], ordered[-1], ordered[-1])


def _summed(card: KeptCard) -> CardSummary:
    grown, window_ms = card.grown, card.window_ms
    throttled = {name: grown[field] for name, field in COUNTERS.items() if field in grown and window_ms > 0}
    names: dict[str, int] = {}
    for bits, rounds in card.reasons.items():
        for name in reason_names(bits):
            names[name] = names.get(name, 0) + rounds
    energy_j, energy_source, energy_ms = _energy(card)
    return CardSummary(
        card=card.card,
        source=card.source,
        local=card.local,
        readings=card.readings,
        streamed=card.streamed,
        worked=card.worked,
        loaded=card.loaded,
        quiet_w=card.quiet_w,
        quiet_busy=card.quiet_busy,
        last=msgspec.convert({"gpu": card.card.gpu, **card.newest}, GpuReading) if card.readings else None,
        power_mean_w=card.power_integral_mj / card.power_ms if card.power_ms else card.power_before_w,
        power_max_w=card.most.get("power_instant_w", card.most.get("power_w")),
        limit_w=card.limit_now_w if card.limit_now_w is not None else card.card.limit_w,
        limit_changes=tuple(card.changes),
        limit_changed=card.changed,
        sm_mhz=_spread(card.sm),
        mem_mhz=_spread(card.mem),
        edge_max_c=_whole(card.most.get("edge_c")),
        hotspot_max_c=_whole(card.most.get("hotspot_c")),
        vram_max_c=_whole(card.most.get("vram_c")),
        margin_min_c=_whole(card.least.get("margin_c")),
        throttle_share={name: min(ms / window_ms, 1.0) for name, ms in throttled.items()},
        throttle_ms=throttled,
        throttle_window_ms=window_ms,
        reason_share={name: rounds / card.reason_rounds for name, rounds in sorted(names.items())},
        slowed_below_cap=card.slowed / card.judged if card.judged else None,
        energy_j=energy_j,
        energy_source=energy_source,
        energy_window_ms=energy_ms,
        vram_first_mib=card.vram_first_mib,
        vram_max_mib=card.most.get("vram_used_mib"),
        server_vram_max_mib=card.most.get("server_vram_mib"),
        ecc_corrected=_whole(grown.get("ecc_corrected")),
        ecc_uncorrected=_whole(grown.get("ecc_uncorrected")),
        pcie_replays=_whole(grown.get("pcie_replays")),
        pcie_gen_min=_whole(card.least.get("pcie_gen")),
        pcie_width_min=_whole(card.least.get("pcie_width")),
        recovery=card.recovery,
        xids=dict(sorted(card.xids.items())),
        foreign=tuple(card.foreign[pid] for pid in sorted(card.foreign)),
        lost=card.lost,
        lost_why=card.lost_why,
        lost_at=card.lost_at,
        back=card.lost > 0 and not card.lost_now,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _energy(card: KeptCard) -> tuple[float | None, str, float]:
    """Joules, where they are from, and the ms that they cover: the counter, else the area under the power."""
    if "energy_j" in card.grown and card.window_ms > 0:
        return card.grown["energy_j"], "counter", card.window_ms
    if card.power_ms > 0:
        return card.power_integral_mj / 1000.0, "integrated", card.power_ms
    return None, "", 0.0


def per_token(
    cards: tuple[CardSummary, ...], generated: int, prompt: int, cached: int | None, elapsed_ms: float
) -> EnergyPerToken:
    """Joules of the server's cards over tokens; None where they do not cover the run in which the tokens came."""
    own = [one for one in cards if one.card.server]
    reason = ""
    if not own:
        reason = "no card is known to be the server's"
    elif any(one.energy_j is None for one in own):
        reason = "a card of the server gives neither energy nor power"
    elif min(one.energy_window_ms for one in own) < _LEAST_ENERGY_MS:
        reason = "less than 2 s of energy were read"
    joules = sum(one.energy_j or 0.0 for one in own) if not reason else None
    if not reason and min(one.energy_window_ms for one in own) < _LEAST_COVERED * elapsed_ms:
        reason = "energy was read during a part of the run only"
    if not reason and generated <= 0:
        reason = "no token was generated"
    good = joules is not None and not reason
    return EnergyPerToken(
        joules=joules,
        per_output_token=joules / generated if joules is not None and good else None,
        per_token=joules / (generated + prompt) if joules is not None and good else None,
        cached_share=cached / prompt if cached is not None and prompt > 0 else None,
        reason=reason,
    )
