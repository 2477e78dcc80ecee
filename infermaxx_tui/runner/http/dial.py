"""Connecting: to whichever of a host's addresses answers first, without asking for the addresses each time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Sequence
from typing import Final

_HEAD_START_S: Final = 0.25
"""How long an address is tried alone before the next one is tried beside it (RFC 8305 §5)."""
_KNOWN_S: Final = 10.0
"""How long a host's addresses are taken to stay what they are."""

_Where = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
Address = tuple[int, int, int, _Where]
"""Family, type, protocol and socket address."""


class Resolver:
    """The addresses of hosts."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[float, list[Address]]] = {}

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Where `host` may be. Raises socket.gaierror. An address in digits is not looked up."""
        with contextlib.suppress(socket.gaierror):
            return _bare(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
        until_s, known = self._known.get((host, port), (0.0, []))
        if time.monotonic() > until_s:
            loop = asyncio.get_running_loop()
            known = _bare(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            self._known[host, port] = time.monotonic() + _KNOWN_S, known
        return known


def _bare(found: Sequence[tuple[int, int, int, str, _Where]]) -> list[Address]:
    return [(family, kind, protocol, address) for family, kind, protocol, _, address in found]


async def connected(addresses: Sequence[Address]) -> socket.socket:
    """A socket that is connected to one of `addresses`.

    Raises the OSError of an address that refused, if one did, else of the last: that a machine has no IPv6 says
    nothing about a server that listens on IPv4.
    """
    waiting, trying = list(addresses), set[asyncio.Task[socket.socket]]()
    errors: list[BaseException] = []
    try:
        while waiting or trying:
            if waiting:
                trying.add(asyncio.create_task(_connected(waiting.pop(0))))
            head_start_s = _HEAD_START_S if waiting else None
            done, _ = await asyncio.wait(trying, timeout=head_start_s, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is None:
                    trying.discard(task)
                    return task.result()
                trying.discard(task)
                errors.append(error)
    finally:
        for task in trying:
            task.add_done_callback(_close)
            task.cancel()
    refused = [error for error in errors if isinstance(error, ConnectionRefusedError)]
    raise (refused or errors)[-1]


async def _connected(address: Address) -> socket.socket:
    family, kind, protocol, where = address
    with contextlib.ExitStack() as undo:
        made = undo.enter_context(socket.socket(family, kind, protocol))
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, where)
        undo.pop_all()
    return made


def _close(task: asyncio.Task[socket.socket]) -> None:
    """Gives back the socket of an attempt that another one overtook."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()
