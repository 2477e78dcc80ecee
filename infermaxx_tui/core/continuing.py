"""A run that is taken up again: which conversations are played once more, and whether the server is still the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from infermaxx_tui.core.plan import ConversationPlan, Plan
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.state import SessionState

WHOLE: Final = frozenset({"finished", "window", "exhausted", "duration"})
"""How a conversation ends that came to its own end, or to that of the run's duration; any other was broken off."""
MEASURED: Final = frozenset({"pool_tokens", "kv_gib", "model_gib", "max_concurrency"})
"""What a server measures as it starts: the next start of the same server may find a little more or less memory."""
_SHOWN: Final = 40
"""Characters of a value that are shown: enough to tell two versions, or two hashes, apart."""
_ALIKE: Final = 0.05
"""Share by which a measured figure may differ from that of the start before."""


def how_ended(sessions: Iterable[SessionState]) -> dict[int, str | None]:
    """How each conversation came to its end; None for one that did not, or whose server went away in the middle."""
    return {one.session: None if one.cut_off else one.ended for one in sessions}


def unfinished(planned: Plan, ended: Mapping[int, str | None]) -> frozenset[int]:
    """Conversations to be played again. `ended`: how each one that began came to its end, None for one that did not.

    A conversation and those that run under it stand and fall together. One that would be alone in its wave is played
    with the whole wave: a lone conversation shows nothing of what many at once do to one another.
    """
    parents = {one.session: one.parent for one in planned.conversations}
    broken = {root(one.session, parents) for one in planned.conversations if ended.get(one.session) not in WHOLE}
    for wave in planned.waves:
        roots = {root(one.session, parents) for one in wave}
        if len(roots & broken) == 1:
            broken |= roots
    return frozenset(session for session in parents if root(session, parents) in broken)


def root(session: int, parents: Mapping[int, int | None]) -> int:
    """The conversation at the top of the one that `session` runs under; itself if it runs by itself."""
    seen = {session}
    while (parent := parents.get(session)) is not None and parent not in seen:
        seen.add(parent)
        session = parent
    return session


def remaining(planned: Plan, again: frozenset[int]) -> Plan:
    """The plan of those conversations alone: each in its old wave, in which they take the places from 0 on.

    So the tasks that a wave shares among its places are all asked again.
    """
    left: list[ConversationPlan] = []
    for wave in planned.waves:
        places: dict[int, int] = {}
        for one in wave:
            if one.session in again:
                place = places.setdefault(one.place, len(places))
                left.append(msgspec.structs.replace(one, place=place))
    return msgspec.structs.replace(planned, conversations=tuple(left))


def differences(before: Regime, now: Regime) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is another regime than before, and which measured figures are not quite the same, each with both values."""
    other: list[str] = []
    moved: list[str] = []
    for name in Regime.__struct_fields__:
        old, new = getattr(before, name), getattr(now, name)
        if name == "missing" or old == new:
            continue
        said = f"{name} ({_shown(old)}, now {_shown(new)})"
        (moved if name in MEASURED and _near(old, new) else other).append(said)
    return tuple(other), tuple(moved)


def _near(old: object, new: object) -> bool:
    return isinstance(old, int | float) and isinstance(new, int | float) and abs(new - old) <= _ALIKE * abs(old)


def _shown(value: object) -> str:
    text = "not known" if value is None else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
