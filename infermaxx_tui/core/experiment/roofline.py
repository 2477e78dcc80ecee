"""Rates that no card can reach: flagged and not celebrated, for they were measured wrongly, or are babble."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.experiment.forecast import told_dtype, told_quantization
from infermaxx_tui.core.experiment.rows import ArmRow
from infermaxx_tui.core.measures import number_text
from infermaxx_tui.core.model_facts import ModelFacts, as_loaded, roofline_tokens_per_s

_DECODE: Final = "decode.tokens_per_s"


def over_roofline(rows: Sequence[ArmRow]) -> Iterator[str]:
    """One line for each start and depth whose decode of one stream is more than its memory can bring."""
    for row in rows:
        if row.facts is None or row.bandwidth_bytes_per_s is None:
            continue
        regime = row.regime
        stored = (regime.kv_cache_stored or regime.kv_cache_dtype or "auto") if regime is not None else "auto"
        dtype = told_dtype(row.settings.launch) or (regime.dtype if regime is not None else None)
        facts = _with_kv(as_loaded(row.facts, dtype, told_quantization(row.settings.launch)), row)
        accepted = row.mean_length or 1.0
        for one in row.measures:
            if one.name != _DECODE or not one.values:
                continue
            roof = roofline_tokens_per_s(facts, row.bandwidth_bytes_per_s, one.depth_tokens or 0, stored, accepted)
            if roof is not None and max(one.values) > roof:
                yield (
                    f"start {row.boot + 1}: {number_text(max(one.values))} tokens/s at {one.depth_tokens} tokens is"
                    f" over the roofline of {roof:,.0f} ({row.bandwidth_bytes_per_s / 1e9:,.0f} GB/s): it is measured"
                    " wrongly, or the replies are worth nothing"
                )


def _with_kv(facts: ModelFacts, row: ArmRow) -> ModelFacts:
    """With the bytes of a token in the type in which this arm keeps them, where they were reckoned before its start."""
    told = row.forecast
    if told is None or told.kv_dtype is None or told.kv_bytes_per_token is None:
        return facts
    priced = {told.kv_dtype: told.kv_bytes_per_token, **facts.kv_bytes_per_token}
    near = {told.kv_dtype: told.kv_window_bytes_per_token, **facts.kv_window_bytes_per_token}
    return msgspec.structs.replace(facts, kv_bytes_per_token=priced, kv_window_bytes_per_token=near)
