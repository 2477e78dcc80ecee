"""Figures of the probes: tokens are the server's count, times are taken at the socket, and a doubt leaves a value out.

The speed of decoding is the tokens after the first piece over the time from the first piece to the last, since several
tokens may come in one piece (gpu-and-verdicts §2.9). A cold figure counts only where nothing came from the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from infermaxx_tui.core.fold_probes import ProbeReply
from infermaxx_tui.core.measures import Better, Measure
from infermaxx_tui.core.probe_fit import NOWHERE, Room, fit_measures
from infermaxx_tui.core.probes import Probe, Round, rounds

LEAST_DECODED: Final = 8
"""Tokens after the first piece below which a reply has no speed."""
Blind = Callable[[float, float | None], Sequence[str]]
"""Why a time of so many ms could not be seen, or may not be shown; empty if it can. The second number is the client's
longest lag in ms while that time lasted, None if nobody watched it then."""


class _Seen(NamedTuple):
    """A value and the time that it is made of, or why there is no value."""

    value: float | None = None
    time_ms: float = 0.0
    lag_ms: float | None = None
    why: str | None = None


def probe_measures(
    probes: Sequence[Probe],
    replies: Iterable[ProbeReply],
    blind: Blind = lambda time_ms, lag_ms: (),
    room: Room = NOWHERE,
) -> tuple[Measure, ...]:
    """All figures that the probes ask for, each with the repetitions that count.

    A speed for whose time `blind` has reasons is left out. `room` is what the server said that it holds.
    """
    replies = tuple(replies)
    by_round: dict[Round, list[ProbeReply]] = {}
    for reply in replies:
        key = Round(reply.probe, reply.rep, reply.part, reply.wanted_tokens, reply.streams, reply.place)
        by_round.setdefault(key, []).append(reply)
    planned = [one for one in rounds(probes) if one.rep >= 0 and one.part != "identity"]
    found: dict[tuple[str, int | None, int | None, int], Measure] = {}
    for one in planned:
        got = by_round.get(one, [])
        for figure in _FIGURES[one.part]:
            _count(found, figure, one, got, probes[one.probe], blind)
    same = [_reproduced(place, probe, by_round) for place, probe in enumerate(probes) if probe.kind == "identity"]
    fits = [one for place, probe in enumerate(probes) for one in fit_measures(place, probe, replies, room)]
    return (*found.values(), *_scaling(found.values()), *same, *fits)


def texts(replies: Iterable[ProbeReply]) -> dict[str, tuple[str, ...]]:
    """Hashes of whole replies to the prompts of identity probes, by probe and prompt, in the order in which they came.

    Only what ended well stands here, so that fewer hashes than repetitions mean that one is not known.
    """
    found: dict[str, tuple[str, ...]] = {}
    for one in replies:
        if one.part == "identity" and one.outcome == "ok" and one.text_sha256 is not None:
            key = f"{one.probe}/{one.place}"
            found[key] = (*found.get(key, ()), one.text_sha256)
    return found


def texts_cut(replies: Iterable[ProbeReply]) -> tuple[str, ...]:
    """Those prompts of `texts` of which a reply was cut at its budget, each once."""
    cut = (
        f"{one.probe}/{one.place}" for one in replies if one.part == "identity" and one.outcome == "ok" and one.capped
    )
    return tuple(dict.fromkeys(cut))


def _reproduced(place: int, probe: Probe, by_round: dict[Round, list[ProbeReply]]) -> Measure:
    """One value a prompt: 1 if all of its replies are the same whole text, 0 if they are not."""
    values, reason = [], None
    for prompt in range(probe.prompts):
        got = [one for key, some in by_round.items() if (key.probe, key.place) == (place, prompt) for one in some]
        why = _whole(got, probe.n) or _unsaid(got)
        if why is not None:
            reason = reason or why
            continue
        values.append(float(len({one.text_sha256 for one in got}) == 1))
    return Measure(
        name="identity.reproduced",
        unit="of 1",
        values=tuple(values),
        streams=1,
        depth_tokens=0,
        better="more",
        planned=probe.prompts,
        reason=reason,
        note="by the hash of the whole text",
        probe=place,
    )


def _unsaid(got: list[ProbeReply]) -> str | None:
    """Why there is a reply of which no text is known; None if there is none."""
    return "a reply said nothing, or came torn" if any(one.text_sha256 is None for one in got) else None


class _Figure(NamedTuple):
    """One figure of a part of a probe."""

    name: str
    unit: str
    better: Better
    value: Callable[[Round, list[ProbeReply]], _Seen]
    is_speed: bool = True


def _count(
    found: dict[tuple[str, int | None, int | None, int], Measure],
    figure: _Figure,
    one: Round,
    got: list[ProbeReply],
    probe: Probe,
    blind: Blind,
) -> None:
    key = (figure.name, one.tokens, one.streams, one.probe)
    seen = figure.value(one, got)
    if figure.is_speed and seen.value is not None and (unseen := blind(seen.time_ms, seen.lag_ms)):
        seen = _Seen(why="; ".join(unseen))
    known = found.get(key)
    found[key] = Measure(
        name=figure.name,
        unit=figure.unit,
        values=(*(known.values if known is not None else ()), *(() if seen.value is None else (seen.value,))),
        depth_tokens=one.tokens or 0,
        streams=one.streams,
        better=figure.better,
        is_speed=figure.is_speed,
        planned=probe.n,
        reason=known.reason if known is not None and known.reason is not None else seen.why,
        note=_note(known.note if known is not None else None, probe, got),
        probe=one.probe,
    )


def _note(known: str | None, probe: Probe, got: list[ProbeReply]) -> str | None:
    """What must be said beside the figure."""
    said = [known] if known is not None else []
    if probe.forced:
        said.append("lengths were forced: it says nothing about what the replies are worth")
    if any(one.degenerate is not None for one in got):
        said.append("some of its replies are babble")
    return "; ".join(dict.fromkeys(part for text in said for part in text.split("; "))) or None


def _whole(got: list[ProbeReply], wanted: int) -> str | None:
    """Why not all replies are there; None if they are."""
    if len(got) < wanted:
        return f"{wanted - len(got)} of {wanted} requests were not sent"
    failed = next((one for one in got if one.outcome != "ok"), None)
    return None if failed is None else f"a request ended {failed.outcome}: {failed.error or 'no reason given'}"


def _decode(one: Round, got: list[ProbeReply]) -> _Seen:
    why = _whole(got, 1)
    if why is not None:
        return _Seen(why=why)
    reply = got[0]
    if reply.tokens is None or reply.first_chunk_tokens is None or reply.decode_ms is None:
        return _Seen(why="its tokens were not counted")
    decoded = reply.tokens - reply.first_chunk_tokens
    if decoded < LEAST_DECODED or reply.decode_ms <= 0:
        return _Seen(why=f"a reply of {reply.tokens} tokens is too short for a speed")
    return _Seen(1000.0 * decoded / reply.decode_ms, reply.decode_ms, reply.lag_max_ms)


def _cold_ttft(one: Round, got: list[ProbeReply]) -> _Seen:
    why = _whole(got, 1) or _not_cold(got[0])
    return _ttft(got) if why is None else _Seen(why=why)


def _ttft(got: list[ProbeReply]) -> _Seen:
    ttft_ms = got[0].ttft_ms
    return _Seen(why="no token came") if ttft_ms is None else _Seen(ttft_ms, ttft_ms, got[0].lag_first_ms)


def _not_cold(reply: ProbeReply) -> str | None:
    if reply.cached_tokens is None:
        return "nobody counted what came from the cache: it cannot be called cold"
    if reply.cached_tokens:
        return f"{reply.cached_tokens} tokens of it came from the cache: not cold"
    return None


def _prefill(one: Round, got: list[ProbeReply]) -> _Seen:
    seen = _cold_ttft(one, got)
    if not seen.value:
        return seen
    tokens = got[0].prompt_tokens
    if tokens is None:
        return _Seen(why="the prompt's tokens were not counted")
    return _Seen(1000.0 * tokens / seen.value, seen.time_ms, seen.lag_ms)


def _repeat_ttft(one: Round, got: list[ProbeReply]) -> _Seen:
    why = _whole(got, 1)
    return _ttft(got) if why is None else _Seen(why=why)


def _hit_tokens(one: Round, got: list[ProbeReply]) -> _Seen:
    why = _whole(got, 1)
    if why is not None:
        return _Seen(why=why)
    cached = got[0].cached_tokens
    return _Seen(why="the server does not say what came from its cache") if cached is None else _Seen(float(cached))


def _aggregate(one: Round, got: list[ProbeReply]) -> _Seen:
    """Tokens of all over the time from the first request to the last end; nothing if any failed."""
    why = _whole(got, one.streams)
    if why is not None:
        return _Seen(why=why)
    tokens = [reply.tokens for reply in got if reply.tokens is not None]
    span_ms = (max(reply.ended_us for reply in got) - min(reply.sent_us for reply in got)) / 1000
    if len(tokens) < len(got) or span_ms <= 0:
        return _Seen(why="tokens were not counted")
    lags = [reply.lag_max_ms for reply in got]
    known = [lag for lag in lags if lag is not None]
    return _Seen(1000.0 * sum(tokens) / span_ms, span_ms, max(known) if len(known) == len(lags) else None)


def _admitted(one: Round, got: list[ProbeReply]) -> _Seen:
    """Most that decoded at the same time."""
    why = _whole(got, one.streams)
    if why is not None:
        return _Seen(why=why)
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
    return _Seen(float(most))


_FIGURES: Final[dict[str, tuple[_Figure, ...]]] = {
    "decode": (_Figure("decode.tokens_per_s", "tokens/s", "more", _decode),),
    "cold": (
        _Figure("ttft.cold_ms", "ms", "less", _cold_ttft),
        _Figure("prefill.tokens_per_s", "tokens/s", "more", _prefill),
    ),
    "loaded": (
        _Figure("ttft.repeat_ms", "ms", "less", _repeat_ttft),
        _Figure("ttft.repeat_hit_tokens", "tokens", "more", _hit_tokens, is_speed=False),
        _Figure("decode.tokens_per_s", "tokens/s", "more", _decode),
    ),
    "parallel": (
        _Figure("aggregate.tokens_per_s", "tokens/s", "more", _aggregate),
        _Figure("aggregate.admitted", "requests", "more", _admitted, is_speed=False),
    ),
}


def _scaling(found: Iterable[Measure]) -> Iterable[Measure]:
    """The aggregate beside that of one stream, where both were measured: by the same probe, else that is said."""
    every = [one for one in found if one.name == "aggregate.tokens_per_s"]
    singles = [one for one in every if one.streams == 1 and one.median]
    for one in every:
        alone = next((single for single in singles if single.probe == one.probe), next(iter(singles), None))
        if one.streams == 1 or alone is None or not alone.median:
            continue
        apart = None if alone.probe == one.probe else "one stream was measured by another probe, at another time"
        yield Measure(
            name="aggregate.scaling",
            unit="x one stream",
            values=tuple(value / alone.median for value in one.values),
            depth_tokens=one.depth_tokens,
            streams=one.streams,
            better="more",
            is_speed=True,
            planned=one.planned,
            reason=one.reason,
            note="; ".join(filter(None, (one.note, apart))) or None,
            probe=one.probe,
        )
