"""The HTTP client: httpx's API on a transport of our own, and what its errors mean for a request."""

from __future__ import annotations

import errno
import socket
import ssl
from typing import Final

import httpx

from infermaxx_tui.core.events import Outcome
from infermaxx_tui.core.wire_odd import one_line
from infermaxx_tui.runner.http.connection import NotHttpError
from infermaxx_tui.runner.http.transport import Transport

CONNECT_S: Final = 10.0
TRANSPORT_ERRORS: Final = (httpx.RequestError, OSError)
"""What a broken connection may raise."""

_OURS: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM, errno.EACCES, errno.EPERM}
)
"""What this machine refused to itself: no sockets, files, ports or memory left, or a firewall of its own."""
_NO_ERRNO: Final = (ssl.SSLError, socket.gaierror)
"""Errors whose numbers are of a count of their own."""
_UNREACHED: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.ETIMEDOUT})


def make_client(
    base_url: str,
    api_key: str | None,
    transport: httpx.AsyncBaseTransport | None = None,
    connect_s: float = CONNECT_S,
) -> httpx.AsyncClient:
    """A client without limits, retries, redirects, proxies from the environment or read timeouts of its own.

    Each request has a connection of its own. A server closes idle ones (vLLM after 5 s) at a moment that a starved
    machine moves about, and a request that met such an end could not be told from a server that hung up: with nothing
    reused there is no such doubt, at the price of one connect in each TTFT.
    """
    headers = {"accept-encoding": "identity", "accept": "text/event-stream, application/json"}
    if api_key:
        headers["authorization"] = f"Bearer {api_key}"
    return httpx.AsyncClient(
        base_url=base_url,
        headers=headers,
        transport=transport or Transport(),
        timeout=httpx.Timeout(None, connect=connect_s),
        follow_redirects=False,
        trust_env=False,
    )


def describe(error: Exception, answered: bool) -> tuple[Outcome, str]:
    """The outcome that one of TRANSPORT_ERRORS means, and one line about it.

    The cause decides before the type, because it is what the system said. `answered`: the head of a response had come.
    """
    cause = error.__cause__ or error
    text = one_line(f"{type(cause).__name__}: {cause}")
    if answered:
        return "truncated", text
    if isinstance(error, NotHttpError):
        return "protocol", f"the answer is not HTTP: {text}"
    number = cause.errno if isinstance(cause, OSError) and not isinstance(cause, _NO_ERRNO) else None
    if number in _OURS:
        return "cancelled", f"this machine could not send it: {text}"
    if number == errno.ECONNREFUSED or type(cause) is httpx.ConnectError:
        return "refused_connection", text
    if _timed_out(cause) or number in _UNREACHED or isinstance(cause, socket.gaierror):
        return "timeout", text
    return "truncated", f"the connection ended before an answer came: {text}"


def _timed_out(cause: BaseException) -> bool:
    """Whether a wait of ours ran out."""
    return isinstance(cause, (TimeoutError, httpx.TimeoutException))
