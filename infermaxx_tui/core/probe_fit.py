"""Which of some sessions a server holds: told by its pool beforehand, and proved by a prompt that is really served.

The prompt is as long as the largest session that should fit, so it clears this pool and no smaller one; beside it the
smallest session that should not fit is sent, and must be refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.fold_probes import ProbeReply
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.probes import Part, Probe

SERVED: Final = "fit.served_tokens"
REFUSED: Final = "fit.refused_tokens"
_BY_SIZE: Final = re.compile(r"HTTP (?:400|413|422)\b", re.ASCII)
"""A rejection that may be for the size; who is busy, broken, or asks for a key refuses other prompts too."""
_SAID: Final = 120
"""Characters of a server's refusal that are quoted."""
WHOLE_SHARE: Final = 0.95
"""Of the size that was wanted: prompts are cut where a message ends, and a reply may end early."""


class Room(msgspec.Struct, frozen=True):
    """What a server says that it holds; None where it does not say."""

    pool_tokens: int | None = None
    window: int | None = None
    """Tokens of prompt and reply of one request."""

    @property
    def one_tokens(self) -> int | None:
        """Most that one session can have: of the pool, and of the window. None without a pool."""
        if self.pool_tokens is None:
            return None
        return self.pool_tokens if self.window is None else min(self.pool_tokens, self.window)

    @property
    def bound(self) -> str:
        """What a session that does not fit runs into."""
        if self.window is not None and self.pool_tokens is not None and self.window < self.pool_tokens:
            return f"the window of {self.window:,} tokens; the pool has {self.pool_tokens:,}"
        return f"the pool of {self.pool_tokens:,} tokens"


NOWHERE: Final = Room()
"""Nothing is known."""


class Aim(msgspec.Struct, frozen=True):
    """A size to be tried, or why there is none."""

    part: Part
    tokens: int | None = None
    why: str | None = None


def aims(sizes: Sequence[int], room: Room) -> tuple[Aim, Aim]:
    """The largest size that one session can have there, and the smallest that it cannot."""
    most = room.one_tokens
    if not sizes or most is None:
        why = "no sizes of sessions were given" if not sizes else "the server does not say how large its pool is"
        return Aim("held", why=why), Aim("over", why=why)
    held = max((size for size in sizes if size <= most), default=None)
    over = min((size for size in sizes if size > most), default=None)
    return (
        Aim("held", held, None if held is not None else f"the smallest of {len(sizes)} sessions exceeds {room.bound}"),
        Aim("over", over, None if over is not None else f"all {len(sizes)} sessions clear it"),
    )


def fit_measures(place: int, probe: Probe, replies: Iterable[ProbeReply], room: Room) -> Iterator[Measure]:
    """What was served and what was refused, in tokens; nothing for a probe of another kind."""
    if probe.kind != "fit":
        return
    mine = [reply for reply in replies if reply.probe == place]
    for aim in aims(probe.sizes, room):
        got = next((reply for reply in mine if reply.part == aim.part), None)
        value, why = (None, aim.why) if got is None else _seen(aim, got, room)
        if got is None and why is None:
            why = f"the prompt of {aim.tokens:,} tokens was not sent"
        yield Measure(
            name=SERVED if aim.part == "held" else REFUSED,
            unit="tokens",
            values=() if value is None else (float(value),),
            better="more" if aim.part == "held" else "neither",
            reason=why,
            note=_note(aim, got, room) if value is not None else None,
            probe=place,
        )


def _seen(aim: Aim, got: ProbeReply, room: Room) -> tuple[int | None, str | None]:
    wanted = f"a session of {got.wanted_tokens:,} tokens"
    ended = f"{got.outcome}: {got.error or 'no reason given'}"
    if aim.part == "over":
        if got.outcome == "too_long" or (got.outcome == "rejected" and _BY_SIZE.match(got.error or "")):
            return got.wanted_tokens, None
        if got.outcome != "ok":
            return None, f"{wanted} ended {ended}"
        if got.prompt_tokens is None:
            return None, f"{wanted} should not fit, was served, and the server did not count its tokens"
        counted = got.prompt_tokens + (got.tokens or 0)
        if room.one_tokens is not None and counted <= room.one_tokens:
            return None, f"{wanted} should not fit; by the server's count only {counted:,} were sent, which do"
        return None, f"{wanted} should not fit, and was served"
    if got.outcome != "ok":
        return None, f"{wanted} should fit, and ended {ended}"
    if got.prompt_tokens is None:
        return None, "the server did not count the prompt's tokens"
    counted = got.prompt_tokens + (got.tokens or 0)
    if got.wanted_tokens and counted < WHOLE_SHARE * got.wanted_tokens:
        return None, f"{wanted} was sent, and the server counts {counted:,} of it: the rest was cut off"
    return counted, None


def _note(aim: Aim, got: ProbeReply | None, room: Room) -> str | None:
    if aim.part == "held" or got is None:
        return None
    said = got.error or "no reason given"
    return f"by {room.bound}: {said if len(said) <= _SAID else f'{said[: _SAID - 1]}…'}"
