"""What a made-up run looks like, and what its server may be asked and may answer."""

from __future__ import annotations

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.regime import Regime

ASK_AT = (0.5, 1.0)
"""Fractions of target depth at which a made-up run asks."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How large a history is and what it runs on. The default asks 24 recalls, enough for the default limits."""

    sessions: int = 4
    at_once: int = 4
    tags: int = 4
    turns_between: int = 2
    """Main-line turns before each planting and each asking."""
    target_depth: int = 2000
    recall_max_tokens: int = 200
    limits: Limits = Limits()
    seed: int = 1
    nonce: str = "0123456789abcdef"
    meet: bool = True
    """Whether the conversations of a wave are asked beside one another, or each when no other decodes."""
    reask: bool = True
    regime: Regime = Regime(
        engine="vllm 0.32.0",
        model="made-up",
        max_model_len=32768,
        replies_mode="live",
        target_depth=2000,
        concurrency_requested=4,
    )

    @property
    def planned_recalls(self) -> int:
        """Recall questions of all conversations."""
        return self.sessions * sum(len(self.due(fraction)) for fraction in ASK_AT)

    def due(self, fraction: float) -> range:
        """Numbers of the tags that are asked for at this fraction of target depth."""
        return range(round(self.tags * fraction))


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a history puts to its made-up server."""

    kind: e.RequestKind
    session: int
    number: int
    """How many questions of this kind were put before."""
    label: str
    tag: str
    others: tuple[str, ...]
    """The session's own other tags."""
    foreign: tuple[str, ...]
    """Tags of the other sessions."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What the made-up server answers."""

    content: str | None = None
    reasoning: str | None = None
    tool_args: str | None = None
    outcome: e.Outcome = "ok"
    finish_reason: str | None = "stop"
    status: int | None = 200
    error: str | None = None
    completion_tokens: int | None = 20
    degenerate: str | None = None
    hits: tuple[e.Hit, ...] = ()
    anomalies: tuple[str, ...] = ()
    speaks: bool = True
    """Whether a first token comes."""
