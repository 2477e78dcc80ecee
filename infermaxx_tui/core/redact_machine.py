"""Takes out of a text what names one machine: its cards, its folders, its addresses. Logs of runs are full of them.

What names people and opens doors is `redact`'s; a log or an export that is shared goes through both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from infermaxx_tui.core.redact import redact

_UUID: Final = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_BUS: Final = re.compile(r"\b[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\b")
_PATH: Final = re.compile(
    r"(?<![\w.:/])/(?:tmp|root|home|opt|usr|mnt|data|srv|var|work|media|workspace)/[^\s'\",;)\]}]*"
)
_ADDRESS: Final = re.compile(r"(?<![\d.])(?!127\.|192\.0\.2\.)(?:\d{1,3}\.){3}\d{1,3}(?=[:/ ])")


def machine(text: str) -> str:
    """The text with the same thing for every card, folder and address; the last part of a path stays."""
    text = _UUID.sub("GPU-00000000-0000-0000-0000-000000000000", text)
    text = _BUS.sub("00000000:00:00.0", text)
    text = _PATH.sub(lambda match: f"DIR/{match[0].rstrip('/').rpartition('/')[2]}", text)
    return _ADDRESS.sub("192.0.2.1", text)


def shareable(text: str, names: Iterable[str] = ()) -> str:
    """The text as it may be shown to others: without the machine, people, keys and passwords."""
    return redact(machine(redact(text, names).text), names).text
