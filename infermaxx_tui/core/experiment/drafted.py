"""What speculation brought in a run, as figures: never without how much of the output they speak for, or a reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from infermaxx_tui.core.measures import Counts, Measure
from infermaxx_tui.core.verdict import Verdict

ACCEPTANCE: Final = "draft.acceptance"
AT: Final = "draft.acceptance_at_"
"""The beginning of the names of acceptance by place: `draft.acceptance_at_1` is that of a draft's first token."""


def drafting(verdict: Verdict) -> Iterator[Measure]:
    """Accepted of drafted tokens, the tokens of a drafted step, and the share of drafts accepted at each place.

    All by sums over the run. Without speculation the first stands alone, and was not planned.
    """
    seen = verdict.server
    drafts, drafted, accepted = seen.drafts, seen.draft_tokens, seen.accepted_tokens
    if seen.acceptance is None or not drafts or not drafted or accepted is None:
        yield _none(verdict)
        return
    note = None if seen.foreign is None else f"requests of others are in it: {seen.foreign}"
    spoken = (drafts + accepted, seen.generation_tokens)
    yield _share(ACCEPTANCE, accepted, drafted, spoken, note)
    yield _share("draft.mean_length", drafts + accepted, drafts, spoken, note, "tokens")
    for place, count in enumerate(seen.accepted_at):
        yield _share(f"{AT}{place + 1}", count, drafts, spoken, note)


def _share(
    name: str, part: int, whole: int, spoken: tuple[int, int | None], note: str | None, unit: str = "share"
) -> Measure:
    counts = Counts(part=part, whole=whole, covered=spoken[0], of=spoken[1])
    return Measure(name=name, unit=unit, values=(part / whole,), better="more", note=note, counts=(counts,))


def _none(verdict: Verdict) -> Measure:
    """The server's reason, with what its start-up log says of speculation."""
    seen, said = verdict.server, verdict.regime.speculative
    on = said not in (None, "none")
    reason = seen.acceptance_reason or "the server does not say"
    if said == "none" and not seen.drafts:
        reason = "this server does not draft"
    elif on and seen.drafts is None:
        reason = f"{reason}, although it was started with {said}"
    wanted = on or seen.drafts is not None
    return Measure(name=ACCEPTANCE, unit="share", better="more", planned=int(wanted), reason=reason)
