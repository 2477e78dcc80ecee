"""A vLLM start-up log -> what the server says of itself, and why it did not come up. Absent lines are None.

The texts are those of vllm-wire.md §5, which hold from 0.25 to 0.32; only messages are matched, for files and line
numbers move between versions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import msgspec

from infermaxx_tui.core.startup_traps import Trap, cause_of, traps_of

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PREFIX = re.compile(
    r"^(?:\((?P<proc>[^)]+?) pid=\d+\)\s?)?(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"\d\d-\d\d \d\d:\d\d:\d\d \[[^\]]+\] ?)?(?P<text>.*)$"
)


class StartupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a start-up log says. None: the log has no such line."""

    version: str | None = None
    model: str | None = None
    args: tuple[tuple[str, str], ...] = ()
    """Arguments that are not the default, by name, as text; keys are blanked."""
    architecture: str | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    """From the arguments; None when it was left to the default, which the log does not say."""
    max_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    """From the arguments."""
    dtype: str | None = None
    quantization: str | None = None
    """`none` when the engine says that there is none."""
    kv_cache_dtype: str | None = None
    kv_stored: str | None = None
    """What `auto` came to, where the log shows it: the type that it names, else the model's own without quantisation (a
    quantised checkpoint may bring a type for its cache)."""
    load_format: str | None = None
    """How the weights were read; with `dummy` they are drawn at random."""
    speculative: str | None = None
    """Method, model and number of tokens; `none` when the engine says that there is none."""
    prefix_caching: bool | None = None
    chunked_prefill: bool | None = None
    enforce_eager: bool | None = None
    tensor_parallel: int | None = None
    attention_backend: str | None = None
    flash_attention: str | None = None
    model_gib: float | None = None
    """Memory that the weights take on the card."""
    load_s: float | None = None
    """Seconds in which the weights were read."""
    kv_gib: float | None = None
    """Memory left for the KV cache."""
    pool_tokens: int | None = None
    """KV pool. Two formulas stand behind this line, so it means something beside `pool_shape` only."""
    pool_shape: str | None = None
    """Version, window, sequences, utilisation and KV dtype under which `pool_tokens` was said."""
    pool_formula: str | None = None
    """`uniform`: the pool is concurrency x window, so both formulas agree; `blocks`: it is not, and the pool counts
    blocks of one group of layers (prior-art.md §4)."""
    max_concurrency: float | None = None
    """Requests of `concurrency_window` tokens that fit at once."""
    concurrency_window: int | None = None
    init_s: float | None = None
    """Seconds of profiling, cache creation and warm-up."""
    url: str | None = None
    ready: bool = False
    """Whether the log says that requests are answered."""
    stage: str = "nothing was written"
    """The last stage of the start that the log shows."""
    traps: tuple[Trap, ...] = ()
    failure: str | None = None
    """Why it did not come up, on one line; None where the log shows no failure before readiness."""


def parse_startup(text: str) -> StartupFacts:
    """What the log says; a text that is no vLLM log gives no facts."""
    lines = [_message(line) for line in _ANSI.sub("", text).replace("\r", "\n").split("\n")]
    found: dict[str, object] = {}
    stage = "nothing was written" if not any(message for _, message in lines) else "it began"
    ready = False
    for _, message in lines:
        if not message or ready:
            continue
        for pattern, stage_name, read in _LINES:
            match = pattern.search(message)
            if match is None:
                continue
            for key, value in read(match).items():
                found.setdefault(key, value)
            stage = stage_name or stage
        ready = "Application startup complete." in message
    facts = msgspec.convert(found, StartupFacts)
    return msgspec.structs.replace(
        facts,
        ready=ready,
        attention_backend=_backend(lines),
        stage="ready" if ready else stage,
        traps=traps_of(lines, ready),
        failure=None if ready else cause_of(lines),
        kv_stored=facts.kv_stored or _stored(facts),
        pool_shape=_shape(facts),
        pool_formula=_formula(facts),
    )


def _message(line: str) -> tuple[str, str]:
    """Process and message of a line; a line without a prefix is all message."""
    match = _PREFIX.match(line)
    return ("", line) if match is None else (match["proc"] or "", match["text"])


_SECRET = re.compile(r"key|token$|secret|password")
"""Arguments whose values are nobody's business: `api_key`, `hf_token`, `ssl_keyfile`."""


def _args(match: re.Match[str]) -> dict[str, object]:
    try:
        parsed = ast.literal_eval(match[1])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    shown = tuple((str(key), "***" if _SECRET.search(str(key)) else _text(value)) for key, value in parsed.items())
    found: dict[str, object] = {"args": shown}
    for key, name, kind in (
        ("max_model_len", "max_model_len", int),
        ("max_num_seqs", "max_num_seqs", int),
        ("max_num_batched_tokens", "max_batched_tokens", int),
        ("gpu_memory_utilization", "gpu_memory_utilization", float),
    ):
        if isinstance(value := parsed.get(key), (int, float)) and not isinstance(value, bool):
            found[name] = kind(value)
    for key in ("kv_cache_dtype", "quantization"):
        if isinstance(value := parsed.get(key), str):
            found[key] = value
    return found


def _text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


_CONFIG = {
    "dtype": re.compile(r"\bdtype=(?:torch\.)?(\w+)"),
    "quantization": re.compile(r"\bquantization=([\w-]+)"),
    "kv_cache_dtype": re.compile(r"\bkv_cache_dtype=(\w+)"),
    "load_format": re.compile(r"\bload_format=(\w+)"),
}
_CONFIG_NUMBERS = {
    "tensor_parallel": re.compile(r"\btensor_parallel_size=(\d+)"),
    "max_model_len": re.compile(r"\bmax_seq_len=(\d+)"),
}
_CONFIG_FLAGS = {
    "enforce_eager": re.compile(r"\benforce_eager=(True|False)"),
    "prefix_caching": re.compile(r"\benable_prefix_caching=(True|False)"),
    "chunked_prefill": re.compile(r"\benable_chunked_prefill=(True|False)"),
}
_SPECULATIVE = re.compile(
    r"\bspeculative_config=(None|SpeculativeConfig\(method='([^']+)', model=(.+?), num_spec_tokens=(\d+)\))"
)


def _engine(match: re.Match[str]) -> dict[str, object]:
    """The long line in which the engine says what it was configured with."""
    config = match[2]
    found: dict[str, object] = {"version": match[1]}
    for key, pattern in _CONFIG.items():
        if (hit := pattern.search(config)) is not None:
            found[key] = hit[1].lower() if hit[1] == "None" else hit[1]
    for key, pattern in _CONFIG_NUMBERS.items():
        if (hit := pattern.search(config)) is not None:
            found[key] = int(hit[1])
    for key, pattern in _CONFIG_FLAGS.items():
        if (hit := pattern.search(config)) is not None:
            found[key] = hit[1] == "True"
    if (hit := _SPECULATIVE.search(config)) is not None:
        model = str(hit[3]).strip("'")
        spec = f"{hit[2]}, {hit[4]} tokens" + ("" if model == "None" else f", {model}")
        found["speculative"] = "none" if hit[1] == "None" else spec
    return found


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _pool(match: re.Match[str]) -> dict[str, object]:
    found: dict[str, object] = {"pool_tokens": _number(match[1])}
    return found | (_concurrency(match, 2) if match[2] else {})


def _concurrency(match: re.Match[str], first: int = 1) -> dict[str, object]:
    return {"concurrency_window": _number(match[first]), "max_concurrency": float(match[first + 1])}


_FIT = r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x"
_LINES: tuple[tuple[re.Pattern[str], str | None, Callable[[re.Match[str]], dict[str, object]]], ...] = (
    (re.compile(r"\bversion (\d+\.\d+\.\S+)\s*$"), "it began", lambda m: {"version": m[1]}),
    (re.compile(r"vLLM (?:API )?server version (\S+?)(?:, serving.*)?$"), "it began", lambda m: {"version": m[1]}),
    (re.compile(r"^[^\w\[]*\bmodel   (\S.*)$"), None, lambda m: {"model": m[1].strip()}),
    (re.compile(r"non-default args: (\{.*\})\s*$"), "arguments read", _args),
    (re.compile(r"Resolved architecture: (\S+)"), "model configuration read", lambda m: {"architecture": m[1]}),
    (re.compile(r"Using max model len (\d+)"), None, lambda m: {"max_model_len": int(m[1])}),
    (
        re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)"),
        None,
        lambda m: {"max_batched_tokens": int(m[1])},
    ),
    (re.compile(r"Initializing a V1 LLM engine \(v([^)]+)\) with config: (.*)$"), "engine started", _engine),
    (re.compile(r"Loading model from scratch|Starting to load model"), "loading weights", lambda m: {}),
    (
        re.compile(r"Using FlashAttention version (\S+)"),
        None,
        lambda m: {} if m[1] == "None" else {"flash_attention": m[1]},
    ),
    (re.compile(r"Loading weights took ([\d.]+) seconds"), "weights loaded", lambda m: {"load_s": float(m[1])}),
    (re.compile(r"Model loading took ([\d.]+) GiB"), "weights loaded", lambda m: {"model_gib": float(m[1])}),
    (
        re.compile(r"Dynamo bytecode transform time|Compiling a graph for|torch\.compile took"),
        "compiling",
        lambda m: {},
    ),
    (
        re.compile(r"Available KV cache memory: (-?[\d.]+) GiB"),
        "memory profiled",
        lambda m: {"kv_gib": float(m[1])},
    ),
    (
        re.compile(r"Explicitly set \(([\d.]+)/[\d.]+\) GiB for KV cache"),
        "memory profiled",
        lambda m: {"kv_gib": float(m[1])},
    ),
    (re.compile(rf"\w+ KV cache size: ([\d,]+) tokens(?:, {_FIT})?"), "KV cache made", _pool),
    (re.compile(_FIT), "KV cache made", _concurrency),
    (re.compile(r"Using (\S+) data type to store kv cache\."), None, lambda m: {"kv_stored": m[1]}),
    (re.compile(r"Capturing CUDA graphs"), "capturing CUDA graphs", lambda m: {}),
    (re.compile(r"Graph capturing finished"), "warming up kernels", lambda m: {}),
    (re.compile(r"init engine \(.*?\) took ([\d.]+) s"), "engine ready", lambda m: {"init_s": float(m[1])}),
    (re.compile(r"Starting vLLM (?:API )?server(?: \d+)? on (http\S+)"), "about to listen", lambda m: {"url": m[1]}),
)
"""Pattern, the stage that it shows or None, and what is read. The first line that says something wins."""
_BACKENDS = (
    re.compile(r"Using (\S+) attention backend out of"),
    re.compile(r"Using ([A-Z][A-Z0-9_]+) (?:attention )?backend\.?$"),
)


def _backend(lines: list[tuple[str, str]]) -> str | None:
    """The attention backend that was chosen last: an engine may try several."""
    chosen = None
    for _, message in lines:
        for pattern in _BACKENDS:
            if (match := pattern.search(message)) is not None:
                chosen = match[1]
    return chosen


def _shape(facts: StartupFacts) -> str | None:
    if facts.pool_tokens is None:
        return None
    parts = (
        ("vllm", facts.version),
        ("max_model_len", facts.max_model_len),
        ("max_num_seqs", facts.max_num_seqs if facts.max_num_seqs is not None else "default"),
        ("utilisation", facts.gpu_memory_utilization if facts.gpu_memory_utilization is not None else "default"),
        ("kv", facts.kv_cache_dtype),
    )
    return ", ".join(f"{name} {value if value is not None else 'unknown'}" for name, value in parts)


def _stored(facts: StartupFacts) -> str | None:
    if facts.kv_cache_dtype != "auto":
        return facts.kv_cache_dtype
    return facts.dtype if facts.quantization == "none" else None


def _formula(facts: StartupFacts) -> str | None:
    """The concurrency is printed with two digits, so the product is known within half a hundredth of the window."""
    pool, fits, window = facts.pool_tokens, facts.max_concurrency, facts.concurrency_window
    if pool is None or fits is None or window is None:
        return None
    return "uniform" if abs(pool - fits * window) <= 0.005 * window + 1 else "blocks"
