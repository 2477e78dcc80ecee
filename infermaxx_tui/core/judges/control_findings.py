"""What the controls of a run found: what stays the same when one cause is left out, and what does not.

Texts are compared at one request at a time and temperature 0 alone, since numbers differ with the batch (vllm#7779).
Where the same prompt is answered differently with nothing changed, no other difference says anything. A control that
never exercised its mechanism (a cached prompt that was not cached) is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from infermaxx_tui.core.controls_seen import ControlReply, ControlsSeen
from infermaxx_tui.core.display import excerpt
from infermaxx_tui.core.events_controls import Arm
from infermaxx_tui.core.judges.check import Evidence, plural
from infermaxx_tui.core.judges.control_base import TITLES, WITNESSES, ControlFinding, blind
from infermaxx_tui.core.judges.control_solo import judge_after, judge_solo
from infermaxx_tui.core.state import RunState

HIT: Final = 0.5
"""Share of a prompt that must come from the cache for it to count as cached."""
_BEFORE_PARTING: Final = 24
"""Characters that are shown before the place where two replies part."""


class _Pair(msgspec.Struct, frozen=True):
    """Two replies to one prompt, or why they cannot be compared."""

    one: ControlReply | None
    other: ControlReply | None
    why: str | None

    @property
    def method(self) -> str:
        """Ids are compared where the server sent them for both."""
        assert self.one is not None
        assert self.other is not None
        by_ids = self.one.ids_sha256 is not None and self.other.ids_sha256 is not None
        return "all token ids" if by_ids else "the full text"

    @property
    def differs(self) -> bool:
        """Whether two replies that can be compared are not the same."""
        assert self.one is not None
        assert self.other is not None
        if self.method == "all token ids":
            return self.one.ids_sha256 != self.other.ids_sha256
        return self.one.text_sha256 != self.other.text_sha256


def findings(state: RunState) -> tuple[ControlFinding, ...]:
    """One for each control that was asked for, in the order of the table."""
    planned = state.controls.planned
    asked: tuple[tuple[int, Callable[[RunState], ControlFinding]], ...] = (
        (planned.repeat, _repeat),
        (planned.cache, _cache),
        (planned.alike, _alike),
        (planned.salt, _salt),
        (planned.solo, judge_solo),
        (planned.after, judge_after),
    )
    return tuple(judge(state) for n, judge in asked if n)


_Why = Callable[[ControlReply, ControlReply], str | None]


def _pairs(seen: ControlsSeen, one: Arm, other: Arm, n: int, why: _Why) -> list[_Pair]:
    """The comparisons that were planned; `why` says what is in the way of one of which both replies are whole."""
    by_arm = {(reply.arm, reply.pair): reply for reply in seen.replies}
    pairs = []
    for number in range(n):
        left, right = by_arm.get((one, number)), by_arm.get((other, number))
        obstacle: str | None = "not sent"
        if left is not None and right is not None:
            obstacle = _unwhole(left) or _unwhole(right) or why(left, right)
        pairs.append(_Pair(left, right, obstacle))
    return pairs


def _unwhole(reply: ControlReply) -> str | None:
    if not reply.ok:
        return "a reply did not come whole"
    if reply.text_sha256 is None:
        return "nothing was said"
    return None if reply.alone else "another request of ours was open"


def _not_comparable(state: RunState) -> str | None:
    """Why no two texts of this run can be compared."""
    temperature = state.regime.temperature if state.regime is not None else None
    if temperature != 0:
        return f"texts can be compared at temperature 0 alone, and reply.temperature={temperature}"
    others = state.controls.others_running
    if others > 0:
        return f"the server ran {plural(others, 'request')} of others meanwhile, and numbers differ with the batch"
    return None


def _obstacles(pairs: list[_Pair]) -> str:
    """Why none could be compared: the reason of most."""
    reasons = [pair.why for pair in pairs if pair.why is not None]
    most = max(dict.fromkeys(reasons), key=reasons.count)
    return f"none of {plural(len(pairs), 'comparison')} could be made: {most}"


def _uncached(one: ControlReply, other: ControlReply) -> str | None:
    if one.cached_tokens or other.cached_tokens:
        return "a prompt with a salt of its own came from the cache"
    if None in (one.cached_tokens, other.cached_tokens) and one.text_sha256 != other.text_sha256:
        return "the server does not say what it took from its cache"
    return None


def _repeated(state: RunState) -> list[_Pair]:
    return _pairs(state.controls, "cold", "cold_again", state.controls.planned.repeat, _uncached)


def _repeat(state: RunState) -> ControlFinding:
    planned = state.controls.planned.repeat
    obstacle = _not_comparable(state)
    if obstacle is not None:
        return blind("repeat", planned, obstacle)
    pairs = _repeated(state)
    whole = [pair for pair in pairs if pair.why is None]
    if not whole:
        return blind("repeat", planned, _obstacles(pairs))
    parted = [pair for pair in whole if pair.differs]
    method = _methods(whole)
    said = (
        f"{len(parted)} of {plural(len(whole), 'prompt')} answered differently the second time, with nothing changed"
        f" and nothing beside ({method}): no difference between texts of this server says anything"
        if parted
        else f"{plural(len(whole), 'prompt')} of {planned} sent twice, uncached and alone, were answered the same"
        f" both times ({method}): a difference elsewhere has a cause"
    )
    return ControlFinding(
        control="repeat",
        outcome="differs" if parted else "same",
        n=len(whole),
        n_planned=planned,
        differing=len(parted),
        method=method,
        said=f"{TITLES['repeat']}: {said}",
        evidence=_witnesses(parted, "uncached", "uncached again"),
    )


def _methods(pairs: list[_Pair]) -> str:
    return " and ".join(sorted({pair.method for pair in pairs}))


def _hit(cold: ControlReply, cached: ControlReply) -> str | None:
    if cold.cached_tokens is None or cached.cached_tokens is None or cached.prompt_tokens is None:
        return "the server does not say what it took from its cache (vllm serve --enable-prompt-tokens-details)"
    if cold.cached_tokens:
        return "a prompt with a salt of its own came from the cache"
    if cached.cached_tokens < HIT * cached.prompt_tokens:
        return "the repeated prompt did not come from the cache"
    return None


def _cache(state: RunState) -> ControlFinding:
    planned = state.controls.planned.cache
    if state.regime is not None and state.regime.prefix_caching is False:
        return blind("cache", planned, "the server keeps no prefix cache", "not_applicable")
    obstacle = _not_comparable(state)
    if obstacle is not None:
        return blind("cache", planned, obstacle)
    pairs = _pairs(state.controls, "cold_again", "cached", planned, _hit)
    whole = [pair for pair in pairs if pair.why is None]
    if not whole:
        return blind("cache", planned, _obstacles(pairs))
    parted = [pair for pair in whole if pair.differs]
    floor = [pair for pair in _repeated(state) if pair.why is None]
    n, method = len(whole), _methods(whole)
    if parted and not floor:
        why = f"{len(parted)} of {n} differ, and off against off was not measured: set controls.repeat"
        return blind("cache", planned, why)
    if parted and any(pair.differs for pair in floor):
        why = f"{len(parted)} of {n} differ, and so do prompts with nothing changed: nothing can be said of the cache"
        return blind("cache", planned, why)
    said = (
        f"{len(parted)} of {plural(n, 'prompt')} answered differently from the cache, while the same prompt twice"
        f" uncached is answered the same ({method}): a lead on the prefix cache"
        if parted
        else f"{plural(n, 'prompt')} of {planned} answered the same from the cache as without it ({method})"
    )
    return ControlFinding(
        control="cache",
        outcome="differs" if parted else "same",
        n=n,
        n_planned=planned,
        differing=len(parted),
        method=method,
        said=f"{TITLES['cache']}: {said}",
        evidence=_witnesses(parted, "answered uncached", "answered from the cache"),
    )


def _alike(state: RunState) -> ControlFinding:
    planned, meta = state.controls.planned.alike, state.meta
    if meta is not None and meta.at_once == 1:
        return blind("alike", planned, "one request runs at a time in this run", "not_applicable")
    temperature = state.regime.temperature if state.regime is not None else None
    if temperature != 0:
        return blind("alike", planned, f"answers can be counted at temperature 0 alone, not at {temperature}")
    whole = [one for one in state.controls.replies if one.arm == "alike" and one.ok and one.text_sha256 is not None]
    if len(whole) < 2:
        return blind("alike", planned, f"{len(whole)} of {plural(planned, 'reply', 'replies')} came whole")
    by_text: dict[str | None, ControlReply] = {}
    for one in whole:
        by_text.setdefault(one.text_sha256, one)
    n, distinct = len(whole), list(by_text.values())
    said = (
        f"{len(distinct)} different answers to {n} of them: the shape of the batch alone can split answers, so this is"
        " a lead only beside a failure"
        if len(distinct) > 1
        else f"{n} of {planned} have the same answer"
    )
    return ControlFinding(
        control="alike",
        outcome="differs" if len(distinct) > 1 else "same",
        n=n,
        n_planned=planned,
        differing=len(distinct) - 1,
        method="the full text",
        said=f"{TITLES['alike']}: {said}",
        evidence=_witnesses([_Pair(distinct[0], distinct[1], None)], "one answer", "another")
        if len(distinct) > 1
        else (),
    )


def _sharing(shared: ControlReply, salted: ControlReply) -> str | None:
    if shared.capped or salted.capped:
        return "a reply was capped: raise canaries.max_tokens"
    return _hit(salted, shared)


def _salt(state: RunState) -> ControlFinding:
    planned = state.controls.planned.salt
    if state.regime is not None and state.regime.prefix_caching is False:
        return blind("salt", planned, "the server keeps no prefix cache", "not_applicable")
    pairs = _pairs(state.controls, "shared", "salted", planned, _sharing)
    whole = [(pair.one, pair.other) for pair in pairs if pair.why is None and pair.one and pair.other]
    if not whole:
        return blind("salt", planned, _obstacles(pairs))
    parted = [(one, other) for one, other in whole if one.found != other.found]
    right = sum(one.found for one, _ in whole), sum(other.found for _, other in whole)
    n = len(whole)
    head = f"{TITLES['salt']}: {plural(n, 'recall question')} of {planned} behind one prefix of"
    head += f" {whole[0][0].prompt_tokens} tokens"
    said = (
        f"{head}: {right[0]} right with the prefix shared, {right[1]} with a salt each: a lead on what the prefix cache"
        " shares"
        if parted
        else f"{head} have the same answers shared and salted, {right[0]} of them right"
    )
    return ControlFinding(
        control="salt",
        outcome="differs" if parted else "same",
        n=n,
        n_planned=planned,
        differing=len(parted),
        method="whether the tag is in the answer",
        said=said,
        evidence=_witnesses([_Pair(*pair, None) for pair in parted], "prefix shared", "salted"),
    )


def _witnesses(pairs: list[_Pair], one: str, other: str) -> tuple[Evidence, ...]:
    """Both replies of the first pairs, around the place where they part."""
    shown = []
    for pair in pairs[:WITNESSES]:
        for reply, what, said in zip((pair.one, pair.other), (one, other), _parting(pair), strict=True):
            if reply is not None:
                label = reply.label or None
                shown.append(Evidence(event=reply.at, what=f"prompt {reply.pair} {what}", said=said, label=label))
    return tuple(shown)


def _parting(pair: _Pair) -> tuple[str, str]:
    left, right = (reply.text if reply is not None else "" for reply in (pair.one, pair.other))
    same = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    start = max(same - _BEFORE_PARTING, 0)
    return excerpt(left[start:])[:_SAID], excerpt(right[start:])[:_SAID]


_SAID: Final = 80
