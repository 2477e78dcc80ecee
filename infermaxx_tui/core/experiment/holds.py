"""Which real sessions each arm's pool holds: session by session, with the prompt that was really served for it.

A session clears a pool whose tokens its largest request does not exceed. The largest one that clears and the smallest
one that does not are tried (see `core.probe_fit`), so that the start-up line is not all there is to go by.
"""

from __future__ import annotations

from collections.abc import Iterator

from infermaxx_tui.core.experiment.answer import Answer, ArmAnswer
from infermaxx_tui.core.experiment.cells import Cell, Table
from infermaxx_tui.core.experiment.rows import Registered
from infermaxx_tui.core.kv_report import fit
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.probe_fit import REFUSED, SERVED, WHOLE_SHARE, Aim, Room, aims

_LISTED = 24
"""Sessions with a row of their own, the largest first; the smaller ones are in the sums."""
HOLDS_NOTE = (
    "A session clears a pool whose tokens it does not exceed. The largest that clears and the smallest that does not"
    " were sent as prompts where that is said; the others follow from the start-up line."
)


def sessions_of(first: Registered) -> tuple[tuple[str, int], ...]:
    """Names and tokens, the largest first."""
    names = first.peaks_names or tuple(f"session {at + 1}" for at in range(len(first.peaks_tokens)))
    return tuple(sorted(zip(names, first.peaks_tokens, strict=True), key=lambda one: (-one[1], one[0])))


def counted_by(first: Registered) -> str:
    """By what the sessions' tokens were counted; the shipped vocabulary is not the model's."""
    by = first.peaks_by
    return f"the shipped vocabulary, not the model's{by.removeprefix('shipped')}" if by.startswith("shipped") else by


def room_of(arm: ArmAnswer) -> Room:
    """What every start of the arm holds: the least that any of them said."""
    regimes = [row.regime for row in arm.rows if row.regime is not None]
    pools = [one.pool_tokens for one in regimes if one.pool_tokens is not None]
    windows = [one.max_model_len for one in regimes if one.max_model_len is not None]
    return Room(min(pools, default=None), min(windows, default=None))


def holds_table(found: Answer) -> Table | None:
    """A row a session, a column an arm; None where nothing was to be held against the pools."""
    sessions = sessions_of(found.registered)
    if not sessions:
        return None
    rooms = {arm.name: room_of(arm) for arm in found.arms}
    rows = [(Cell("pool, tokens"), *(Cell(_number(rooms[arm.name].pool_tokens)) for arm in found.arms))]
    rows += [(Cell("window, tokens"), *(Cell(_number(rooms[arm.name].window)) for arm in found.arms))]
    for name, tokens in sessions[:_LISTED]:
        rows.append((Cell(name, f"{tokens:,} tokens"), *(_cell(arm, tokens, found.registered) for arm in found.arms)))
    if len(sessions) > _LISTED:
        name, tokens = sessions[_LISTED]
        below = f"the largest of them {tokens:,} tokens"
        rows.append(
            (
                Cell(f"and {len(sessions) - _LISTED} smaller ones", below),
                *(_cell(arm, tokens, found.registered) for arm in found.arms),
            )
        )
    rows.append((Cell("clear it alone"), *(Cell(_alone(rooms[arm.name], sessions)) for arm in found.arms)))
    rows.append((Cell("fit together"), *(Cell(_together(rooms[arm.name], sessions)) for arm in found.arms)))
    return Table(("session, largest request", *(arm.name for arm in found.arms)), tuple(rows))


def _number(tokens: int | None) -> str:
    return "n/a" if tokens is None else f"{tokens:,}"


def _alone(room: Room, sessions: tuple[tuple[str, int], ...]) -> str:
    if room.pool_tokens is None:
        return "n/a"
    return f"{sum(tokens <= room.pool_tokens for _, tokens in sessions)} of {len(sessions)}"


def _together(room: Room, sessions: tuple[tuple[str, int], ...]) -> str:
    if room.pool_tokens is None:
        return "n/a"
    return f"{fit([tokens for _, tokens in sessions], room.pool_tokens)} of {len(sessions)}"


def _cell(arm: ArmAnswer, tokens: int, first: Registered) -> Cell:
    room = room_of(arm)
    if room.pool_tokens is None:
        return Cell("n/a")
    below = _tried(arm, tokens, first, room)
    if tokens > room.pool_tokens:
        return Cell(f"exceeds, x {tokens / room.pool_tokens:.2f}", below)
    if room.window is not None and tokens > room.window:
        return Cell("clears the pool, not the window", below)
    return Cell("clears", below)


def _tried(arm: ArmAnswer, tokens: int, first: Registered, room: Room) -> str:
    """What became of the prompt that stood for a session of this size; empty where none did."""
    for aim, name, word in _aimed(first, room):
        one = _measure(arm, name)
        if one is None or aim.tokens != tokens:
            continue
        proof = _proof(one, tokens)
        if not proof:
            return f"not proved: {_why_not(one, aim, word)}"
        return f"{word}: {min(proof):,.0f} tokens, {len(proof)} of {one.planned} starts"
    return ""


def _aimed(first: Registered, room: Room) -> Iterator[tuple[Aim, str, str]]:
    """What is to be proved of the sessions: the size, the name of its figure, and the word for it."""
    yield from zip(aims(first.peaks_tokens, room), (SERVED, REFUSED), ("served", "refused"), strict=True)


def _proof(one: Measure, tokens: int) -> list[float]:
    """Prompts of those starts in which one as long as that was served, or one no longer was refused.

    A start with another pool, or a probe with sizes of its own, tried another size.
    """
    if one.name == SERVED:
        return [value for value in one.values if value >= WHOLE_SHARE * tokens]
    return [value for value in one.values if value <= tokens]


def _why_not(one: Measure, aim: Aim, word: str) -> str:
    tried = ", ".join(f"{value:,.0f}" for value in one.values)
    return one.reason or aim.why or f"the prompt that was {word} had {tried} tokens"


def _measure(arm: ArmAnswer, name: str) -> Measure | None:
    return next((one for one in arm.measures if one.name == name), None)


def holds_lines(arm: ArmAnswer, first: Registered) -> Iterator[str]:
    """The same of one arm in words."""
    sessions, room = sessions_of(first), room_of(arm)
    if not sessions or room.pool_tokens is None:
        return
    over = [f"{name} {tokens:,}" for name, tokens in sessions if tokens > room.pool_tokens]
    shown = ", ".join(over[:_LISTED]) + (f" and {len(over) - _LISTED} more" if len(over) > _LISTED else "")
    yield (
        f"{_alone(room, sessions)} real sessions clear a pool of {room.pool_tokens:,} tokens alone"
        f" (largest request each, counted by {counted_by(first)}), {_together(room, sessions)} together"
        + (f"; over it: {shown}" if over else "")
    )
    for aim, name, word in _aimed(first, room):
        one = _measure(arm, name)
        if one is None:
            continue
        proof = [] if aim.tokens is None else _proof(one, aim.tokens)
        if not proof:
            tried = name == SERVED or one.values or "a session of" in (one.reason or "")
            yield f"{'not proved' if tried else 'not tried'} by a {word} prompt: {_why_not(one, aim, word)}"
            continue
        whose = next(whose for whose, tokens in sessions if tokens == aim.tokens)
        yield (
            f"{word}: a request of {min(proof):,.0f} tokens, as long as {whose} ({len(proof)} of {one.planned} starts)"
        )
