"""What a command is: one row of the table that bindings, the line of keys, the palette and the help are made from."""

from __future__ import annotations

from typing import Literal

import msgspec

Place = Literal[
    "app",
    "lines",
    "clock",
    "home",
    "run",
    "stream",
    "verdict",
    "compare",
    "experiment",
    "fleet",
    "start",
    "confirm",
    "help",
    "filter",
]
"""Where a command works: everywhere, in any list of lines, wherever there is a time cursor, or on one screen."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a person can do."""

    id: str
    place: Place
    keys: tuple[str, ...]
    action: str
    name: str
    """In the line of keys, one or two words."""
    text: str
    """In the help and the palette, a sentence without a full stop."""
    shown: int = 0
    """Rank in the line of keys, the lowest first; 0: in the help alone."""
    always: bool = False
    """Whether it works while text is typed."""


def made(place: Place, *rows: tuple[str, str, str, str, str, int]) -> tuple[Command, ...]:
    """Commands of one place; a row is id, keys, action, name, text, rank."""
    return tuple(
        Command(
            id=f"{place}.{ident}",
            place=place,
            keys=tuple(keys.split(" ")),
            action=action,
            name=name,
            text=text,
            shown=shown,
        )
        for ident, keys, action, name, text, shown in rows
    )
