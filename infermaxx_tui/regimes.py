"""Puts a run's regime together from what the server answers, what its log says, what lies on disk, and the scenario.

Where two of them speak, the one that is nearer to the engine stands: its log before its labels.
"""

from __future__ import annotations

import hashlib
import ipaddress
import platform
import socket
from typing import Final
from urllib.parse import urlsplit

import msgspec

import infermaxx_tui
from infermaxx_tui.checkpoint import Checkpoint, find_checkpoint, fingerprint
from infermaxx_tui.core.events import StartupRead
from infermaxx_tui.core.plan import Plan
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.replaying import replayed
from infermaxx_tui.core.startup_log import StartupFacts
from infermaxx_tui.server.describe import ServerFacts
from infermaxx_tui.wish import Loaded


class Sent(msgspec.Struct, frozen=True):
    """How prompts are made, and what is to be remarked about that."""

    renderer: Renderer | None
    planned: Plan
    tokenizer_remark: str | None
    ids_remark: str | None


def is_local(url: str) -> bool:
    """Whether a URL names this machine: by a loopback address, or by its own name."""
    host = (urlsplit(url).hostname or "").lower()
    if host in ("localhost", socket.gethostname().lower()):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def regime_of(loaded: Loaded, facts: ServerFacts, sent: Sent, startup: StartupRead | None) -> Regime:
    """What the run runs on; a field that is None has its reason in `missing`."""
    scenario, renderer = loaded.scenario, sent.renderer
    missing = dict(facts.missing)
    local = is_local(facts.url)
    said = _said(startup, facts, missing)
    checkpoint = _checkpoint(facts, local, missing)
    if sent.ids_remark is not None:
        missing["reply_token_ids"] = sent.ids_remark
    if sent.tokenizer_remark is not None:
        missing["tokenizer" if renderer is None else "tokenizer_agreement"] = sent.tokenizer_remark
    chat_live = scenario.sessions.prompt == "chat" and scenario.sessions.replies == "live"
    texts = hashlib.sha256()
    for session in loaded.transcripts:
        texts.update(msgspec.json.encode(session))
    regime = Regime(
        simulated=facts.simulated,
        engine=facts.engine or (f"vllm {said.version}" if said.version else None),
        model=facts.model,
        model_root=facts.model_root,
        checkpoint_sha256=checkpoint.sha256 if checkpoint else None,
        checkpoint_files=checkpoint.files if checkpoint else None,
        checkpoint_bytes=checkpoint.total_bytes if checkpoint else None,
        prompt_mode=scenario.sessions.prompt,
        **msgspec.structs.asdict(replayed(scenario, loaded.transcripts, sent.planned)),
        tool_results="as_user" if chat_live else "template",
        tokenizer=renderer.name if renderer else None,
        tokenizer_sha256=renderer.sha256 if renderer else None,
        template_sha256=renderer.template_sha256 if renderer else None,
        transcripts_sha256=texts.hexdigest(),
        temperature=scenario.reply.temperature,
        reply_max_tokens=scenario.reply.max_tokens,
        recall_max_tokens=scenario.canaries.max_tokens,
        concurrency_requested=sent.planned.at_once,
        target_depth=scenario.sessions.target_depth,
        client=f"infermaxx {infermaxx_tui.__version__}",
        host=f"{socket.gethostname()} {platform.system()} {platform.machine()}",
        server_local=local,
    )
    regime = _shaped(regime, facts, said)
    kept = {name: why for name, why in missing.items() if getattr(regime, name, None) is None}
    return msgspec.structs.replace(regime, missing=kept)


def _shaped(regime: Regime, facts: ServerFacts, said: StartupFacts) -> Regime:
    """With the engine's shape: what its log says, else what its labels say."""
    cache = facts.cache
    pool, shape = said.pool_tokens, said.pool_shape
    if pool is None and cache is not None and cache.pool_tokens is not None:
        pool, shape = cache.pool_tokens, _shape_of_labels(facts)
    return msgspec.structs.replace(
        regime,
        architecture=said.architecture,
        max_model_len=facts.max_model_len or said.max_model_len,
        pool_tokens=pool,
        pool_shape=shape,
        block_size=cache.block_size if cache else None,
        kv_cache_dtype=said.kv_cache_dtype or (cache.cache_dtype if cache else None),
        kv_cache_stored=said.kv_stored or _named_dtype(cache.cache_dtype if cache else None),
        load_format=said.load_format,
        server_args=_other_args(said),
        prefix_caching=cache.prefix_caching if cache else said.prefix_caching,
        gpu_memory_utilization=_first(
            said.gpu_memory_utilization, cache.gpu_memory_utilization if cache is not None else None
        ),
        max_concurrency=_first(cache.max_concurrency if cache is not None else None, said.max_concurrency),
        dtype=said.dtype,
        quantization=said.quantization,
        attention_backend=said.attention_backend,
        speculative=said.speculative,
        tensor_parallel=said.tensor_parallel,
        enforce_eager=said.enforce_eager,
        chunked_prefill=said.chunked_prefill,
        max_num_seqs=said.max_num_seqs,
        max_batched_tokens=said.max_batched_tokens,
        model_gib=said.model_gib,
        kv_gib=said.kv_gib,
    )


_HELD: Final = frozenset(
    {
        "api_key",
        "attention_backend",
        "block_size",
        "disable_log_stats",
        "dtype",
        "enable_chunked_prefill",
        "enable_log_requests",
        "enable_prefix_caching",
        "enforce_eager",
        "gpu_memory_utilization",
        "host",
        "kv_cache_dtype",
        "load_format",
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "model",
        "model_tag",
        "port",
        "quantization",
        "served_model_name",
        "speculative_config",
        "tensor_parallel_size",
        "tokenizer",
        "uds",
        "uvicorn_log_level",
    }
)
"""Arguments that another field of the regime says, or that say where a server listens and what it prints."""


def _other_args(said: StartupFacts) -> str | None:
    """A flag that nobody here knows may be the lever that was moved."""
    if not said.args:
        return None
    others = sorted(f"{name}={value}" for name, value in said.args if name not in _HELD)
    return ", ".join(others) or "none"


def _named_dtype(cache_dtype: str | None) -> str | None:
    """The cache's type where one was asked for by name."""
    return None if cache_dtype == "auto" else cache_dtype


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _shape_of_labels(facts: ServerFacts) -> str:
    cache = facts.cache
    use = cache.gpu_memory_utilization if cache else None
    return (
        f"{facts.engine or 'engine unknown'}, max_model_len {facts.max_model_len or 'unknown'}, max_num_seqs unknown,"
        f" utilisation {use if use is not None else 'unknown'}, kv {cache.cache_dtype if cache else 'unknown'}"
    )


_FROM_LOG = (
    "architecture",
    "attention_backend",
    "chunked_prefill",
    "dtype",
    "enforce_eager",
    "kv_cache_stored",
    "kv_gib",
    "load_format",
    "max_batched_tokens",
    "max_num_seqs",
    "model_gib",
    "quantization",
    "server_args",
    "speculative",
    "tensor_parallel",
)


def _said(startup: StartupRead | None, facts: ServerFacts, missing: dict[str, str]) -> StartupFacts:
    """What the log says. A log of another version than the server's is another server's, and says nothing."""
    said = startup.facts if startup is not None else None
    why = "its start-up log does not say"
    if said is None:
        why = f"no start-up log: {startup.reason}" if startup is not None else "no start-up log was read"
    elif said.version is not None and facts.engine is not None and _base(facts.engine) != _base(f"vllm {said.version}"):
        why = f"the start-up log is of vllm {said.version} and the server is {facts.engine}: it was not used"
        said = None
    for name in _FROM_LOG:
        missing.setdefault(name, why)
    if said is not None and said.kv_cache_dtype == "auto":
        missing["kv_cache_stored"] = "auto, and what it came to is not in the log: a quantised checkpoint may say"
    return said or StartupFacts()


def _base(engine: str) -> str:
    """Without the build: the log and /version do not always both name it."""
    return engine.partition("+")[0]


def _checkpoint(facts: ServerFacts, local: bool, missing: dict[str, str]) -> Checkpoint | None:
    why = None
    if facts.simulated:
        why = "simulated: there is none"
    elif not local:
        why = "the server is not on this machine"
    else:
        folder = find_checkpoint(facts.model_root)
        if folder is None:
            why = "the server names no folder that is seen from here"
        else:
            try:
                return fingerprint(folder)
            except OSError as error:
                why = f"{error.filename}: {error.strerror}"
    missing |= dict.fromkeys(("checkpoint_sha256", "checkpoint_files", "checkpoint_bytes"), why)
    return None
