"""Tool calls put together from the fragments that a stream brings, which name their call by an index or not at all."""

from __future__ import annotations

import msgspec

from infermaxx_tui.core.wire import ToolDelta


class ToolCall(msgspec.Struct):
    """One call so far."""

    call_id: str | None = None
    name: str = ""
    fragments: list[str] = msgspec.field(default_factory=list)

    @property
    def arguments(self) -> str:
        """The argument fragments joined: JSON, if the reply was not cut."""
        return "".join(self.fragments)


class ToolCalls:
    """The calls of one reply, in the order in which they began."""

    __slots__ = ("_by_index", "_last")

    def __init__(self) -> None:
        self._by_index: dict[int, ToolCall] = {}
        self._last = -1

    def add(self, delta: ToolDelta) -> None:
        """Takes a fragment. Without an index it belongs to the last call, unless it brings an id."""
        index = delta.index
        if index is None:
            index = self._last + (delta.call_id is not None or self._last < 0)
        self._last = index
        call = self._by_index.setdefault(index, ToolCall())
        call.call_id = call.call_id or delta.call_id
        call.name += delta.name
        if delta.arguments:
            call.fragments.append(delta.arguments)

    def __len__(self) -> int:
        return len(self._by_index)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls so far."""
        return tuple(self._by_index.values())

    @property
    def text(self) -> str:
        """Name and arguments of each call, one call a line."""
        return "\n".join(f"{call.name} {call.arguments}" for call in self._by_index.values())
