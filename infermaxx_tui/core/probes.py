"""What a scenario may ask of a server beside its conversations: how fast it is alone, at depth, and with several.

A probe is part of a run, so its figures have the run's regime, and the run's verdict stands beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

ProbeKind = Literal["five", "decode", "depth", "streams", "identity", "fit"]
Part = Literal["decode", "cold", "loaded", "parallel", "identity", "held", "over"]
"""What one request of a probe is for. `decode`: a short prompt, alone. `cold`: a prompt that nothing of is cached, for
a few tokens. `loaded`: the same prompt once more, then a reply with all of it before. `parallel`: a short prompt beside
others. `identity`: a short prompt, alone and uncached, of which only the text counts. `held`: as long as the largest
session that the pool holds. `over`: as long as the smallest that it does not hold."""
COLD_TOKENS: Final = 8
"""Of a cold prompt's reply. More than one, as behind a repeated prompt, so that both TTFTs are of the same kind: a vLLM
that schedules ahead gave the first token of 96 one step later than that of a reply of one (0.26.0 on an H200: by 17 to
20 ms at every depth, which made a cached prompt look slower than a cold one)."""
FIVE_DEPTH: Final = 16384
FIVE_STREAMS: Final = 4
"""Note B's five measures: a prompt of about 16k tokens, and four requests at once."""
MAX_STREAMS: Final = 1024
MAX_REPEATS: Final = 100
MAX_PROMPTS: Final = 64
MIN_DEPTH: Final = 64


class Probe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[probes]]` of a scenario."""

    kind: ProbeKind
    """`decode`: alone on a short prompt. `depth`: cold, repeated and loaded at each of `depths`. `streams`: together,
    as many as each of `streams`. `five`: one of each, that is decode alone, cold and repeated TTFT, decode with the
    context loaded, and the aggregate. `identity`: `prompts` prompts, each `n` times alone, whether the reply is the
    same text each time. `fit`: which of the sessions with these `sizes` the server holds, by one prompt of the largest
    that it should hold and one of the smallest that it should refuse; `n` does not count here."""
    n: int = 3
    """Repetitions that count; one more before them warms up."""
    max_tokens: int = 256
    """Of each reply that is decoded; the model may end before."""
    prompts: int = 0
    """Different prompts of an identity probe."""
    depths: tuple[int, ...] = ()
    """Tokens of prompt."""
    streams: tuple[int, ...] = ()
    """Requests at once."""
    sizes: tuple[int, ...] = ()
    """Tokens of each session's largest request, reply included; an experiment that has `sessions` fills them in."""
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
    place: int = 0
    """Which of the probe's prompts it is."""


def rounds(probes: Sequence[Probe]) -> Iterator[Round]:
    """Everything that is asked, in order: each repetition of a probe goes through all of its parts.

    What a fit probe asks depends on the server, and is no part of it.
    """
    for place, probe in enumerate(probes):
        if probe.kind == "fit":
            continue
        for rep in range(0 if probe.kind == "identity" else -1, probe.n):
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
    if probe.kind == "identity":
        for prompt in range(probe.prompts):
            yield Round(place, rep, "identity", None, place=prompt)


_TAKES: Final[dict[ProbeKind, tuple[str, ...]]] = {
    "five": ("depths", "streams"),
    "decode": (),
    "depth": ("depths",),
    "streams": ("streams",),
    "identity": ("prompts",),
    "fit": ("sizes",),
}
"""Keys that mean something to a kind; where there is one alone it must be given."""


def wrong_with(probe: Probe) -> tuple[str, str] | None:
    """The first key that makes no sense, and what is wrong with it."""
    takes = _TAKES[probe.kind]
    for key in ("depths", "streams", "prompts", "sizes"):
        if getattr(probe, key) and key not in takes:
            return key, f"means nothing to a probe of kind {probe.kind}"
        if takes == (key,) and key != "sizes" and not getattr(probe, key):
            return key, f"is missing: a probe of kind {probe.kind} is about it"
    least = 2 if probe.kind == "identity" else 1
    if not least <= probe.n <= MAX_REPEATS:
        return "n", f"must lie between {least} and {MAX_REPEATS}"
    if probe.max_tokens < 2:
        return "max_tokens", "must be 2 or more: a speed needs two tokens"
    if any(tokens < MIN_DEPTH for tokens in probe.depths):
        return "depths", f"must be {MIN_DEPTH} tokens or more"
    if any(tokens < MIN_DEPTH for tokens in probe.sizes):
        return "sizes", f"must be {MIN_DEPTH} tokens or more"
    if any(not 1 <= count <= MAX_STREAMS for count in probe.streams):
        return "streams", f"must lie between 1 and {MAX_STREAMS}"
    if not 0 <= probe.prompts <= MAX_PROMPTS:
        return "prompts", f"must lie between 1 and {MAX_PROMPTS}"
    return None


def deepest(probes: Sequence[Probe]) -> int:
    """Tokens of the longest prompt and reply that the probes need."""
    return max((((one.tokens or 0) + probes[one.probe].max_tokens) for one in rounds(probes)), default=0)
