"""Does the asking itself work? A tag told a moment ago must come back, and a tag that was never sent must not."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from infermaxx_tui.core.classify import RECALLED
from infermaxx_tui.core.evidence import Leak
from infermaxx_tui.core.judges.check import Check, Evidence, of_recall, plural, shown
from infermaxx_tui.core.judges.control_base import ControlFinding
from infermaxx_tui.core.judges.control_findings import findings
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import RunState


def judge(state: RunState, limits: Limits) -> Check:
    """Cannot say when sentinels do not come back, no absent label was answered, a decoy was seen, or a control of
    `[controls]` could not be compared. What such a control finds is a lead, and stands as evidence.
    """
    tails = [recall for recall in state.tails if recall.complete]
    absents = [recall for recall in state.absents if recall.complete]
    back = [recall for recall in tails if recall.cls in RECALLED]
    decoys = [leak for leak in state.leaks if leak.kind == "decoy"]
    broken = []
    if state.planned.tails:
        broken += _tails(len(back), len(tails), state, limits)
    if state.planned.absents and not absents:
        broken.append(f"none of {plural(state.planned.absents, 'absent label')} was asked and answered in full")
    if state.leak_counts["decoy"]:
        broken.append(
            f"{plural(state.leak_counts['decoy'], 'decoy')} seen that was never sent: this program leaked its own key"
        )
    seen = findings(state)
    broken += [one.said for one in seen if one.outcome == "not_evaluable"]
    leads = [one.said for one in seen if one.outcome in ("differs", "sick")]
    invented = sum(recall.cls != "none" for recall in absents)
    named = f"{invented} of {plural(len(absents), 'absent label')} answered with a tag" if absents else None
    if not state.planned.tails and not state.planned.absents:
        named = "no controls were planned (canaries.tail, canaries.absent)"
    lost = [recall for recall in tails if recall.cls not in RECALLED]
    return Check(
        name="controls",
        outcome="not_evaluable" if broken else "pass",
        n_evaluated=len(tails) + len(absents),
        n_planned=state.planned.tails + state.planned.absents,
        excluded=_excluded(state),
        evidence=shown([*map(_decoy, decoys), *map(of_recall, lost), *_witnesses(seen)]),
        advice="; ".join(broken or [one for one in (named, *leads) if one]) or None,
    )


def _witnesses(seen: tuple[ControlFinding, ...]) -> Iterator[Evidence]:
    """What the controls found, each marked by its control."""
    for one in seen:
        for evidence in one.evidence:
            yield msgspec.structs.replace(evidence, note=f"controls.{one.control}")


def _tails(back: int, n: int, state: RunState, limits: Limits) -> list[str]:
    if not n:
        return [f"none of {plural(state.planned.tails, 'tail sentinel')} was asked and answered in full"]
    if back < limits.min_tail_recalled * n:
        return [
            f"{back} of {plural(n, 'tail sentinel')} came back, limits.min_tail_recalled={limits.min_tail_recalled:g}:"
            " the asking is broken, so a missed tag says nothing"
        ]
    return []


def _excluded(state: RunState) -> dict[str, int]:
    excluded: dict[str, int] = {}
    for recall in (*state.tails, *state.absents):
        if not recall.complete:
            excluded[recall.cls] = excluded.get(recall.cls, 0) + 1
    not_asked = state.planned.tails + state.planned.absents - len(state.tails) - len(state.absents)
    if not_asked > 0:
        excluded["not_asked"] = not_asked
    return dict(sorted(excluded.items()))


def _decoy(leak: Leak) -> Evidence:
    return Evidence(
        event=leak.at,
        session=leak.session,
        turn=leak.turn,
        tag=leak.tag,
        said=leak.said,
        what="a decoy that was never sent",
        channel=leak.channel,
    )
