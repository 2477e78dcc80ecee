"""Metrics text -> typed readings: the names change between vLLM versions, and what is absent is not 0."""

from __future__ import annotations

import re

import msgspec

from infermaxx_tui.core.events import MetricsRead

_NAMES: dict[str, tuple[str, ...]] = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "preemptions": ("vllm:num_preemptions_total",),
    "prefix_queries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefix_hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "generation_tokens": ("vllm:generation_tokens_total",),
    "process_start_s": ("process_start_time_seconds",),
}
"""Field -> names, the newest first (vllm-wire.md §4)."""
_FIELD = {name: field for field, names in _NAMES.items() for name in names}
_SAMPLE = re.compile(rb"^([a-zA-Z_:][\w:]*)(?:\{[^\n]*\})? (\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_MEAN_NOT_SUM = frozenset({"kv_usage", "process_start_s"})


class CacheConfig(msgspec.Struct, frozen=True):
    """What the server says of its KV cache; None where the label is absent."""

    block_size: int | None
    pool_tokens: int | None
    cache_dtype: str | None
    prefix_caching: bool | None
    gpu_memory_utilization: float | None


def parse_metrics(text: bytes, scrape_ms: float = 0.0) -> MetricsRead:
    """The server's counters, summed over engines; a share is the largest of them. Absent names stay None."""
    found: dict[str, float] = {}
    for match in _SAMPLE.finditer(text):
        field = _FIELD.get(match[1].decode("ascii"))
        if field is None:
            continue
        try:
            value = float(match[2])
        except ValueError:
            continue
        if field in _MEAN_NOT_SUM:
            found[field] = max(found.get(field, value), value)
        else:
            found[field] = found.get(field, 0.0) + value
    error = None if found else "no vllm or process metrics in the answer"
    return MetricsRead(**found, scrape_ms=scrape_ms, error=error)


def parse_cache_config(text: bytes) -> CacheConfig | None:
    """The labels of `vllm:cache_config_info`, None where the server has no such line."""
    start = text.find(b"vllm:cache_config_info{")
    if start < 0:
        return None
    line = text[start : text.find(b"\n", start)].decode("utf-8", "replace")
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
    )


def _int(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d+", text) else None


def _float(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
