"""The event of a question that tries an ability: what was asked, and what came, unjudged."""

from __future__ import annotations

from infermaxx_tui.core.abilities import AbilityKind, Call, Case
from infermaxx_tui.core.event import Event


class AbilityAnswered(Event, frozen=True, kw_only=True):
    """One question and its reply. It was sent before the run's first reading of the server's counters."""

    ability: int
    kind: AbilityKind
    case: Case
    rep: int
    place: int
    question: str
    expected: tuple[Call, ...]
    answer: str
    status: int | None
    """HTTP status; None if no answer came."""
    error: str | None
    """As the server or the transport said it, one line."""
    finish_reason: str | None
    content: str
    """As it came; of a very long one the beginning and the end."""
    reasoning_chars: int
    """Of all of it, blanks counted."""
    reasoning_tokens: int | None
    calls: tuple[Call, ...]
    completion_tokens: int | None
    max_tokens: int
    total_ms: float
    reasoning: str = ""
    """As `content`; empty in a log that kept its length alone."""
