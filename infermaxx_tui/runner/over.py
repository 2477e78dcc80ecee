"""Why a conversation ends before its transcript does."""

from __future__ import annotations

from typing import Final, Literal

from infermaxx_tui.core.events import Outcome

EndReason = Literal["finished", "window", "duration", "stopped", "failed", "server_lost", "exhausted"]

ENDS: Final[dict[Outcome, EndReason]] = {
    "cancelled": "stopped",
    "refused_connection": "server_lost",
    "too_long": "window",
    "stalled": "failed",
    "timeout": "failed",
}
"""Outcomes of a request after which going on makes no sense."""


class ConversationOver(Exception):
    """The conversation cannot go on; `reason` is what SessionEnded says."""

    def __init__(self, reason: EndReason, detail: str = "") -> None:
        super().__init__(detail)
        self.reason: EndReason = reason
        self.detail = detail
