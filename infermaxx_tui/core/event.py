"""What all events of a log have in common, for the modules that define some of them."""

from __future__ import annotations

from typing import Literal

import msgspec


class Event(msgspec.Struct, frozen=True, tag_field="e", tag=str.lower, kw_only=True):
    """Base of all events."""


class Hit(msgspec.Struct, frozen=True):
    """A known tag that is not the session's own, found in a reply."""

    tag: str
    kind: Literal["foreign", "stale", "decoy"]
    owner: int | None
    """The session that the tag belongs to; None for a stale tag or a decoy."""
    channel: Literal["content", "reasoning", "tool"]


class Host(msgspec.Struct, frozen=True):
    """The machine that the client ran on."""

    name: str
    system: str
    python: str
    cpus: int
