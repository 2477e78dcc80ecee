"""A server that is named: what it answers, what its log and its checkpoint say, and which gates can be looked at."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import anyio
import httpx
import msgspec

from infermaxx_tui.checkpoint import find_checkpoint, fingerprint
from infermaxx_tui.core import gates
from infermaxx_tui.core.checkup import Item
from infermaxx_tui.core.events import MetricsRead
from infermaxx_tui.core.gpu import GpuProbe
from infermaxx_tui.core.gpu_summary import GpuSummary
from infermaxx_tui.core.readings import parse_metrics, refusal
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.scenario import Scenario
from infermaxx_tui.core.startup_log import StartupFacts
from infermaxx_tui.core.startup_traps import weight_block_trap
from infermaxx_tui.regimes import is_local
from infermaxx_tui.runner.client import TRANSPORT_ERRORS, make_client
from infermaxx_tui.server.describe import ServerFacts, ServerUnusableError, describe, normalise_url
from infermaxx_tui.server.startup import read_startup
from infermaxx_tui.traps import tuned_devices

_SECTION: Final = "server"
_LOG_SECTION: Final = "start-up log"
_FIELDS: Final = tuple(name for name in MetricsRead.__struct_fields__ if name not in ("scrape_ms", "parse_ms", "error"))
_OPTIONAL: Final = frozenset({"drafts", "draft_tokens", "accepted_tokens", "corrupted", "rejected"})
"""Counters that a healthy server has only with a draft model, with a setting, or in a newer version."""
_TIMEOUT_S: Final = 10.0
_KEY_IN_ERROR: Final = re.compile(r"Bearer \S+")
_SPARE_TOKENS: Final = 2048


class Examined(msgspec.Struct, frozen=True):
    """What was seen of a server."""

    url: str
    usable: bool
    items: list[Item]
    fits: tuple[tuple[str, int], ...] = ()
    """Keys of a scenario and the values that this server needs."""


def examine_server(url: str, model: str, log: str | None, api_key: str | None, probe: GpuProbe) -> Examined:
    """Asks it for nothing that costs a token."""
    return anyio.run(_examine, normalise_url(url), model, log, api_key, probe)


async def _examine(url: str, model: str, log: str | None, api_key: str | None, probe: GpuProbe) -> Examined:
    async with make_client(url, api_key) as client:
        try:
            facts = await describe(client, url, model)
        except ServerUnusableError as error:
            said = _KEY_IN_ERROR.sub("Bearer ***", str(error))
            return Examined(url, False, [Item(_SECTION, "URL", "bad", said, _not_up(log)), *read_log(log)])
        metrics = await _metrics(client)
        health = await _status(client, "/health")
        tokenize = await _status(client, "/tokenize")
    items = [*_facts(facts), _health(health), _tokenize(tokenize), *_counters(metrics)]
    items += [*_log(log, facts), *_files(facts, probe), *_gates(probe)]
    return Examined(url, True, items, _fits(facts))


def _not_up(log: str | None) -> str | None:
    """Why it did not come up, if its log is at hand."""
    if log is None:
        return "its start-up log says why: infermaxx doctor --url URL --log FILE"
    read = read_startup(Path(log), "file")
    if read.facts is None:
        return read.reason
    return read.facts.failure or f"its log shows no failure; the last stage is: {read.facts.stage}"


async def _metrics(client: httpx.AsyncClient) -> MetricsRead:
    try:
        answer = await client.get("/metrics", timeout=_TIMEOUT_S)
    except TRANSPORT_ERRORS as error:
        return MetricsRead(error=f"{type(error).__name__}")
    if answer.status_code != 200:
        return MetricsRead(error=f"/metrics answers {answer.status_code}")
    page = answer.content
    reason = refusal(answer.headers.get("content-type"), page[:256], len(page))
    return MetricsRead(error=reason) if reason is not None else parse_metrics(page)


async def _status(client: httpx.AsyncClient, path: str) -> int | None:
    try:
        return (await client.get(path, timeout=_TIMEOUT_S)).status_code
    except TRANSPORT_ERRORS:
        return None


def _facts(facts: ServerFacts) -> Iterator[Item]:
    where = "on this machine" if is_local(facts.url) else "not on this machine: its cards are not the local ones"
    yield Item(_SECTION, "URL", "ok", f"{facts.url}, {where}")
    said = facts.engine or facts.missing.get("engine", "not known")
    yield Item(_SECTION, "engine", "ok" if facts.engine else "unknown", said)
    if facts.simulated:
        yield Item(_SECTION, "simulated", "warn", "this server is simulated: nothing here is about a real engine")
    root = "" if facts.model_root in (None, facts.model) else f", loaded from {facts.model_root}"
    yield Item(_SECTION, "model", "ok", f"{facts.model}{root}")
    window = facts.max_model_len
    yield Item(
        _SECTION,
        "window",
        "unknown" if window is None else "ok",
        facts.missing.get("max_model_len", "not known") if window is None else f"{window} tokens",
    )
    cache = facts.cache
    if cache is None or cache.pool_tokens is None:
        yield Item(_SECTION, "KV pool", "unknown", facts.missing.get("pool_tokens", "the server does not say"))
        return
    block = "" if cache.block_size is None else f" in blocks of {cache.block_size}"
    fits = "" if cache.max_concurrency is None else f", {cache.max_concurrency:.4g} windows at once"
    yield Item(_SECTION, "KV pool", "ok", f"{cache.pool_tokens} tokens{block}{fits}, dtype {cache.cache_dtype or '?'}")
    caching = cache.prefix_caching
    advice = None if caching is not False else "agent sessions repeat their prompts: serve with --enable-prefix-caching"
    state = {True: "on", False: "off", None: "not said"}[caching]
    yield Item(_SECTION, "prefix cache", "ok" if caching else "unknown" if caching is None else "warn", state, advice)


def _health(status: int | None) -> Item:
    if status == 200:
        return Item(_SECTION, "/health", "ok", "answers")
    said = "no answer" if status is None else f"answers {status}"
    return Item(_SECTION, "/health", "warn", said, "after a fault it cannot be told whether the server is still there")


def _tokenize(status: int | None) -> Item:
    """A GET is answered with 405 where the path exists."""
    if status in (200, 400, 405, 422):
        return Item(_SECTION, "/tokenize", "ok", "is there: tokenizers can be compared")
    said = "no answer" if status is None else f"answers {status}"
    return Item(_SECTION, "/tokenize", "note", said, "name a tokenizer: --set transcripts.tokenizer=DIR")


def _counters(metrics: MetricsRead) -> Iterator[Item]:
    if metrics.error is not None:
        advice = "load, preemptions, foreign traffic and token counts will not be known"
        yield Item(_SECTION, "/metrics", "warn", metrics.error, advice)
        return
    there = [name for name in _FIELDS if getattr(metrics, name) not in (None, ())]
    absent = [name for name in _FIELDS if name not in there and name not in _OPTIONAL]
    yield Item(_SECTION, "counters", "ok", ", ".join(there))
    if absent:
        yield Item(_SECTION, "counters absent", "unknown", ", ".join(absent))
    busy = (metrics.running or 0) + (metrics.waiting or 0)
    if busy:
        said = f"{metrics.running or 0:g} running, {metrics.waiting or 0:g} waiting"
        yield Item(_SECTION, "in use", "warn", said, "somebody else uses it: a run now would be tainted")


def _log(log: str | None, facts: ServerFacts) -> Iterator[Item]:
    if log is None:
        yield Item(_LOG_SECTION, "log", "note", "none was named", "infermaxx doctor --url URL --log FILE")
    yield from read_log(log, facts.engine)


def read_log(log: str | None, engine: str | None = None) -> Iterator[Item]:
    """What a start-up log says, also of a server that is not up; nothing without a log.

    `engine` is what the server calls itself, where one answers.
    """
    if log is None:
        return
    startup = read_startup(Path(log), "file")
    said = startup.facts
    if said is None:
        yield Item(_LOG_SECTION, "log", "bad", startup.reason or "not read")
        return
    if said.version is not None and engine not in (None, f"vllm {said.version}"):
        yield Item(_LOG_SECTION, "log", "warn", f"it is of vllm {said.version}, and the server is {engine}")
    yield from log_items(said, _LOG_SECTION)


def log_items(said: StartupFacts, section: str) -> Iterator[Item]:
    """Each fact of a start-up log, and its traps."""
    for name in said.__struct_fields__:
        value = getattr(said, name)
        if name in ("args", "traps", "ready", "stage", "failure") or value is None:
            continue
        yield Item(section, name, "ok", f"{value}")
    if said.args:
        yield Item(section, "arguments", "ok", ", ".join(f"{key}={value}" for key, value in said.args))
    for trap in said.traps:
        yield Item(section, f"trap {trap.name}", "bad" if trap.fatal else "warn", trap.detail, trap.advice)
    if not said.ready:
        yield Item(section, "start", "bad", said.failure or f"not up; the last stage is: {said.stage}")


def _files(facts: ServerFacts, probe: GpuProbe) -> Iterator[Item]:
    section = "checkpoint"
    if facts.simulated or not is_local(facts.url):
        return
    folder = find_checkpoint(facts.model_root)
    if folder is None:
        yield Item(section, "files", "unknown", "the server names no folder that is seen from here")
        return
    try:
        found = fingerprint(folder)
    except OSError as error:
        yield Item(section, "files", "unknown", f"{error.filename}: {error.strerror}")
        return
    yield Item(section, "files", "ok", f"{found.files} files, {found.total_bytes} bytes, sha256 {found.sha256[:16]}")
    devices = [card.name for card in probe.of_server] or [card.name for card in probe.cards]
    python = shutil.which("vllm")
    tuned = None if python is None else tuned_devices(Path(python).resolve())
    trap = weight_block_trap(found.config, devices[0] if devices else None, tuned)
    if trap is not None:
        yield Item(section, f"trap {trap.name}", "warn", trap.detail, trap.advice)


def _gates(probe: GpuProbe) -> Iterator[Item]:
    """Those that can be looked at without a scenario; the others are named with the key that asks for them."""
    scenario = Scenario(name="doctor")
    found = gates.before(scenario, 1, Regime(), GpuSummary(probes=(probe,)))
    for gate in found:
        yield Item("gates", gate.name, "ok" if gate.outcome == "pass" else "warn", gate.said, gate.advice)
    missing = [name for name in gates.asked(scenario) if name not in {gate.name for gate in found}]
    yield Item("gates", "not looked at", "note", ", ".join(missing), "a [gates] table in a scenario asks for them")


def _fits(facts: ServerFacts) -> tuple[tuple[str, int], ...]:
    """What the scenario for a first look needs to fit a small window."""
    window = facts.max_model_len
    if window is None or window >= 16_384:
        return ()
    return (
        ("sessions.target_depth", max(window // 2, 64)),
        ("canaries.max_tokens", max(window // 8, 16)),
        ("reply.max_tokens", max(window // 16, 16)),
    )
