"""Exporters over a real socket, real programs that print readings, and amdsmi's answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest
from living import lives, until
from sensortools import HERE, SERVER, Played

from infermaxx_tui.core.events import GpuProbed, GpuRead
from infermaxx_tui.core.gpu import GpuCard, GpuProbe, GpuReading
from infermaxx_tui.core.gpu_owner import ServerPids
from infermaxx_tui.core.scenario import Sensors
from infermaxx_tui.sensors import lines as lines_module
from infermaxx_tui.sensors.amd import AmdSource, Kinds, number
from infermaxx_tui.sensors.choose import NoSource, sources_of
from infermaxx_tui.sensors.exporter import ExporterSource
from infermaxx_tui.sensors.lines import LinesSource, claim_only, pairs, smi_over_ssh, smi_rows
from infermaxx_tui.sensors.machine import Machine
from infermaxx_tui.sensors.nvml import NvmlSource
from infermaxx_tui.sensors.rounds import Rounds
from infermaxx_tui.sim.fake_card import FakeCard
from infermaxx_tui.sim.fake_nvml import FakeNvml
from infermaxx_tui.sim.gpu_timeline import ramp

BODY = (
    b'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-aa",modelName="NVIDIA H200"} 612.5\n'
    b'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-aa"} 31\n'
)


class Pages:
    """What the server answers next."""

    def __init__(self) -> None:
        self.status = 200
        self.body = BODY


@contextmanager
def serving(pages: Pages) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(pages.status)
            self.send_header("content-length", str(len(pages.body)))
            self.end_headers()
            self.wfile.write(pages.body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class TestExporter:
    """dcgm-exporter over HTTP."""

    def test_the_only_card_of_the_servers_host_is_the_servers(self) -> None:
        with serving(Pages()) as url:
            source = ExporterSource(url, same_host=True, local=False)
            probe = source.probe(0)
            assert probe.error is None
            assert (probe.cards[0].server, probe.cards[0].name) == (True, "NVIDIA H200")
            assert [one.power_w for one in source.read(True)] == [612.5]
            assert source.read(False) == ()
            source.close()

    def test_an_exporter_elsewhere_is_nobodys(self) -> None:
        with serving(Pages()) as url:
            source = ExporterSource(url, same_host=False, local=True)
            (card,) = source.probe(0).cards
            assert card.server is None
            assert "sensors.server_gpus" in card.server_why
            source.close()

    def test_an_xid_counts_when_it_comes_and_not_when_it_was_there(self) -> None:
        pages = Pages()
        with serving(pages) as url:
            source = ExporterSource(url, same_host=True, local=False)
            source.probe(0)
            assert source.read(True)[0].xids == ()
            pages.body = BODY.replace(b"} 31", b"} 79")
            assert source.read(True)[0].xids == (79,)
            assert source.read(True)[0].xids == ()
            source.close()

    @pytest.mark.parametrize(
        ("status", "body", "said"),
        [
            (200, b"<html>Grafana</html>", "a web page"),
            (200, b"x" * (9 << 20), "larger than 8 MiB"),
            (503, b"", "answers 503"),
            (200, b"go_goroutines 7\n", "no metrics of"),
        ],
    )
    def test_what_is_no_exporter_is_one_line(self, status: int, body: bytes, said: str) -> None:
        pages = Pages()
        pages.status, pages.body = status, body
        with serving(pages) as url:
            source = ExporterSource(url, same_host=True, local=False)
            probe = source.probe(0)
            assert said in (probe.error or "")
            assert "\n" not in (probe.error or "")
            assert probe.cards == ()
            source.close()

    def test_one_that_goes_away_is_a_lost_reading_and_comes_back(self) -> None:
        pages = Pages()
        with serving(pages) as url:
            source = ExporterSource(url, same_host=True, local=False)
            source.probe(0)
            pages.status = 500
            assert [one.lost for one in source.read(True)] == ["answers 500"]
            pages.status = 200
            assert [one.lost for one in source.read(True)] == [None]
            source.close()

    def test_nobody_listens(self) -> None:
        source = ExporterSource("http://127.0.0.1:9/metrics", same_host=True, local=False)
        assert "ConnectError" in (source.probe(0).error or "")
        source.close()

    def test_a_card_that_gives_more_later_is_probed_anew(self) -> None:
        pages = Pages()
        with serving(pages) as url:
            source = ExporterSource(url, same_host=True, local=False)
            source.probe(0)
            assert source.changed() is None
            pages.body = BODY + b'DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-aa"} 61\n'
            assert source.read(True)[0].vram_c == 61
            changed = source.changed()
            assert changed is not None
            assert changed.cards[0].metrics["vram_c"] == "ok"
            source.close()


class Time:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def command(text: str, now: Time | None = None) -> LinesSource:
    return LinesSource("command", text, pairs, claim_only("the sensor command"), local=True, now=now or Time())


def until_read(source: LinesSource, slow: bool = True) -> tuple[GpuReading, ...]:
    """Rounds until there is something."""

    def readings() -> tuple[GpuReading, ...]:
        got = source.read(slow)
        return got if got and got[0].lost is None else ()

    return until(readings)


class TestCommand:
    """A user's command, as a real process."""

    def test_a_stream_of_lines(self) -> None:
        source = command("echo hotspot_c=88 vram_c=92; sleep 60")
        probe = source.probe(0)
        assert probe.error is None
        assert probe.cards[0].metrics["hotspot_c"] == "ok"
        assert probe.cards[0].metrics["power_w"] == "the source does not give it"
        assert (probe.cards[0].server, probe.cards[0].server_why) == (True, "the only card of the sensor command")
        source.close()

    def test_one_that_prints_once_is_run_again(self) -> None:
        now = Time()
        source = command("echo hotspot_c=88", now)
        assert source.probe(0).error is None
        assert source.read(True) == ()
        now.now_s += 5
        assert until_read(source)[0].hotspot_c == 88
        source.close()

    def test_one_that_fails_says_why_and_is_tried_again(self) -> None:
        now = Time()
        source = command("echo hotspot_c=88; echo no such sensor >&2; exit 3", now)
        assert source.probe(0).cards[0].metrics["hotspot_c"] == "ok"
        assert [one.lost for one in source.read(True)] == ["exited with 3: no such sensor"]
        now.now_s += 61
        assert until_read(source)[0].hotspot_c == 88
        source.close()

    def test_one_that_is_not_there(self) -> None:
        source = command("no-such-program-of-mine")
        error = source.probe(0).error or ""
        assert "exited with 127" in error
        assert "\n" not in error
        source.close()

    def test_one_that_says_nothing_it_can_read(self) -> None:
        source = command("echo warming up")
        assert "not key=value: warming" in (source.probe(0).error or "")
        source.close()

    def test_one_that_falls_silent_is_lost_and_its_old_values_are_not_shown(self) -> None:
        now = Time()
        source = command("echo hotspot_c=88; sleep 60", now)
        source.probe(0)
        assert source.read(True) == ()
        now.now_s += 21
        assert [one.lost for one in source.read(True)] == ["the program said nothing for 21 s"]
        source.close()

    def test_what_it_started_ends_with_it(self, tmp_path: Path) -> None:
        mark = tmp_path / "pid"
        source = command(f"echo hotspot_c=88; sleep 60 & echo $! > {mark}; wait")
        source.probe(0)
        pid = int(until(lambda: mark.read_text().strip() if mark.exists() else ""))
        source.close()
        until(lambda: not lives(pid))


SMI = (
    "0, GPU-aa, NVIDIA GeForce RTX 3090, 580.10, 274.51, 275.00, 350.00, 1560, 9501, 2100, 9751, 71, [N/A], 98,"
    " 22011, 24576, 0x0000000000000004, 4, 16, [N/A], [N/A]"
)


class TestSmiOverSsh:
    """nvidia-smi on another host, through whatever `ssh` is on the path."""

    def test_lines_of_two_cards(self) -> None:
        both = f"echo '{SMI}'; echo '{SMI.replace('0, GPU-aa', '1, GPU-bb')}'; sleep 60"
        source = LinesSource("nvidia-smi", both, smi_rows, claim_only("box"), local=False)
        probe = source.probe(0)
        assert [card.uuid for card in probe.cards] == ["GPU-aa", "GPU-bb"]
        assert [card.server for card in probe.cards] == [None, None]
        assert "box has 2 cards" in probe.cards[0].server_why
        source.close()

    def test_the_command_never_asks_and_cannot_be_an_option(self) -> None:
        words = smi_over_ssh("user@box")
        assert words[0] == "ssh"
        assert "BatchMode=yes" in words
        assert words[words.index("--") + 1] == "user@box"
        assert "clocks_throttle_reasons.active" in words[-1]

    def test_a_program_named_ssh_is_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program = tmp_path / "ssh"
        program.write_text(f"#!/bin/sh\necho '{SMI}'\nsleep 60\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        (source,) = sources_of(Sensors(ssh="box"), "http://box:8000", None)
        probe = source.probe(0)
        assert probe.error is None
        assert (probe.cards[0].server, probe.local) == (True, False)
        source.close()

    def test_a_host_that_cannot_be_reached(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program = tmp_path / "ssh"
        program.write_text("#!/bin/sh\necho 'ssh: connect to host box port 22: No route to host' >&2\nexit 255\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        (source,) = sources_of(Sensors(ssh="box"), "http://box:8000", None)
        assert (
            source.probe(0).error == "nvidia-smi: exited with 255: ssh: connect to host box port 22: No route to host"
        )
        source.close()


class Told:
    """A source that says what the test gives it."""

    def __init__(self, source: str, cards: Sequence[GpuCard], readings: Sequence[GpuReading] = ()) -> None:
        self._source, self._cards, self.readings = source, tuple(cards), tuple(readings)
        self.again: GpuProbe | None = None

    def probe(self, first: int) -> GpuProbe:
        cards = tuple(msgspec.structs.replace(card, gpu=card.gpu + first) for card in self._cards)
        self.readings = tuple(msgspec.structs.replace(one, gpu=one.gpu + first) for one in self.readings)
        return GpuProbe(source=self._source, cards=cards)

    def read(self, slow: bool) -> tuple[GpuReading, ...]:
        return self.readings

    def changed(self) -> GpuProbe | None:
        again, self.again = self.again, None
        return again

    def close(self) -> None:
        return


class TestTogether:
    """A command adds what NVML does not know to NVML's own card."""

    def rounds(self, *extra: Told) -> Rounds:
        now_s = 0.0
        lib = FakeNvml([FakeCard(ramp())], lambda: now_s)
        return Rounds([NvmlSource(lib, lambda: SERVER, HERE), *extra])

    def test_the_hotspot_of_a_command_is_the_cards(self) -> None:
        added = Told("command", [GpuCard(gpu=0, metrics={"hotspot_c": "ok"})], [GpuReading(gpu=0, hotspot_c=97)])
        rounds = self.rounds(added)
        first, second = rounds.probe()
        assert isinstance(first, GpuProbed)
        assert isinstance(second, GpuProbed)
        assert first.probe.cards[0].metrics["hotspot_c"] == "ok"
        assert any("hotspot_c" in remark for remark in first.probe.remarks)
        assert second.probe.cards == ()
        (read,) = rounds.round(1.0)
        assert isinstance(read, GpuRead)
        (reading,) = read.gpus
        assert (reading.hotspot_c, reading.edge_c, read.server) == (97, 38, (0,))

    def test_another_number_is_another_card(self) -> None:
        added = Told("command", [GpuCard(gpu=1, metrics={"hotspot_c": "ok"})], [GpuReading(gpu=1, hotspot_c=97)])
        rounds = self.rounds(added)
        rounds.probe()
        (read,) = rounds.round(1.0)
        assert isinstance(read, GpuRead)
        assert [(one.gpu, one.hotspot_c) for one in read.gpus] == [(0, None), (2, 97)]

    def test_a_lost_command_takes_nothing_from_the_card(self) -> None:
        added = Told("command", [GpuCard(gpu=0, metrics={"hotspot_c": "ok"})], [GpuReading(gpu=0, lost="silent")])
        rounds = self.rounds(added)
        rounds.probe()
        (read,) = rounds.round(1.0)
        assert isinstance(read, GpuRead)
        assert (read.gpus[0].lost, read.gpus[0].power_w) == (None, 119.0)

    def test_what_is_lent_stays_lent_when_the_card_is_probed_anew(self) -> None:
        own = Told("nvml", [GpuCard(gpu=0, uuid="GPU-aa", metrics={"hotspot_c": "not supported"})])
        added = Told("command", [GpuCard(gpu=0, metrics={"hotspot_c": "ok"})])
        rounds = Rounds([own, added])
        rounds.probe()
        own.again = GpuProbe(source="nvml", cards=(GpuCard(gpu=0, uuid="GPU-aa", metrics={"hotspot_c": "error: x"}),))
        rounds.round(1.0)
        assert rounds.probes[0].cards[0].metrics["hotspot_c"] == "ok"


class AmdError(Exception):
    """As amdsmi's own."""


class Numbers:
    """An enumeration by its names."""

    def __init__(self, **members: int) -> None:
        self._members = members

    def __getattr__(self, name: str) -> object:
        return self._members[name]


class FakeAmd:
    """amdsmi's calls with the odd values that they give."""

    AmdSmiException: type[Exception] = AmdError
    AmdSmiTemperatureType: Kinds = Numbers(EDGE=1, HOTSPOT=2, VRAM=3)
    AmdSmiTemperatureMetric: Kinds = Numbers(CURRENT=0)
    AmdSmiClkType: Kinds = Numbers(GFX=0, MEM=1)

    def __init__(self) -> None:
        self.energy = 1_000_000
        self.dead = False

    def amdsmi_init(self) -> object:
        return None

    def amdsmi_shut_down(self) -> object:
        return None

    def amdsmi_get_processor_handles(self) -> Sequence[object]:
        return [object()]

    def amdsmi_get_gpu_device_uuid(self, handle: object) -> str:
        return "a-uuid"

    def amdsmi_get_gpu_device_bdf(self, handle: object) -> str:
        return "0000:03:00.0"

    def amdsmi_get_gpu_asic_info(self, handle: object) -> Mapping[str, object]:
        return {"market_name": "AMD Instinct MI300X"}

    def amdsmi_get_gpu_driver_info(self, handle: object) -> Mapping[str, object]:
        return {"driver_version": "6.12"}

    def _alive(self) -> None:
        if self.dead:
            raise AmdError("AMDSMI_STATUS_NO_DATA")

    def amdsmi_get_power_info(self, handle: object) -> Mapping[str, object]:
        self._alive()
        return {"average_socket_power": "N/A", "current_socket_power": 450}

    def amdsmi_get_power_cap_info(self, handle: object) -> Mapping[str, object]:
        self._alive()
        return {"power_cap": 750_000_000, "default_power_cap": 750_000_000, "max_power_cap": 2**64 - 1}

    def amdsmi_get_clock_info(self, handle: object, kind: object) -> Mapping[str, object]:
        self._alive()
        return {"clk": 1800, "max_clk": 2100} if kind == 0 else {"clk": "N/A", "max_clk": 0xFFFFFFFF}

    def amdsmi_get_temp_metric(self, handle: object, sensor: object, metric: object) -> object:
        self._alive()
        if sensor == 1:
            raise AmdError("AMDSMI_STATUS_NOT_SUPPORTED")
        return 88 if sensor == 2 else 0

    def amdsmi_get_gpu_activity(self, handle: object) -> Mapping[str, object]:
        self._alive()
        return {"gfx_activity": 97}

    def amdsmi_get_gpu_vram_usage(self, handle: object) -> Mapping[str, object]:
        self._alive()
        return {"vram_total": 196_592, "vram_used": 150_000}

    def amdsmi_get_energy_count(self, handle: object) -> Mapping[str, object]:
        self._alive()
        return {"energy_accumulator": self.energy, "counter_resolution": 15.3, "timestamp": 1}

    def amdsmi_get_pcie_info(self, handle: object) -> Mapping[str, Mapping[str, object]]:
        self._alive()
        return {"pcie_metric": {"pcie_width": 16, "pcie_replay_count": 2**64 - 1}}

    def amdsmi_get_gpu_total_ecc_count(self, handle: object) -> Mapping[str, object]:
        self._alive()
        return {"correctable_count": 3}

    def amdsmi_get_gpu_process_list(self, handle: object) -> Sequence[Mapping[str, object]]:
        return [{"pid": 1, "name": "vllm", "memory_usage": {"vram_mem": 2**30}}]


class TestAmd:
    """The same readings from amdsmi."""

    def source(self, lib: FakeAmd, server: ServerPids = SERVER) -> AmdSource:
        return AmdSource(lib, lambda: server, Machine(lambda pid: True, lambda pid: "vllm"))

    def test_its_readings_in_our_units(self) -> None:
        source = self.source(FakeAmd())
        (card,) = source.probe(0).cards
        assert card.name == "AMD Instinct MI300X"
        assert (card.limit_w, card.max_sm_mhz, card.max_limit_w) == (750.0, 2100, None)
        assert (card.server, card.server_why) == (True, "process 1 of the server computes on it")
        (reading,) = source.read(True)
        assert (reading.power_w, reading.sm_mhz, reading.hotspot_c, reading.busy_percent) == (450.0, 1800, 88, 97)
        assert reading.energy_j == pytest.approx(15.3)
        assert reading.processes is not None
        assert reading.processes[0].vram_mib == 1024.0

    def test_its_ways_to_say_nothing_are_none_with_the_reason(self) -> None:
        source = self.source(FakeAmd())
        (card,) = source.probe(0).cards
        (reading,) = source.read(True)
        for metric in ("mem_mhz", "edge_c", "vram_c", "pcie_replays", "ecc_uncorrected", "reasons"):
            assert getattr(reading, metric) is None
            assert card.metrics[metric] != "ok"
        assert card.metrics["edge_c"] == "not supported"
        assert card.metrics["vram_c"] == "reads 0 C, which is no temperature"
        assert card.metrics["reasons"] == "amdsmi does not give it"

    def test_a_card_that_answers_nothing_any_more_is_lost(self) -> None:
        lib = FakeAmd()
        source = self.source(lib)
        source.probe(0)
        lib.dead = True
        assert source.read(False)[0].lost is not None

    @pytest.mark.parametrize("value", ["N/A", None, True, 0xFFFF, 0xFFFFFFFF, 2**64 - 1, float("nan"), object()])
    def test_what_is_no_number(self, value: object) -> None:
        assert number(value) is None


class TestChoice:
    """Which sources a scenario's table means."""

    def test_switched_off(self) -> None:
        (source,) = sources_of(Sensors(gpu=False), "http://127.0.0.1:8000", None)
        assert "switched off" in (source.probe(0).error or "")
        assert source.read(True) == ()
        assert source.changed() is None
        source.close()

    def test_a_server_that_is_simulated_has_simulated_cards(self) -> None:
        lib = FakeNvml([FakeCard()], lambda: 1.0)
        (source,) = sources_of(Sensors(), "http://127.0.0.1:8000", 5, lib)
        probe = source.probe(0)
        assert probe.simulated
        assert probe.cards[0].server

    def test_a_command_for_a_server_elsewhere_leaves_the_local_cards_alone(self) -> None:
        (source,) = sources_of(Sensors(command="echo power_w=1"), "http://192.0.2.7:8000", None)
        assert isinstance(source, LinesSource)
        source.close()

    def test_a_command_beside_a_local_server_is_added_to_its_cards(self) -> None:
        sources = sources_of(Sensors(command="echo power_w=1"), "http://127.0.0.1:8000", None)
        assert len(sources) == 2
        for source in sources:
            source.close()

    def test_without_a_source_the_reason_is_the_runs(self) -> None:
        rounds = Rounds([NoSource("no such thing")])
        rounds.probe()
        said = rounds.round(0.0)
        assert isinstance(said[0], GpuRead)
        assert said[0].gpus == ()


def test_sensors_that_cost_too_much_are_read_less_often() -> None:
    spent = iter(at * 0.015 for at in range(1000))
    rounds = Rounds([Told("nvml", [GpuCard(gpu=0)], [GpuReading(gpu=0, power_w=1.0)])], cost=lambda: next(spent))
    rounds.probe()
    said = [event for at in range(25) for event in rounds.round(float(at))]
    assert rounds.interval_s == 2.0
    assert any("1.5% of the time" in getattr(event, "text", "") for event in said)


def test_cheap_sensors_are_read_each_second() -> None:
    run = Played(ramp()).run(60)
    assert run.rounds.interval_s == 1.0
    assert run.summary.fast_mean_ms is not None
    assert run.summary.slow_mean_ms is not None


def test_the_first_wait_is_bounded() -> None:
    assert lines_module.FIRST_WAIT_S <= 10.0
