"""Prompts that may have to be sent again: few, and small, since a soak of days has thousands of them."""

from __future__ import annotations

from array import array
from collections import OrderedDict

import msgspec

from infermaxx_tui.runner.lines import Prompt

MISSES_KEPT = 64
"""Misses whose prompts are kept; more of them need no second look."""
LOADS_KEPT = 4
"""Conversations whose latest question is kept: three that load the server, and one that may be the asking one's own."""


class Kept(msgspec.Struct, frozen=True):
    """A prompt as it was sent, its ids packed."""

    packed: array[int] | None
    bare: Prompt
    """The prompt without its ids."""
    session: int
    turn: int
    salt: str | None

    @classmethod
    def of(cls, prompt: Prompt, session: int, turn: int, salt: str | None) -> Kept:
        """Packs a prompt."""
        packed = None if prompt.ids is None else array("I", prompt.ids)
        return cls(packed, msgspec.structs.replace(prompt, ids=None), session, turn, salt)

    @property
    def prompt(self) -> Prompt:
        """The prompt, the same ids."""
        return msgspec.structs.replace(self.bare, ids=None if self.packed is None else tuple(self.packed))


class Keep:
    """What is kept of the questions of a run; of bounded size."""

    def __init__(self) -> None:
        self._misses: dict[int, Kept] = {}
        self._loads: OrderedDict[int, Kept] = OrderedDict()

    def asked(self, kept: Kept) -> None:
        """A question went out: it is the newest of its conversation."""
        self._loads[kept.session] = kept
        self._loads.move_to_end(kept.session)
        if len(self._loads) > LOADS_KEPT:
            self._loads.popitem(last=False)

    def missed(self, req: int, kept: Kept) -> None:
        """The reply to request `req` lacked its tag."""
        if len(self._misses) < MISSES_KEPT:
            self._misses[req] = kept

    def miss(self, req: int) -> Kept | None:
        """The prompt of a miss, None if it was not kept."""
        return self._misses.get(req)

    def beside(self, session: int) -> tuple[Kept, ...]:
        """The newest questions of other conversations, at most three."""
        others = [kept for kept in self._loads.values() if kept.session != session]
        return tuple(others[1 - LOADS_KEPT :])
