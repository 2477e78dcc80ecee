"""What the controls of a run brought, as judges and views look at it."""

from __future__ import annotations

import msgspec

from infermaxx_tui.core.controls import Controls
from infermaxx_tui.core.events_controls import Arm, Stage
from infermaxx_tui.core.evidence import Findings, Ref


class ControlReply(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a comparison."""

    at: Ref
    req: int
    arm: Arm
    pair: int
    label: str
    ok: bool
    """Whether the stream ended as it should."""
    capped: bool
    alone: bool
    """Whether no other request of ours was open at any time beside it."""
    degenerate: bool
    prompt_tokens: int | None
    text: str
    """The beginning of what was said."""
    text_sha256: str | None
    """Of all that was said."""
    found: bool
    """Whether the asked tag stands in the reply."""
    ids_sha256: str | None = None
    cached_tokens: int | None = None
    """None until the log says it."""


class Speed(msgspec.Struct, frozen=True):
    """How fast one arm was."""

    bands: dict[int, tuple[int, float]] = {}
    """By depth band (core.inflation): tokens, and the ms that they took."""
    ttft_ms: float | None = None
    """Median of its turns."""


class ControlsSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the controls brought."""

    planned: Controls = Controls()
    replies: tuple[ControlReply, ...] = ()
    others_running: int = 0
    """Most requests beside ours that the server ran while a control was played."""
    speeds: dict[Stage, Speed] = {}
    """By stage: `solo_before`, `waves`, `solo_after`."""
    degenerate: dict[Stage, Findings] = {}
    """By stage, replies that had degenerated."""
    failed: dict[Stage, int] = {}
    """By stage, requests that brought no whole reply."""
    played: dict[Stage, int] = {}
    """By stage, requests that ended."""
