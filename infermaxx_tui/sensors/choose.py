"""Which sources of GPU sensors a run reads: what the scenario names, else the cards of this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Final
from urllib.parse import urlsplit

from infermaxx_tui.core.gpu import GpuProbe, GpuReading
from infermaxx_tui.core.gpu_owner import ServerPids
from infermaxx_tui.core.scenario import Sensors
from infermaxx_tui.sensors.machine import Machine, find_server, is_local, this_machine
from infermaxx_tui.sensors.nvml_lib import Nvml
from infermaxx_tui.sensors.rounds import Rounds
from infermaxx_tui.sensors.sampler import Sampler
from infermaxx_tui.sensors.source import Source

NO_LIBRARY: Final = "nvidia-ml-py is not installed: pip install nvidia-ml-py"
WRONG_PYNVML: Final = (
    "an old fork of pynvml hides nvidia-ml-py: pip uninstall pynvml nvidia-ml-py3, then install nvidia-ml-py"
)


class NoSource:
    """A source without cards, with the reason."""

    def __init__(self, why: str) -> None:
        self._why = why

    def probe(self, first: int) -> GpuProbe:
        """The reason."""
        return GpuProbe(source="none", error=self._why)

    def read(self, slow: bool) -> tuple[GpuReading, ...]:
        """Nothing."""
        return ()

    def changed(self) -> GpuProbe | None:
        """Never."""
        return None

    def close(self) -> None:
        """Nothing is held."""


def open_sensors(wanted: Sensors, url: str | None, server_pid: int | None, simulated: Nvml | None = None) -> Sampler:
    """A sampler whose probe has begun. `simulated` is a library that plays the cards of an embedded server."""
    sources = sources_of(wanted, url, server_pid, simulated)
    sampler = Sampler(Rounds(sources, wanted.server_gpus, wanted.interval_s))
    sampler.start()
    return sampler


def sources_of(wanted: Sensors, url: str | None, server_pid: int | None, simulated: Nvml | None = None) -> list[Source]:
    """The sources, the one whose cards the others may add to first."""
    if not wanted.gpu:
        return [NoSource("GPU sensors are switched off (--no-gpu or sensors.gpu)")]
    sources: list[Source] = []
    if simulated is not None:
        sources.append(simulated_source(simulated))
    elif wanted.metrics_url is not None:
        from infermaxx_tui.sensors.exporter import ExporterSource

        here = is_local(urlsplit(wanted.metrics_url).hostname or "")
        sources.append(ExporterSource(wanted.metrics_url, _same_host(wanted.metrics_url, url), here is True))
    elif wanted.ssh is None and not (wanted.command is not None and _elsewhere(url, server_pid)):
        sources.append(local_source(url, server_pid))
    if wanted.ssh is not None or wanted.command is not None:
        sources += _programs(wanted, _elsewhere(url, server_pid))
    return sources


def _programs(wanted: Sensors, elsewhere: bool) -> list[Source]:
    from infermaxx_tui.sensors.lines import LinesSource, claim_only, pairs, smi_over_ssh, smi_rows

    sources: list[Source] = []
    if wanted.ssh is not None:
        claim = claim_only(wanted.ssh)
        sources.append(LinesSource("nvidia-smi", smi_over_ssh(wanted.ssh), smi_rows, claim, local=False))
    if wanted.command is not None:
        claim = claim_only("the sensor command")
        sources.append(LinesSource("command", wanted.command, pairs, claim, local=not elsewhere))
    return sources


def local_source(url: str | None, server_pid: int | None) -> Source:
    """The cards of this machine: NVIDIA's, else AMD's where amdsmi is installed, else the reason why there are none."""
    machine = this_machine()
    find = partial(find_server, url, server_pid)
    nvml, why = _pynvml()
    if nvml is not None and (find_spec("amdsmi") is None or _starts(nvml)):
        return _nvml_source(nvml, find, machine)
    amd = _amdsmi(find, machine)
    if amd is not None:
        return amd
    return _nvml_source(nvml, find, machine) if nvml is not None else NoSource(why)


def simulated_source(lib: Nvml) -> Source:
    """Cards that an embedded server plays: they are its own, and labelled as simulated."""
    from infermaxx_tui.sensors.nvml import NvmlSource

    pid = 1
    server = ServerPids(True, frozenset({pid}))
    machine = Machine(lambda asked: True, lambda asked: "infermaxx sim" if asked == pid else "another program")
    return NvmlSource(lib, lambda: server, machine, simulated=True)


def _nvml_source(lib: Nvml, find: Callable[[], ServerPids], machine: Machine) -> Source:
    from importlib.metadata import PackageNotFoundError, version

    from infermaxx_tui.sensors.nvml import NvmlSource

    try:
        binding = f"nvidia-ml-py {version('nvidia-ml-py')}"
    except PackageNotFoundError:
        binding = None
    return NvmlSource(lib, find, machine, binding)


def _pynvml() -> tuple[ModuleType | None, str]:
    """The binding, or the reason why there is none. Old forks of the same name lack what nvidia-ml-py has."""
    try:
        import pynvml
    except ImportError:
        return None, NO_LIBRARY
    if not hasattr(pynvml, "_nvmlGetFunctionPointer"):
        return None, WRONG_PYNVML
    module: ModuleType = pynvml
    return module, ""


def _starts(lib: ModuleType) -> bool:
    """Whether there is an NVIDIA driver at all."""
    from infermaxx_tui.sensors.nvml_card import ask

    if ask(lib, lib.nvmlInit)[1]:
        return False
    ask(lib, lib.nvmlShutdown)
    return True


def _amdsmi(find: Callable[[], ServerPids], machine: Machine) -> Source | None:
    try:
        import amdsmi
    except (ImportError, OSError, KeyError):  # without ROCm's library its import fails in several ways
        return None
    from infermaxx_tui.sensors.amd import AmdSource

    return AmdSource(amdsmi, find, machine)


def _elsewhere(url: str | None, server_pid: int | None) -> bool:
    """Whether the server is known to be on another machine."""
    return server_pid is None and url is not None and is_local(urlsplit(url).hostname or "") is False


def _same_host(metrics_url: str, url: str | None) -> bool:
    """Whether the exporter is on the server's host, as far as names tell."""
    one, other = urlsplit(metrics_url).hostname, urlsplit(url or "").hostname
    return one is not None and (one == other or bool(is_local(one) and is_local(other or "")))
