"""Figures of the probes: tokens are the server's count, times are taken at the socket, repetitions stand together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from infermaxx_tui.core.fold_probes import ProbeReply
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.probe_figures import FIGURES, Figure, Seen, whole
from infermaxx_tui.core.probe_fit import NOWHERE, Room, fit_measures
from infermaxx_tui.core.probes import Probe, Round, rounds

Blind = Callable[[float, float | None], Sequence[str]]
"""Why a time of so many ms could not be seen, or may not be shown; empty if it can. The second number is the client's
longest lag in ms while that time lasted, None if nobody watched it then."""


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
    lasted: dict[tuple[str, int | None, int | None, int], list[ProbeReply]] = {}
    for one in planned:
        got = by_round.get(one, [])
        for figure in FIGURES[one.part]:
            _count(found, figure, one, got, probes[one.probe], blind)
            if figure.unit == "tokens/s" and one.part != "cold":
                lasted.setdefault((figure.name, one.tokens, one.streams, one.probe), []).extend(got)
    for at, some in lasted.items():
        found[at] = _with_lengths(found[at], _lengths(probes[at[3]], some))
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
        why = whole(got, probe.n) or _unsaid(got)
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
    if all(one.text_sha256 is not None for one in got):
        return None
    return "a reply said nothing, came torn, or was cut before its budget"


def _count(
    found: dict[tuple[str, int | None, int | None, int], Measure],
    figure: Figure,
    one: Round,
    got: list[ProbeReply],
    probe: Probe,
    blind: Blind,
) -> None:
    key = (figure.name, one.tokens, one.streams, one.probe)
    seen = figure.value(one, got)
    if figure.is_speed and seen.value is not None and (unseen := blind(seen.time_ms, seen.lag_ms)):
        seen = Seen(why="; ".join(unseen))
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


def _with_lengths(one: Measure, lengths: str | None) -> Measure:
    """A rate over short replies is another one than over long ones, so it never stands without them."""
    if lengths is None or not one.values:
        return one
    return msgspec.structs.replace(one, note="; ".join(filter(None, (one.note, lengths))))


def _lengths(probe: Probe, got: Iterable[ProbeReply]) -> str | None:
    """What replies that ended before their budget came to; None if none did."""
    tokens = [one.tokens for one in got if one.outcome == "ok" and one.tokens is not None]
    if not tokens or min(tokens) >= probe.max_tokens:
        return None
    least, most = min(tokens), max(tokens)
    return f"replies of {least if least == most else f'{least} to {most}'} tokens, of {probe.max_tokens} wanted"


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
