"""One request against a server that does as scripted: stamps, counts, gaps, ends, and what is said of them."""

from __future__ import annotations

import errno
import socket
import ssl

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runnertools import (
    DONE,
    URL,
    Played,
    Scripted,
    Setting,
    bench,
    counted,
    delta,
    order,
    play_small,
    said,
    scenario_of,
    send_scripted,
)

from infermaxx_tui.core.events import Beat, FirstToken, GapNoted, RequestEnded, RequestStarted, ServerLost
from infermaxx_tui.core.stats import LogHistogram
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.runner.answer import body_of
from infermaxx_tui.runner.board import Board, LiveStream
from infermaxx_tui.runner.client import describe, make_client
from infermaxx_tui.runner.exchange import Totals
from infermaxx_tui.runner.http.connection import NotHttpError, ServerDisconnectedError
from infermaxx_tui.runner.http.head import HeadError
from infermaxx_tui.runner.lines import Prompt
from infermaxx_tui.virtual import VirtualClock, run_virtual

END = (said("", 9, finish="stop"), counted(3, 4), DONE)


def test_time_to_first_token_is_from_the_request_to_the_first_token_of_any_channel() -> None:
    role = delta(role="assistant", content="")
    thought, answer = delta(reasoning="Hm."), delta(content="Yes.")
    script = Scripted(0.25, role, 0.5, thought, 0.125, answer, delta("stop"), DONE)
    ended, made = send_scripted(script, ("sessions.prompt=chat",), prompt=Prompt(messages=(Message("user", "?"),)))
    assert ended.ttft_ms == 750.0
    assert ended.first_visible_ms == 875.0
    (first,) = [event for event in made.events if isinstance(event, FirstToken)]
    assert first.ttft_ms == 750.0


def test_a_tool_call_may_come_first() -> None:
    call = delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "ls", "arguments": "{}"}}])
    ended, _ = send_scripted(Scripted(0.5, call, delta("tool_calls"), DONE))
    assert ended.ttft_ms == ended.first_visible_ms == 500.0


def test_an_end_of_turn_alone_is_a_first_token_and_nothing_to_see() -> None:
    ended, _ = send_scripted(Scripted(0.5, said("", 9, finish="stop"), counted(3, 1), DONE))
    assert (ended.ttft_ms, ended.first_visible_ms, ended.completion_tokens) == (500.0, None, 1)


def test_no_token_no_time() -> None:
    ended, made = send_scripted(Scripted(0.5, DONE))
    assert (ended.ttft_ms, ended.decode_ms, ended.first_chunk_tokens) == (None, None, None)
    assert not [event for event in made.events if isinstance(event, FirstToken)]


def test_only_silences_above_two_seconds_are_noted_one_by_one() -> None:
    script = Scripted(3.0, said("a", 1), 1.999, said("b", 2), 2.0, said("c", 3), 2.001, said("d", 4), *END)
    ended, made = send_scripted(script, ("limits.stall_s=60.0",))
    (gap,) = [event for event in made.events if isinstance(event, GapNoted)]
    assert (gap.gap_ms, gap.at_token, gap.req) == (2001.0, 4, ended.req)


def test_gaps_are_counted_once_a_token() -> None:
    script = Scripted(said("a", 1), 0.1, said("bcd", 2, 3, 4), 0.03, said("", 9, finish="stop"), DONE)
    _, made = send_scripted(script)
    beat = made.run.board.beat(1000.0)
    bucket = LogHistogram.bucket
    assert dict(beat.gap_buckets) == {bucket(100.0 / 3): 3, bucket(30.0): 1}
    assert (beat.sessions, beat.tokens, beat.depths) == ((0,), (5,), (8,))


@given(st.integers(0, 10**11), st.integers(1, 64))
def test_the_board_counts_gaps_as_the_histogram_does(gap_us: int, tokens: int) -> None:
    board = Board()
    board.gap(gap_us, tokens)
    (found,) = board.beat(1000.0).gap_buckets
    longest_ms = 86_400_000.0
    wanted = LogHistogram.bucket(gap_us / 1000 / tokens)
    if abs(gap_us / 1000 / tokens / (0.01 * 1.05**wanted) - 1) > 1e-9:  # at an edge the logarithm may round up
        assert found == (min(wanted, LogHistogram.bucket(longest_ms) + 1), tokens)


@given(st.lists(st.integers(0, 10**11) | st.integers(0, 100_000), max_size=60))
def test_gaps_of_single_tokens_are_counted_as_one_by_one(gaps_us: list[int]) -> None:
    board, slow = Board(), Board()
    board.single_gaps_us += gaps_us
    for gap_us in gaps_us:
        slow.gap(gap_us, 1)
    assert board.beat(1000.0).gap_buckets == slow.beat(1000.0).gap_buckets
    assert board.single_gaps_us == []
    assert board.beat(1000.0).gap_buckets == ()


def test_beats_hold_every_token_and_gaps_are_emptied() -> None:
    async def main() -> tuple[Beat, Beat]:
        board = Board()
        a, b = LiveStream(1, 7, "turn", 100, 0), LiveStream(2, 3, "turn", 50, 0)
        for stream in (a, b):
            board.open(stream)
            stream.tokens, stream.depth_tokens = 5, stream.depth_tokens + 5
        board.gap(20_000, 2)
        board.close(a)
        return board.beat(1000.0), board.beat(250.5)

    first, second = run_virtual(main)
    assert (first.sessions, first.tokens, first.depths) == ((3, 7), (5, 5), (55, 105))
    assert first.gap_buckets == ((LogHistogram.bucket(10.0), 2),)
    assert (second.sessions, second.tokens, second.depths, second.gap_buckets) == ((3,), (0,), (55,), ())
    assert second.window_ms == 250.5


def test_the_beats_of_a_run_add_up_to_its_tokens() -> None:
    played = play_small()
    beats = played.of(Beat)
    assert sum(sum(beat.tokens) for beat in beats) == sum(e.completion_tokens or 0 for e in played.ended.values())
    gaps = sum(count for beat in beats for _, count in beat.gap_buckets)
    firsts = sum(event.first_chunk_tokens or 0 for event in played.ended.values())
    assert gaps == sum(event.completion_tokens or 0 for event in played.ended.values()) - firsts
    assert sum(beat.window_ms for beat in beats) <= played.over_s * 1000 + 0.01
    assert max(max(beat.depths) for beat in beats) == played.state.depth_reached


def test_depth_of_chat_streams_is_the_servers_count() -> None:
    played = play_small()
    chat = play_small_chat()
    for run in (played, chat):
        deepest = max((e.prompt_tokens or 0) + (e.completion_tokens or 0) for e in run.ended.values())
        assert max(max(beat.depths) for beat in run.of(Beat)) == deepest


def play_small_chat() -> Played:
    """The small scenario in chat replay."""
    return play_small(Setting(overrides=("sessions.prompt=chat",)))


def test_a_connection_left_open_after_done_is_closed_by_us_and_is_no_failure() -> None:
    ended, _ = send_scripted(Scripted(said("a", 1), *END, 600.0), ("limits.stall_s=60.0",))
    assert ended.outcome == "ok"
    assert "open_after_done" in ended.anomalies
    assert ended.total_ms == 500.0


def test_keep_alives_after_done_do_not_hold_us() -> None:
    pings = (b": ping\n\n", 0.2) * 20
    ended, _ = send_scripted(Scripted(said("a", 1), *END, *pings))
    assert ended.outcome == "ok"
    assert ended.total_ms == 500.0


def test_an_error_event_ends_the_reading() -> None:
    error = b'data: {"error": {"message": "the engine died", "code": 500}}\n\n'
    ended, _ = send_scripted(Scripted(said("a", 1), error, 600.0, DONE))
    assert (ended.outcome, ended.total_ms) == ("protocol", 0.0)
    assert "the engine died" in (ended.error or "")


def test_done_is_not_success() -> None:
    ended, _ = send_scripted(Scripted(said("a", 1), DONE))
    assert (ended.outcome, ended.finish_reason) == ("ok", None)  # which makes it capped, not complete


def test_an_end_without_a_finish_is_truncated() -> None:
    ended, _ = send_scripted(Scripted(said("a", 1)))
    assert ended.outcome == "truncated"
    ended, _ = send_scripted(Scripted(said("a", 1), httpx.ReadError("reset")))
    assert ended.outcome == "truncated"
    assert "reset" in (ended.error or "")


def test_a_break_after_the_finish_is_not_a_truncation() -> None:
    ended, _ = send_scripted(Scripted(said("a", 1, finish="stop"), httpx.ReadError("reset")))
    assert (ended.outcome, ended.finish_reason) == ("ok", "stop")


def test_a_reply_without_an_end_is_cut_before_it_fills_the_memory() -> None:
    flood = tuple(said("word " * 100, *range(100)) for _ in range(40))
    ended, _ = send_scripted(Scripted(*flood, *END))
    assert ended.outcome == "protocol"
    assert ended.ids_received == 1200
    assert "max_tokens=64" in (ended.error or "")


def test_bytes_without_tokens_do_not_put_off_a_stall() -> None:
    pings = (b": ping\n\n", 0.5) * 40
    script = Scripted(said("a", 1), *pings, *END)
    ended, made = send_scripted(script)
    assert ended.outcome == "stalled"
    assert 3000.0 < ended.total_ms < 3300.0
    (lost,) = [event for event in made.events if isinstance(event, ServerLost)]
    assert (lost.how, lost.reachable, lost.req) == ("stalled", True, ended.req)
    assert script.asides == ["/health"]


def test_slow_tokens_are_no_stall() -> None:
    ended, made = send_scripted(Scripted(2.9, said("a", 1), 2.9, said("b", 2), 2.9, *END))
    assert ended.outcome == "ok"
    assert not [event for event in made.events if isinstance(event, ServerLost)]


def test_a_stream_that_speaks_while_the_server_is_asked_goes_on() -> None:
    script = Scripted(said("a", 1), 4.0, said("b", 2), *END)
    script.aside_s = 2.0
    ended, made = send_scripted(script)
    assert ended.outcome == "ok"
    assert script.asides == ["/health"]
    assert not [event for event in made.events if isinstance(event, ServerLost)]


def test_nothing_is_sent_or_logged_once_the_run_is_closing() -> None:
    async def main() -> None:
        script = Scripted(*END)
        async with make_client(URL, None, script) as client:
            made = bench(client, VirtualClock())
            made.run.cut()
            exchange = await made.streams.send(order())
        assert exchange.ended.outcome == "cancelled"
        assert (script.sent, made.events) == (0, ())

    run_virtual(main)


def test_a_cut_stream_says_so_and_is_counted_as_cut() -> None:
    async def main() -> None:
        async with make_client(URL, None, Scripted(said("a", 1), 600.0)) as client, anyio.create_task_group() as group:
            made = bench(client, VirtualClock())
            group.start_soon(made.streams.send, order())
            await anyio.sleep(1.0)
            made.run.cut()
        (ended,) = [event for event in made.events if isinstance(event, RequestEnded)]
        assert (ended.outcome, ended.ids_received, ended.total_ms) == ("cancelled", 1, 1000.0)
        assert made.streams.totals.cut == 1

    run_virtual(main)


def test_a_prompt_that_arrives_otherwise_is_noted() -> None:
    other = b'data: {"id":"c","choices":[{"index":0,"text":"a","token_ids":[1],"prompt_token_ids":[5,6,8]}]}\n\n'
    ended, _ = send_scripted(Scripted(other, *END))
    assert "prompt_ids_differ" in ended.anomalies
    ended, _ = send_scripted(Scripted(said("a", 1), said("", 9, finish="stop"), counted(4, 2), DONE))
    assert "prompt_count_differs" in ended.anomalies
    ended, _ = send_scripted(Scripted(said("a", 1), *END))
    assert not {"prompt_count_differs", "prompt_ids_differ"} & set(ended.anomalies)


def test_thinking_that_was_switched_off_is_judged_by_its_effect() -> None:
    prompt = Prompt(messages=(Message("user", "?"),), no_thinking=True)
    thinks = Scripted(delta(reasoning="Hm."), delta(content="Yes."), delta("stop"), DONE)
    ended, _ = send_scripted(thinks, ("sessions.prompt=chat",), prompt=prompt)
    assert "thought_anyway" in ended.anomalies
    obeys = Scripted(delta(content="Yes."), delta("stop"), DONE)
    ended, _ = send_scripted(obeys, ("sessions.prompt=chat",), prompt=prompt)
    assert "thought_anyway" not in ended.anomalies


def test_the_first_token_is_told_to_who_asked() -> None:
    told: list[float] = []
    script = Scripted(0.5, said("a", 1), 0.5, said("b", 2), *END)
    send_scripted(script, on_first=lambda: told.append(anyio.current_time()))
    assert told == [0.5]


@pytest.mark.parametrize(
    ("status", "body", "headers", "outcome", "retry_after_s"),
    [
        (429, b'{"error": {"message": "slow\\ndown"}}', (("retry-after", "3"),), "shed", 3.0),
        (503, b"<html>busy</html>", (("retry-after", "0.5"),), "shed", 0.5),
        (503, b"", (("retry-after", "9999"),), "shed", 5.0),
        (429, b"", (("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"),), "shed", 1.0),
        (429, b"", (), "shed", 1.0),
        (400, b'{"error": {"message": "This model\'s maximum context length is 10 tokens."}}', (), "too_long", 1.0),
        (400, b'{"object": "error", "message": "max_tokens must be at least 1, got 0."}', (), "too_long", 1.0),
        (413, b"", (), "too_long", 1.0),
        (400, b'{"error": {"message": "temperature must be non-negative"}}', (), "rejected", 1.0),
        (404, b'{"detail": "Not Found"}', (), "rejected", 1.0),
        (500, b"\xff\xfe broken", (), "rejected", 1.0),
        (307, b"", (("location", "http://127.0.0.1:2/"),), "rejected", 1.0),
    ],
)
def test_what_a_refusal_means(
    status: int, body: bytes, headers: tuple[tuple[str, str], ...], outcome: str, retry_after_s: float
) -> None:
    async def main() -> None:
        script = Scripted(body, status=status, headers=headers)
        async with make_client(URL, None, script) as client:
            made = bench(client, VirtualClock())
            exchange = await made.streams.send(order())
        ended = exchange.ended
        assert (ended.outcome, ended.status, exchange.retry_after_s) == (outcome, status, retry_after_s)
        assert ended.error is not None
        assert ended.error.startswith(f"HTTP {status}: ")
        assert "\n" not in ended.error
        assert script.sent == 1
        assert ended.completion_tokens is None

    run_virtual(main)


def test_what_a_refused_stream_of_one_megabyte_costs() -> None:
    ended, _ = send_scripted(Scripted(*[b"x" * 65536] * 16, status=500))
    assert ended.error is not None
    assert len(ended.error) <= 500


@pytest.mark.parametrize(
    ("error", "cause", "outcome"),
    [
        (httpx.ConnectError("All connection attempts failed"), None, "refused_connection"),
        (httpx.ConnectError("x"), OSError(errno.ECONNREFUSED, "refused"), "refused_connection"),
        (httpx.ConnectError("x"), OSError(errno.EHOSTUNREACH, "no route"), "timeout"),
        (httpx.ConnectTimeout("x"), None, "timeout"),
        (httpx.ConnectTimeout("x"), TimeoutError(), "timeout"),
        (httpx.ConnectError("x"), socket.gaierror(socket.EAI_NONAME, "no such name"), "timeout"),
        (httpx.ConnectError("x"), ssl.SSLCertVerificationError(1, "self-signed"), "truncated"),
        (httpx.RemoteProtocolError("x"), ServerDisconnectedError(), "truncated"),
        (httpx.ReadError("x"), ConnectionResetError(errno.ECONNRESET, "reset"), "truncated"),
        (NotHttpError("x"), HeadError("x"), "protocol"),
        (httpx.ConnectError("x"), OSError(errno.EMFILE, "too many open files"), "cancelled"),
        (httpx.ConnectError("x"), OSError(errno.EADDRNOTAVAIL, "no port left"), "cancelled"),
        (OSError(errno.ENOBUFS, "no buffers"), None, "cancelled"),
        (httpx.RemoteProtocolError("Server disconnected"), None, "truncated"),
    ],
)
def test_what_a_transport_error_before_an_answer_means(error: Exception, cause: Exception | None, outcome: str) -> None:
    error.__cause__ = cause
    found, text = describe(error, answered=False)
    assert found == outcome
    assert text
    assert "\n" not in text
    assert describe(error, answered=True)[0] == "truncated"


def test_totals_tell_cut_from_uncounted_from_never_worked_on() -> None:
    totals = Totals()

    def add(outcome: str, status: int | None = 200, prompt: int | None = 3, completion: int | None = 2) -> None:
        totals.add(
            RequestEnded(
                req=1,
                session=0,
                turn=1,
                kind="turn",
                outcome=outcome,  # type: ignore[arg-type]  # a literal, from the calls below
                status=status,
                prompt_tokens=prompt,
                completion_tokens=completion,
            )
        )

    for outcome in ("shed", "too_long", "refused_connection"):
        add(outcome, None, None, None)
    add("rejected", 400, None, None)
    assert (totals.cut, totals.uncounted, totals.prompt, totals.generation) == (0, 0, 0, 0)
    add("ok")
    add("ok", completion=None)
    assert (totals.cut, totals.uncounted, totals.prompt, totals.generation) == (0, 1, 6, 2)
    for outcome in ("cancelled", "stalled", "truncated", "protocol", "timeout"):
        add(outcome)
    add("rejected", 500, None, None)
    assert (totals.cut, totals.uncounted) == (6, 1)


def test_bodies_ask_for_ids_and_usage() -> None:
    scenario = scenario_of()
    path, content = body_of(Prompt(ids=(1, 2)), "m", scenario, 9, "pepper")
    assert path == "/v1/completions"
    for part in (b'"return_token_ids":true', b'"include_usage":true', b'"prompt":[1,2]', b'"cache_salt":"pepper"'):
        assert part in content
    prompt = Prompt(messages=(Message("user", "?"),), tools='[{"type":"function"}]', no_thinking=True)
    path, content = body_of(prompt, "m", scenario, 9, None)
    assert path == "/v1/chat/completions"
    for part in (b'"tools":[{"type":"function"}]', b'"tool_choice":"none"', b'"enable_thinking":false'):
        assert part in content
    assert b"cache_salt" not in content


def test_starts_are_logged_before_anything_is_sent() -> None:
    _, made = send_scripted(Scripted(*END))
    assert isinstance(made.events[0], RequestStarted)
    assert made.events[0].prompt_tokens == 3
