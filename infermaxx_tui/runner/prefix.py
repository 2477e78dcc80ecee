"""Whether each prompt of a conversation begins with the last one and its reply, as the server itself saw them.

A prefix cache works, and a planted tag is still in the prompt, only as long as that holds. The server's own ids decide,
so that a template which rewrites earlier turns shows up in chat replay too.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import msgspec

_ID_BYTES = array("I").itemsize


class Prefix(msgspec.Struct, frozen=True):
    """How a prompt goes on with the one before it and its reply."""

    kept: int
    """Tokens of those two that it begins with."""
    missed: int
    """The rest of them, from the first one that differs: what has to be computed again although it was sent before."""

    @property
    def share(self) -> float:
        """The first as a share of both; 1.0: all of it."""
        return self.kept / (self.kept + self.missed) if self.missed else 1.0


class PrefixWatch:
    """One conversation's newest prompt and reply; nothing older is kept."""

    def __init__(self, replies_stay: bool) -> None:
        self._replies_stay = replies_stay
        """Whether replies become part of the next prompt."""
        self._before: bytes | None = None

    def begin_anew(self) -> None:
        """The next prompt is not meant to go on with the last one."""
        self._before = None

    def compare(self, prompt_ids: Sequence[int] | None) -> Prefix | None:
        """How much of the last prompt and reply this prompt begins with.

        None if the server sent no ids for one of the two prompts.
        """
        before, now = self._before, _packed(prompt_ids)
        if before is None or now is None:
            return None
        whole = len(before) // _ID_BYTES
        kept = whole if now.startswith(before) else _common_ids(before, now)
        return Prefix(kept, whole - kept)

    def turn_over(self, prompt_ids: Sequence[int] | None, reply_ids: Sequence[int] | None) -> None:
        """A turn ended; `reply_ids` None if it failed, so that its reply does not become part of the next prompt.

        Without ids of the prompt the older one stays: what it holds must still be the beginning.
        """
        prompt = _packed(prompt_ids)
        if prompt is not None:
            self._before = prompt + ((_packed(reply_ids) or b"") if self._replies_stay else b"")


def _packed(ids: Sequence[int] | None) -> bytes | None:
    """None also for what cannot be token ids."""
    if not ids:
        return None
    try:
        return array("I", ids).tobytes()
    except OverflowError:
        return None


def _common_ids(a: bytes, b: bytes) -> int:
    """How many ids two packed sequences share from the start."""
    low, high = 0, min(len(a), len(b)) // _ID_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if a[: middle * _ID_BYTES] == b[: middle * _ID_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low
