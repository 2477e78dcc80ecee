"""What a scenario may ask of a server beside its conversations: how fast it is alone, at depth, and with several.

A probe is part of a run, so its figures have the run's regime, and the run's verdict stands beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

ProbeKind = Literal["five", "decode", "depth", "streams"]
Part = Literal["decode", "cold", "loaded", "parallel"]
"""What one request of a probe is for. `decode`: a short prompt, alone. `cold`: a prompt that nothing of is cached, for
one token. `loaded`: the same prompt once more, then a reply with all of it before. `parallel`: a short prompt beside
others."""
FIVE_DEPTH: Final = 16384
FIVE_STREAMS: Final = 4
"""Note B's five measures: a prompt of about 16k tokens, and four requests at once."""
MAX_STREAMS: Final = 1024
MAX_REPEATS: Final = 100


class Probe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[probes]]` of a scenario."""

    kind: ProbeKind
    """`decode`: alone on a short prompt. `depth`: cold, repeated and loaded at each of `depths`. `streams`: together,
    as many as each of `streams`. `five`: one of each, that is decode alone, cold and repeated TTFT, decode with the
    context loaded, and the aggregate."""
    n: int = 3
    """Repetitions that count; one more before them warms up."""
    max_tokens: int = 256
    """Of each reply that is decoded; the model may end before."""
    depths: tuple[int, ...] = ()
    """Tokens of prompt."""
    streams: tuple[int, ...] = ()
    """Requests at once."""
    forced: bool = False
    """Replies of exactly `max_tokens`, whatever the model wants: every figure is labelled so, since a forced reply says
    nothing about what it is worth."""


class Round(msgspec.Struct, frozen=True):
    """Requests that belong together: sent at once for `parallel`, else one after another."""

    probe: int
    rep: int
    """-1: the one that warms up."""
    part: Part
    tokens: int | None
    """Of the prompt; None: a short one."""
    streams: int = 1


def rounds(probes: Sequence[Probe]) -> Iterator[Round]:
    """Everything that is asked, in order: each repetition of a probe goes through all of its parts."""
    for place, probe in enumerate(probes):
        for rep in range(-1, probe.n):
            yield from _round(place, rep, probe)


def _round(place: int, rep: int, probe: Probe) -> Iterator[Round]:
    depths = probe.depths or ((FIVE_DEPTH,) if probe.kind == "five" else ())
    streams = probe.streams or ((FIVE_STREAMS,) if probe.kind == "five" else ())
    if probe.kind in ("five", "decode"):
        yield Round(place, rep, "decode", None)
    if probe.kind in ("five", "depth"):
        for tokens in depths:
            yield Round(place, rep, "cold", tokens)
            yield Round(place, rep, "loaded", tokens)
    if probe.kind in ("five", "streams"):
        for count in streams:
            yield Round(place, rep, "parallel", None, count)


def wrong_with(probe: Probe) -> tuple[str, str] | None:
    """The first key that makes no sense, and what is wrong with it."""
    if not 1 <= probe.n <= MAX_REPEATS:
        return "n", f"must lie between 1 and {MAX_REPEATS}"
    if probe.max_tokens < 2:
        return "max_tokens", "must be 2 or more: a speed needs two tokens"
    if probe.kind == "depth" and not probe.depths:
        return "depths", "is empty: name the tokens of prompt, e.g. [1024, 4096]"
    if probe.kind == "streams" and not probe.streams:
        return "streams", "is empty: name how many at once, e.g. [1, 2, 4, 8]"
    if probe.kind in ("decode", "streams") and probe.depths:
        return "depths", f"means nothing to a probe of kind {probe.kind}"
    if probe.kind in ("decode", "depth") and probe.streams:
        return "streams", f"means nothing to a probe of kind {probe.kind}"
    if any(tokens < 64 for tokens in probe.depths):
        return "depths", "must be 64 tokens or more"
    if any(not 1 <= count <= MAX_STREAMS for count in probe.streams):
        return "streams", f"must lie between 1 and {MAX_STREAMS}"
    return None


def deepest(probes: Sequence[Probe]) -> int:
    """Tokens of the longest prompt and reply that the probes need."""
    return max((((one.tokens or 0) + probes[one.probe].max_tokens) for one in rounds(probes)), default=0)
