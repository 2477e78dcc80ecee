"""One round of a probe as a value, or why it has none: a doubt leaves a value out.

The speed of decoding is the tokens after the first piece over the time from the first piece to the last, since several
tokens may come in one piece (gpu-and-verdicts §2.9). A cold figure counts only where nothing came from the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from infermaxx_tui.core.fold_probes import ProbeReply
from infermaxx_tui.core.measures import Better
from infermaxx_tui.core.probes import Round

LEAST_DECODED: Final = 8
"""Tokens after the first piece below which a reply has no speed."""
_LEAST_SHARE: Final = 0.5
"""Of the longest of replies that were sent at once: one that is shorter was over while the others went on."""
_LEAST_MS: Final = 0.02
"""A token of one stream: 50,000 a second come from no card, but from what a proxy held back."""
_DEPTH_SHARE: Final = 0.95
"""Of the tokens that a prompt was to have."""


class Seen(NamedTuple):
    """A value and the time that it is made of, or why there is no value."""

    value: float | None = None
    time_ms: float = 0.0
    lag_ms: float | None = None
    why: str | None = None


class Figure(NamedTuple):
    """One figure of a part of a probe."""

    name: str
    unit: str
    better: Better
    value: Callable[[Round, list[ProbeReply]], Seen]
    is_speed: bool = True


def whole(got: list[ProbeReply], wanted: int) -> str | None:
    """Why not all replies are there; None if they are."""
    if len(got) < wanted:
        return f"{wanted - len(got)} of {wanted} requests were not sent"
    failed = next((one for one in got if one.outcome != "ok"), None)
    if failed is not None:
        return f"a request ended {failed.outcome}: {failed.error or 'no reason given'}"
    for one in got:
        depth, tokens = one.wanted_tokens, one.prompt_tokens
        if one.part in ("cold", "loaded") and depth and tokens is not None and tokens < _DEPTH_SHARE * depth:
            return f"the server counts {tokens} tokens in a prompt of {depth}: it was cut"
    return None


def _decode(one: Round, got: list[ProbeReply]) -> Seen:
    why = whole(got, 1)
    if why is not None:
        return Seen(why=why)
    reply = got[0]
    if reply.tokens is None or reply.first_chunk_tokens is None or reply.decode_ms is None:
        return Seen(why="its tokens were not counted")
    if (why := _undecoded(reply)) is not None:
        return Seen(why=why)
    decoded = reply.tokens - reply.first_chunk_tokens
    return Seen(1000.0 * decoded / reply.decode_ms, reply.decode_ms, reply.lag_max_ms)


def _undecoded(reply: ProbeReply) -> str | None:
    """Why nobody can have seen it being decoded; None if its tokens came one after another."""
    tokens, first = reply.tokens, reply.first_chunk_tokens or 0
    if tokens is None:
        return None
    if tokens - first < LEAST_DECODED:
        pieces = f", {first} of them in its first piece," if first > 1 else ""
        return f"a reply of {tokens} tokens{pieces} is too short for a speed"
    if reply.decode_ms is not None and reply.decode_ms < _LEAST_MS * (tokens - first):
        return f"{tokens} tokens came within {reply.decode_ms:.2g} ms: they were held back on the way"
    return None


def _cold_ttft(one: Round, got: list[ProbeReply]) -> Seen:
    why = whole(got, 1) or _not_cold(got[0])
    return _ttft(got) if why is None else Seen(why=why)


def _ttft(got: list[ProbeReply]) -> Seen:
    ttft_ms = got[0].ttft_ms
    return Seen(why="no token came") if ttft_ms is None else Seen(ttft_ms, ttft_ms, got[0].lag_first_ms)


def _not_cold(reply: ProbeReply) -> str | None:
    """By the reply's usage and by the server's counters, whichever says more."""
    known = [one for one in (reply.cached_tokens, reply.counted_cached_tokens) if one is not None]
    if not known:
        how = "vllm serve --enable-prompt-tokens-details does"
        return f"nobody counted what came from the cache ({how}): it cannot be called cold"
    return f"{max(known)} tokens of it came from the cache: not cold" if max(known) else None


def _prefill(one: Round, got: list[ProbeReply]) -> Seen:
    seen = _cold_ttft(one, got)
    if seen.value is None:
        return seen
    if seen.value <= 0:
        return Seen(why="its first token came in no time at all")
    tokens = got[0].prompt_tokens
    if tokens is None:
        return Seen(why="the prompt's tokens were not counted")
    return Seen(1000.0 * tokens / seen.value, seen.time_ms, seen.lag_ms)


def _repeat_ttft(one: Round, got: list[ProbeReply]) -> Seen:
    why = whole(got, 1)
    return _ttft(got) if why is None else Seen(why=why)


def _hit_tokens(one: Round, got: list[ProbeReply]) -> Seen:
    why = whole(got, 1)
    if why is not None:
        return Seen(why=why)
    cached, counted = got[0].cached_tokens, got[0].counted_cached_tokens
    known = [one for one in (cached, counted) if one is not None]
    if not known:
        return Seen(why="the server does not say what came from its cache")
    if len(set(known)) > 1:
        return Seen(why=f"its usage says that {cached} tokens came from the cache, and its counters {counted}")
    return Seen(float(known[0]))


def _aggregate(one: Round, got: list[ProbeReply]) -> Seen:
    """Tokens of all over the time from the first request to the last end; nothing if any failed."""
    why = whole(got, one.streams) or _uneven(got)
    if why is not None:
        return Seen(why=why)
    tokens = [reply.tokens for reply in got if reply.tokens is not None]
    span_ms = (max(reply.ended_us for reply in got) - min(reply.sent_us for reply in got)) / 1000
    if len(tokens) < len(got) or span_ms <= 0:
        return Seen(why="tokens were not counted")
    lags = [reply.lag_max_ms for reply in got]
    known = [lag for lag in lags if lag is not None]
    return Seen(1000.0 * sum(tokens) / span_ms, span_ms, max(known) if len(known) == len(lags) else None)


def _uneven(got: list[ProbeReply]) -> str | None:
    """Why these replies were not decoded beside one another, or cannot have been seen so; None if nothing is known."""
    tokens = [reply.tokens for reply in got if reply.tokens is not None]
    unseen = next((why for one in got if (why := _undecoded(one)) is not None), None)
    if unseen is not None:
        return unseen
    if tokens and min(tokens) < _LEAST_SHARE * max(tokens):
        return f"replies of {min(tokens)} to {max(tokens)} tokens were not decoded beside one another"
    return None


def _admitted(one: Round, got: list[ProbeReply]) -> Seen:
    """Most that decoded at the same time."""
    why = whole(got, one.streams) or _uneven(got)
    if why is not None:
        return Seen(why=why)
    edges = sorted(
        edge
        for reply in got
        if reply.ttft_ms is not None
        for edge in ((reply.sent_us + round(reply.ttft_ms * 1000), 1), (reply.ended_us, -1))
    )
    now = most = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return Seen(float(most))


FIGURES: Final[dict[str, tuple[Figure, ...]]] = {
    "decode": (Figure("decode.tokens_per_s", "tokens/s", "more", _decode),),
    "cold": (
        Figure("ttft.cold_ms", "ms", "less", _cold_ttft),
        Figure("prefill.tokens_per_s", "tokens/s", "more", _prefill),
    ),
    "loaded": (
        Figure("ttft.repeat_ms", "ms", "less", _repeat_ttft),
        Figure("ttft.repeat_hit_tokens", "tokens", "more", _hit_tokens, is_speed=False),
        Figure("decode.tokens_per_s", "tokens/s", "more", _decode),
    ),
    "parallel": (
        Figure("aggregate.tokens_per_s", "tokens/s", "more", _aggregate),
        Figure("aggregate.admitted", "requests", "more", _admitted, is_speed=False),
    ),
}
