"""The HTTP client: httpx's API on aiohttp's transport, which costs a third of httpx's own per event."""

from __future__ import annotations

import errno

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

KEEPALIVE_S = 4.0
"""Below vLLM's 5 s, so that a connection is never used again that the server is closing (peers.md §4 E50)."""
READ_BUFFER_BYTES = 1 << 20
"""aiohttp's 64 KiB throttles long prompts' first chunks (peers.md §4 C25)."""


def make_client(base_url: str, api_key: str | None, transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """A client without limits, retries, redirects, proxies from the environment or read timeouts of its own."""
    headers = {"accept-encoding": "identity", "accept": "text/event-stream, application/json"}
    if api_key:
        headers["authorization"] = f"Bearer {api_key}"
    return httpx.AsyncClient(
        base_url=base_url,
        headers=headers,
        transport=transport or AiohttpTransport(client=_session),
        timeout=httpx.Timeout(None, connect=10.0),
        follow_redirects=False,
        trust_env=False,
    )


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=READ_BUFFER_BYTES,
        auto_decompress=False,
        trust_env=False,
    )


def describe(error: httpx.TransportError, answered: bool) -> tuple[str, str]:
    """The outcome that a transport error means, and one line about it.

    httpx-aiohttp turns a dropped connection into ConnectTimeout, so the cause decides, not the type.
    """
    cause = error.__cause__
    text = f"{type(cause or error).__name__}: {cause or error}"[:300]
    if answered:
        return "truncated", text
    if isinstance(cause, aiohttp.ClientConnectorError) or (cause is None and isinstance(error, httpx.ConnectError)):
        return "refused_connection", text
    if isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED:
        return "refused_connection", text
    if isinstance(error, httpx.TimeoutException) and not isinstance(cause, aiohttp.ClientConnectionError):
        return "timeout", text
    if isinstance(cause, aiohttp.ServerTimeoutError):
        return "timeout", text
    return "truncated", text
