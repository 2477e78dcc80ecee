"""A number without its regime is not a number: this is what travels with each of them."""

from __future__ import annotations

from typing import Final

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
    architecture: str | None = None
    checkpoint_sha256: str | None = None
    """Of the names and exact sizes of the checkpoint's files, and of what the small ones and the heads of the weights
    hold: the same for the same files wherever they lie."""
    checkpoint_files: int | None = None
    checkpoint_bytes: int | None = None
    """Exact, of all files together."""
    dtype: str | None = None
    """Of weights and activations, as the engine says."""
    quantization: str | None = None
    """`none` if the engine says that there is none."""
    attention_backend: str | None = None
    speculative: str | None = None
    """Method, tokens and model; `none` if the engine says that there is none."""
    tensor_parallel: int | None = None
    enforce_eager: bool | None = None
    chunked_prefill: bool | None = None
    max_num_seqs: int | None = None
    """Requests that decode at once; None where it was left to the server's default, which it does not say."""
    max_batched_tokens: int | None = None
    max_concurrency: float | None = None
    """Requests of the whole window that fit into the pool at once, as the server says."""
    model_gib: float | None = None
    """Memory of the card that the weights take."""
    kv_gib: float | None = None
    """Memory that the KV cache has."""
    max_model_len: int | None = None
    """Tokens of prompt and reply together."""
    pool_tokens: int | None = None
    """Size of the KV pool in tokens."""
    pool_shape: str | None = None
    """Version and shape under which the server said so: two formulas stand behind that number."""
    block_size: int | None = None
    kv_cache_dtype: str | None = None
    """As it was asked for: `auto` leaves it to the engine."""
    kv_cache_stored: str | None = None
    """What the cache is kept in."""
    load_format: str | None = None
    """How the weights were read; `dummy`: they are noise."""
    server_args: str | None = None
    """Arguments of the server that are not the default and that no other field holds; `none` if there are none."""
    prefix_caching: bool | None = None
    gpu_memory_utilization: float | None = None
    prompt_mode: str | None = None
    """`tokens`: exact ids; `chat`: messages."""
    replies_mode: str | None = None
    """`live`: replies go on in the next prompt; `recorded`: the recorded ones do. Of traces without text
    `length_matched`: live ones of the recorded lengths, `length_matched_recorded`: made-up text in their place."""
    output_lengths: str | None = None
    """`natural`, or `forced` to the recorded ones: then main-line replies are blind to degeneration."""
    compaction: str | None = None
    """`replayed`: where the recorded context was rewritten the prompt begins anew."""
    subagents: str | None = None
    """How many of a wave run beside their parents, or `alone`; `none` if there are none."""
    think_time: str | None = None
    """Pauses before requests: `none`, seconds, or `recorded` with its caps."""
    request_nonce: bool | None = None
    """Whether each system prompt begins with another random line."""
    timestamp: str | None = None
    """To what the time of sending stands in system prompts; `none` if it does not."""
    cache_salt: str | None = None
    """`none`, `session`, or `auto` and whether that came to salts."""
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
    host: str | None = None
    """The machine that the client ran on: its name and system."""
    server_local: bool | None = None
    """Whether the server ran on the same machine."""
    gpu: str | None = None
    gpu_uuid: str | None = None
    gpu_driver: str | None = None
    power_limit_w: float | None = None
    missing: dict[str, str] = msgspec.field(default_factory=dict)
    """Why a field is None, by field name."""


FOLLOWS: Final = frozenset(
    {
        "architecture",
        "attention_backend",
        "block_size",
        "checkpoint_bytes",
        "checkpoint_files",
        "gpu_driver",
        "gpu_uuid",
        "kv_cache_stored",
        "kv_gib",
        "max_concurrency",
        "model_gib",
        "model_root",
        "pool_shape",
        "pool_tokens",
        "template_sha256",
        "tokenizer_sha256",
    }
)
"""Keys that follow from others: a lever moves them with it, so they count as none of their own beside it."""
