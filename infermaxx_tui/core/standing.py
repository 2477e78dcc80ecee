"""Where the server's processes are, as this machine sees them: what tells a silent server from a silent network.

A connection that stands proves that its other end is there. On this machine that end may be a forwarder (a tunnel, a
container's proxy), which takes connections for a server that it no longer reaches.
"""

from __future__ import annotations

import msgspec


class Standing(msgspec.Struct, frozen=True):
    """What is known of the server's processes at one moment."""

    here: bool | None
    """Whether the server is on this machine; None if that could not be found out."""
    alive: int = 0
    """Processes of it that are seen here."""
    stopped: int = 0
    """Of those, the ones that are stopped: by SIGSTOP, by a terminal or by a debugger."""
    why: str = ""
    """Why no process is seen, for people."""


def behind(standing: Standing) -> tuple[bool | None, str]:
    """Whether a server is behind a connection that stands and over which nothing comes, and how that is known.

    None: it may be a forwarder that took the connection.
    """
    if standing.here is False:
        return True, "its host takes connections"
    if not standing.alive:
        return None, f"connections are taken, and by whom is not known: {standing.why or 'no process of it is seen'}"
    if standing.stopped:
        return True, f"{standing.stopped} of its {standing.alive} processes here are stopped"
    return True, "its process is here"
