"""This machine's processes: which are the server's, which exist at all, and whether this is Linux under Windows."""

from __future__ import annotations

import platform
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
import psutil

from infermaxx_tui.core.gpu_owner import ServerPids
from infermaxx_tui.core.standing import Standing

_FORWARDERS: Final = (
    "docker-proxy",
    "rootlessport",
    "slirp4netns",
    "ssh",
    "sshd",
    "autossh",
    "socat",
    "kubectl",
    "cloudflared",
    "traefik",
    "nginx",
    "haproxy",
    "caddy",
    "envoy",
)
"""Programs that listen for a server which is not among their children."""
_LIBRARIES: Final = (b"libcuda", b"nvidia", b"libamdhip", b"libhsa", b"/dev/dxg")
"""One of these is mapped by whatever computes on a GPU."""
_NAME: Final = 40
"""Longest name of a process that is kept."""


class Machine(msgspec.Struct, frozen=True):
    """What must be known of processes, as functions, so that a recording can be played on a machine without them."""

    exists: Callable[[int], bool]
    """Whether a number that a card's driver gives is a process here that may compute on it."""
    name: Callable[[int], str | None]
    wsl: bool = False


def this_machine() -> Machine:
    """The machine that this runs on."""
    return Machine(Computing(), _name, "microsoft" in platform.release().lower())


class Computing:
    """Whether a process exists here that has a GPU's library loaded, looked up once for each process.

    In a container the driver may give the host's numbers, and one of them may by chance be that of a process here.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, bool]] = {}

    def __call__(self, pid: int) -> bool:
        """What is known of it; a process that may not be looked into is taken at its number."""
        try:
            since = psutil.Process(pid).create_time()
        except psutil.Error:
            self._known.pop(pid, None)
            return False
        known = self._known.get(pid)
        if known is None or known[0] != since:
            known = self._known[pid] = since, _has_library(pid)
        return known[1]


def _has_library(pid: int) -> bool:
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return True
    return any(name in maps for name in _LIBRARIES)


def _name(pid: int) -> str | None:
    try:
        return psutil.Process(pid).name()[:_NAME]
    except psutil.Error:
        return None


def find_server(url: str | None, launched_pid: int | None) -> ServerPids:
    """The processes of the server: the one that this run started, or whoever listens on the URL's port here, each with
    its children. Without them `why` says what is in the way.
    """
    if launched_pid is not None:
        return ServerPids(True, frozenset(_family(launched_pid)))
    if url is None:
        return ServerPids(None, why="no server was named")
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    here = is_local(host)
    if here is None:
        return ServerPids(None, why=f"{host} has no address that can be found")
    if not here:
        return ServerPids(False, why=f"{host} is not this machine")
    return _listening(port)


def standing(url: str | None, launched_pid: int | None) -> Standing:
    """How the server's processes are at this moment, as far as this machine tells."""
    found = find_server(url, launched_pid)
    states = [state for pid in found.pids if (state := _state(pid)) not in (None, psutil.STATUS_ZOMBIE)]
    stopped = sum(state in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP) for state in states)
    return Standing(found.here, len(states), stopped, found.why)


def _state(pid: int) -> str | None:
    try:
        return psutil.Process(pid).status()
    except psutil.Error:
        return None


def is_local(host: str) -> bool | None:
    """Whether a host name is this machine; None if it has no address."""
    if not host:
        return None
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except OSError:
        return None
    own = {address.address.partition("%")[0] for card in psutil.net_if_addrs().values() for address in card}
    return any(address.startswith("127.") or address in ("::1", "0.0.0.0", "::") or address in own for address in found)


def _listening(port: int) -> ServerPids:
    try:
        listeners = [
            one
            for one in psutil.net_connections("tcp")
            if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port
        ]
    except psutil.Error:
        return ServerPids(True, why="this machine does not tell who listens on its ports")
    if not listeners:
        return ServerPids(True, why=f"nobody is seen to listen on port {port} here: the server is in a container")
    pids = {one.pid for one in listeners if one.pid}
    if not pids:
        return ServerPids(True, why=f"who listens on port {port} belongs to another user")
    names = {pid: _name(pid) or "" for pid in pids}
    proxies = [name for name in names.values() if name in _FORWARDERS]
    if len(proxies) == len(pids):
        return ServerPids(True, why=f"{proxies[0]} listens on port {port} for a server elsewhere")
    return ServerPids(True, frozenset(pid for one in pids for pid in _family(_root(one))))


def _root(pid: int) -> int:
    """The process that started this one as part of the same server, as far up as that goes."""
    try:
        process = psutil.Process(pid)
        while (above := process.parent()) is not None and above.pid > 1 and _serves(above):
            process = above
    except psutil.Error:
        return pid
    return process.pid


def _serves(process: psutil.Process) -> bool:
    words = process.cmdline()
    return any("vllm" in word.rpartition("/")[2].lower() for word in words[:4]) and "serve" in " ".join(words)


def _family(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    try:
        for child in psutil.Process(pid).children(recursive=True):
            yield child.pid
    except psutil.Error:
        return
