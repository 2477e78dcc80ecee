"""Start-up logs of real servers, both formulas of the pool line, and every trap that a log can show."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.startup_log import StartupFacts, parse_startup
from infermaxx_tui.core.startup_traps import weight_block_trap

LOGS = Path(__file__).parent.parent / "logs" / "startup"
ENGINE = "(EngineCore pid=2) ERROR 11-30 16:21:44 [core.py:1330] "


def real(name: str) -> StartupFacts:
    return parse_startup((LOGS / f"{name}.log").read_text(encoding="utf-8"))


def test_a_real_start_on_a_gpu() -> None:
    got = real("vllm-0.26.0-h200-startup")
    assert (got.version, got.model, got.architecture) == ("0.26.0", "MODEL_DIR", "LlamaForCausalLM")
    assert (got.max_model_len, got.max_num_seqs, got.gpu_memory_utilization) == (8192, 128, 0.5)
    assert dict(got.args)["served_model_name"] == "['m']"
    assert (got.model_gib, got.kv_gib, got.load_s, got.init_s) == (0.26, 69.23, 0.08, 158.27)
    assert (got.pool_tokens, got.max_concurrency, got.concurrency_window) == (3226496, 393.86, 8192)
    assert got.pool_shape == "vllm 0.26.0, max_model_len 8192, max_num_seqs 128, utilisation 0.5, kv auto"
    assert got.pool_formula == "uniform"
    assert (got.dtype, got.kv_cache_dtype, got.quantization, got.speculative) == ("bfloat16", "auto", "none", "none")
    assert (got.attention_backend, got.flash_attention) == ("FLASH_ATTN", "3")
    assert (got.prefix_caching, got.chunked_prefill, got.enforce_eager, got.tensor_parallel) == (True, True, False, 1)
    assert (got.ready, got.stage, got.traps, got.failure) == (True, "ready", (), None)


def test_a_real_start_on_a_cpu() -> None:
    got = real("vllm-0.32.0-cpu-startup")
    assert (got.version, got.model, got.dtype) == ("0.32.0", "smolhf", "float32")
    assert (got.pool_tokens, got.max_concurrency, got.kv_gib) == (46592, 5.69, 2.0)
    assert (got.model_gib, got.attention_backend, got.gpu_memory_utilization) == (None, None, None)
    assert got.url == "http://127.0.0.1:8001"
    assert "utilisation default" in (got.pool_shape or "")


def test_the_kv_dtype_moves_the_pool_and_its_shape_says_so() -> None:
    auto, eight = real("vllm-0.26.0-h200-kv-auto"), real("vllm-0.26.0-h200-fp8_e4m3")
    assert (auto.pool_tokens, eight.pool_tokens) == (623200, 1243488)
    assert (auto.kv_cache_dtype, eight.kv_cache_dtype) == ("auto", "fp8_e4m3")
    assert auto.pool_shape != eight.pool_shape


def test_what_a_cache_is_kept_in_is_said_where_the_log_shows_it() -> None:
    auto, eight = real("vllm-0.26.0-h200-kv-auto"), real("vllm-0.26.0-h200-fp8_e4m3")
    assert (auto.kv_stored, eight.kv_stored) == ("bfloat16", "fp8_e4m3")
    engine = "Initializing a V1 LLM engine (v0.26.0) with config: dtype=torch.bfloat16, kv_cache_dtype=auto"
    assert parse_startup(f"{engine}, quantization=None").kv_stored == "bfloat16"
    assert parse_startup(f"{engine}, quantization=modelopt").kv_stored is None
    assert parse_startup(engine).kv_stored is None
    named = f"{engine}, quantization=modelopt\nUsing fp8_e4m3 data type to store kv cache. It reduces the memory"
    assert parse_startup(named).kv_stored == "fp8_e4m3"


def test_weights_that_are_noise_are_a_trap_and_say_so() -> None:
    engine = "Initializing a V1 LLM engine (v0.26.0) with config: dtype=torch.bfloat16, load_format="
    dummy, real_ones = parse_startup(f"{engine}dummy, tp=1"), parse_startup(f"{engine}auto, tp=1")
    assert (dummy.load_format, real_ones.load_format) == ("dummy", "auto")
    assert [trap.name for trap in dummy.traps] == ["dummy_weights"]
    assert real_ones.traps == ()


def test_a_real_start_that_dies_names_its_root_cause() -> None:
    got = real("vllm-0.26.0-h200-turboquant-failed-start")
    assert not got.ready
    assert (got.failure or "").startswith("AssertionError: FlashAttention version not detected")
    assert "another --attention-backend" in (got.failure or "")
    assert (got.kv_cache_dtype, got.attention_backend, got.stage) == (
        "turboquant_3bit_nc",
        "TURBOQUANT",
        "weights loaded",
    )
    assert {trap.name for trap in got.traps} == {"flash_attention_missing"}


def test_the_older_formula_of_the_pool_is_told_from_the_newer_one() -> None:
    older = "GPU KV cache size: 163,840 tokens\nMaximum concurrency for 262,144 tokens per request: 2.01x"
    assert parse_startup(older).pool_formula == "blocks"
    assert parse_startup("GPU KV cache size: 163,840 tokens").pool_formula is None


def test_speculation() -> None:
    config = "speculative_config=SpeculativeConfig(method='ngram', model=None, num_spec_tokens=3), dtype=torch.float16"
    got = parse_startup(f"Initializing a V1 LLM engine (v0.25.1) with config: model='m', {config}")
    assert (got.speculative, got.dtype, got.version) == ("ngram, 3 tokens", "float16", "0.25.1")


def test_keys_are_not_read() -> None:
    got = parse_startup("non-default args: {'api_key': 'geheim', 'port': 8000}")
    assert got.args == (("api_key", "***"), ("port", "8000"))


@pytest.mark.parametrize("said", ["{'a': ", "[1, 2]", "{1: object()}", "{" * 400])
def test_arguments_that_are_none_are_left_out(said: str) -> None:
    assert parse_startup(f"non-default args: {said}").args == ()


TRAPS = {
    "block_fp8_default_kernels": (
        "Using default W8A8 Block FP8 kernel config. Performance might be sub-optimal! Config file not found at"
        " /x/configs/N=512,K=7168,device_name=NVIDIA_GeForce_RTX_4090,dtype=fp8_w8a8,block_shape=[128,128].json",
        "device_name=NVIDIA_GeForce_RTX_4090",
    ),
    "tuned_config_missing": ("Using default MoE config. Config file not found at /x/E=128,N=768.json", "E=128"),
    "turboquant_unknown_dtype": ("ValueError: Unknown TurboQuant cache dtype: 'auto'", "auto"),
    "uva_not_available": ("RuntimeError: UVA is not available", "UVA"),
    "out_of_memory": ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB", "OutOfMemory"),
    "no_kv_memory": ("ValueError: No available memory for the cache blocks. Try increasing it", "No available"),
    "card_not_free": (
        "ValueError: Free memory on device cuda:0 (1.2/23.6 GiB) on startup is less than desired GPU memory",
        "Free memory",
    ),
    "kv_pool_too_small": (
        "ValueError: To serve at least one request with the model's max seq len (262144), (12.00 GiB KV cache is"
        " needed, which is larger than the available KV cache memory (4.36 GiB). Based on the available memory, the"
        " estimated maximum model length is 95232. Try",
        "262144",
    ),
    "ninja_missing": ("FileNotFoundError: [Errno 2] No such file or directory: 'ninja'", "ninja"),
    "port_taken": ("OSError: [Errno 98] error while attempting to bind on address", "bind"),
    "model_not_found": ("OSError: x is not a local folder and is not a valid model identifier", "not a local"),
}


@pytest.mark.parametrize("name", TRAPS)
def test_each_trap_is_named_with_what_to_do(name: str) -> None:
    line, detail = TRAPS[name]
    got = parse_startup(f"{ENGINE}{line}")
    trap = next(one for one in got.traps if one.name == name)
    assert detail in trap.detail
    assert trap.advice


@pytest.mark.parametrize("name", [name for name, (line, _) in TRAPS.items() if "Error: " in line])
def test_a_fatal_trap_is_the_reason_with_its_advice(name: str) -> None:
    wrapper = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    got = parse_startup(f"{ENGINE}{TRAPS[name][0]}\n(APIServer pid=1) {wrapper}")
    trap = next(one for one in got.traps if one.name == name)
    assert trap.advice in (got.failure or "")
    assert "\n" not in (got.failure or "")


def test_the_length_that_fits_is_in_the_advice() -> None:
    got = parse_startup(f"{ENGINE}{TRAPS['kv_pool_too_small'][0]}")
    assert "--max-model-len 95232" in (got.failure or "")


def test_arguments_that_the_server_refuses() -> None:
    got = parse_startup("usage: vllm serve [model_tag]\nvllm serve: error: unrecognized arguments: --kv-dtype fp8")
    assert "unrecognized arguments: --kv-dtype fp8" in (got.failure or "")


_PYDANTIC = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  {said} [type=value_error, input_value=ArgsKwargs((), {{'model': ...nderer_num_workers': 1}}), input_type=ArgsKwargs]
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""
_TOO_LONG = (
    "Value error, User-specified max_model_len (100000) is greater than the derived max_model_len"
    " (max_position_embeddings=8192.0 or model_max_length=None in model's config.json). To allow overriding this"
    " maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1."
)


def test_an_error_that_only_counts_says_what_stands_below_it() -> None:
    """As vLLM 0.32 says it of a window that the model was not made for."""
    failure = parse_startup(f"{ENGINE}{_PYDANTIC.format(said=_TOO_LONG)}").failure or ""
    assert failure.startswith("User-specified max_model_len (100000) is greater than the derived max_model_len")
    assert failure.endswith("the model was made for 8192 tokens: lower --max-model-len")
    assert "\n" not in failure
    field = parse_startup(f"{ENGINE}{_PYDANTIC.format(said='block_size').replace(' [', chr(10) + '  Input [')}").failure
    assert (field or "").startswith("block_size; Input (pydantic_core._pydantic_core.ValidationError: 1 validation")
    alone = parse_startup(f"{ENGINE}{_PYDANTIC.splitlines()[0]}").failure
    assert alone == "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig"


def test_a_start_that_was_told_to_end_did_not_fail_by_itself() -> None:
    failure = parse_startup(f"{ENGINE}KeyboardInterrupt: terminated").failure
    assert failure == "KeyboardInterrupt: terminated: somebody ended it before it was up"


def test_a_long_reason_shows_that_it_was_cut() -> None:
    failure = parse_startup(f"{ENGINE}ValueError: {'x' * 500}.").failure or ""
    assert (len(failure), failure[-4:]) == (240, "x...")


def test_a_server_that_came_up_did_not_fail() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory while probing\nINFO:     Application startup complete.\n"
    got = parse_startup(text)
    assert (got.ready, got.failure, got.traps) == (True, None, ())


def test_what_comes_after_readiness_is_not_the_start() -> None:
    text = "INFO:     Application startup complete.\nGPU KV cache size: 5 tokens"
    assert parse_startup(text).pool_tokens is None


def test_colours_and_carriage_returns_do_not_hide_a_line() -> None:
    got = parse_startup(
        "\x1b[36m(EngineCore pid=7)\x1b[0;0m INFO 11-30 10:00:00 [a.py:1] Loading: 1%\rGPU KV cache size: 8 tokens"
    )
    assert got.pool_tokens == 8


@pytest.mark.parametrize("text", ["", "\n\n", "hello\nworld", "<html></html>"])
def test_a_log_without_the_lines_says_nothing(text: str) -> None:
    got = parse_startup(text)
    assert (got.version, got.pool_tokens, got.pool_shape, got.failure, got.traps) == (None, None, None, None, ())


@given(st.text(max_size=400))
def test_no_text_breaks_it(text: str) -> None:
    parse_startup(text)


@given(st.integers(0, 200))
def test_a_log_that_is_still_being_written(lines: int) -> None:
    whole = (LOGS / "vllm-0.26.0-h200-startup.log").read_text(encoding="utf-8").splitlines()
    got = parse_startup("\n".join(whole[:lines]))
    assert got.pool_tokens in (None, 3226496)


BLOCK = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}


@pytest.mark.parametrize(
    ("config", "device", "tuned", "found"),
    [
        (BLOCK, "NVIDIA GeForce RTX 3090", frozenset({"NVIDIA_H100"}), True),
        (BLOCK, "NVIDIA H100", frozenset({"NVIDIA_H100"}), False),
        (BLOCK, "NVIDIA H100", None, True),
        (BLOCK, None, None, False),
        ({"quantization_config": {"quant_method": "fp8"}}, "NVIDIA GeForce RTX 3090", None, False),
        ({}, "NVIDIA GeForce RTX 3090", None, False),
        ([], "NVIDIA GeForce RTX 3090", None, False),
    ],
)
def test_the_block_size_trap_before_a_start(
    config: object, device: str | None, tuned: frozenset[str] | None, found: bool
) -> None:
    assert (weight_block_trap(config, device, tuned) is not None) is found
