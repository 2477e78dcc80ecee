"""Whether each prompt of a conversation begins with the last one and its reply, as the server itself saw them.

A prefix cache works, and a planted tag is still in the prompt, only as long as that holds. The server's own ids decide,
so that a template which rewrites earlier turns shows up in chat replay too.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

_ID_BYTES = array("I").itemsize


class PrefixWatch:
    """One conversation's newest prompt and reply; nothing older is kept."""

    def __init__(self, replies_stay: bool) -> None:
        self._replies_stay = replies_stay
        """Whether replies become part of the next prompt."""
        self._before: bytes | None = None

    def share(self, prompt_ids: Sequence[int] | None) -> float | None:
        """Share of the last prompt and reply that this prompt begins with: 1.0 if all of it.

        None if the server sent no ids for one of the two prompts.
        """
        before, now = self._before, _packed(prompt_ids)
        if before is None or now is None:
            return None
        if now.startswith(before):
            return 1.0
        return _common_ids(before, now) / (len(before) // _ID_BYTES)

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
