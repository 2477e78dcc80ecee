"""Replies that came to their end in order and are not what the server said: something in between lost events, sent them
twice or mixed those of two replies. Nobody can be held to such a text.
"""

from __future__ import annotations

from typing import Final

from infermaxx_tui.core.events import RequestEnded

_WHY: Final = {
    "ids_usage_differ": "the server counted another number of tokens than came",
    "mixed_ids": "events of another reply came between its own",
}
"""By the name of the anomaly that tells (core.reply)."""


def torn(reply: RequestEnded) -> str | None:
    """Why the reply's text is not the server's; None if nothing tells so."""
    return next((why for name, why in _WHY.items() if name in reply.anomalies), None)
