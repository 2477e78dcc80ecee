"""Which runs may be compared: those whose regimes agree. More than one lever moved, and no difference has one cause."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.regime import FOLLOWS, Regime
from infermaxx_tui.core.verdict import Verdict, rounded

DEMANDED: Final = ("sessions", "at_once", "interleaved")
"""What belongs to the regime beside the fields of core.regime.Regime."""

_FOLLOWS: Final = FOLLOWS | {"at_once", "interleaved"}
"""`at_once` is what came of the concurrency that was asked for, and so is taking turns: one lever, not three."""


class Difference(msgspec.Struct, frozen=True):
    """How regimes stand to one another."""

    levers: tuple[str, ...]
    """Keys whose values differ, or are known of some only."""
    unknown: tuple[str, ...]
    """Keys that are known of none: nobody can say that they are the same."""
    follows: tuple[str, ...] = ()
    """Keys that differ and follow from others; without a lever that moved they stand among the levers."""

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys that differ."""
        return (*self.levers, *self.follows)

    @property
    def confounded(self) -> bool:
        """Whether more than one lever moved."""
        return len(self.levers) > 1


def differences(verdicts: Sequence[Verdict]) -> Difference:
    """The keys by which the regimes differ, and those of which nothing is known."""
    names = [key for key in Regime.__struct_fields__ if key != "missing"]
    values = {key: [getattr(verdict.regime, key) for verdict in verdicts] for key in (*names, *DEMANDED)}
    differing = [key for key, some in values.items() if any(value != some[0] for value in some)]
    levers = tuple(key for key in differing if key not in _FOLLOWS)
    follows = tuple(key for key in differing if key in _FOLLOWS)
    return Difference(
        levers=levers or follows,
        unknown=tuple(key for key, some in values.items() if all(value is None for value in some)),
        follows=follows if levers else (),
    )


def difference(left: Verdict, right: Verdict) -> Difference:
    """As `differences`, of two."""
    return differences((left, right))


def comparison_text(verdicts: Sequence[Verdict], together: Sequence[str] = ()) -> list[str]:
    """As `comparison_json`, line by line; numbers as in verdict.json."""
    return json.dumps(rounded(comparison_json(verdicts, together)), indent=2, allow_nan=False).splitlines()


def comparison_json(verdicts: Sequence[Verdict], together: Sequence[str] = ()) -> dict[str, object]:
    """For scripts: the runs with their words and regimes, the keys that differ, and whether figures may be compared.

    `together`: what core.pairs says of them.
    """
    found = differences(verdicts)
    return {
        "schema": 1,
        "comparable": not found.keys,
        "confounded": found.confounded,
        "levers": list(found.levers),
        "follows": list(found.follows),
        "unknown": list(found.unknown),
        "together": list(together),
        "runs": [
            {
                "run": verdict.run,
                "scenario": verdict.scenario,
                "verdict": verdict.verdict,
                "regime": msgspec.to_builtins(verdict.regime),
                "instrument": None if found.keys else msgspec.to_builtins(verdict.instrument),
                "checks": {check.name: check.outcome for check in verdict.checks},
            }
            for verdict in verdicts
        ],
    }
