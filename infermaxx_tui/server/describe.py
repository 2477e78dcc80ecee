"""Asks a server what it is, before anything is sent to it: a number without its regime is not a number."""

from __future__ import annotations

import os

import httpx
import msgspec
import orjson

from infermaxx_tui.core.readings import CacheConfig, parse_cache_config

_SIM_SUFFIX = "infermaxxsim"


class ServerUnusableError(Exception):
    """One line for people: which server, what is wrong, what to do. Exit code 4."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log
        """The log of the server, if it was started here and left one."""


class ServerUnreachableError(ServerUnusableError):
    """Nothing answers at the URL."""


class ServerFacts(msgspec.Struct, frozen=True):
    """What the server said of itself; `missing` says why a field is None."""

    url: str
    model: str
    engine: str | None
    model_root: str | None
    max_model_len: int | None
    cache: CacheConfig | None
    simulated: bool
    missing: dict[str, str]


class _Card(msgspec.Struct):
    id: str
    root: str | None = None
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Card] = []


def normalise_url(url: str) -> str:
    """The server's root without `/v1` and without a slash at the end."""
    bare = url.strip().rstrip("/")
    if "://" not in bare:
        bare = f"http://{bare}"
    return bare.removesuffix("/v1").rstrip("/")


async def describe(client: httpx.AsyncClient, url: str, model: str) -> ServerFacts:
    """What answers at `url`. Raises ServerUnusableError if nothing does, or if `model` is not served there."""
    try:
        answer = await client.get("/v1/models", timeout=10.0)
    except httpx.TransportError as error:
        raise ServerUnreachableError(f"{url}: no answer ({_why(error)}); start the server or give --url URL") from None
    if answer.status_code == 401:
        raise ServerUnusableError(
            f"{url}: the server wants a key; put it into VLLM_API_KEY or name a variable with --api-key-env"
        )
    if answer.status_code != 200:
        raise ServerUnusableError(
            f"{url}: /v1/models answers {answer.status_code}; is this an OpenAI-compatible server?"
        )
    try:
        cards = msgspec.json.decode(answer.content, type=_Models).data
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ServerUnusableError(f"{url}: /v1/models is not the JSON of an OpenAI-compatible server") from None
    card = _choose(cards, model, url)
    missing: dict[str, str] = {}
    version = await _version(client)
    if version is None:
        missing["engine"] = "no /version: not a vLLM, or behind a proxy"
    cache = await _cache(client)
    if cache is None:
        missing["pool_tokens"] = "no vllm:cache_config_info in /metrics"
    if card.max_model_len is None:
        missing["max_model_len"] = "/v1/models does not say"
    return ServerFacts(
        url=url,
        model=card.id,
        engine=None if version is None else f"vllm {version}",
        model_root=card.root,
        max_model_len=card.max_model_len,
        cache=cache,
        simulated=version is not None and version.endswith(_SIM_SUFFIX),
        missing=missing,
    )


def _why(error: httpx.TransportError) -> str:
    """What the system says of the failure, else the error's name: the transport calls every failure a time-out."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return os.strerror(cause.errno).lower()
    return type(cause or error).__name__


def _choose(cards: list[_Card], model: str, url: str) -> _Card:
    names = ", ".join(card.id for card in cards) or "none"
    if model == "auto":
        if len(cards) != 1:
            raise ServerUnusableError(f"{url}: serves {len(cards)} models ({names}); name one with --model NAME")
        return cards[0]
    for card in cards:
        if card.id == model:
            return card
    raise ServerUnusableError(f"{url}: does not serve {model!r}; it serves {names}")


async def _version(client: httpx.AsyncClient) -> str | None:
    try:
        answer = await client.get("/version", timeout=10.0)
        said: object = orjson.loads(answer.content) if answer.status_code == 200 else None
    except (httpx.TransportError, orjson.JSONDecodeError):
        return None
    version = said.get("version") if isinstance(said, dict) else None
    return version if isinstance(version, str) else None


async def _cache(client: httpx.AsyncClient) -> CacheConfig | None:
    try:
        answer = await client.get("/metrics", timeout=10.0)
    except httpx.TransportError:
        return None
    return parse_cache_config(answer.content) if answer.status_code == 200 else None
