"""What became of the claims of an experiment: ratios of two arms, held against bands that were written down before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.experiment.beside import Key, movement
from infermaxx_tui.core.experiment.file import Claim
from infermaxx_tui.core.experiment.moved import Movement
from infermaxx_tui.core.experiment.rows import ArmRow, Registered
from infermaxx_tui.core.measures import Measure, label_text
from infermaxx_tui.core.predictions import Figure, Result, crosses, result_of, sha256_of

_LEAST_STARTS: Final = 2
"""Of each arm, below which a claim about a speed that crosses starts is not decided."""


class ScoredClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim, the ratio that was found, and the result."""

    claim: Claim
    result: Result
    movement: Movement | None
    why: str | None
    figure: str
    """Of what the ratio is, with its depth and streams where it has them."""


def score_claims(first: Registered, rows: Mapping[str, Sequence[ArmRow]]) -> tuple[ScoredClaim, ...]:
    """Each claim of the register; one whose register was changed afterwards is not tested."""
    intact = sha256_of(first.claims) == first.claims_sha256
    return tuple(_score(claim, rows, first.margin, intact) for claim in first.claims)


def _score(claim: Claim, rows: Mapping[str, Sequence[ArmRow]], margin: float, intact: bool) -> ScoredClaim:
    if not intact:
        said = "the register is not what its hash says: it was changed after the start"
        return ScoredClaim(claim=claim, result="UNTESTED", movement=None, why=said, figure=claim.measure)
    meant = _meant(claim, (*rows.get(claim.against, ()), *rows.get(claim.arm, ())))
    if len(meant) > 1:
        said = f"it may be any of {', '.join(map(label_text, meant))}: name depth_tokens and streams"
        return ScoredClaim(claim=claim, result="UNTESTED", movement=None, why=said, figure=claim.measure)
    key = meant[0].key if meant else (claim.measure, claim.depth_tokens, claim.streams)
    figure = label_text(meant[0]) if meant else claim.measure
    sides = (rows.get(claim.against, ()), rows.get(claim.arm, ()))
    found = movement(*sides, key, margin)
    result, why = result_of(claim, Figure(found.ratio, min(found.n), found.reason or ""))
    started = any(row.settings.launch or row.settings.sim for side in sides for row in side)
    crosses_starts = started and any(one.is_speed for one in meant)
    undecided = _undecided(claim, result, found)
    if undecided is None and result != "UNTESTED" and crosses_starts and min(found.boots) < _LEAST_STARTS:
        undecided = "one start a side: what another start of the same server would change is in no interval"
    if undecided is not None:
        return ScoredClaim(claim=claim, result="UNTESTED", movement=found, why=undecided, figure=figure)
    if result == "MISS" and found.outcome == "no_movement":
        result, why = "NO MOVEMENT", f"the whole interval lies within {margin:.0%}"
    return ScoredClaim(claim=claim, result=result, movement=found, why=why or found.reason, figure=figure)


def _meant(claim: Claim, rows: Sequence[ArmRow]) -> list[Measure]:
    """The figures that a claim may be about: of its name, at its depth and streams where it names them."""
    found: dict[Key, Measure] = {}
    for one in (one for row in rows for one in row.measures if one.name == claim.measure):
        named = zip((claim.depth_tokens, claim.streams), (one.depth_tokens, one.streams), strict=True)
        if all(wanted in (None, there) for wanted, there in named):
            found.setdefault(one.key, one)
    return list(found.values())


def _undecided(claim: Claim, result: Result, found: Movement) -> str | None:
    """Why a ratio decides nothing whose interval holds what the claim says and what it does not; None if it does.

    That is both sides of the line; no change at all, where a change was claimed; or the band that it is said to miss.
    """
    if found.low is None or found.high is None or result == "UNTESTED":
        return None
    interval, (least, most) = f"its interval of {found.low:.3g} to {found.high:.3g}", claim.band
    beyond = [crosses(claim.refuted_if, end) for end in (found.low, found.high)]
    if any(beyond) != all(beyond) or (result == "REFUTED" and not all(beyond)):
        return f"{interval} reaches across the line {claim.refuted_if}"
    if result == "HIT" and not least <= 1 <= most and found.low <= 1 <= found.high:
        return f"{interval} holds no change at all, and a change was claimed"
    if result == "MISS" and found.outcome != "no_movement" and found.low <= most and found.high >= least:
        return f"{interval} reaches into the band"
    return None
