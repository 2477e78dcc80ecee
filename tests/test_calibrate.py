"""A calibration sees a delay that is planted as that delay, and a loop that stood still as no calibration at all."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import httpx
import msgspec
import pytest

from infermaxx_tui import calibrated
from infermaxx_tui.calibrate import CalibrationError, calibrate, measure, seconds
from infermaxx_tui.calibrated import cited, keep, made_here, place
from infermaxx_tui.core.calibration import ErrorBars
from infermaxx_tui.core.events import AnyEvent, Record
from infermaxx_tui.doctor.instrument import instrument_items
from infermaxx_tui.idcache import FOLDER_VARIABLE
from infermaxx_tui.listening import Heard, Listening
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.sim.engine import Engine
from infermaxx_tui.sim.http import Request
from infermaxx_tui.sim.metronome import MODEL, RECEIVED, Metronome
from infermaxx_tui.sim.transport import SimTransport
from infermaxx_tui.virtual import VirtualClock, run_virtual

URL = "http://127.0.0.1:1"


class Nowhere:
    """A log that is folded and not kept."""

    written = 0

    def append(self, event: AnyEvent, wall_ms: int, mono_us: int) -> Record:
        self.written += 1
        return Record(0, self.written - 1, wall_ms, mono_us, event)


class Late(httpx.AsyncBaseTransport):
    """Holds up each request, and each read of a body."""

    def __init__(self, inner: httpx.AsyncBaseTransport, connect_s: float, read_s: Callable[[int], float]) -> None:
        self._inner = inner
        self._connect_s = connect_s
        self._read_s = read_s

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await anyio.sleep(self._connect_s)
        response = await self._inner.handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        return httpx.Response(200, headers=response.headers, stream=_Held(response.stream, self._read_s))


class _Held(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, read_s: Callable[[int], float]) -> None:
        self._inner = inner
        self._read_s = read_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        number = 0
        async for piece in self._inner:
            await anyio.sleep(self._read_s(number))
            number += 1
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class FreezingClock(VirtualClock):
    """A clock by which the loop stands still once, for three seconds."""

    def __init__(self, at_us: int) -> None:
        super().__init__()
        self._at_us = at_us

    def mono_us(self) -> int:
        now_us = super().mono_us()
        return now_us + (3_000_000 if now_us > self._at_us else 0)


def measured(
    streams: int = 3,
    rate_hz: float = 50.0,
    connect_s: float = 0.0,
    read_s: Callable[[int], float] = lambda number: 0.0,
    clock: Callable[[], VirtualClock] = VirtualClock,
    load_s: float = 1.0,
) -> ErrorBars:
    """The error bars of a reader with planted delays, on virtual time."""

    async def main() -> ErrorBars:
        time_of = clock()
        server = SimTransport(Metronome(Engine(), VirtualClock().mono_us))
        listening = Listening(Late(server, connect_s, read_s), time_of.mono_us)
        async with make_client(URL, None, listening) as client:
            return await measure(client, listening, streams, rate_hz, load_s, Nowhere(), time_of)

    return run_virtual(main)


def test_a_reader_without_a_delay_has_no_error() -> None:
    got = measured()
    assert got.reason is None
    assert (got.ttft_p50_ms, got.ttft_max_ms, got.gap_max_ms, got.read_p99_ms) == (0.0, 0.0, 0.0, 0.0)
    assert (got.loop_lag_p99_ms, got.coalesced_share) == (0.0, 0.0)
    assert got.n_ttft >= 3
    assert got.n_gaps > 3 * 20


def test_a_reader_that_is_5_ms_late_is_5_ms_off() -> None:
    got = measured(read_s=lambda number: 0.005)
    assert (got.ttft_p50_ms, got.ttft_max_ms) == (5.0, 5.0)
    assert got.gap_max_ms == 0.0


def test_a_connection_that_takes_5_ms_is_in_the_first_token_and_in_no_gap() -> None:
    got = measured(connect_s=0.005)
    assert (got.ttft_p50_ms, got.ttft_p99_ms, got.gap_max_ms, got.read_p99_ms) == (5.0, 5.0, 0.0, 0.0)


def test_a_reader_that_is_late_now_and_then_is_off_in_the_gaps() -> None:
    got = measured(streams=1, read_s=lambda number: 0.004 * (number % 2))
    assert (got.gap_p50_ms, got.gap_p99_ms) == (4.0, 4.0)
    assert got.ttft_p50_ms == 0.0


def test_a_loop_that_stood_still_could_not_be_calibrated() -> None:
    got = measured(clock=lambda: FreezingClock(500_000))
    assert (got.reason or "").startswith("could not calibrate: ")
    assert (got.ttft_p50_ms, got.ttft_p99_ms, got.gap_p50_ms, got.n_ttft) == (None, None, None, 0)


def test_a_server_that_never_says_anything_could_not_be_calibrated() -> None:
    got = measured(read_s=lambda number: 1e4)
    assert (got.reason or "").startswith("could not calibrate: ")
    assert got.n_gaps == 0


def test_the_stamps_are_read_out_of_any_cut() -> None:
    async def body() -> tuple[int, bytes]:
        metronome = Metronome(Engine(), VirtualClock().mono_us)
        request = Request("POST", "/v1/completions", {}, b'{"model": "%b100", "max_tokens": 5}' % MODEL.encode())
        response = await metronome.handle(request)
        assert response.stream is not None
        received = next(value for name, value in response.headers if name == RECEIVED)
        return int(received), b"".join([write async for write in response.stream])

    received_us, data = run_virtual(body)
    for size in (1, 7, 64, 100, len(data)):
        heard = Heard(received_us, [(data[at : at + size], at) for at in range(0, len(data), size)])
        events = heard.events()
        assert [event.sent_us for event in events] == [10_000, 20_000, 30_000, 40_000, 50_000]
        assert [event.due_us for event in events] == [event.sent_us for event in events]
        ends = [at for at in range(len(data)) if data.startswith(b"\n\n", at)][:5]
        assert [event.came_us for event in events] == [(end + 1) // size * size for end in ends]
    torn = Heard(received_us, [(data[: data.index(b"\n\n") + 1], 1)])
    assert torn.events() == []


@pytest.mark.parametrize(
    "body", [b"{", b"{}", b'{"model": "m", "max_tokens": 3}', b'{"model": "metronome-0", "max_tokens": 3}']
)
def test_a_metronome_is_asked_for_a_rate(body: bytes) -> None:
    async def ask() -> int:
        return (await Metronome(Engine(), lambda: 0).handle(Request("POST", "/v1/completions", {}, body))).status

    assert run_virtual(ask) == 400


def test_over_sockets_all_comes_and_nothing_before_it_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No time is asserted: what this machine is capable of is not for a test to say."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    said: list[str] = []
    items, found = instrument_items(said.append, ((1, 50.0), (4, 100.0)), 0.2)
    assert found is not None
    assert [(bar.streams, bar.rate_hz) for bar in found.bars] == [(1, 50.0), (4, 100.0)]
    for bar in found.bars:
        if bar.reason is None:
            assert bar.n_ttft > 0
            assert 0 <= (bar.ttft_p50_ms or 0) <= (bar.ttft_p99_ms or 0) <= (bar.ttft_max_ms or 0)
    busy = found.load_per_core is not None and found.load_per_core > 1.0
    assert [item.section for item in items] == ["instrument"] * (3 + busy)
    assert (items[0].name == "host meanwhile") == busy
    assert "about 1 s; --no-calibration leaves it out" in said[0]
    if any(bar.reason is None for bar in found.bars):
        again = cited(found.at_ms + 60_000)
        assert (again.calibration, again.age_s, again.reason) == (found, 60.0, None)


def test_how_long_it_takes_is_known_before() -> None:
    assert 1 < seconds() <= 5
    assert seconds(((1, 50.0),), 0.5) < seconds()


def test_a_server_that_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))
    with pytest.raises(CalibrationError, match="ended with 1 before it served"):
        calibrate(((1, 50.0),), 0.1)


MADE = made_here((ErrorBars(streams=1, rate_hz=50.0, ttft_p99_ms=1.0),), 4.2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": "elsewhere"}, "calibrated with another host (elsewhere"),
        ({"python": "3.0.0"}, "calibrated with another Python"),
        ({"version": "0.0.0"}, "calibrated with another version"),
        ({"platform": "Plan 9"}, "calibrated with another system"),
        ({"at_ms": 10**15}, "of the future"),
        ({"schema": 99}, "of another kind"),
    ],
)
def test_a_calibration_of_another_time_or_place_is_not_cited(
    changes: dict[str, object], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    keep(msgspec.structs.replace(MADE, **changes))
    got = cited(time.time_ns() // 1_000_000)
    assert (got.calibration, got.age_s) == (None, None)
    assert words in (got.reason or "")


def test_without_a_calibration_there_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert "nobody has calibrated this host" in (cited(0).reason or "")
    place().write_text("{", encoding="ascii")
    assert calibrated.newest() is None
    keep(MADE)
    assert cited(MADE.at_ms).age_s == 0.0
