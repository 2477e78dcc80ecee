"""Is what an arm says the same text as what its control says? Only asked where the control says the same as itself.

Whole texts are compared, by their hash, of prompts that were sent alone at temperature 0. Under batching nobody may ask
that: the sums are taken in another order there (gpu-and-verdicts §2.4).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from infermaxx_tui.core.experiment.rows import ArmRow


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts by what became of them."""

    prompts: int
    """Asked of both."""
    control_same: int
    """Of which the control gave one text alone, in all of its starts and repetitions: off against off."""
    arm_same: int
    """Of which the arm gave one text alone."""
    same: int
    """Of which both gave one text alone, and the same one."""
    different: int
    """Of which both gave one text alone, and not the same one."""
    reason: str | None = None
    """Why nothing can be said; None if something can."""


def identity(control: Sequence[ArmRow], arm: Sequence[ArmRow]) -> Identity | None:
    """None where no prompts were asked for this."""
    left, right = _texts(control), _texts(arm)
    both = sorted(left.keys() & right.keys())
    if not both:
        return None
    stable = [key for key in both if len(left[key]) == 1]
    pairs = [(left[key], right[key]) for key in stable if len(right[key]) == 1]
    same = sum(a == b for a, b in pairs)
    return Identity(
        prompts=len(both),
        control_same=len(stable),
        arm_same=sum(len(right[key]) == 1 for key in both),
        same=same,
        different=len(pairs) - same,
        reason=None if stable else "the control does not repeat itself: nothing can be held against it",
    )


def _texts(rows: Sequence[ArmRow]) -> dict[str, set[str]]:
    """Different texts by prompt, of prompts that were answered at least twice."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for key, some in row.texts.items():
            found.setdefault(key, []).extend(some)
    return {key: set(some) for key, some in found.items() if len(some) > 1}


def identity_text(one: Identity, alone: bool) -> str:
    """In one line; `alone`: it is a control, which has itself alone beside it."""
    said = f"off against off: {one.control_same} of {one.prompts} prompts give one text"
    if alone:
        return f"{said} in all repetitions and starts (whole texts, by hash)"
    if one.reason is not None:
        return f"{said}; {one.reason}"
    return (
        f"{said}; this arm repeats itself in {one.arm_same} of {one.prompts}; against the control"
        f" {one.same} are the same text and {one.different} another (whole texts, by hash)"
    )
