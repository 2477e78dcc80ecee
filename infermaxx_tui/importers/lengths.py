"""Put sessions together from traces that hold lengths, block ids and delays, and no text.

Such a session can be replayed in its lengths and in what it shares, and is blind to degeneration: nobody knows what a
good reply would have been. Its ledger says so as `content_free`.
"""

from __future__ import annotations

from collections import Counter

from infermaxx_tui.core.transcript import BlockIds, Message, Request, Session, Usage, Window
from infermaxx_tui.importers.building import Reason, ledger

_REPLY = Message("assistant")


class LengthsBuilder:
    """A session under construction, request by request."""

    def __init__(self, loss: Counter[str], reason: Reason = "start") -> None:
        self.loss = loss
        self.replies = 0
        self.prompt_tokens = 0
        """Of the request taken last."""
        self.blocks: tuple[int, ...] = ()
        """All ids of its prompt."""
        self._windows: list[tuple[Reason, list[Request]]] = [(reason, [])]
        self._timed = False

    def add(
        self,
        usage: Usage,
        blocks: tuple[int, ...] = (),
        at_s: float | None = None,
        think_s: float | None = None,
        tool_delay_s: float | None = None,
        block_tokens: int | None = None,
        reset: bool = False,
    ) -> None:
        """Takes a request whose usage holds both lengths. A window begins where the prompt does not go on.

        Block ids of a prompt's end may stand for less than a block, so that the next prompt has another there.
        """
        prompt = usage.prompt_tokens or 0
        same = zip(self.blocks, blocks, strict=False)
        kept = next((n for n, (a, b) in enumerate(same) if a != b), min(len(self.blocks), len(blocks)))
        whole = self.prompt_tokens // block_tokens if block_tokens else len(self.blocks)
        broken = kept < min(whole, len(self.blocks))
        if self.replies and (reset or broken or prompt < self.prompt_tokens):
            self.loss["prefix_broken"] += broken
            self._windows.append(("compaction" if reset or prompt < self.prompt_tokens else "fork", []))
            kept = 0
        ids = BlockIds(kept, blocks[kept:]) if blocks else None
        self._timed |= think_s is not None or tool_delay_s is not None
        self._windows[-1][1].append(
            Request((), _REPLY, usage, max(0.0, think_s or 0.0), max(0.0, tool_delay_s or 0.0), None, ids, at_s)
        )
        self.replies += 1
        self.prompt_tokens, self.blocks = prompt, blocks

    def finish(
        self,
        session_id: str,
        form: str,
        source: str,
        block_tokens: int | None = None,
        parent: str | None = None,
        model: str | None = None,
        spawned_after: int | None = None,
    ) -> Session | None:
        """The session, None without requests."""
        windows = tuple(Window(reason, tuple(requests)) for reason, requests in self._windows if requests)
        if not windows:
            return None
        self.loss["content_free"] = 1
        self.loss["no_timing"] += not self._timed
        return Session(
            id=session_id,
            format=form,
            source=source,
            windows=windows,
            parent=parent,
            model=model,
            loss=ledger(self.loss),
            content_free=True,
            block_tokens=block_tokens,
            spawned_after=spawned_after,
        )
