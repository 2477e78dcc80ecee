"""The instrument looks at itself: late requests, clocks that jump, pauses, reads that hold more than one event."""

from __future__ import annotations

import gc

import anyio
import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runnertools import DONE, URL, Bench, Scripted, Setting, bench, counted, order, play_small, said

from infermaxx_tui.core.events import Calibrated, ClockJumped, InstrumentRead, RequestStarted
from infermaxx_tui.core.events_read import Spent
from infermaxx_tui.runner import dispatch
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.clock import NO_BOOTTIME, SystemClock
from infermaxx_tui.runner.dispatch import Due, Sends, buckets
from infermaxx_tui.runner.instrument import Clocks, InstrumentWatch, Pauses
from infermaxx_tui.runner.meeting import Meeting
from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.config import SimConfig
from infermaxx_tui.sim.engine import Engine
from infermaxx_tui.sim.server import SimServer
from infermaxx_tui.virtual import VirtualClock, run_virtual

SECOND = 1_000_000


class HandClock:
    """Clocks that stand where they are put."""

    jumps = False

    def __init__(self) -> None:
        self.us = self.wall = 0
        self.boot: int | None = 0

    def mono_us(self) -> int:
        return self.us

    def wall_ms(self) -> int:
        return self.wall

    def boot_us(self) -> int | None:
        return self.boot

    def pass_by(self, us: int, set_ms: int = 0, slept_us: int = 0) -> None:
        """Time passes; the wall clock is set, or the machine sleeps."""
        self.us += us
        self.wall += (us + slept_us) // 1000 + set_ms
        if self.boot is not None:
            self.boot += us + slept_us


STEPPED = ("step", 700.0)
SLEPT = ("suspend", 3000.0)


@pytest.mark.parametrize(
    ("set_ms", "slept_us", "found"),
    [
        (0, 0, []),
        (499, 0, []),
        (-500, 0, []),
        (700, 0, [STEPPED]),
        (-3_600_000, 0, [("step", -3_600_000.0)]),
        (0, 3 * SECOND, [SLEPT]),
        (700, 3 * SECOND, [SLEPT, STEPPED]),
    ],
)
def test_a_jump_is_written_down_as_what_it_is(set_ms: int, slept_us: int, found: list[tuple[str, float]]) -> None:
    clock = HandClock()
    clocks = Clocks(clock)
    clock.pass_by(SECOND)
    assert clocks.jumps() == []
    clock.pass_by(20_000, set_ms, slept_us)
    jumped = clocks.jumps()
    assert [(one.kind, one.by_ms) for one in jumped] == found
    assert all(one.since_us == SECOND for one in jumped)
    clock.pass_by(20_000)
    assert clocks.jumps() == []


def test_without_a_clock_that_counts_sleep_it_is_seen_as_a_step() -> None:
    clock = HandClock()
    clock.boot = None
    clocks = Clocks(clock)
    clock.pass_by(20_000, slept_us=3 * SECOND)
    assert [(one.kind, one.by_ms) for one in clocks.jumps()] == [("step", 3000.0)]


@given(st.lists(st.integers(-400, 400), max_size=50))
def test_a_clock_that_is_slewed_never_jumps(slews_ms: list[int]) -> None:
    clock = HandClock()
    clocks = Clocks(clock)
    for slew_ms in slews_ms:
        clock.pass_by(20_000, slew_ms)
        assert clocks.jumps() == []


def test_this_machine_says_whether_it_sleeps_or_why_not() -> None:
    clock = SystemClock()
    before, now = clock.boot_us(), clock.mono_us()
    assert before is None or before >= now - SECOND
    assert "sleep" in NO_BOOTTIME


def test_collections_are_counted_while_they_are_watched_and_no_longer() -> None:
    clock = HandClock()
    pauses = Pauses(clock.mono_us)
    for took_us in (2000, 5000):
        pauses.note("start", {})
        clock.us += took_us
        pauses.note("stop", {})
    pauses.note("stop", {})
    assert pauses.taken() == (2, 7.0, 5.0)
    assert pauses.taken() == (0, 0.0, 0.0)
    before = list(gc.callbacks)
    with pauses.noted():
        gc.collect()
    assert pauses.taken()[0] >= 1
    assert gc.callbacks == before
    gc.collect()
    assert pauses.taken()[0] == 0


def test_a_late_request_says_what_the_time_went_to() -> None:
    sends, due = Sends(), Due(1000)
    due.render_us = 20_000
    sends.sent(due, 51_000, 5000)
    due.why, due.at_us, due.render_us = "turn", 60_000, 0
    sends.sent(due, 61_000, None)
    sends.sent(None, 70_000, 3000, reused=True)
    assert sends.delays_ms == [50.0, 1.0]
    assert sends.by == (Spent("turn", 1, 1.0, 1.0), Spent("wave", 1, 50.0, 50.0))
    assert sends.parts == (Spent("connect", 2, 5.0, 5.0), Spent("other", 2, 26.0, 25.0), Spent("render", 2, 20.0, 20.0))
    assert (sends.new, sends.reused, sends.unsaid, sends.connects_ms) == (1, 1, 1, [5.0, 3.0])
    assert sum(n for _, n in buckets(sends.delays_ms)) == 2


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9), st.integers(-(10**6), 10**9))
def test_the_parts_are_never_more_than_the_whole(at_us: int, render_us: int, connect_us: int, took_us: int) -> None:
    sends, due = Sends(), Due(at_us)
    due.render_us = render_us
    sends.sent(due, at_us + took_us, connect_us)
    assert sum(part.total_ms for part in sends.parts) == pytest.approx(max(took_us, 0) / 1000, abs=0.01)
    assert all(part.total_ms >= 0 for part in sends.parts)


REPLY = (0.1, said("a", 1), 0.1, said("b", 2), said("c", 3), counted(9, 3), DONE)


def the_reading(made: Bench) -> InstrumentRead:
    (found,) = (event for event in made.events if isinstance(event, InstrumentRead))
    return found


def test_a_delay_that_is_planted_before_a_request_is_seen_as_that() -> None:
    async def main() -> None:
        async with make_client(URL, None, Scripted(*REPLY)) as client:
            clock = VirtualClock()
            made = bench(client, clock)
            watch = InstrumentWatch(made.run)
            dispatch.begin(clock.mono_us())
            await anyio.sleep(0.03)
            await made.streams.send(order())
            await anyio.sleep(0.2)
            await made.streams.send(order())
            await made.run.stopped_within(4.0)
            await anyio.sleep(0.005)
            await made.streams.send(order())
            watch.flush()
        seen = the_reading(made)
        assert seen.dispatch_by == (
            Spent("pause", 1, 5.0, 5.0),
            Spent("turn", 1, 200.0, 200.0),
            Spent("wave", 1, 30.0, 30.0),
        )
        assert (seen.dispatches, seen.dispatch_p50_ms, seen.dispatch_max_ms) == (3, 30.0, 200.0)
        assert seen.connect_p50_ms is None
        assert dict(seen.missing)["connect_p50_ms"].startswith("this transport does not say")

    run_virtual(main)


def test_reads_that_hold_more_than_one_event_are_counted() -> None:
    both = said("b", 2) + said("c", 3)

    async def main() -> None:
        async with make_client(URL, None, Scripted(said("a", 1), both, b"da", b"ta: [DO", b"NE]\n\n")) as client:
            made = bench(client, VirtualClock())
            watch = InstrumentWatch(made.run)
            await made.streams.send(order())
            watch.flush()
        seen = the_reading(made)
        assert (seen.events_parsed, seen.reads, seen.reads_coalesced) == (4, 5, 1)
        assert made.run.board.events_parsed == 4

    run_virtual(main)


def test_a_meeting_wants_the_next_request_when_the_last_one_arrives() -> None:
    async def main() -> None:
        meeting = Meeting(2)

        async def early() -> None:
            dispatch.begin(0)
            await meeting.arrive()
            due = dispatch.current()
            assert due is not None
            assert (due.why, due.at_us) == ("meeting", 2 * SECOND)

        async with anyio.create_task_group() as group:
            group.start_soon(early)
            await anyio.sleep(2.0)
            meeting.leave()

    run_virtual(main)


def test_outside_of_a_conversation_nothing_is_wanted() -> None:
    dispatch.wanted(5, "turn")
    dispatch.rendered(5)
    assert dispatch.current() is None


def test_a_whole_run_knows_of_each_request_why_it_was_wanted() -> None:
    played = play_small(Setting(overrides=('sessions.think_time="recorded"',)))
    readings = played.of(InstrumentRead)
    wanted = [event for event in played.of(RequestStarted) if event.session >= 0 and event.kind != "quality"]
    names = {one.name for reading in readings for one in reading.dispatch_by}
    assert {"wave", "turn", "pause", "meeting"} == names
    sight = played.state.instrument.sight
    assert 0 < sight.dispatch.n <= len(wanted)
    assert sight.dispatch.max_ms == 0.0  # virtual time knows no delay
    assert sight.missing["gc_pauses"] == "the run is played on a clock of its own"
    assert played.of(ClockJumped) == ()


def test_a_run_logs_what_is_known_of_its_hosts_errors() -> None:
    known = Calibrated(calibration=None, reason="nobody did")
    played = play_small(Setting(sabotage=lambda prepared: msgspec.structs.replace(prepared, calibrated=known)))
    assert played.of(Calibrated) == (known,)
    assert played.verdict.instrument.calibration_reason == "nobody did"


def test_over_sockets_each_request_waits_for_a_connection_of_its_own() -> None:
    async def main() -> None:
        async with SimServer(App(Engine(SimConfig(model="m")))) as server, make_client(server.url, None) as client:
            made = bench(client, SystemClock())
            watch = InstrumentWatch(made.run)
            dispatch.begin(SystemClock().mono_us())
            async with anyio.create_task_group() as group:
                group.start_soon(watch.run)
                for _ in range(3):
                    assert (await made.streams.send(order())).ended.outcome == "ok"
                watch.flush()
                group.cancel_scope.cancel()
        seen = the_reading(made)
        assert (seen.connects_new, seen.connects_reused, seen.dispatches) == (3, 0, 3)
        assert seen.connect_max_ms is not None
        assert 0 < seen.connect_max_ms <= (seen.dispatch_max_ms or 0.0)
        assert {one.name for one in seen.dispatch_parts} == {"render", "connect", "other"}
        assert seen.gc_pauses is not None
        assert seen.loop_cpu_share is not None
        assert (seen.suspend_ms is None) == ("suspend_ms" in dict(seen.missing))

    anyio.run(main)


def test_a_request_that_never_reaches_a_server_is_not_counted_as_sent(unused_port: int) -> None:
    async def main() -> None:
        async with make_client(f"http://127.0.0.1:{unused_port}", None) as client:
            made = bench(client, SystemClock())
            assert (await made.streams.send(order())).ended.outcome == "refused_connection"
            assert (made.run.board.sends.new, made.run.board.sends.unsaid) == (0, 0)

    anyio.run(main)


@pytest.fixture
def unused_port() -> int:
    """A port at which nobody listens."""

    async def find() -> int:
        async with SimServer(App(Engine(SimConfig(model="m")))) as server:
            return server.port

    return anyio.run(find)


def test_the_stamp_of_the_first_bytes_is_given_once() -> None:
    async def main() -> None:
        told: list[tuple[int, int, bool]] = []
        before = SystemClock().mono_us()
        async with SimServer(App(Engine(SimConfig(model="m")))) as server, make_client(server.url, None) as client:
            request = client.build_request("GET", "/health")
            request.extensions["infermaxx_on_sent"] = lambda *stamps: told.append(stamps)
            assert isinstance(await client.send(request), httpx.Response)
        ((connect_us, at_us, reused),) = told
        assert not reused
        assert before <= at_us - connect_us <= at_us <= SystemClock().mono_us()

    anyio.run(main)
