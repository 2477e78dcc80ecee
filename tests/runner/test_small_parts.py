"""The parts of the runner by themselves: lines, prefixes, meetings, the recorder, the instrument, virtual time."""

from __future__ import annotations

import gc
import tracemalloc

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runnertools import DONE, URL, Bench, MemorySink, Scripted, bench, counted, decoded, order, play_small, said

from infermaxx_tui.core.events import (
    AnyEvent,
    EvidenceLost,
    InstrumentRead,
    MetricsRead,
    Noted,
    Record,
    ServerLost,
    encode,
)
from infermaxx_tui.core.plan import TagPlan
from infermaxx_tui.core.segments import end_of_turn
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.core.wording import tag_statement
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.instrument import InstrumentWatch
from infermaxx_tui.runner.lines import ChatLine, TokenLine
from infermaxx_tui.runner.meeting import Meeting
from infermaxx_tui.runner.planting import with_lines
from infermaxx_tui.runner.prefix import Prefix, PrefixWatch
from infermaxx_tui.runner.recorder import Recorder
from infermaxx_tui.runner.sampling import scrape, watch_metrics
from infermaxx_tui.virtual import MOST_S, VirtualClock, run_virtual
from infermaxx_tui.vocabulary import shipped

IDS = st.lists(st.integers(0, 5), max_size=12).map(tuple)


# Prefixes


@given(IDS, IDS, IDS)
def test_the_shared_prefix_is_the_common_part_of_prompt_and_reply(
    prompt: tuple[int, ...], reply: tuple[int, ...], following: tuple[int, ...]
) -> None:
    watch = PrefixWatch(replies_stay=True)
    assert watch.compare(prompt) is None
    watch.turn_over(prompt, reply)
    before = prompt + reply
    found = watch.compare(following)
    if not prompt or not following:
        assert found is None
        return
    assert found is not None
    same = next((n for n, (a, b) in enumerate(zip(before, following, strict=False)) if a != b), None)
    same = min(len(before), len(following)) if same is None else same
    assert (found.kept, found.missed) == (same, len(before) - same)
    assert found.share == same / len(before)
    assert (found.share == 1.0) == (following[: len(before)] == before)


def test_a_reply_that_does_not_stay_is_not_expected() -> None:
    recorded, failed = PrefixWatch(replies_stay=False), PrefixWatch(replies_stay=True)
    recorded.turn_over((1, 2), (3, 4))
    failed.turn_over((1, 2), None)
    assert recorded.compare((1, 2, 9)) == failed.compare((1, 2, 9)) == Prefix(2, 0)


def test_a_turn_without_ids_leaves_the_older_expectation() -> None:
    watch = PrefixWatch(replies_stay=True)
    watch.turn_over((1, 2), (3,))
    watch.turn_over(None, (4,))
    assert watch.compare((1, 2, 3, 4)) == Prefix(3, 0)
    assert watch.compare((1, 7, 3, 4)) == Prefix(1, 2)


def test_what_cannot_be_an_id_is_compared_with_nothing() -> None:
    watch = PrefixWatch(replies_stay=True)
    watch.turn_over((2**40,), (1,))
    assert watch.compare((1, 2)) is None
    watch.turn_over((1, 2), ())
    assert watch.compare((2**40,)) is None


# Lines


def line() -> TokenLine:
    """A line with its first prompt."""
    made = TokenLine(shipped(), close_thinking=False)
    made.begin((Message("system", "Be brief."), Message("user", "Hello.")), "")
    return made


def ids_of(made: TokenLine) -> tuple[int, ...]:
    """What the next turn would send."""
    ids = made.prompt().ids
    assert ids is not None
    return ids


def test_another_end_of_turn_that_the_server_hides_is_kept_in_the_place_of_the_templates() -> None:
    made, vocabulary = line(), shipped()
    end = end_of_turn(vocabulary)
    other = vocabulary.special_id("<|endoftext|>")
    assert other is not None
    before, reply = ids_of(made), (*vocabulary.encode("Hi."), other)
    made.close("Hi.", reply, None, stopped=True)
    assert ids_of(made) == (*before, *reply, *end[1:])


def test_a_control_token_that_is_text_is_no_end_of_turn() -> None:
    made, vocabulary = line(), shipped()
    end = end_of_turn(vocabulary)
    call = vocabulary.encode_prompt('<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>')
    before = ids_of(made)
    made.close(vocabulary.decode(call), call, None, stopped=True)
    assert ids_of(made) == (*before, *call, *end)


@pytest.mark.parametrize("stopped", [True, False])
def test_an_empty_or_capped_reply_gets_the_whole_end(stopped: bool) -> None:
    vocabulary = shipped()
    end = end_of_turn(vocabulary)
    for reply in ((), vocabulary.encode("It goes on and")):
        made = line()
        before = ids_of(made)
        made.close(vocabulary.decode(reply), reply, None, stopped=stopped)
        assert ids_of(made) == (*before, *reply, *end)
        assert made.depth_tokens == len(ids_of(made))


@given(st.text(max_size=60))
def test_where_a_text_begins(around: str) -> None:
    made, vocabulary = line(), shipped()
    made.close("Hi.", vocabulary.encode("Hi."), None, stopped=False)
    made.add((Message("user", f"{around}\nnote: KX7Q-M4TR\n{around}"),))
    where = made.where("KX7Q-M4TR")
    assert where is not None
    ids = ids_of(made)
    assert where >= made.depth_tokens
    assert "KX7Q-M4TR" not in vocabulary.decode(ids[:where])
    assert "KX7Q-M4TR" in vocabulary.decode(ids[where:])
    assert "KX7Q-M4TR" not in vocabulary.decode(ids[where + 1 :])
    assert made.where("not there") is None


def test_a_branch_leaves_the_line_alone() -> None:
    made = line()
    made.close("Hi.", shipped().encode("Hi."), None, stopped=False)
    before = ids_of(made)
    made.branch("Who?", (tag_statement("copper kettle", "KX7Q-M4TR"), "Understood."))
    assert ids_of(made) == before


def test_user_texts_that_follow_one_another_are_one_message_in_chat() -> None:
    made = ChatLine(shipped(), live=True, close_thinking=False)
    made.begin((Message("system", "s"), Message("user", "a"), Message("user", "b")), "[]")
    made.close("c", None, 10, stopped=True)
    made.add((Message("tool", "d"), Message("tool", "e")))
    roles = [(message.role, message.content) for message in made.prompt().messages]
    assert roles == [
        ("system", "s"),
        ("user", "a\n\nb"),
        ("assistant", "c"),
        ("user", "Tool result:\nd\n\nTool result:\ne"),
    ]
    assert made.prompt().tools == ""
    assert made.depth_tokens == 10


def test_a_line_goes_into_the_last_tool_result() -> None:
    tag = TagPlan("copper kettle", "KX7Q-M4TR", 0.5, 10, "inline")
    messages = (Message("tool", "1\n2\n3\n4", tool_call_id="x", name="n"), Message("user", "go"))
    changed = with_lines(messages, [tag])
    assert changed[0].content == "1\n2\nnote: lot tag for the copper kettle is KX7Q-M4TR\n3\n4"
    assert (changed[0].tool_call_id, changed[0].name, changed[1]) == ("x", "n", messages[1])


# Meetings


def test_a_meeting_opens_when_nobody_is_missing() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        meeting = Meeting(3)

        async def come(name: str) -> None:
            await meeting.arrive()
            seen.append(name)

        async with anyio.create_task_group() as group:
            group.start_soon(come, "a")
            await anyio.sleep(1)
            group.start_soon(come, "b")
            await anyio.sleep(1)
            assert not seen
            meeting.leave()
        return sorted(seen)

    assert run_virtual(main) == ["a", "b"]


def test_one_alone_meets_nobody() -> None:
    run_virtual(Meeting(1).arrive)


# The recorder


def test_what_cannot_be_written_goes_to_the_spare_place_once() -> None:
    async def main() -> None:
        sink, spare, lost = MemorySink(breaks_after=1), MemorySink(breaks_after=2, part=1), list[str]()
        recorder = Recorder(sink, VirtualClock(), lambda: lost.append("lost"), lambda: spare)
        for number in range(5):
            recorder.emit(Noted(text=str(number)))
        assert lost == ["lost"]
        assert recorder.lost == "No space left on device"
        events = [decoded(line).event for line in (*sink.lines, *spare.lines)]
        assert events[0] == Noted(text="0")
        assert isinstance(events[1], EvidenceLost)
        assert events[2:] == [Noted(text="1")]
        assert recorder.written == 3

    run_virtual(main)


# The instrument and the server's counters


def test_the_instrument_reads_the_client_over_its_true_window() -> None:
    played = play_small()
    readings = played.of(InstrumentRead)
    assert sum(reading.window_ms for reading in readings) == pytest.approx(played.over_s * 1000, abs=0.01)
    assert sum(reading.events_parsed for reading in readings) > 500
    for reading in readings:
        assert reading.rss_mib is not None
        assert reading.rss_mib > 1
        assert reading.loop_lag_p99_ms == pytest.approx(0.0, abs=0.01)  # virtual time knows no lag


def test_an_instrument_without_a_window_has_no_share() -> None:
    async def main() -> None:
        async with make_client(URL, None, Scripted()) as client:
            made = bench(client, VirtualClock())
            InstrumentWatch(made.run).flush()
        (reading,) = made.events
        assert isinstance(reading, InstrumentRead)
        assert (reading.cpu_share, reading.loop_lag_p50_ms, reading.loop_lag_max_ms) == (None, None, None)

    run_virtual(main)


def test_counters_that_cannot_be_read_are_missing_with_a_reason() -> None:
    async def main() -> None:
        async with make_client(URL, None, Scripted()) as client:
            empty = await scrape(bench(client, VirtualClock()).run)
        assert (empty.generation_tokens, empty.running) == (None, None)

    run_virtual(main)


def test_a_new_process_start_is_a_restart() -> None:
    class Restarting(httpx.AsyncBaseTransport):
        """A process that starts anew after three readings."""

        readings = 0

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            self.readings += 1
            start_s = 1000.0 if self.readings <= 3 else 2000.0
            return httpx.Response(200, text=f"process_start_time_seconds {start_s}\n", request=request)

    async def main() -> None:
        async with make_client(URL, None, Restarting()) as client:
            made = bench(client, VirtualClock())
            with anyio.move_on_after(6.5):
                await watch_metrics(made.run)
        lost = [event for event in made.events if isinstance(event, ServerLost)]
        assert [event.how for event in lost] == ["restarted"]
        assert sum(isinstance(event, MetricsRead) for event in made.events) == 7

    run_virtual(main)


# Memory


class Nowhere(MemorySink):
    """A log that is written and forgotten."""

    def append(self, event: AnyEvent, wall_ms: int, mono_us: int) -> Record:
        record = Record(0, 0, wall_ms, mono_us, event)
        encode(record)
        return record


def test_requests_leave_nothing_behind() -> None:
    """Streams of a long run must not add up: once they are over, hundreds of replies take no room."""

    async def send(made: Bench, times: int) -> None:
        for _ in range(times):
            await made.streams.send(order())
        await anyio.sleep(5.0)  # timers that were cancelled are gone by then

    async def main() -> int:
        script = Scripted(*(said("word ", n) for n in range(20)), said("", 9, finish="stop"), counted(3, 21), DONE)
        async with make_client(URL, None, script) as client:
            made = bench(client, VirtualClock(), sink=Nowhere())
            await send(made, 100)
            tracemalloc.start()
            await send(made, 400)
            gc.collect()
            grown, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return grown

    assert run_virtual(main) < 100_000  # bytes, of which a quarter of a kilobyte a request would be too much


# Virtual time


def test_minutes_take_no_time_and_a_run_that_never_ends_is_seen() -> None:
    async def main() -> float:
        await anyio.sleep(3600)
        return anyio.current_time()

    assert run_virtual(main) == pytest.approx(3600, abs=0.1)

    async def endless() -> None:
        for _ in range(100):
            await anyio.sleep(MOST_S / 10)

    with pytest.raises(RuntimeError, match="never comes"):
        run_virtual(endless)


def test_tasks_that_only_wait_for_one_another_are_seen() -> None:
    async def main() -> None:
        await anyio.Event().wait()

    with pytest.raises(RuntimeError, match="waits for ever"):
        run_virtual(main)


def test_waiting_for_the_outside_is_an_error_on_virtual_time() -> None:
    with pytest.raises(RuntimeError, match="never comes"):
        run_virtual(anyio.sleep_forever)
