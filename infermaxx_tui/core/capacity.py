"""What recorded sessions would do to a KV pool: sized by their peaks, since an average never ran out of memory.

Over 710 real traces the peak is 1.4 times the mean in the median and 1.9 times at p90 (transcripts.md §0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.stats import quantile
from infermaxx_tui.core.transcript import Request, Session


class Measured(msgspec.Struct, frozen=True):
    """The sizes of one session's requests by some tokenizer, prompt and reply together, in order."""

    request_tokens: tuple[int, ...]


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


def describe(
    sessions: Iterable[Session], measure: Callable[[Session], Measured], tokenizer: TokenizerName, pool: int | None
) -> Stats:
    """The statistics of at least one session; `measure` is asked where the recording has no usage."""
    rows, every = [], []
    for session in sessions:
        sizes, source = _sizes(session, measure)
        every += sizes
        rows.append(
            SessionStats(
                id=session.id,
                format=session.format,
                requests=len(session.requests),
                windows=len(session.windows),
                peak_tokens=max(sizes, default=0),
                peak_source=source,
                mean_tokens=sum(sizes) / len(sizes) if sizes else 0.0,
                loss=dict(session.loss),
            )
        )
    peaks = sorted(row.peak_tokens for row in rows)
    return Stats(
        tokenizer=tokenizer,
        sessions=tuple(rows),
        peak=Peak(quantile(peaks, 0.5) or 0.0, quantile(peaks, 0.9) or 0.0, peaks[-1] if peaks else 0),
        mean=sum(every) / len(every) if every else 0.0,
        pool=pool,
        exceeds_alone=None if pool is None else sum(peak > pool for peak in peaks),
        fit_together=None if pool is None else _fit(peaks, pool),
    )


def _sizes(
    session: Session, measure: Callable[[Session], Measured]
) -> tuple[list[int], Literal["recorded", "tokenised"]]:
    recorded = [size for request in session.requests if (size := _recorded(request)) is not None]
    if len(recorded) == len(session.requests) and recorded:
        return recorded, "recorded"
    return list(measure(session).request_tokens), "tokenised"


def _recorded(request: Request) -> int | None:
    """Prompt and reply as the recorder's server counted them; `prompt_tokens` includes what was cached."""
    usage = request.usage
    if usage.prompt_tokens is None or usage.output_tokens is None:
        return None
    return usage.prompt_tokens + usage.output_tokens


def _fit(peaks: Sequence[int], pool: int) -> int:
    """How many sessions fit if all are at their peaks at once, the smallest first: any other choice fits fewer."""
    used = 0
    for count, peak in enumerate(peaks):
        used += peak
        if used > pool:
            return count
    return len(peaks)


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
    lines += ["", f"peak: p50 {stats.peak.p50:,.0f}, p90 {stats.peak.p90:,.0f}, max {stats.peak.max:,} tokens"]
    if stats.mean:
        lines.append(
            f"mean over all requests {stats.mean:,.0f} tokens:"
            f" the largest peak is {stats.peak.max / stats.mean:.1f} times that"
        )
    if stats.pool is not None:
        lines.append(
            f"pool {stats.pool:,} tokens: {stats.exceeds_alone} of {len(stats.sessions)} sessions exceed it alone"
        )
        lines.append(f"{stats.fit_together} fit together at their peaks")
    return tuple(harmless(line) for line in lines)
