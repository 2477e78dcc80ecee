"""Opens the GPU sensors of a run: those that the scenario names, this machine's cards, or the made-up ones of a
server that is simulated.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infermaxx_tui.core.scenario import Scenario
    from infermaxx_tui.sensors.sampler import Sampler


@contextmanager
def sensing(scenario: Scenario, url: str, server_pid: int | None) -> Iterator[Sampler]:
    """Sensors whose probe has begun beside; they are closed when the block ends.

    `server_pid`: the server's process, if this run started it.
    """
    from infermaxx_tui.sensors.choose import open_sensors

    simulated = None
    if scenario.server.sim:
        from infermaxx_tui.sim.cards import cards_of
        from infermaxx_tui.sim.fake_nvml import FakeNvml

        began = time.monotonic()
        simulated = FakeNvml(cards_of(scenario.server.sim), lambda: time.monotonic() - began)
    sampler = open_sensors(scenario.sensors, url, server_pid, simulated)
    try:
        yield sampler
    finally:
        sampler.finish()
