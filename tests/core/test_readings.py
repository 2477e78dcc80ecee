"""Metrics pages: real ones, names across versions, several engines, absence, and what is no page at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.events import MetricsRead
from infermaxx_tui.core.readings import MAX_PAGE_BYTES, parse_cache_config, parse_metrics, refusal

PAGES = Path(__file__).parent.parent / "logs" / "metrics"
CPU = (PAGES / "metrics-vllm-0.32.0-cpu.txt").read_bytes()
H200 = (PAGES / "metrics-vllm-0.26.0-h200.txt").read_bytes()


def test_a_real_page_of_a_cpu_server() -> None:
    got = parse_metrics(CPU)
    assert (got.running, got.waiting, got.kv_usage, got.preemptions) == (0.0, 0.0, 0.0, 0.0)
    assert (got.prefix_queries, got.prefix_hits) == (459341.0, 302976.0)
    assert (got.prompt_tokens, got.generation_tokens) == (459341.0, 6683.0)
    assert dict(got.finished) == {"abort": 0.0, "error": 0.0, "length": 117.0, "repetition": 0.0, "stop": 247.0}
    assert got.rejected == 0.0
    assert (got.drafts, got.draft_tokens, got.accepted_tokens, got.corrupted) == (None, None, None, None)
    assert got.error is None


def test_a_real_page_of_a_gpu_server() -> None:
    got = parse_metrics(H200)
    assert dict(got.finished)["length"] == 144.0
    assert (got.prompt_tokens, got.generation_tokens, got.rejected) == (295056.0, 73728.0, None)
    config = parse_cache_config(H200)
    assert config is not None
    assert (config.pool_tokens, config.block_size, config.max_concurrency) == (3226496, 16, 393.859375)


@pytest.mark.parametrize("page", [CPU, H200])
def test_when_the_counters_began_stands_in_for_the_process_start(page: bytes) -> None:
    """These servers export no process metrics, and a restart must show all the same."""
    assert b"process_start_time_seconds" not in page
    assert (parse_metrics(page).process_start_s or 0) > 1.7e9


def test_engines_are_summed_and_shares_are_not() -> None:
    page = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 3.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 4.0
vllm:request_success_total{engine="1",finished_reason="stop",model_name="m"} 5.0
"""
    got = parse_metrics(page)
    assert (got.running, got.kv_usage, got.finished) == (5.0, 0.5, (("stop", 9.0),))


def test_an_old_name_counts_where_there_is_no_new_one() -> None:
    page = b"vllm:gpu_cache_usage_perc 0.5\nvllm:gpu_prefix_cache_hits_total 7\nvllm:gpu_prefix_cache_queries_total 9\n"
    got = parse_metrics(page)
    assert (got.kv_usage, got.prefix_hits, got.prefix_queries) == (0.5, 7.0, 9.0)


def test_a_name_that_is_kept_beside_its_successor_is_not_counted_twice() -> None:
    page = b"vllm:gpu_prefix_cache_hits_total 7\nvllm:prefix_cache_hits_total 7\nvllm:gpu_prefix_cache_hits_total 1\n"
    assert parse_metrics(page).prefix_hits == 7.0


def test_speculation_is_read() -> None:
    page = b"""vllm:spec_decode_num_drafts_total{engine="0"} 10.0
vllm:spec_decode_num_draft_tokens_total{engine="0"} 30.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 21.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 9.0
vllm:corrupted_requests_total{engine="0"} 1.0
"""
    got = parse_metrics(page)
    assert (got.drafts, got.draft_tokens, got.accepted_tokens, got.corrupted) == (10.0, 30.0, 21.0, 1.0)
    assert got.accepted_at == (9.0,)


def test_acceptance_by_place_is_summed_over_engines_in_the_order_of_places() -> None:
    name = b"vllm:spec_decode_num_accepted_tokens_per_pos"
    page = b"".join(
        name + b'_total{engine="%d",model_name="m",position="%d"} %d\n' % (engine, place, count)
        for engine, counts in ((0, (10, 8, 7)), (1, (5, 3, 1)))
        for place, count in reversed(list(enumerate(counts)))
    )
    page += name + b'_created{engine="0",model_name="m",position="0"} 1.79e9\n'
    assert parse_metrics(page).accepted_at == (15.0, 11.0, 8.0)


@pytest.mark.parametrize("labels", [b'position="1"', b'position="x"', b'engine="0"', b""])
def test_places_that_are_not_told_one_from_the_other_are_not_known(labels: bytes) -> None:
    page = b"vllm:spec_decode_num_accepted_tokens_per_pos_total{" + labels + b"} 3.0\nvllm:num_requests_running 1\n"
    assert parse_metrics(page).accepted_at == ()


@pytest.mark.parametrize("value", [b"NaN", b"+Inf", b"-Inf", b"abc", b"1e999"])
def test_what_is_no_number_is_absent(value: bytes) -> None:
    got = parse_metrics(b"vllm:num_requests_running " + value + b"\nvllm:num_requests_waiting 1\n")
    assert (got.running, got.waiting) == (None, 1.0)


def test_a_page_without_a_known_name_says_so() -> None:
    assert parse_metrics(b"go_goroutines 12\n").error == "no vllm or process metrics in the answer"


def test_only_whole_names_count() -> None:
    page = b'vllm:num_requests_running_now 5\nvllm:num_requests_waiting_by_reason{reason="capacity"} 7\n x 1\n'
    assert parse_metrics(page) == MetricsRead(error="no vllm or process metrics in the answer")


def test_the_cache_line_may_be_the_last_of_the_page() -> None:
    config = parse_cache_config(b'vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0')
    assert config is not None
    assert config.pool_tokens == 1600


HTML = (
    ("text/html; charset=utf-8", b"hello"),
    (None, b"  <!DOCTYPE html><html>"),
    ("text/plain", b"<html><body>502</body></html>"),
)


@pytest.mark.parametrize(("kind", "start"), HTML)
def test_html_is_refused(kind: str | None, start: bytes) -> None:
    assert "HTML" in (refusal(kind, start, len(start)) or "")


def test_a_page_that_is_too_large_is_refused_and_a_real_one_is_not() -> None:
    assert "larger than 4 MiB" in (refusal("text/plain", b"# HELP", MAX_PAGE_BYTES + 1) or "")
    assert refusal("text/plain; version=0.0.4; charset=utf-8", CPU[:64], len(CPU) * 40) is None


@given(st.binary(max_size=300))
def test_no_bytes_break_it(page: bytes) -> None:
    parse_metrics(page)
    parse_cache_config(b"vllm:cache_config_info{" + page)


@given(st.sets(st.sampled_from(CPU.split(b"\n"))))
def test_each_field_depends_on_its_own_lines_alone(dropped: set[bytes]) -> None:
    whole = parse_metrics(CPU)
    part = parse_metrics(b"\n".join(line for line in CPU.split(b"\n") if line not in dropped))
    for field in ("running", "waiting", "kv_usage", "preemptions", "prompt_tokens", "generation_tokens"):
        assert getattr(part, field) in (None, getattr(whole, field))
