"""What `transcripts stats` says to people about a pool: tables a terminal can show."""

from __future__ import annotations

from collections.abc import Iterator

from infermaxx_tui.core.fitting import Overlap, Plan, Spread
from infermaxx_tui.core.kv_report import KvReport

SHOWN = 12
"""Rows of a plan or a table that are printed; `--json` has them all."""


def kv_lines(kv: KvReport) -> Iterator[str]:
    """The model's cache in each dtype, and which one is needed."""
    kinds = [f"{kv.full_layers} layers of full attention"]
    if kv.sliding_layers:
        kinds.append(f"{kv.sliding_layers} that keep the last {kv.window:,} tokens")
    if kv.state_layers:
        kinds.append(f"{kv.state_layers} of fixed state ({kv.state_bytes / 2**20:.0f} MiB a sequence)")
    if kv.mtp_layers:
        kinds.append(f"{kv.mtp_layers} of its draft head")
    yield f"{kv.model}: {', '.join(kinds)}; blocks of {kv.block_tokens:,} tokens in {kv.dtype}"
    window = "" if kv.max_model_len is None else f" at a window of {kv.max_model_len:,}"
    yield f"on {kv.memory_gib:.2f} GiB{window}:"
    yield f"  {'KV dtype':22} {'bytes/token':>11} {'pool':>11} {'one alone':>11} {'exceed':>7} {'fit at peaks':>12}"
    for rung in kv.rungs:
        name = rung.dtype + (" (estimate)" if rung.estimate else "")
        yield (
            f"  {name:32} {rung.bytes_per_token:,} {rung.pool_tokens:11,} {rung.longest_tokens:11,}"
            f" {rung.exceeds_alone:7} {rung.fit_together:12}"
        )
    yield f"needed for each session by itself: {kv.needed_alone or 'none of these'}"
    yield f"needed for all at their peaks at once: {kv.needed_together or 'none of these'}"


def overlap_lines(found: Overlap) -> Iterator[str]:
    """How many sessions go side by side."""
    plays = found.tried[0].draws if found.tried else 0
    assumed = "waits as recorded" if found.timed else "waits assumed: 9 s a tool, 132 s a person"
    yield (
        f"side by side, {plays} plays of each number (seed {found.seed}; {assumed};"
        f" {found.rates.prefill_tokens_per_s:,.0f} tokens/s prefill, {found.rates.decode_tokens_per_s:.0f} a stream):"
    )
    yield (
        f"  {found.without_eviction} keep all their prefixes, {found.without_preemption} go without a preemption"
        f" in every play, {found.without_preemption_half} in half of them"
    )
    if found.left_out:
        yield f"  {found.left_out} not played: they exceed the pool by themselves"
    yield (
        f"  {'sessions':>8} {'clean plays':>11} {'preemptions':>15} {'recomputed':>21} {'evicted prefix':>27}"
        f" {'pool in use':>11}"
    )
    for one in found.tried[:: max(-(-len(found.tried) // SHOWN), 1)]:
        yield (
            f"  {one.sessions:8} {one.clean:8}/{one.draws:<2} {_spread(one.preemptions):>15}"
            f" {_spread(one.recomputed_tokens):>21} {_spread(one.evicted_tokens):>27} {one.peak_share.max:11.0%}"
            + (" storm" if one.storms else "")
        )
    yield "  (p50/p90/max over the plays; recomputed and evicted in tokens)"


def _spread(some: Spread) -> str:
    return f"{some.p50:,.0f}/{some.p90:,.0f}/{some.max:,.0f}"


def plan_lines(plan: Plan) -> Iterator[str]:
    """When to start which session."""
    minutes = plan.lasts_s / 60
    yield (
        f"admission: all through in {minutes:,.0f} min with their prefixes kept, at most {plan.at_once} alive at once,"
        f" {plan.peak_share:.0%} of the pool; --max-num-seqs {plan.max_num_seqs} is safe whatever the overlap"
    )
    for start in plan.starts[:SHOWN]:
        yield f"  {start.at_s:8,.0f} s  {start.session[:40]}"
    if len(plan.starts) > SHOWN:
        yield f"  … {len(plan.starts) - SHOWN} more in --json"
    if plan.refused:
        yield f"  not admitted, larger than the pool: {', '.join(name[:40] for name in plan.refused[:SHOWN])}"
