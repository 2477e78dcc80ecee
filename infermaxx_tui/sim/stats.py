"""The embedded server's own counters, and /metrics as vLLM 0.32 writes them, for all that a client reads there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infermaxx_tui.sim.config import SimConfig
from infermaxx_tui.sim.drafting import Drafted

if TYPE_CHECKING:
    from infermaxx_tui.sim.engine import Engine

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")


class Stats:
    """What a server process counts from its start on; a restart begins at 0."""

    def __init__(self, started_s: float) -> None:
        self.started_s = started_s
        """Unix time."""
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generation_tokens = 0
        self.finished = dict.fromkeys(FINISH_REASONS, 0)
        self.drafted = Drafted()


def metrics_text(engine: Engine) -> bytes:
    """The body of /metrics; names, labels and help as captured from vLLM 0.32.0."""
    stats, config = engine.stats, engine.config
    page = _Page(config.model, stats.started_s)
    page.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", engine.batch.running)
    page.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", engine.batch.waiting)
    page.labelled(
        "vllm:num_requests_waiting_by_reason",
        "gauge",
        "Number of waiting requests by reason.",
        "reason",
        {"capacity": engine.batch.waiting, "deferred": 0},
    )
    page.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", engine.batch.kv_usage)
    tokens = "in terms of number of queried tokens."
    page.counter("vllm:prefix_cache_queries", f"Prefix cache queries, {tokens}", stats.prefix_queries)
    page.counter("vllm:prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", stats.prefix_hits)
    page.counter("vllm:num_preemptions", "Cumulative number of preemption from the engine.", engine.batch.preemptions)
    page.counter("vllm:prompt_tokens", "Number of prefill tokens processed.", stats.prompt_tokens)
    page.labelled(
        "vllm:prompt_tokens_by_source_total",
        "counter",
        "Number of prompt tokens by source.",
        "source",
        {
            "local_compute": stats.prompt_tokens - stats.cached_tokens,
            "local_cache_hit": stats.cached_tokens,
            "external_kv_transfer": 0,
        },
    )
    page.counter("vllm:prompt_tokens_cached", "Number of cached prompt tokens (local + external).", stats.cached_tokens)
    page.counter("vllm:generation_tokens", "Number of generation tokens processed.", stats.generation_tokens)
    page.labelled(
        "vllm:request_success_total",
        "counter",
        "Count of successfully processed requests.",
        "finished_reason",
        stats.finished,
    )
    if engine.mischief.drafting:
        _speculation(page, stats.drafted)
    page.cache_config(config)
    page.process()
    return page.body()


def _speculation(page: _Page, seen: Drafted) -> None:
    """As vLLM exports them, only with speculation on."""
    page.counter("vllm:spec_decode_num_drafts", "Number of spec decoding drafts.", seen.drafts)
    page.counter("vllm:spec_decode_num_draft_tokens", "Number of draft tokens.", seen.draft_tokens)
    page.counter("vllm:spec_decode_num_accepted_tokens", "Number of accepted tokens.", seen.accepted_tokens)
    page.labelled(
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
        "counter",
        "Accepted tokens per draft position.",
        "position",
        {str(place): count for place, count in enumerate(seen.accepted_at)},
    )


def cache_labels(config: SimConfig) -> dict[str, str]:
    """Labels of `vllm:cache_config_info`, those of the captured file that mean something here."""
    return {
        "_block_size_resolved": "True",
        "block_size": str(config.block_size),
        "cache_dtype": "auto",
        "enable_prefix_caching": "True",
        "gpu_memory_utilization": "0.92",
        "kv_cache_dtype_skip_layers": "[]",
        "kv_cache_max_concurrency": str(config.pool_blocks * config.block_size / config.max_model_len),
        "kv_cache_memory_bytes": "None",
        "kv_cache_size_tokens": str(config.pool_blocks * config.block_size),
        "num_cpu_blocks": "None",
        "num_gpu_blocks": str(config.pool_blocks),
        "num_gpu_blocks_override": "None",
        "prefix_caching_hash_algo": "sha256",
        "sliding_window": "None",
    }


class _Page:
    def __init__(self, model: str, started_s: float) -> None:
        self._model = model
        self._started_s = started_s
        self._lines: list[str] = []

    def gauge(self, name: str, text: str, value: float) -> None:
        self._head(name, "gauge", text)
        self._sample(name, {}, value)

    def counter(self, name: str, text: str, value: float) -> None:
        """A counter and the gauge that says when it began."""
        self._head(f"{name}_total", "counter", text)
        self._sample(f"{name}_total", {}, value)
        self._head(f"{name}_created", "gauge", text)
        self._sample(f"{name}_created", {}, self._started_s)

    def labelled(self, name: str, kind: str, text: str, label: str, values: dict[str, int]) -> None:
        """One sample for each value of a label."""
        self._head(name, kind, text)
        for key, value in values.items():
            self._sample(name, {label: key}, value)

    def cache_config(self, config: SimConfig) -> None:
        """The line that says how large the KV pool is; it has no model_name."""
        self._head("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
        labels = ",".join(f'{key}="{value}"' for key, value in sorted((cache_labels(config) | {"engine": "0"}).items()))
        self._lines.append(f"vllm:cache_config_info{{{labels}}} 1.0")

    def process(self) -> None:
        """When the process began."""
        name = "process_start_time_seconds"
        self._head(name, "gauge", "Start time of the process since unix epoch in seconds.")
        self._lines.append(f"{name} {self._started_s!r}")

    def body(self) -> bytes:
        """The page."""
        return ("\n".join(self._lines) + "\n").encode()

    def _head(self, name: str, kind: str, text: str) -> None:
        self._lines += (f"# HELP {name} {text}", f"# TYPE {name} {kind}")

    def _sample(self, name: str, labels: dict[str, str], value: float) -> None:
        pairs = {"engine": "0", "model_name": self._model} | labels
        shown = ",".join(f'{key}="{pairs[key]}"' for key in sorted(pairs))
        self._lines.append(f"{name}{{{shown}}} {float(value)!r}")
