"""The regime from what the server answers, what its log says and what lies on disk; and a checkpoint's fingerprint."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from infermaxx_tui.checkpoint import find_checkpoint, fingerprint
from infermaxx_tui.core.events import StartupRead
from infermaxx_tui.core.plan import Plan
from infermaxx_tui.core.readings import parse_cache_config
from infermaxx_tui.core.regime import FOLLOWS, Regime
from infermaxx_tui.core.scenario import parse_scenario
from infermaxx_tui.regimes import Sent, is_local, regime_of
from infermaxx_tui.server.describe import ServerFacts
from infermaxx_tui.server.startup import read_startup
from infermaxx_tui.wish import Loaded

LOGS = Path(__file__).parent.parent / "logs"
H200 = read_startup(LOGS / "startup" / "vllm-0.26.0-h200-fp8_e4m3.log", "file")
CPU = read_startup(LOGS / "startup" / "vllm-0.32.0-cpu-startup.log", "launched")
LABELS = parse_cache_config((LOGS / "metrics" / "metrics-vllm-0.32.0-cpu.txt").read_bytes())
LOADED = Loaded(parse_scenario('name = "x"\n', "x.toml"), "", "x.toml", ())
FACTS = ServerFacts(
    url="http://127.0.0.1:8000",
    model="m",
    engine="vllm 0.26.0",
    model_root="MODEL_DIR",
    max_model_len=8192,
    cache=None,
    simulated=False,
    missing={"pool_tokens": "no vllm:cache_config_info in /metrics"},
)


def regime(facts: ServerFacts = FACTS, startup: StartupRead | None = H200) -> Regime:
    return regime_of(LOADED, facts, Sent(None, Plan((), (), 4), "no tokenizer", None), startup)


def test_a_real_gpu_log_gives_the_shape() -> None:
    got = regime()
    assert (got.dtype, got.kv_cache_dtype, got.quantization) == ("bfloat16", "fp8_e4m3", "none")
    assert (got.pool_tokens, got.max_num_seqs, got.gpu_memory_utilization) == (1243488, 8, 0.1)
    assert got.pool_shape == "vllm 0.26.0, max_model_len 8192, max_num_seqs 8, utilisation 0.1, kv fp8_e4m3"
    assert (got.attention_backend, got.model_gib, got.kv_gib) == ("FLASH_ATTN", 0.29, 13.34)
    assert "pool_tokens" not in got.missing
    assert got.missing["tokenizer"] == "no tokenizer"


def test_a_real_cpu_log_beside_the_server_s_labels() -> None:
    got = regime(msgspec.structs.replace(FACTS, engine="vllm 0.32.0+cpu", cache=LABELS, missing={}), CPU)
    assert (got.pool_tokens, got.block_size, got.gpu_memory_utilization) == (46592, 128, 0.92)
    assert got.max_concurrency == 5.6875
    assert got.prefix_caching is True
    assert got.missing["model_gib"] == "its start-up log does not say"


def test_without_a_log_the_labels_speak_and_the_rest_has_its_reason() -> None:
    facts = msgspec.structs.replace(FACTS, engine="vllm 0.32.0", cache=LABELS)
    none = StartupRead(source="none", reason="not started by this run; name its log in server.log")
    got = regime(facts, none)
    assert (got.pool_tokens, got.kv_cache_dtype, got.dtype) == (46592, "auto", None)
    assert "max_num_seqs unknown" in (got.pool_shape or "")
    assert "name its log in server.log" in got.missing["dtype"]
    assert "name its log in server.log" in got.missing["quantization"]


def test_what_auto_came_to_stands_beside_it_or_has_its_reason() -> None:
    assert LABELS is not None
    auto = regime(startup=read_startup(LOGS / "startup" / "vllm-0.26.0-h200-kv-auto.log", "file"))
    assert (auto.kv_cache_dtype, auto.kv_cache_stored, auto.load_format) == ("auto", "bfloat16", "auto")
    assert regime().kv_cache_stored == "fp8_e4m3"
    assert H200.facts is not None
    quantised = msgspec.structs.replace(H200.facts, kv_cache_dtype="auto", kv_stored=None, quantization="modelopt")
    unsure = regime(startup=msgspec.structs.replace(H200, facts=quantised))
    assert unsure.kv_cache_stored is None
    assert "quantised checkpoint" in unsure.missing["kv_cache_stored"]
    labelled = msgspec.structs.replace(FACTS, cache=msgspec.structs.replace(LABELS, cache_dtype="fp8"))
    assert regime(labelled, None).kv_cache_stored == "fp8"
    assert regime(msgspec.structs.replace(FACTS, cache=LABELS), None).missing["kv_cache_stored"] == (
        "no start-up log was read"
    )


def test_noise_for_weights_is_a_lever() -> None:
    assert "load_format" not in FOLLOWS


def test_a_flag_that_no_other_key_holds_is_a_lever_of_its_own() -> None:
    assert H200.facts is not None

    def args_of(*args: tuple[str, str]) -> str | None:
        facts = msgspec.structs.replace(H200.facts, args=args) if H200.facts is not None else None
        return regime(startup=msgspec.structs.replace(H200, facts=facts)).server_args

    where = (("model", "m"), ("port", "8001"), ("api_key", "***"), ("max_model_len", "8192"))
    assert args_of(*where) == "none"
    assert args_of(*where, ("async_scheduling", "False"), ("all2all_backend", "x")) == (
        "all2all_backend=x, async_scheduling=False"
    )
    assert args_of() is None
    assert regime(startup=None).missing["server_args"] == "no start-up log was read"
    assert "server_args" not in FOLLOWS


def test_a_log_of_another_server_is_not_used() -> None:
    got = regime(msgspec.structs.replace(FACTS, engine="vllm 0.32.0"))
    assert (got.pool_tokens, got.dtype) == (None, None)
    assert "the start-up log is of vllm 0.26.0" in got.missing["dtype"]


def test_a_checkpoint_of_a_server_elsewhere_is_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    here = msgspec.structs.replace(FACTS, model_root=str(tmp_path))
    assert regime(here).checkpoint_bytes == 2
    away = msgspec.structs.replace(here, url="http://192.0.2.7:8000")
    assert regime(away).checkpoint_bytes is None
    assert regime(away).missing["checkpoint_sha256"] == "the server is not on this machine"
    assert (regime(here).server_local, regime(away).server_local) == (True, False)


@pytest.mark.parametrize(
    ("url", "local"),
    [("http://localhost:1", True), ("http://[::1]:8000", True), ("http://127.1.2.3", True), ("http://10.0.0.1", False)],
)
def test_where_a_server_is(url: str, local: bool) -> None:
    assert is_local(url) is local


def test_keys_that_follow_are_keys() -> None:
    assert set(Regime.__struct_fields__) > FOLLOWS


def checkpoint(folder: Path, weights: bytes = b"w" * 100, config: str = '{"dtype": "bfloat16"}') -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(config)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / ".cache").write_text("not of it")
    return folder


def test_a_checkpoint_is_the_same_wherever_it_lies(tmp_path: Path) -> None:
    one, other = fingerprint(checkpoint(tmp_path / "a")), fingerprint(checkpoint(tmp_path / "b"))
    assert one == other
    assert (one.files, one.total_bytes, one.config) == (2, 121, {"dtype": "bfloat16"})


def test_one_byte_more_or_another_value_is_another_checkpoint(tmp_path: Path) -> None:
    prints = {
        fingerprint(checkpoint(tmp_path / "a")).sha256,
        fingerprint(checkpoint(tmp_path / "b", b"w" * 101)).sha256,
        fingerprint(checkpoint(tmp_path / "c", b"w" * 99 + b"v")).sha256,
        fingerprint(checkpoint(tmp_path / "d", config='{"dtype": "float16!"}')).sha256,
    }
    assert len(prints) == 4


def test_a_config_that_is_no_json_is_none(tmp_path: Path) -> None:
    assert fingerprint(checkpoint(tmp_path / "a", config="{")).config is None


def test_an_empty_folder_has_no_fingerprint(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fingerprint(tmp_path)


def test_a_name_is_looked_for_in_the_hub_s_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    snapshot = tmp_path / "models--org--name" / "snapshots" / "abc"
    assert find_checkpoint("org/name") is None
    snapshot.mkdir(parents=True)
    assert find_checkpoint("org/name") == snapshot
    (snapshot.parent / "def").mkdir()
    assert find_checkpoint("org/name") is None
    assert find_checkpoint("../../etc") is None
    assert find_checkpoint(None) is None
