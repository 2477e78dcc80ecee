"""Which controls a scenario asks for. Each of them leaves one cause out, so that what still fails has another."""

from __future__ import annotations

import msgspec


class Controls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is played with nothing beside, before and after the conversations, so that a failure has a cause."""

    repeat: int = 0
    """So many deep prompts, each sent twice, uncached: how often the same prompt is answered differently anyway."""
    cache: int = 0
    """So many of the same prompts once uncached and once from the prefix cache."""
    alike: int = 0
    """So many identical prompts at once, 0 or at least 2: how many different answers come."""
    salt: int = 0
    """So many recall questions behind one long prefix, once with the prefix shared and once with a salt of its own."""
    solo: bool = False
    """One conversation alone before the others and the same one after them: speed at depth, and a sick server."""
    after: int = 0
    """So many trivial prompts when all is over: a server that collapsed under the load answers them with babble."""

    @property
    def any(self) -> bool:
        """Whether one is asked for."""
        return bool(self.repeat or self.cache or self.alike or self.salt or self.solo or self.after)
