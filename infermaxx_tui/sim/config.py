"""Everything that can be set on the embedded server, in one place, since three fronts start it."""

from __future__ import annotations

from typing import Final

import msgspec

ENGINE_VERSION = "0.32.0+infermaxxsim"
"""What /version says: the wire is vLLM 0.32's, and the suffix says that nothing is served by a model."""

_SMALL_KV: Final = 2.5
"""Times as many tokens fit with the fault `small-kv` (note A: 163,840 to 65,536)."""


class SimConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A simulated server. The defaults are quick enough for a demo on two cores."""

    model: str = "infermaxx-sim"
    faults: tuple[str, ...] = ()
    """Names from `faults.FAULTS`; `clean` is no fault."""
    healthy_turns: int = 6
    """Replies that end before a fault of failure, shedding or length begins."""
    max_model_len: int = 65_536
    """Tokens of prompt and reply together."""
    pool_tokens: int = 262_144
    """Tokens of KV that fit at once."""
    block_size: int = 16
    """Tokens of a prefix-cache block."""
    max_num_seqs: int = 64
    """Requests that decode at once; the others wait."""
    prefill_tokens_per_s: float = 60_000.0
    """Speed of the part of a prompt that is not cached."""
    prefill_overhead_ms: float = 3.0
    decode_ms: float = 3.0
    """Between two tokens of a lone stream at depth 0."""
    decode_ms_per_1k: float = 0.02
    """More for each 1,000 tokens of depth (ms/token is linear in depth: gpu-and-verdicts §2.8)."""
    decode_ms_per_stream: float = 0.1
    """More for each other stream that decodes."""
    retire_after_s: float = 0.3
    """Seconds without a request after which a conversation counts as retired, for `leak-retired`."""
    api_key: str | None = None
    """Wanted as a bearer token under /v1 if set."""

    def __post_init__(self) -> None:
        """Raises ValueError for a pool in which the longest request would not fit."""
        if self.max_model_len > self.pool_tokens:
            raise ValueError(
                f"max_model_len={self.max_model_len} does not fit into a pool of {self.pool_tokens} tokens:"
                " make the pool larger or the window smaller"
            )

    @property
    def pool_blocks(self) -> int:
        """Blocks that hold KV; one more is the null block, as in vLLM. A quantised cache has room for more of them."""
        larger = _SMALL_KV if "small-kv" in self.faults else 1.0
        return max(1, int(self.pool_tokens * larger) // self.block_size)
