"""Which cards the server under test computes on. A card that is not known to be its own enters no verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.gpu import GpuCard, GpuProcess

HELD_MIB: Final = 1024.0
"""More VRAM than a display or an idle driver holds: somebody computes on the card."""


class ServerPids(msgspec.Struct, frozen=True):
    """What is known of the processes of the server under test."""

    here: bool | None
    """Whether the server is on this machine; None if that could not be found out."""
    pids: frozenset[int] = frozenset()
    why: str = ""
    """Why there are no pids, for people."""


class Seen(msgspec.Struct, frozen=True):
    """What a card says of the processes on it, and which of those numbers are processes that exist here."""

    processes: tuple[GpuProcess, ...] | None
    why_none: str = ""
    visible: frozenset[int] = frozenset()


def claim(card: GpuCard, seen: Seen, used_mib: float | None, cards: int, server: ServerPids) -> GpuCard:
    """The card with its processes and whether it is the server's, with the reason.

    `cards` is how many there are in this machine: where processes are hidden, the only card on which memory is held is
    taken to be the server's, and the reason says that it was inferred.
    """
    own, why = _judged(seen, used_mib, cards, server)
    processes = None if seen.processes is None else marked(seen.processes, seen.visible, server, own)
    return msgspec.structs.replace(card, server=own, server_why=why, processes=processes)


def marked(
    processes: Sequence[GpuProcess], visible: frozenset[int], server: ServerPids, own: bool | None
) -> tuple[GpuProcess, ...]:
    """Each process with whether it is the server's; on a card that was only inferred, nothing is known of it."""
    told = bool(server.pids) and any(process.pid in server.pids for process in processes)

    def whose(process: GpuProcess) -> bool | None:
        if process.pid in server.pids:
            return True
        known = process.pid in visible and (told or own is False)
        return False if known else None

    return tuple(msgspec.structs.replace(process, server=whose(process)) for process in processes)


def _judged(seen: Seen, used_mib: float | None, cards: int, server: ServerPids) -> tuple[bool | None, str]:
    if server.here is False:
        return False, f"a local card, and the server is elsewhere: {server.why}"
    if server.here is None or not server.pids:
        return None, server.why or "the server's processes are not known"
    on_it = {process.pid for process in seen.processes or ()}
    if own := on_it & server.pids:
        return True, f"process {min(own)} of the server computes on it"
    held = used_mib is not None and used_mib >= HELD_MIB
    strange = bool(on_it) and not on_it & seen.visible
    hidden = seen.processes is None or strange or (not on_it and held)
    if not hidden:
        return False, "none of the server's processes computes on it"
    how = "its process numbers are not of this PID namespace (a container)" if strange else "its processes are hidden"
    if seen.why_none:
        how = f"its processes: {seen.why_none}"
    if cards == 1 and held:
        return True, f"inferred: the only card here, memory is held on it, and {how}"
    return None, how


def named(card: GpuCard, wanted: Sequence[str]) -> GpuCard:
    """The card with the user's own word on whether it is the server's: by UUID, its beginning, or number."""
    hit = any(name == str(card.gpu) or (name and (card.uuid or "").startswith(name)) for name in wanted)
    why = "named in sensors.server_gpus" if hit else "not among sensors.server_gpus"
    return msgspec.structs.replace(card, server=hit, server_why=why)
