"""A prefix cache that behaves as vLLM's does, so that cached_tokens, hit rates and cold prompts mean something here."""

from __future__ import annotations

from collections import OrderedDict

_BYTES_PER_ID = 4


class PrefixCache:
    """Whole blocks of prompts and replies, chained by their parents, apart for each salt; the least recent go first."""

    def __init__(self, capacity_blocks: int, block_size: int) -> None:
        self._capacity = capacity_blocks
        self._block_size = block_size
        self._step = block_size * _BYTES_PER_ID
        self._blocks: OrderedDict[tuple[int, bytes], int] = OrderedDict()
        self._roots: dict[str, int] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._blocks)

    def cached_tokens(self, packed: bytes, salt: str) -> int:
        """Tokens at the start of the prompt that are cached; its last token never is, since it must be computed."""
        found = []
        parent = self._root(salt)
        for at in range(0, len(packed) - self._step - _BYTES_PER_ID + 1, self._step):
            key = (parent, packed[at : at + self._step])
            child = self._blocks.get(key)
            if child is None:
                break
            found.append(key)
            parent = child
        for key in reversed(found):
            self._blocks.move_to_end(key)
        return len(found) * self._block_size

    def add(self, packed: bytes, salt: str) -> None:
        """Keeps the full blocks of these tokens."""
        parent = self._root(salt)
        for at in range(0, len(packed) - self._step + 1, self._step):
            key = (parent, packed[at : at + self._step])
            child = self._blocks.get(key)
            if child is None:
                child = self._blocks[key] = self._number()
            parent = child
        while len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)

    def clear(self) -> None:
        """Forgets everything, as a new process would."""
        self._blocks.clear()
        self._roots.clear()

    def _root(self, salt: str) -> int:
        if salt not in self._roots:
            self._roots[salt] = self._number()
        return self._roots[salt]

    def _number(self) -> int:
        self._next += 1
        return self._next
