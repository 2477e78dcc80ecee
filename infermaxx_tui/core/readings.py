"""Metrics text -> typed readings: the names change between vLLM versions, and what is absent is not 0.

A page is filtered before it is parsed: a real one has a thousand lines of histograms, of which twenty say something.
"""

from __future__ import annotations

import math
import re
from typing import Final

import msgspec

from infermaxx_tui.core.events import MetricsRead

MAX_PAGE_BYTES: Final = 4 << 20
"""A larger page is refused: no vLLM writes one, and parsing it once a second would disturb what is measured."""
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "preemptions": ("vllm:num_preemptions_total",),
    "prefix_queries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefix_hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "generation_tokens": ("vllm:generation_tokens_total",),
    "drafts": ("vllm:spec_decode_num_drafts_total",),
    "draft_tokens": ("vllm:spec_decode_num_draft_tokens_total",),
    "accepted_tokens": ("vllm:spec_decode_num_accepted_tokens_total",),
    "corrupted": ("vllm:corrupted_requests_total",),
    "rejected": ("vllm:admission_rejections_total",),
    "process_start_s": ("process_start_time_seconds", "vllm:generation_tokens_created"),
}
"""Field -> names, the newest first (vllm-wire.md §4). Where a page has several, the newest alone counts.

Not every server exports when its process began; when its counters began says as well that it was restarted.
"""
_FIELD: Final = {name.encode(): (field, age) for field, names in _NAMES.items() for age, name in enumerate(names)}
_WANTED: Final = "|".join(
    sorted(
        (re.escape(name.removeprefix("vllm:")) for names in _NAMES.values() for name in names if name.startswith("v")),
        key=len,
        reverse=True,
    )
)
_BY_PLACE: Final = b"vllm:spec_decode_num_accepted_tokens_per_pos_total"
_WITH_LABELS: Final = f"request_success_total|{_BY_PLACE.decode().removeprefix('vllm:')}"
_SAMPLE: Final = re.compile(
    rf"\n((?:vllm:(?:{_WANTED}|{_WITH_LABELS}))|process_start_time_seconds)(?:\{{([^\n]*)\}})? (\S+)".encode()
)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_REASON: Final = re.compile(rb'finished_reason="(\w{1,32})"')
_PLACE: Final = re.compile(rb'\bposition="(\d{1,3})"')
_LARGEST: Final = frozenset({"kv_usage", "process_start_s"})


class CacheConfig(msgspec.Struct, frozen=True):
    """What the server says of its KV cache; None where the label is absent."""

    block_size: int | None
    pool_tokens: int | None
    cache_dtype: str | None
    prefix_caching: bool | None
    gpu_memory_utilization: float | None
    max_concurrency: float | None = None
    """Requests of the whole window that fit at once."""


def refusal(content_type: str | None, start: bytes, size: int) -> str | None:
    """Why an answer is not a page of metrics, None if it may be one. `start`: its first bytes."""
    head = start[:256].lstrip().lower()
    if (content_type or "").partition(";")[0].strip().lower() == "text/html" or head.startswith(
        (b"<!doctype", b"<html")
    ):
        return "/metrics answers with HTML: a proxy or another program is in the way"
    if size > MAX_PAGE_BYTES:
        return f"/metrics is larger than {MAX_PAGE_BYTES >> 20} MiB and was not read"
    return None


def parse_metrics(text: bytes, scrape_ms: float = 0.0) -> MetricsRead:
    """The server's counters, summed over engines; a share is the largest of them. Absent names stay None."""
    by_age: dict[tuple[str, int], float] = {}
    finished: dict[str, float] = {}
    by_place: dict[int, float] = {}
    for match in _SAMPLE.finditer(b"\n" + text):
        value = _finite(match[3])
        if value is None:
            continue
        key = _FIELD.get(match[1])
        if match[1] == _BY_PLACE:
            place = _PLACE.search(match[2] or b"")
            if place is not None:
                by_place[int(place[1])] = by_place.get(int(place[1]), 0.0) + value
        elif key is None:
            reason = _REASON.search(match[2] or b"")
            if reason is not None:
                name = reason[1].decode("ascii", "replace")
                finished[name] = finished.get(name, 0.0) + value
        elif key[0] in _LARGEST:
            by_age[key] = max(by_age.get(key, value), value)
        else:
            by_age[key] = by_age.get(key, 0.0) + value
    found: dict[str, float] = {}
    for (field, _), value in sorted(by_age.items(), key=lambda item: item[0]):
        found.setdefault(field, value)
    error = None if found or finished else "no vllm or process metrics in the answer"
    return MetricsRead(
        **found,
        finished=tuple(sorted(finished.items())),
        accepted_at=_in_order(by_place),
        scrape_ms=scrape_ms,
        error=error,
    )


def _in_order(by_place: dict[int, float]) -> tuple[float, ...]:
    """The counts of the places 0, 1, 2 …; nothing where one of them is missing, since then none is known."""
    known = tuple(by_place[place] for place in sorted(by_place))
    return known if len(known) - 1 == max(by_place, default=-1) else ()


def _finite(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def parse_cache_config(text: bytes) -> CacheConfig | None:
    """The labels of `vllm:cache_config_info`, None where the server has no such line."""
    start = text.find(b"vllm:cache_config_info{")
    if start < 0:
        return None
    end = text.find(b"\n", start)
    line = text[start : end if end >= 0 else len(text)].decode("utf-8", "replace")
    labels = dict(_LABEL.findall(line))
    blocks, block_size = _int(labels.get("num_gpu_blocks")), _int(labels.get("block_size"))
    pool = _int(labels.get("kv_cache_size_tokens"))
    if pool is None and blocks is not None and block_size is not None:
        pool = blocks * block_size
    caching = labels.get("enable_prefix_caching")
    return CacheConfig(
        block_size=block_size,
        pool_tokens=pool,
        cache_dtype=labels.get("cache_dtype"),
        prefix_caching=None if caching is None else caching == "True",
        gpu_memory_utilization=_float(labels.get("gpu_memory_utilization")),
        max_concurrency=_float(labels.get("kv_cache_max_concurrency")),
    )


def _int(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,15}", text, re.ASCII) else None


def _float(text: str | None) -> float | None:
    try:
        return None if text is None else _finite(text.encode("ascii"))
    except UnicodeEncodeError:
        return None
