"""The start-up and stats lines of vLLM 0.32, so that whoever reads a server's log reads this one too.

The figures are this server's own; the version and the architecture say that it simulates.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from infermaxx_tui.sim.config import ENGINE_VERSION, SimConfig
from infermaxx_tui.sim.drafting import DRAFT_TOKENS, Drafted
from infermaxx_tui.sim.engine import Engine


class LaunchLog:
    """Writes lines in vLLM's shape; one process plays both of its processes."""

    def __init__(self, out: TextIO, pid: int, wall: Callable[[], float]) -> None:
        self._out = out
        self._pid = pid
        self._wall = wall
        self._prompt_tokens = 0
        self._generation_tokens = 0
        self._idle = 0
        self._drafts = (0,) * (1 + DRAFT_TOKENS)

    def line(self, message: str, source: str, process: str = "APIServer", level: str = "INFO") -> None:
        """One line of the log."""
        stamp = time.strftime("%m-%d %H:%M:%S", time.gmtime(self._wall()))
        self._out.write(f"({process} pid={self._pid}) {level} {stamp} [{source}] {message}\n")
        self._out.flush()

    def starting(self, config: SimConfig, port: int) -> None:
        """What is said before the port listens."""
        window, seqs = config.max_model_len, config.max_num_seqs
        given = {
            "host": "127.0.0.1",
            "port": port,
            "model": config.model,
            "max_model_len": window,
            "max_num_seqs": seqs,
        }
        if config.api_key is not None:
            given["api_key"] = "***"
        self.line(f" █ ▀▄▀ █  version {ENGINE_VERSION}", "api_utils.py:347")
        self.line(f"       model   {config.model}", "api_utils.py:347")
        self.line(f"non-default args: {given}", "api_utils.py:286")
        self.line("Resolved architecture: SimulatedForCausalLM", "model.py:733")
        self.line(f"Using max model len {window}", "model.py:2152")
        drafting = "drafting" in config.faults
        guesses = f"SpeculativeConfig(method='ngram', model=None, num_spec_tokens={DRAFT_TOKENS})" if drafting else None
        settings = (
            f"model={config.model!r}, speculative_config={guesses}, dtype=torch.float32, max_seq_len={window},"
            " load_format=auto, tensor_parallel_size=1, quantization=None, enforce_eager=True, kv_cache_dtype=auto,"
            " enable_prefix_caching=True, enable_chunked_prefill=True"
        )
        self.line(
            f"Initializing a V1 LLM engine (v{ENGINE_VERSION}) with config: {settings}", "core.py:133", "EngineCore"
        )
        self.line("Loading weights took 0.00 seconds", "default_loader.py:501", "EngineCore")
        pool = config.pool_blocks * config.block_size
        fits = f"Maximum concurrency for {window:,} tokens per request: {pool / window:.2f}x"
        self.line(f"CPU KV cache size: {pool:,} tokens, {fits}", "kv_cache_utils.py:2327", "EngineCore")
        warm = "init engine (profile, create kv cache, warmup model) took 0.00 s"
        self.line(warm, "core.py:402", "EngineCore")

    def listening(self, url: str) -> None:
        """What is said once requests are answered."""
        self.line(f"Starting vLLM server on {url}", "entry.py:140")
        self._out.write(f"INFO:     Started server process [{self._pid}]\n")
        self._out.write("INFO:     Waiting for application startup.\nINFO:     Application startup complete.\n")
        self._out.flush()

    def stats(self, engine: Engine, seconds: float) -> None:
        """The line of the last `seconds`; silent from the third idle one on."""
        stats, batch = engine.stats, engine.batch
        prompt = max(0, stats.prompt_tokens - self._prompt_tokens) / seconds
        generated = max(0, stats.generation_tokens - self._generation_tokens) / seconds
        self._prompt_tokens, self._generation_tokens = stats.prompt_tokens, stats.generation_tokens
        self._idle = 0 if prompt or generated or batch.running else self._idle + 1
        if self._idle > 2:
            return
        rate = 100 * stats.prefix_hits / stats.prefix_queries if stats.prefix_queries else 0.0
        self.line(
            f"Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: {generated:.1f}"
            f" tokens/s, Running: {batch.running} reqs, Waiting: {batch.waiting} reqs, CPU KV cache usage:"
            f" {100 * batch.kv_usage:.1f}%, Prefix cache hit rate: {rate:.1f}%",
            "loggers.py:335",
        )
        self._drafted(stats.drafted, seconds)

    def _drafted(self, seen: Drafted, seconds: float) -> None:
        """The line about the drafts of the last `seconds`; none where nothing was drafted."""
        now = (seen.drafts, *seen.accepted_at)
        drafts, *at = (new - old for new, old in zip(now, self._drafts, strict=True))
        self._drafts = now
        if drafts <= 0:
            return
        accepted, drafted = sum(at), DRAFT_TOKENS * drafts
        rates = ", ".join(f"{count / drafts:.3f}" for count in at)
        self.line(
            f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / drafts:.2f}, Accepted throughput:"
            f" {accepted / seconds:.2f} tokens/s, Drafted throughput: {drafted / seconds:.2f} tokens/s, Accepted:"
            f" {accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, Avg Draft"
            f" acceptance rate: {100 * accepted / drafted:.1f}%",
            "metrics.py:120",
        )

    def stopping(self) -> None:
        """What is said on the way out in good order."""
        self.line("[shutdown] API server: shutdown triggered", "launcher.py:190")
        self._out.write(f"INFO:     Shutting down\nINFO:     Finished server process [{self._pid}]\n")
        self._out.flush()

    def died(self) -> None:
        """What is said when a scripted fault kills the engine."""
        self.line("EngineCore encountered a fatal error.", "core.py:1190", "EngineCore", "ERROR")
        dead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
        self.line(f"{dead} See stack trace (above) for the root cause.", "async_llm.py:700", level="ERROR")
