"""What recorded sessions would do to a KV pool: sized by their peaks, since an average never ran out of memory.

Over 710 real traces the peak is 1.4 times the mean in the median and 1.9 times at p90 (transcripts.md §0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.capacity_text import kv_lines, overlap_lines, plan_lines
from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.fitting import Overlap, Plan, admission, overlap
from infermaxx_tui.core.kv_pool import NULL_BLOCKS, plain_cost
from infermaxx_tui.core.kv_report import TOKENS_ONLY, KvAsked, KvReport, fit, kv_report, pool_of, server_cost
from infermaxx_tui.core.load import Load, load_of
from infermaxx_tui.core.overlap import RATES, Rates
from infermaxx_tui.core.stats import counted_quantile
from infermaxx_tui.core.transcript import Request, Session


class Measured(msgspec.Struct, frozen=True):
    """The sizes of one session's requests by some tokenizer, prompt and reply together, in order."""

    request_tokens: tuple[int, ...]
    reply_tokens: tuple[int, ...] = ()
    """How much of each is the reply; empty where nobody asked."""


class SessionStats(msgspec.Struct, frozen=True):
    """One session, as `--json` prints it."""

    id: str
    format: str
    requests: int
    windows: int
    peak_tokens: int
    peak_source: Literal["recorded", "tokenised"]
    mean_tokens: float
    loss: dict[str, int]


class TokenizerName(msgspec.Struct, frozen=True):
    """By what the tokens were counted."""

    name: str
    exact: bool
    """Whether it is the tokenizer of the model that is meant; the shipped vocabulary never is."""


class Peak(msgspec.Struct, frozen=True):
    """Distribution of the sessions' peaks, in tokens."""

    p50: float
    p90: float
    max: int


class Stats(msgspec.Struct, frozen=True):
    """What `transcripts stats --json` prints."""

    tokenizer: TokenizerName
    sessions: tuple[SessionStats, ...]
    peak: Peak
    mean: float
    """Mean of the requests of all sessions, in tokens."""
    pool: int | None
    exceeds_alone: int | None
    """Sessions whose peak is larger than the whole pool; None without a pool."""
    fit_together: int | None
    """Sessions that fit at their peaks at the same time; None without a pool."""
    pool_blocks: int | None = None
    kv: KvReport | None = None
    """The model's cache in each dtype; None without its config, or without a pool."""
    overlap: Overlap | None = None
    """What sessions side by side come to on the pool; None without one."""
    plan: Plan | None = None
    """When to start which session; None without a pool, or for too many."""
    sessions_left_out: int = 0
    """Sessions that are counted everywhere and not listed, since there are too many."""

    @property
    def count(self) -> int:
        """All sessions, those that are not listed too."""
        return len(self.sessions) + self.sessions_left_out


LISTED: Final = 10_000
"""Sessions that are listed and played side by side; of a trace with more of them only peaks are kept, and how often
each was seen, so that memory does not grow with the file."""


def describe(
    sessions: Iterable[Session],
    measure: Callable[[Session], Measured],
    tokenizer: TokenizerName,
    pool: int | None,
    asked: KvAsked = TOKENS_ONLY,
    seed: int = 1,
    rates: Rates = RATES,
) -> Stats:
    """The statistics of at least one session; `measure` is asked where the recording has no usage.

    `rates` are the server's, for sessions side by side.

    Raises core.kv_layers.ConfigError if the model's config does not say what is needed.
    """
    rows, loads, peaks = list[SessionStats](), list[Load](), Counter[int]()
    tokens = requests = left_out = 0
    on_pool = pool is not None or asked.memory_gib is not None
    for session in sessions:
        pairs, source = _sizes(session, measure)
        sizes = [sum(pair) for pair in pairs]
        tokens, requests = tokens + sum(sizes), requests + len(sizes)
        peaks[max(sizes, default=0)] += 1
        if len(rows) == LISTED:
            left_out += 1
            continue
        if on_pool:
            loads.append(load_of(session, pairs))
        rows.append(_row(session, sizes, source))
    whole = Stats(
        tokenizer=tokenizer,
        sessions=tuple(rows),
        peak=Peak(counted_quantile(peaks, 0.5) or 0.0, counted_quantile(peaks, 0.9) or 0.0, max(peaks, default=0)),
        mean=tokens / requests if requests else 0.0,
        pool=pool,
        exceeds_alone=None if pool is None else sum(count for peak, count in peaks.items() if peak > pool),
        fit_together=None if pool is None else fit_counted(peaks, pool),
        sessions_left_out=left_out,
    )
    return whole if left_out else _on_pool(whole, loads, pool, asked, seed, rates)


def _row(session: Session, sizes: list[int], source: Literal["recorded", "tokenised"]) -> SessionStats:
    return SessionStats(
        id=session.id,
        format=session.format,
        requests=len(session.requests),
        windows=len(session.windows),
        peak_tokens=max(sizes, default=0),
        peak_source=source,
        mean_tokens=sum(sizes) / len(sizes) if sizes else 0.0,
        loss=dict(session.loss),
    )


def fit_counted(peaks: Mapping[int, int], room: int) -> int:
    """How many fit if all are at their peaks at once, the smallest first: any other choice fits fewer."""
    used = fitting = 0
    for peak in sorted(peaks):
        here = peaks[peak] if not peak else min(peaks[peak], (room - used) // peak)
        used, fitting = used + here * peak, fitting + here
        if here < peaks[peak]:
            break
    return fitting


def _on_pool(stats: Stats, loads: list[Load], pool: int | None, asked: KvAsked, seed: int, rates: Rates) -> Stats:
    """The same with what the sessions come to on the pool; where a config is known, in the model's own blocks."""
    tokens, blocks = pool_of(asked, pool)
    if tokens is None or blocks is None:
        return stats
    priced = server_cost(asked)
    held = [priced.blocks(load.peak_tokens) for load in loads] if priced is not None else None
    one, usable = priced or plain_cost(asked.block_size), max(blocks - NULL_BLOCKS, 0)
    return msgspec.structs.replace(
        stats,
        pool=tokens,
        exceeds_alone=stats.exceeds_alone if held is None else sum(peak > blocks for peak in held),
        fit_together=stats.fit_together if held is None else fit(held, blocks),
        pool_blocks=blocks,
        kv=kv_report(asked, tokens, loads),
        overlap=overlap(loads, one, usable, seed, rates),
        plan=admission(loads, one, usable, rates),
    )


def _sizes(
    session: Session, measure: Callable[[Session], Measured]
) -> tuple[list[tuple[int, int]], Literal["recorded", "tokenised"]]:
    """Prompt and reply of each request."""
    recorded = [size for request in session.requests if (size := _recorded(request)) is not None]
    if len(recorded) == len(session.requests) and recorded:
        return recorded, "recorded"
    measured = measure(session)
    replies = measured.reply_tokens or (0,) * len(measured.request_tokens)
    pairs = zip(measured.request_tokens, replies, strict=True)
    return [(whole - reply, reply) for whole, reply in pairs], "tokenised"


def _recorded(request: Request) -> tuple[int, int] | None:
    """Prompt and reply as the recorder's server counted them; `prompt_tokens` includes what was cached."""
    usage = request.usage
    if usage.prompt_tokens is None or usage.output_tokens is None:
        return None
    return usage.prompt_tokens, usage.output_tokens


def stats_lines(stats: Stats) -> tuple[str, ...]:
    """The same for people."""
    exact = "" if stats.tokenizer.exact else " (not the model's: counts are not exact)"
    lines = [f"tokenizer {stats.tokenizer.name}{exact}", ""]
    lines.append(
        f"{'session':28} {'format':12} {'requests':>8} {'windows':>7} {'peak':>9} {'mean':>9}  source      loss"
    )
    for row in stats.sessions:
        loss = ", ".join(f"{name} {count}" for name, count in row.loss.items()) or "-"
        over = " > pool" if stats.pool is not None and row.peak_tokens > stats.pool else ""
        lines.append(
            f"{row.id[:28]:28} {row.format:12} {row.requests:8} {row.windows:7}"
            f" {row.peak_tokens:9,} {row.mean_tokens:9,.0f}  {row.peak_source:10}  {loss}{over}"
        )
    lines += _summary(stats)
    return tuple(harmless(line) for line in lines)


def _summary(stats: Stats) -> list[str]:
    lines = [""]
    if stats.sessions_left_out:
        lines.append(f"and {stats.sessions_left_out:,} more, counted below; too many to play them side by side")
    lines += [f"peak: p50 {stats.peak.p50:,.0f}, p90 {stats.peak.p90:,.0f}, max {stats.peak.max:,} tokens"]
    if stats.mean:
        lines.append(
            f"mean over all requests {stats.mean:,.0f} tokens:"
            f" the largest peak is {stats.peak.max / stats.mean:.1f} times that"
        )
    if stats.pool is not None:
        lines.append(f"pool {stats.pool:,} tokens: {stats.exceeds_alone} of {stats.count} sessions exceed it alone")
        lines.append(f"{stats.fit_together} fit together at their peaks")
    if stats.kv is not None:
        lines += ["", *kv_lines(stats.kv)]
    if stats.overlap is not None:
        lines += ["", *overlap_lines(stats.overlap)]
    if stats.plan is not None:
        lines += ["", *plan_lines(stats.plan)]
    return lines
