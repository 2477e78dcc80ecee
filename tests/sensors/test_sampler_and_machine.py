"""The thread beside the load, and finding the server's processes on this very machine."""

from __future__ import annotations

import inspect
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from living import lives, until
from sensortools import HERE, SERVER

from infermaxx_tui.core.events import GpuProbed, GpuRead, Noted
from infermaxx_tui.core.gpu import GpuProbe, GpuReading
from infermaxx_tui.core.gpu_nvml import ERRORS
from infermaxx_tui.core.standing import Standing
from infermaxx_tui.sensors import probe_local
from infermaxx_tui.sensors import sampler as sampler_module
from infermaxx_tui.sensors.machine import Computing, find_server, is_local, standing, this_machine
from infermaxx_tui.sensors.nvml import NvmlSource
from infermaxx_tui.sensors.nvml_lib import Nvml
from infermaxx_tui.sensors.rounds import Rounds
from infermaxx_tui.sensors.sampler import Sampler
from infermaxx_tui.sensors.source import Source
from infermaxx_tui.sim.fake_card import FakeCard
from infermaxx_tui.sim.fake_nvml import FakeNvml
from infermaxx_tui.sim.gpu_timeline import ramp


def lib() -> FakeNvml:
    return FakeNvml([FakeCard(ramp())], lambda: 1.0)


def sampler_of(*sources: Source, interval_s: float = 0.02) -> Sampler:
    made = Sampler(Rounds(list(sources), interval_s=interval_s))
    made.start()
    return made


class Hanging:
    """A source whose card fell off the bus so that the driver never answers."""

    def __init__(self, at_probe: bool) -> None:
        self.at_probe = at_probe
        self.free, self.reading = threading.Event(), threading.Event()

    def probe(self, first: int) -> GpuProbe:
        if self.at_probe:
            self.free.wait(30)
        return GpuProbe(source="nvml")

    def read(self, slow: bool) -> tuple[GpuReading, ...]:
        self.reading.set()
        self.free.wait(30)
        return ()

    def changed(self) -> GpuProbe | None:
        return None

    def close(self) -> None:
        return


class Broken(Hanging):
    """A source with a fault of ours in it."""

    def read(self, slow: bool) -> tuple[GpuReading, ...]:
        self.reading.set()
        raise RuntimeError("a fault of this program")


class TestSampler:
    """Rounds in a thread of their own."""

    def test_it_probes_at_once_reads_when_asked_and_ends_with_all_readings(self) -> None:
        fake = lib()
        sampler = sampler_of(NvmlSource(fake, lambda: SERVER, HERE))
        (probe,) = sampler.probes()
        assert probe.cards[0].server
        sampler.begin()
        said: list[object] = []
        while sum(isinstance(event, GpuRead) for event in said) < 3:
            said += sampler.take()
        said += sampler.finish()
        assert isinstance(said[0], GpuProbed)
        reads = [event for event in said if isinstance(event, GpuRead)]
        assert reads[0].window_ms == 0.0
        assert reads[0].slow_ms is not None
        assert reads[-1].slow_ms is not None
        assert reads[-1].gpus[0].energy_j is not None
        assert all(read.window_ms > 0 for read in reads[1:])
        assert fake.started == 0

    def test_a_run_that_never_begins_reads_nothing(self) -> None:
        fake = lib()
        sampler = sampler_of(NvmlSource(fake, lambda: SERVER, HERE))
        assert not [event for event in sampler.finish() if isinstance(event, GpuRead)]
        assert fake.started == 0
        assert sampler.finish() == []

    def test_a_driver_that_hangs_at_the_start_holds_the_run_up_for_a_moment_only(self) -> None:
        source = Hanging(at_probe=True)
        sampler = sampler_of(source)
        (probe,) = sampler.probes(0.05)
        assert probe.error == "the GPU sensors did not answer within 0.05 s"
        source.free.set()
        sampler.finish()

    def test_a_driver_that_hangs_at_the_end_costs_the_last_round_and_says_so(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sampler_module, "END_S", 0.05)
        source = Hanging(at_probe=False)
        sampler = sampler_of(source)
        sampler.begin()
        assert source.reading.wait(10)
        (late,) = (event for event in sampler.finish() if isinstance(event, Noted))
        assert "their last round is missing" in late.text
        source.free.set()

    def test_a_fault_of_ours_ends_the_sensors_and_is_kept(self) -> None:
        source = Broken(at_probe=False)
        sampler = sampler_of(source)
        sampler.begin()
        assert source.reading.wait(10)
        said = sampler.finish()
        why = "the GPU sensors ended: RuntimeError: a fault of this program"
        assert [event.probe.error for event in said if isinstance(event, GpuProbed)] == [None, why]
        assert [event.text for event in said if isinstance(event, Noted)] == [why]


class TestMachine:
    """Real sockets and processes of this machine."""

    def test_whoever_listens_is_the_server(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            found = find_server(f"http://127.0.0.1:{server.getsockname()[1]}", None)
        assert found.here
        assert os.getpid() in found.pids

    def test_the_children_of_a_server_that_was_started_are_the_server_too(self) -> None:
        code = "import subprocess,sys; print(subprocess.Popen(['sleep','60']).pid, flush=True); sys.stdin.read()"
        started = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert started.stdout is not None
        assert started.stdin is not None
        child = int(started.stdout.readline())
        try:
            found = find_server(None, started.pid)
            assert {started.pid, child} <= found.pids
        finally:
            os.kill(child, 9)
            started.communicate()

    def test_a_process_that_is_stopped_is_told_from_one_that_runs_and_from_none(self) -> None:
        code = "import socket,sys; s=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1]); sys.stdin.read()"
        started = subprocess.Popen([sys.executable, "-uc", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert started.stdout is not None
        url = f"http://127.0.0.1:{int(started.stdout.readline())}"
        try:
            assert standing(url, None) == Standing(True, 1)
            started.send_signal(signal.SIGSTOP)
            until(lambda: psutil.Process(started.pid).status() == psutil.STATUS_STOPPED)
            assert standing(url, None) == standing(url, started.pid) == Standing(True, 1, 1)
            started.kill()
            until(lambda: not lives(started.pid))
            assert standing(url, started.pid).alive == 0, "remains that nobody has collected are no server"
        finally:
            started.kill()
            started.communicate()
        found = standing(url, None)
        assert (found.here, found.alive) == (True, 0)
        assert "nobody is seen to listen" in found.why

    def test_nobody_listens(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        found = find_server(f"http://127.0.0.1:{port}", None)
        assert (found.here, found.pids) == (True, frozenset())
        assert str(port) in found.why

    @pytest.mark.parametrize(
        ("host", "here"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("192.0.2.7", False), ("", None)]
    )
    def test_this_machine_or_another(self, host: str, here: bool | None) -> None:
        assert is_local(host) is here

    def test_a_name_without_an_address_is_not_known(self) -> None:
        found = find_server("http://no-such-host.invalid:8000", None)
        assert found.here is None
        assert "no-such-host.invalid" in found.why

    def test_another_machine(self) -> None:
        assert find_server("http://192.0.2.7:8000", None).here is False
        assert find_server(None, None).here is None

    def test_a_process_without_a_gpus_library_is_none_that_computes(self) -> None:
        """By its number alone it could be a process of the host that this container does not see."""
        assert not this_machine().exists(os.getpid())

    def test_a_process_with_a_gpus_library_computes(self, tmp_path: Path) -> None:
        library = tmp_path / "libcuda.so.1"
        library.write_bytes(bytes(4096))
        with library.open("rb") as file, mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_READ):
            assert Computing()(os.getpid())
        asked = Computing()
        assert not asked(os.getpid())
        assert not asked(2**22 + 1)

    def test_a_process_that_is_gone_has_no_name(self) -> None:
        machine = this_machine()
        assert machine.name(os.getpid())
        assert machine.name(2**22 + 1) is None


def test_this_machine_can_be_probed_whatever_is_in_it() -> None:
    probe = probe_local("http://127.0.0.1:9")
    assert (probe.error is None) == bool(probe.cards)
    assert "\n" not in (probe.error or "")


def test_nothing_of_a_driver_is_loaded_before_it_is_needed() -> None:
    code = "import sys, infermaxx_tui.cli, infermaxx_tui.sensors; print(*({'pynvml', 'httpx'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_real_binding_has_every_call_that_is_made_with_these_parameters() -> None:
    """No card is needed to see that the names and the parameters are those of nvidia-ml-py."""
    import pynvml

    made = {name: call for name, call in vars(Nvml).items() if name.startswith("nvml") and callable(call)}
    assert len(made) > 40
    for name, call in made.items():
        wanted = list(inspect.signature(call).parameters.values())[1:]
        real = inspect.signature(getattr(pynvml, name))
        needed = [one for one in wanted if one.default is inspect.Parameter.empty]
        real.bind(*needed)
        real.bind(*wanted)
    for constant in ("nvmlMemory_v2", "nvmlEventTypeXidCriticalError"):
        assert isinstance(getattr(pynvml, constant), int)


def test_the_fake_library_has_the_constants_of_the_real_one() -> None:
    import pynvml

    assert FakeNvml.nvmlMemory_v2 == pynvml.nvmlMemory_v2
    assert FakeNvml.nvmlEventTypeXidCriticalError == pynvml.nvmlEventTypeXidCriticalError
    assert {code for code in ERRORS if code in (15, 16, 18)} == {
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
    for field, name in ((74, "PERF_POLICY_POWER"), (82, "MEMORY_TEMP"), (230, "GET_GPU_RECOVERY_ACTION")):
        assert getattr(pynvml, f"NVML_FI_DEV_{name}") == field
    for kind, name in ((5, "SIGNED_INT"), (4, "SIGNED_LONG_LONG"), (6, "UNSIGNED_SHORT"), (0, "DOUBLE")):
        assert getattr(pynvml, f"NVML_VALUE_TYPE_{name}") == kind
