"""Claims that are written down before a run, with the line at which their author would give them up.

They stand in the log's first line with their hash, before the first request. Whatever is said differently later is
shown beside them and never instead of them.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

Result = Literal["HIT", "MISS", "REFUTED", "UNTESTED", "NO MOVEMENT"]
Origin = Literal["registered", "post_hoc"]

_LINE: Final = re.compile(r"\s*(<=|>=|<|>)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*", re.ASCII)
MEASURE_NAMES: Final = (
    "recall.miss_rate",
    "isolation.leaks",
    "delivery.failed_share",
    "degeneration.share",
    "decode.ms_per_token",
    "decode.ms_per_1k_depth",
    "decode.drift_share_per_hour",
    "ttft.p50_ms",
    "ttft.p99_ms",
    "gap.p50_ms",
    "gap.p99_ms",
    "throughput.tokens_per_s",
    "depth.reached_tokens",
    "concurrency.decoding_peak",
    "cache.share",
    "server.preemptions",
    "server.acceptance",
    "server.kv_usage_peak",
    "vram.max_mib",
    "power.mean_w",
    "energy.j_per_output_token",
)
"""What a claim can be about; core.register finds the figures."""
MAX_CLAIM_CHARS: Final = 300
TAKEN_OUT: Final = "taken out of scenario.toml after the run began"


class Prediction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One claim."""

    claim: str
    """In words, with its regime."""
    measure: str
    """What is looked at; one of MEASURE_NAMES."""
    band: tuple[float, float]
    """From, to: a figure inside is a hit."""
    refuted_if: str
    """The line that was drawn beforehand, e.g. `> 30`; it lies outside the band."""
    before: float | None = None
    """What the figure was before the change that the claim is about."""
    noise: float = 0.0
    """How far from `before` a figure still counts as not moved."""
    min_n: int = 1
    """Observations that the figure must rest on."""
    retracted: str = ""
    """Why its author gave it up; the claim stays where it is."""


class Figure(msgspec.Struct, frozen=True):
    """A measured value with the number of observations; None with the reason."""

    value: float | None
    n: int
    why: str = ""


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A claim and what became of it."""

    claim: str
    measure: str
    band: tuple[float, float]
    refuted_if: str
    result: Result
    value: float | None
    n: int
    why: str | None
    """What the result rests on, where the figure alone does not say it."""
    origin: Origin
    """`post_hoc`: it was not there, or not like this, when the run began."""
    retracted: str | None
    """Why it was given up; None if it stands."""


def scored_text(one: Scored) -> str:
    """A claim in one line, without its result: struck through if it was given up, and marked if it came later."""
    claim = one.claim if one.retracted is None else f"~~{one.claim}~~"
    value = "not known" if one.value is None else f"{one.value:.4g} (n {one.n})"
    said = f"{claim}: {one.measure} {value}, said {one.band[0]:g} to {one.band[1]:g}, refuted if {one.refuted_if}"
    parts = [said] if one.why is None else [said, one.why]
    if one.retracted is not None:
        parts.append(f"retracted: {one.retracted}")
    return ("POST HOC " if one.origin == "post_hoc" else "") + "; ".join(parts)


def sha256_of(predictions: Sequence[Prediction]) -> str:
    """The hash that stands beside the register; empty without predictions."""
    return hashlib.sha256(msgspec.json.encode(tuple(predictions))).hexdigest() if predictions else ""


def crosses(line: str, value: float) -> bool:
    """Whether a figure lies beyond a refutation line. Raises ValueError for what is no line."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"{line!r} is no refutation line: write a sign and a number, e.g. '> 30'")
    bound = float(match[2])
    match match[1]:
        case "<":
            return value < bound
        case "<=":
            return value <= bound
        case ">":
            return value > bound
        case _:
            return value >= bound


def wrong_with(prediction: Prediction, any_measure: bool = False) -> tuple[str, str] | None:
    """The first key that makes no sense, and what is wrong with it. `any_measure`: names are not known beforehand."""
    low, high = prediction.band
    if not prediction.claim.strip() or len(prediction.claim) > MAX_CLAIM_CHARS:
        return "claim", f"must say something, in at most {MAX_CLAIM_CHARS} characters"
    if not any_measure and prediction.measure not in MEASURE_NAMES:
        near = difflib.get_close_matches(prediction.measure, MEASURE_NAMES, n=1, cutoff=0.0)[0]
        return "measure", f"{prediction.measure!r} is not measured; the nearest is {near}"
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        return "band", "must be two numbers, the smaller first"
    try:
        inside = crosses(prediction.refuted_if, low) or crosses(prediction.refuted_if, high)
    except ValueError as error:
        return "refuted_if", str(error)
    if inside:
        return (
            "refuted_if",
            f"{prediction.refuted_if!r} runs through the band {low:g} to {high:g}: a hit would refute it",
        )
    if not (math.isfinite(prediction.noise) and prediction.noise >= 0):
        return "noise", "must be 0 or more"
    if prediction.before is not None and not math.isfinite(prediction.before):
        return "before", "must be a number"
    return ("min_n", "must be 1 or more") if prediction.min_n < 1 else None


def result_of(prediction: Prediction, figure: Figure) -> tuple[Result, str | None]:
    """What became of a claim, and why where that is not plain. A hit cannot be refuted; not moving is no plain miss."""
    value = figure.value
    if value is None:
        return "UNTESTED", figure.why or "not measured"
    if figure.n < prediction.min_n:
        return "UNTESTED", f"rests on {figure.n} observations, min_n={prediction.min_n}"
    if prediction.band[0] <= value <= prediction.band[1]:
        return "HIT", None
    if crosses(prediction.refuted_if, value):
        return "REFUTED", None
    before = prediction.before
    if before is not None and abs(value - before) <= prediction.noise:
        return "NO MOVEMENT", f"was {before:g}, and {prediction.noise:g} is noise"
    return "MISS", None


def with_later(
    registered: Sequence[Prediction], later: Sequence[Prediction] | None
) -> list[tuple[Prediction, Origin, str | None]]:
    """Each claim that was registered, in order, and each that was changed or added later, marked so.

    The third is why a claim was given up. `later` is what the scenario says now; None if nobody can know.
    """
    if later is None:
        return [(one, "registered", one.retracted or None) for one in registered]
    now = {one.claim: one for one in later}
    rows: list[tuple[Prediction, Origin, str | None]] = []
    for one in registered:
        known = now.pop(one.claim, None)
        if known is None:
            rows.append((one, "registered", one.retracted or TAKEN_OUT))
            continue
        rows.append((one, "registered", one.retracted or known.retracted or None))
        if msgspec.structs.replace(known, retracted="") != msgspec.structs.replace(one, retracted=""):
            rows.append((known, "post_hoc", known.retracted or None))
    return rows + [(one, "post_hoc", one.retracted or None) for one in now.values()]
