"""What a checkpoint says before a server is started on it: exact bytes, traps of its format, draft head, KV cost.

Names and sizes are those of config.json and of the heads of the safetensors files; no name of a repository is believed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from infermaxx_tui.core.kv_layers import INNER, WIDTHS, ConfigError, layers_of
from infermaxx_tui.core.kv_pool import Cost, cost

_MTP: Final = re.compile(r"(^|\.)(mtp|nextn)(\.|_)|\.eh_proj\.|\.shared_head\.", re.ASCII)
_EXPERT: Final = re.compile(r"\.experts\.", re.ASCII)
_EMBEDDING: Final = re.compile(r"embed_tokens|tok_embeddings|word_embeddings|\bembed_in\b|\bwte\b", re.ASCII)
_HEAD: Final = re.compile(r"lm_head|\bembed_out\b|\boutput_layer\b|^(model\.)?output\.weight", re.ASCII)
_SENSES: Final = re.compile(
    r"(^|\.)(visual|vision_\w+|vit|audio_\w+|(multi_modal|multimodal|mm|vision)_projector|speech_\w+)\.", re.ASCII
)
"""Parts that see or hear, which no decoded token reads."""
_LAYER: Final = re.compile(r"\blayers\.(\d+)\.", re.ASCII)
_DTYPES: Final = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
"""Types of weights by the names that safetensors files give them."""
_BLOCK_FP8_TUNED: Final = ("9.0", "10.0", "10.3")
"""Compute capabilities of the data-centre cards for which block-FP8 kernels are tuned (note B)."""


class Tensor(msgspec.Struct, frozen=True):
    """One tensor of a checkpoint."""

    name: str
    n_bytes: int
    dtype: str = ""
    """As the file names it, e.g. `BF16`."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of one checkpoint. None: it does not say, and `missing` says why."""

    architecture: str | None = None
    weight_bytes: int | None = None
    """Of all tensors, exact; what a loader makes of them on the card may be another number."""
    read_bytes_per_token: int | None = None
    """Of the weights that one decoded token reads: without the table of embeddings, and of experts the active ones."""
    quantization: str | None = None
    dtype: str | None = None
    """The type of its weights, as the configuration names it; of a quantised one that of what is not quantised."""
    block_fp8: bool = False
    """Weights in FP8 with one scale for each block."""
    mtp_wanted: int = 0
    """Layers of a draft head that the configuration names."""
    mtp_tensors: int | None = None
    """Tensors of it that the files hold."""
    experts: int = 0
    experts_active: int = 0
    kv_bytes_per_token: dict[str, int] = {}
    """By KV dtype, in all layers that keep every token."""
    kv_window_bytes_per_token: dict[str, int] = {}
    """The same of a token that is one of the last `kv_window_tokens`, in the layers that keep no more of them."""
    kv_window_tokens: int = 0
    max_model_len: int | None = None
    missing: dict[str, str] = {}


def model_facts(
    config: Mapping[str, object], tensors: Iterable[Tensor] | None, why: str = "no safetensors files to look into"
) -> ModelFacts:
    """What they say. `tensors` None: the files are not here whole, or are none of safetensors, as `why` says."""
    inner = _inner(config)
    missing: dict[str, str] = {}
    quantization = quantization_of(config)
    experts = _number(inner, "num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
    active = _number(
        inner, "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_k", "top_k_experts"
    )
    listed = None if tensors is None else tuple(tensors)
    if listed is None:
        missing["weight_bytes"] = why
    read = None if listed is None else _read_bytes(listed, inner, experts, active)
    if isinstance(read, str):
        missing["read_bytes_per_token"] = read
    architectures = config.get("architectures")
    dtype = _dtype(inner) or _dtype(config) or _common(listed or ())
    kv = _kv(in_type(config, dtype), dtype, missing)
    return ModelFacts(
        architecture=str(architectures[0]) if isinstance(architectures, list) and architectures else None,
        weight_bytes=None if listed is None else sum(one.n_bytes for one in listed),
        read_bytes_per_token=None if isinstance(read, str) else read,
        quantization=str(quantization["quant_method"]) if quantization.get("quant_method") else None,
        dtype=dtype,
        block_fp8=bool(quantization.get("weight_block_size")),
        mtp_wanted=_number(inner, "mtp_num_hidden_layers", "num_nextn_predict_layers"),
        mtp_tensors=None if listed is None else sum(_MTP.search(one.name) is not None for one in listed),
        experts=experts,
        experts_active=active if experts else 0,
        kv_bytes_per_token={name: one.bytes_per_token for name, one in kv.items()},
        kv_window_bytes_per_token={name: one.window_bytes_per_token for name, one in kv.items() if one.window},
        kv_window_tokens=max((one.window for one in kv.values()), default=0),
        max_model_len=_number(inner, "max_position_embeddings") or None,
        missing=missing,
    )


def _inner(config: Mapping[str, object]) -> Mapping[str, object]:
    """The language part of a configuration, as `layers_of` finds it."""
    part = next((config[key] for key in INNER if config.get(key)), None)
    return part if isinstance(part, dict) else config


def quantization_of(config: Mapping[str, object]) -> Mapping[str, object]:
    """How its weights are quantised, empty if they are not; an early compressed-tensors had another key for it."""
    raws = (config, _inner(config))
    said = next(
        (raw[key] for raw in raws for key in ("quantization_config", "compression_config") if raw.get(key)), None
    )
    return said if isinstance(said, dict) else {}


def in_type(config: Mapping[str, object], dtype: str | None) -> Mapping[str, object]:
    """The configuration with that type of weights, in its language part too; None: as it is."""
    if dtype is None:
        return config
    inner = {key: {**raw, "dtype": dtype} for key in INNER if isinstance(raw := config.get(key), dict)}
    return {**config, **inner, "dtype": dtype}


def _common(tensors: Iterable[Tensor]) -> str | None:
    """The type that most tensors have, where it is one of unquantised weights: what vLLM takes if no file says it."""
    counts = Counter(one.dtype for one in tensors)
    return _DTYPES.get(counts.most_common(1)[0][0]) if counts else None


def _number(raw: Mapping[str, object], *names: str) -> int:
    return next((value for name in names if isinstance(value := raw.get(name), int) and value > 0), 0)


def _dtype(raw: Mapping[str, object]) -> str | None:
    said = raw.get("dtype") or raw.get("torch_dtype")
    return said.removeprefix("torch.") if isinstance(said, str) else None


def as_loaded(facts: ModelFacts, dtype: str | None, quantization: str | None) -> ModelFacts:
    """The facts of a server that is told to load it in that `--dtype`, and to quantise it; None: as it lies there.

    Bytes that do not follow become None, with the reason in `missing`.
    """
    replace = msgspec.structs.replace
    if facts.quantization is not None:
        return facts
    if quantization is not None:
        why = f"quantised to {quantization} while it is loaded: its bytes are not those of the files"
        missing = facts.missing | {"weight_bytes": why}
        return replace(facts, weight_bytes=None, read_bytes_per_token=None, missing=missing)
    dtype = dtype or loaded_dtype(facts)
    old, new = WIDTHS.get(facts.dtype or ""), WIDTHS.get(dtype or "")
    if dtype is None or old == new or old is None or new is None:
        return facts
    return replace(
        facts,
        dtype=dtype,
        weight_bytes=None if facts.weight_bytes is None else facts.weight_bytes * new // old,
        read_bytes_per_token=None if facts.read_bytes_per_token is None else facts.read_bytes_per_token * new // old,
        kv_bytes_per_token=_widened(facts.kv_bytes_per_token, new, old),
        kv_window_bytes_per_token=_widened(facts.kv_window_bytes_per_token, new, old),
    )


def loaded_dtype(facts: ModelFacts) -> str | None:
    """In which type vLLM holds the weights that are not quantised, if its command does not say: float32 in 16 bits."""
    return "bfloat16" if facts.dtype == "float32" else facts.dtype


def _widened(known: dict[str, int], new: int, old: int) -> dict[str, int]:
    return known | ({"auto": known["auto"] * new // old} if "auto" in known else {})


def _kv(config: Mapping[str, object], dtype: str | None, missing: dict[str, str]) -> dict[str, Cost]:
    try:
        layers = layers_of(config)
    except ConfigError as error:
        missing["kv_bytes_per_token"] = str(error)
        return {}
    if dtype not in WIDTHS:
        missing["kv_bytes_per_token"] = f"in its own type: {dtype or 'none is named'}, whose width is not known here"
        return {"fp8": cost(layers, "fp8")}
    return {name: cost(layers, name) for name in ("auto", "fp8")}


def _read_bytes(tensors: tuple[Tensor, ...], raw: Mapping[str, object], experts: int, active: int) -> int | str:
    """A tied table of embeddings is the output layer too, and read whole; or why nobody knows."""
    told = raw.get("tie_word_embeddings")
    tied = told is True or not any(_HEAD.search(one.name) for one in tensors)
    layers = _number(raw, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
    if any(_EXPERT.search(one.name) for one in tensors) and not (experts and active):
        return "how many of its experts a token reads is not named"
    total = 0.0
    for one in tensors:
        if _unread(one.name, tied, layers):
            continue
        total += one.n_bytes * (active / experts if _EXPERT.search(one.name) is not None else 1.0)
    return round(total)


def _unread(name: str, tied: bool, layers: int) -> bool:
    """Whether no decoded token reads it: a draft head, also one that lies behind the layers; what sees and hears; the
    table of embeddings, or of a tied pair the other one."""
    at = _LAYER.search(name)
    if _MTP.search(name) or _SENSES.search(name) or (at is not None and layers and int(at[1]) >= layers):
        return True
    return (_HEAD if tied else _EMBEDDING).search(name) is not None


def traps(facts: ModelFacts, compute: str | None) -> tuple[str, ...]:
    """What is known to go wrong with this checkpoint on a card of that compute capability, e.g. `8.9`."""
    said = []
    if facts.block_fp8 and compute is not None and compute not in _BLOCK_FP8_TUNED:
        said.append(
            f"weight_block_size in config.json: block-FP8 has no tuned kernels for compute {compute}, which cost note B"
            " 1.7x of decode; an AWQ, FP8-dynamic or QAT checkpoint has"
        )
    if facts.block_fp8 and compute is None:
        said.append("weight_block_size in config.json: block-FP8 is slow on cards without tuned kernels for it")
    if facts.mtp_wanted and facts.mtp_tensors == 0:
        said.append(
            f"the configuration names {facts.mtp_wanted} layer(s) of a draft head and the files hold none of it: it was"
            " stripped, and speculation by it cannot work"
        )
    return tuple(said)


def roofline_tokens_per_s(
    facts: ModelFacts, bytes_per_s: float, depth_tokens: int, kv_dtype: str, accepted: float = 1.0
) -> float | None:
    """Most tokens a second that one stream can decode: each step reads the weights and the KV of all tokens before it.

    `accepted`: tokens that a step brings on the average with speculation. None where the bytes are not known. A rate
    above it is no achievement but an error of measurement, or babble (prior-art S70).
    """
    kv = _kv_of(facts.kv_bytes_per_token, kv_dtype) if depth_tokens else 0
    if not facts.read_bytes_per_token or kv is None:
        return None
    near = (_kv_of(facts.kv_window_bytes_per_token, kv_dtype) or 0) * min(depth_tokens, facts.kv_window_tokens)
    return accepted * bytes_per_s / (facts.read_bytes_per_token + kv * depth_tokens + near)


def _kv_of(known: Mapping[str, int], kv_dtype: str) -> int | None:
    """Bytes of a token in that type; None for one that is neither a width of weights, nor FP8, nor listed itself."""
    if kv_dtype in known:
        return known[kv_dtype]
    if kv_dtype.startswith("fp8"):
        return known.get("fp8")
    return known.get("auto") if kv_dtype in WIDTHS else None


def facts_lines(facts: ModelFacts, compute: str | None = None) -> tuple[str, ...]:
    """For people, before a boot."""
    lines = [f"{facts.architecture or 'unknown architecture'}, quantisation {facts.quantization or 'none'}"]
    if facts.weight_bytes is not None:
        read = "" if facts.read_bytes_per_token is None else f", {facts.read_bytes_per_token:,} of them for each token"
        lines.append(f"weights: {facts.weight_bytes:,} bytes in the files{read}")
    if facts.experts:
        lines.append(f"experts: {facts.experts_active} of {facts.experts} for each token")
    if facts.kv_bytes_per_token:
        own = facts.dtype or "its own type"
        kv = ", ".join(
            f"{size:,} in {own if name == 'auto' else name}" for name, size in facts.kv_bytes_per_token.items()
        )
        lines.append(f"KV cache: bytes of a token: {kv}")
    if facts.kv_window_bytes_per_token:
        near = ", ".join(
            f"{size:,} in {facts.dtype or 'its own type' if name == 'auto' else name}"
            for name, size in facts.kv_window_bytes_per_token.items()
        )
        lines.append(f"KV cache: of each of the last {facts.kv_window_tokens:,} tokens besides: {near}")
    if facts.dtype == "float32" and facts.quantization is None:
        lines.append("float32 in the files: vLLM loads that in 16 bits, unless --dtype says float32")
    if facts.mtp_wanted:
        held = "not looked into" if facts.mtp_tensors is None else f"{facts.mtp_tensors} tensors"
        lines.append(f"draft head: {facts.mtp_wanted} layer(s) named, {held}")
    lines += [f"{name}: n/a ({why})" for name, why in facts.missing.items()]
    return (*lines, *(f"TRAP {text}" for text in traps(facts, compute)))
