"""Reads what a forecast of an arm is made of: the checkpoint that its command names, and the card of this machine."""

from __future__ import annotations

import os
from functools import cache

from infermaxx_tui.core.experiment.forecast import Card, Forecast, forecast
from infermaxx_tui.core.experiment.levers import Settings
from infermaxx_tui.core.gpu import GpuCard
from infermaxx_tui.core.model_facts import ModelFacts
from infermaxx_tui.model_folder import config_of, facts_of, model_of

_MIB = 1 << 20


def known_before(one: Settings, no_gpu: bool) -> tuple[ModelFacts | str | None, Forecast | None]:
    """The facts of the arm's checkpoint, or why there are none, and what follows; None where it does not lie here.

    `no_gpu`: the cards of this machine are not asked.
    """
    folder = model_of(one.launch)
    if folder is None:
        return None, None
    facts, config = facts_of(folder), config_of(folder)
    if isinstance(facts, str) or isinstance(config, str):
        return facts, None
    return facts, forecast(one.launch, {**os.environ, **one.env}, config, facts, None if no_gpu else local_card())


@cache
def local_card() -> Card | None:
    """The card of this machine, any of them where they are alike; None where there is none, or they differ."""
    from infermaxx_tui.sensors import probe_local

    kinds = {_card(card) for card in probe_local().cards}
    return kinds.pop() if len(kinds) == 1 else None


def _card(card: GpuCard) -> Card:
    memory = None if card.vram_total_mib is None else card.vram_total_mib * _MIB
    return Card(card.name or "a card", card.compute, card.bandwidth_bytes_per_s, memory)
