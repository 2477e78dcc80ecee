"""Why a conversation ends before its transcript does."""

from __future__ import annotations

from typing import Literal

EndReason = Literal["finished", "window", "duration", "stopped", "failed", "server_lost", "exhausted"]


class ConversationOver(Exception):
    """The conversation cannot go on; `reason` is what SessionEnded says."""

    def __init__(self, reason: EndReason, detail: str = "") -> None:
        super().__init__(detail)
        self.reason: EndReason = reason
        self.detail = detail
