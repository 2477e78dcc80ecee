"""What all events of a log have in common, for the modules that define some of them."""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, frozen=True, tag_field="e", tag=str.lower, kw_only=True):
    """Base of all events."""


class Host(msgspec.Struct, frozen=True):
    """The machine that the client ran on."""

    name: str
    system: str
    python: str
    cpus: int
