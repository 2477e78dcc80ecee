"""A number without its regime is not a number: this is what travels with each of them."""

from __future__ import annotations

import msgspec


class Regime(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Under which conditions a run's numbers were taken.

    A field that could not be read is None, and `missing` says why under the field's name.
    """

    simulated: bool = False
    engine: str | None = None
    """Name and version, e.g. `vllm 0.32.0`."""
    model: str | None = None
    """The served name that requests were sent to."""
    model_root: str | None = None
    """What the server says it loaded."""
    max_model_len: int | None = None
    """Tokens of prompt and reply together."""
    pool_tokens: int | None = None
    """Size of the KV pool in tokens."""
    block_size: int | None = None
    kv_cache_dtype: str | None = None
    prefix_caching: bool | None = None
    gpu_memory_utilization: float | None = None
    prompt_mode: str | None = None
    """`tokens`: exact ids; `chat`: messages."""
    replies_mode: str | None = None
    tool_results: str | None = None
    """How tool results travel: `template`, or `as_user` in chat mode with live replies."""
    tokenizer: str | None = None
    tokenizer_sha256: str | None = None
    template_sha256: str | None = None
    transcripts_sha256: str | None = None
    temperature: float | None = None
    reply_max_tokens: int | None = None
    recall_max_tokens: int | None = None
    concurrency_requested: int | None = None
    target_depth: int | None = None
    client: str | None = None
    """This program's name and version."""
    gpu: str | None = None
    power_limit_w: float | None = None
    missing: dict[str, str] = msgspec.field(default_factory=dict)
    """Why a field is None, by field name."""
