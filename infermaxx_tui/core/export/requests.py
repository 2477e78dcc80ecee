"""One row for each request of a log: when, how deep, how fast, and what its reply was."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

import msgspec

from infermaxx_tui.core.events import FirstToken, GapNoted, Record, RequestEnded, RequestStarted, RunStarted, Unknown
from infermaxx_tui.core.logtime import LogClock
from infermaxx_tui.core.marks import Mark, mark_of_leak, mark_of_miss
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.state import RunState

REGIME: Final = (
    "engine",
    "model",
    "checkpoint_sha256",
    "quantization",
    "kv_cache_dtype",
    "kv_cache_stored",
    "attention_backend",
    "speculative",
    "tensor_parallel",
    "enforce_eager",
    "prefix_caching",
    "max_num_seqs",
    "max_model_len",
    "pool_tokens",
    "block_size",
    "prompt_mode",
    "replies_mode",
    "tokenizer",
    "temperature",
    "concurrency_requested",
    "target_depth",
    "gpu",
    "gpu_driver",
    "power_limit_w",
)
"""Keys of the regime that stand in every row: a number without them is none."""


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """One request. None: not known, never 0."""

    segment: int
    req: int
    session: int
    turn: int
    kind: str
    state: str
    """`ended`, or `open`: the log does not know its end."""
    reply_class: str | None = None
    """What the reply is, by the classes of recall; `degenerate`, `capped` or `complete` for other requests."""
    outcome: str | None = None
    finish_reason: str | None = None
    status: int | None = None
    start_s: float
    """Log time: seconds since the first line, without the gaps between segments."""
    first_token_s: float | None = None
    end_s: float | None = None
    start_wall_ms: int
    prompt_tokens_sent: int | None = None
    """By our ids."""
    prompt_tokens: int | None = None
    """As the server counted; how deep the request was."""
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    max_tokens: int
    depth_tokens: int | None = None
    """Prompt and reply together."""
    ttft_ms: float | None = None
    """At the socket, as all times here: evidence of one request, and no figure where `speed_withheld` or `timing_void`
    of the row says why."""
    first_visible_ms: float | None = None
    decode_ms: float | None = None
    """None too where speeds are withheld, as `gap_mean_ms`, `total_ms` and `tokens_per_s`."""
    gap_mean_ms: float | None = None
    """Time between tokens."""
    gap_max_ms: float | None = None
    """Of the silences that were noted; None if none was."""
    gaps_noted: int
    total_ms: float | None = None
    tokens_per_s: float | None = None
    """While it decoded."""
    chunks: int | None = None
    capped: bool | None = None
    degenerate: str | None = None
    prefix_shared: float | None = None
    hits: int = 0
    """Tags of others that stood in the reply."""
    anomalies: str = ""
    content_chars: int | None = None
    reasoning_chars: int | None = None
    tool_chars: int | None = None
    text_sha256: str | None = None
    error_sha256: str | None = None
    """Of the error's text, which may hold anything a server knows."""
    content: str | None = None
    """Text stands here only if it was asked for, and only of replies that the log kept."""
    reasoning: str | None = None
    tool_args: str | None = None
    error: str | None = None


@dataclass(slots=True)
class _Open:
    record: Record
    event: RequestStarted
    start_us: int
    segment: int
    first_us: int | None = None
    gap_max_ms: float | None = None
    gaps: int = 0


@dataclass(slots=True)
class RequestRows:
    """Feed it the records of a log in order; ask for the rows when the log is through."""

    clock: LogClock = field(default_factory=LogClock)
    segment: int = 0
    open: dict[int, _Open] = field(default_factory=dict)
    lost: list[_Open] = field(default_factory=list)
    """Open when a segment began, so that nobody will tell their end."""
    done: list[tuple[_Open, RequestEnded, int, tuple[int, int]]] = field(default_factory=list)

    def add(self, record: Record | Unknown) -> None:
        """Takes the next line in."""
        if isinstance(record, Unknown):
            return
        now = self.clock.at(record)
        match record.event:
            case RunStarted(segment=segment) if segment > self.segment:
                self.segment = segment
                self.lost += self.open.values()
                self.open.clear()
            case RequestStarted() as event:
                self.open[event.req] = _Open(record, event, now, self.segment)
            case FirstToken(req=req) if req in self.open and self.open[req].first_us is None:
                self.open[req].first_us = now
            case GapNoted(req=req, gap_ms=gap_ms) if req in self.open:
                one = self.open[req]
                one.gaps += 1
                one.gap_max_ms = max(gap_ms, one.gap_max_ms or 0.0)
            case RequestEnded() as event:
                started = self.open.pop(event.req, None) or self._unstarted(record, event, now)
                self.done.append((started, event, now, (record.part, record.seq)))
            case _:
                pass

    def _unstarted(self, record: Record, event: RequestEnded, now: int) -> _Open:
        """A request whose start is missing in the log, dated by how long it took."""
        started = RequestStarted(
            req=event.req,
            session=event.session,
            turn=event.turn,
            kind=event.kind,
            prompt_tokens=None,
            max_tokens=event.max_tokens,
        )
        return _Open(record, started, max(now - int(event.total_ms * 1000), 0), self.segment)

    def marks(self, state: RunState) -> tuple[Mark, ...]:
        """Misses and leaks, which only the fold can tell from other replies."""
        when = {ref: now for _, _, now, ref in self.done}
        missed = [mark_of_miss(when[one.at], one) for one in state.recalls if one.at in when]
        leaked = [mark_of_leak(when[one.at], one) for one in state.leaks if one.at in when]
        return tuple(mark for mark in (*missed, *leaked) if mark is not None)

    def rows(self, state: RunState, text: bool = False) -> tuple[RequestRow, ...]:
        """All requests by their start. `text`: with what the log kept of the replies. Speeds that are withheld stay
        out."""
        classes = _classes(state)
        withheld = state.speed_withheld is not None
        out = [_ended(*one, classes.get(one[3]), withheld, text) for one in self.done]
        out += [_unended(one) for one in (*self.lost, *self.open.values())]
        return tuple(sorted(out, key=lambda row: (row.segment, row.start_s, row.req)))


def _classes(state: RunState) -> dict[tuple[int, int], str]:
    """What the replies to questions are, by where their ends stand in the log."""
    out: dict[tuple[int, int], str] = {}
    for recall in (*state.recalls, *state.tails, *state.absents):
        out[recall.at] = recall.cls
        out |= {reask.at: reask.cls for reask in recall.reasks}
    return out


def _ended(
    started: _Open,
    event: RequestEnded,
    now: int,
    ref: tuple[int, int],
    cls: str | None,
    withheld: bool,
    text: bool,
) -> RequestRow:
    capped = event.finish_reason == "length" or (
        event.completion_tokens is not None and 0 < event.max_tokens <= event.completion_tokens + 1
    )
    timed = event.decode_ms if not withheld and event.decode_ms else None
    steps = (event.completion_tokens or 0) - 1
    known = event.prompt_tokens if event.prompt_tokens is not None else started.event.prompt_tokens
    deep = None if known is None else known + (event.completion_tokens or 0)
    plain = "degenerate" if event.degenerate else "capped" if capped else "complete" if event.outcome == "ok" else None
    return RequestRow(
        segment=started.segment,
        req=event.req,
        session=event.session,
        turn=event.turn,
        kind=event.kind,
        state="ended",
        reply_class=cls or plain,
        outcome=event.outcome,
        finish_reason=event.finish_reason,
        status=event.status,
        start_s=started.start_us / 1e6,
        first_token_s=None if started.first_us is None else started.first_us / 1e6,
        end_s=now / 1e6,
        start_wall_ms=started.record.wall_ms,
        prompt_tokens_sent=started.event.prompt_tokens,
        prompt_tokens=event.prompt_tokens,
        cached_tokens=event.cached_tokens,
        completion_tokens=event.completion_tokens,
        reasoning_tokens=event.reasoning_tokens,
        max_tokens=event.max_tokens,
        depth_tokens=deep,
        ttft_ms=event.ttft_ms,
        first_visible_ms=event.first_visible_ms,
        decode_ms=timed,
        gap_mean_ms=timed / steps if timed is not None and steps > 0 else None,
        gap_max_ms=started.gap_max_ms,
        gaps_noted=started.gaps,
        total_ms=None if withheld else event.total_ms,
        tokens_per_s=steps * 1000.0 / timed if timed is not None and steps > 0 else None,
        chunks=event.chunks,
        capped=capped,
        degenerate=event.degenerate,
        prefix_shared=event.prefix_shared,
        hits=len(event.hits),
        anomalies=" ".join(event.anomalies),
        content_chars=event.content_chars,
        reasoning_chars=event.reasoning_chars,
        tool_chars=event.tool_chars,
        text_sha256=event.text_sha256,
        error_sha256=None if event.error is None else sha256(event.error),
        content=event.content if text else None,
        reasoning=event.reasoning if text else None,
        tool_args=event.tool_args if text else None,
        error=event.error if text else None,
    )


def _unended(started: _Open) -> RequestRow:
    event = started.event
    return RequestRow(
        segment=started.segment,
        req=event.req,
        session=event.session,
        turn=event.turn,
        kind=event.kind,
        state="open",
        start_s=started.start_us / 1e6,
        first_token_s=None if started.first_us is None else started.first_us / 1e6,
        start_wall_ms=started.record.wall_ms,
        prompt_tokens_sent=event.prompt_tokens,
        max_tokens=event.max_tokens,
        gap_max_ms=started.gap_max_ms,
        gaps_noted=started.gaps,
    )


def sha256(text: str) -> str:
    """Hex hash of a text, whatever characters it holds."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def regime_columns(regime: Regime) -> dict[str, object]:
    """The regime's keys that stand in every row."""
    return {f"regime_{name}": getattr(regime, name) for name in REGIME}
