"""From ids to text as a server streams it: whole characters only, control tokens left out, stop strings held back."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from infermaxx_tui.vocabulary import HIDDEN_TOKENS, Vocabulary


class Detokeniser:
    """The text of one reply, piece by piece."""

    def __init__(self, vocabulary: Vocabulary, stop: Sequence[str] = (), keep_special: bool = False) -> None:
        self._table = vocabulary.token_bytes
        self._hidden = frozenset() if keep_special else frozenset(map(vocabulary.special_id, HIDDEN_TOKENS))
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop = tuple(stop)
        self._hold = max(map(len, self._stop), default=1) - 1
        self._held = ""
        self.stopped_by: str | None = None
        """The stop string that the text ran into."""

    def feed(self, ids: Sequence[int]) -> str:
        """The text that these ids add, as far as it may be shown yet."""
        data = b"".join(self._table[i] for i in ids if i not in self._hidden)
        text = self._utf8.decode(data)
        return self._checked(text) if self._stop else text

    def finish(self) -> str:
        """What was held back."""
        text, self._held = self._held + self._utf8.decode(b"", final=True), ""
        return "" if self.stopped_by is not None else text

    def _checked(self, text: str) -> str:
        self._held += text
        found = min(((at, stop) for stop in self._stop if (at := self._held.find(stop)) >= 0), default=None)
        if found is not None:
            shown, self._held = self._held[: found[0]], ""
            self.stopped_by = found[1]
            return shown
        keep = len(self._held) - self._hold
        shown, self._held = self._held[: max(0, keep)], self._held[max(0, keep) :]
        return shown
