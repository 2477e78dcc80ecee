"""Faults that only a control can see: what depends on the cache, on chance, or on what the server went through."""

from __future__ import annotations

from typing import Final

_CACHED: Final = 0.5
"""Share of a prompt from which it counts as cached."""
_QUIET_S: Final = 0.5
"""How long nobody may have been served beside another one for the load to be over."""


class Moods:
    """What one server's replies depend on beside their prompts."""

    def __init__(self, faults: frozenset[str]) -> None:
        self._faults = faults
        self._replies = 0
        self._crowded_s: float | None = None
        self._collapsed = False

    def seed(self, digest: bytes, cached: float) -> bytes:
        """What a reply's choices follow from; `cached` is the share of the prompt that the cache gave."""
        self._replies += 1
        seed = digest
        if "cache-flip" in self._faults and cached >= _CACHED:
            seed += b"cached"
        if "dither" in self._faults:
            seed += self._replies.to_bytes(4, "big")
        return seed

    def collapsed(self, now_s: float, beside: int) -> bool:
        """Whether the server is sick for good since the load is over."""
        if "collapse" not in self._faults:
            return False
        if beside:
            self._crowded_s = now_s
        elif self._crowded_s is not None and now_s - self._crowded_s > _QUIET_S:
            self._collapsed = True
        return self._collapsed
