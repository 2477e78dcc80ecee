"""Traps that a start-up log shows, and the one line that says why a start failed; each with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

Line = tuple[str, str]
"""The process and the message of a log line."""


class Trap(msgspec.Struct, frozen=True):
    """Something in the log that makes numbers worse, or a start fail."""

    name: str
    detail: str
    advice: str
    fatal: bool = False
    """Whether a server that says this does not come up."""


_Advice = str | Callable[[re.Match[str]], str]


class _Rule(msgspec.Struct, frozen=True):
    name: str
    pattern: re.Pattern[str]
    advice: _Advice
    fatal: bool = False


def _shorter(match: re.Match[str]) -> str:
    fits = match.groupdict().get("fits")
    if fits:
        return f"serve it with --max-model-len {fits} or less, or give the KV cache more memory"
    return "lower --max-model-len, raise --gpu-memory-utilization, or take a smaller KV dtype"


def _window(match: re.Match[str]) -> str:
    fits = match.groupdict().get("fits")
    return f"the model was made for {fits} tokens: lower --max-model-len" if fits else "lower --max-model-len"


_RULES: tuple[_Rule, ...] = (
    _Rule(
        "block_fp8_default_kernels",
        re.compile(r"Using default W8A8 Block FP8 kernel config\..*?(?:Config file not found at (?P<file>\S+))?\s*$"),
        "this card has no tuned block-FP8 kernels: expect a fraction of its speed; use a checkpoint without"
        " weight_block_size, or tune that file",
    ),
    _Rule(
        "tuned_config_missing",
        re.compile(r"(?<!sub-optimal! )Config file not found at (?P<file>\S+)"),
        "a kernel runs with default settings on this card: speed is not the card's best",
    ),
    _Rule(
        "turboquant_unknown_dtype",
        re.compile(r"Unknown [^:']{0,40}dtype[:=]? ?'?(?P<dtype>[\w.]+)'?"),
        "this vLLM does not know that cache dtype on this path: name one of its own turboquant_* values, or take"
        " another version",
        fatal=True,
    ),
    _Rule(
        "uva_not_available",
        re.compile(r"UVA is not available"),
        "no unified addressing here (WSL or no pinned memory): set VLLM_USE_V2_MODEL_RUNNER=0, or leave CPU"
        " offload off",
        fatal=True,
    ),
    _Rule(
        "kv_pool_too_small",
        re.compile(
            r"To serve at least one request with the model's max seq len \(\d+\).*?larger than the available KV cache"
            r" memory \([\d.]+ GiB\)(?:.*?estimated maximum model length is (?P<fits>\d+))?"
        ),
        _shorter,
        fatal=True,
    ),
    _Rule(
        "no_kv_memory",
        re.compile(r"No available memory for the cache blocks"),
        "the weights leave nothing for the KV cache: raise --gpu-memory-utilization or take a smaller checkpoint",
        fatal=True,
    ),
    _Rule(
        "card_not_free",
        re.compile(r"Free memory on device \S+ \([\d.]+/[\d.]+ GiB\) on startup is less than desired"),
        "somebody else holds memory of this card: end that process, or lower --gpu-memory-utilization",
        fatal=True,
    ),
    _Rule(
        "out_of_memory",
        re.compile(r"torch\.OutOfMemoryError|CUDA out of memory|Failed to load model - not enough GPU memory"),
        "lower --max-num-seqs, --max-num-batched-tokens or --gpu-memory-utilization, or take a smaller checkpoint",
        fatal=True,
    ),
    _Rule(
        "flash_attention_missing",
        re.compile(r"FlashAttention version not detected|FA\d is unavailable due to"),
        "this build lacks the FlashAttention version that the options want: another --attention-backend or KV dtype,"
        " or another build",
    ),
    _Rule(
        "ninja_missing",
        re.compile(r"No such file or directory: '?ninja'?|Ninja is required to load C\+\+ extensions"),
        "put ninja on the PATH of the server's own environment, not of the shell",
        fatal=True,
    ),
    _Rule(
        "port_taken",
        re.compile(r"\[Errno 98\].*|[Aa]ddress already in use"),
        "another process listens on that port: end it, or give --port N",
        fatal=True,
    ),
    _Rule(
        "arguments_refused",
        re.compile(r"^vllm[\w .-]*: error: .*|^\S+\.py: error: .*"),
        "this vLLM does not take those arguments: see `vllm serve --help`",
        fatal=True,
    ),
    _Rule(
        "window_too_long",
        re.compile(
            r"User-specified max_model_len \(\d+\) is greater than the derived max_model_len"
            r"(?: \(max_position_embeddings=(?P<fits>\d+))?"
        ),
        _window,
        fatal=True,
    ),
    _Rule(
        "told_to_end",
        re.compile(r"KeyboardInterrupt: terminated"),
        "somebody ended it before it was up",
        fatal=True,
    ),
    _Rule(
        "model_not_found",
        re.compile(r"is not a local folder and is not a valid model identifier|Repo id must be in the form"),
        "the model is neither a folder here nor a name that the hub knows: check the path",
        fatal=True,
    ),
    _Rule(
        "dummy_weights",
        re.compile(r"\bload_format=dummy\b"),
        "the weights are drawn at random: times are real, and every answer is noise",
    ),
    _Rule(
        "nan_in_logits",
        re.compile(r"NaNs? (?:detected|found) in logits"),
        "the engine saw numbers that are none: weights, kernels or the card are at fault",
    ),
)


def traps_of(lines: Iterable[Line], ready: bool) -> tuple[Trap, ...]:
    """Each trap once, in the order of the log. What is fatal is one only if the server did not come up."""
    found: dict[tuple[str, str], Trap] = {}
    for _, message in lines:
        if len(message) < 8:
            continue
        for rule in _RULES:
            match = rule.pattern.search(message)
            if match is None or (rule.fatal and ready):
                continue
            named = match.groupdict()
            detail = named.get("file") or named.get("dtype") or _short(match[0])
            advice = rule.advice if isinstance(rule.advice, str) else rule.advice(match)
            found.setdefault((rule.name, detail), Trap(rule.name, _short(detail), advice, rule.fatal))
    return tuple(found.values())[:_MOST_TRAPS]


_MOST_TRAPS = 24
_ERROR = re.compile(r"^\s*(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt)\b(?::| ).*\S")
_WRAPPER = re.compile(r"Engine core initialization failed|EngineCore failed to start|WorkerProc (?:failed|initializ)")
_ARGUMENTS = re.compile(r"\berror: (?:unrecognized|argument|the following|ambiguous)")
_COUNTED = re.compile(r"\bValidationError: \d+ validation errors? for \w+$")
_BELOW = 4
"""Lines below such an error in which its first reason stands."""
_WIDTH = 240


def cause_of(lines: Sequence[Line]) -> str | None:
    """The root cause of a start that failed, on one line, with advice if it is a known one; None if none is shown.

    The last error of an engine or worker process is the cause; what the server's first process says is a wrapper.
    """
    errors = [
        (proc, _whole(lines, place))
        for place, (proc, message) in enumerate(lines)
        if (_ERROR.match(message) or _ARGUMENTS.search(message)) and not _WRAPPER.search(message)
    ]
    inner = [message for proc, message in errors if proc.startswith(("EngineCore", "Worker", "VllmWorker"))]
    said = inner[-1] if inner else errors[-1][1] if errors else None
    fatal = [trap for trap in traps_of(lines, ready=False) if trap.fatal]
    if said is None:
        return f"{fatal[-1].detail}: {fatal[-1].advice}" if fatal else None
    known = list(traps_of([("", said)], ready=False)) or fatal
    return _short(said.rstrip(".")) + (f": {known[-1].advice}" if known else "")


def _whole(lines: Sequence[Line], place: int) -> str:
    """An error with what pydantic says of it in the lines below: its own line only counts the values that are wrong."""
    said = lines[place][1].strip()
    if _COUNTED.search(said) is None:
        return said
    below = []
    for _, message in lines[place + 1 : place + 1 + _BELOW]:
        text, found, _ = message.partition(" [type=")
        below.append(text.strip().removeprefix("Value error, ").removeprefix("Assertion failed, "))
        if found:
            return " ".join(["; ".join(below), f"({said})"])
    return said


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _WIDTH else flat[: _WIDTH - 3] + "..."


def weight_block_trap(config: object, device: str | None, tuned: frozenset[str] | None) -> Trap | None:
    """The block-FP8 trap before anything starts, from a parsed config.json; None where it cannot arise.

    `device` is the card's name; `tuned` holds the device names for which the installed vLLM brings tuned block-FP8
    kernels, None if that is not known.
    """
    quantization = config.get("quantization_config") if isinstance(config, dict) else None
    block = quantization.get("weight_block_size") if isinstance(quantization, dict) else None
    if not block or device is None:
        return None
    name = device.replace(" ", "_")
    if tuned is not None and name in tuned:
        return None
    known = "brings no tuned kernels" if tuned is not None else "may bring no tuned kernels (not known here)"
    return Trap(
        "weight_block_size",
        f"config.json has weight_block_size {block}, and this vLLM {known} for {device}",
        "expect default block-FP8 kernels; look for that warning in the log, or use a checkpoint quantised per tensor"
        " or per channel",
    )
