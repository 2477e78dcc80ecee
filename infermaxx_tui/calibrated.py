"""This host's own error bars as they were measured last, so that a run can cite them: no time is better than they are.

They lie beside the selftest's certificate and hold for the host, the program and the Python that they were made with.
"""

from __future__ import annotations

import os
import platform
import socket
import time
from pathlib import Path

import msgspec

from infermaxx_tui import __version__
from infermaxx_tui.core.calibration import SCHEMA, Calibration, ErrorBars
from infermaxx_tui.core.events import Calibrated
from infermaxx_tui.idcache import cache_folder
from infermaxx_tui.private import make_folder
from infermaxx_tui.rundir import replace_file

_MAKE = "infermaxx doctor makes it in a few seconds"


def place() -> Path:
    """The file, one for each user."""
    return cache_folder() / "calibration.json"


def load_per_core() -> float:
    """How many processes wanted each core in the last minute."""
    return round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)


def made_here(bars: tuple[ErrorBars, ...], took_s: float, load: float | None = None) -> Calibration:
    """The bars with what they are bound to."""
    return Calibration(
        version=__version__,
        python=platform.python_version(),
        host=socket.gethostname(),
        platform=platform.platform(),
        at_ms=time.time_ns() // 1_000_000,
        took_s=round(took_s, 2),
        bars=bars,
        load_per_core=load,
    )


def keep(calibration: Calibration) -> Path:
    """Writes it down. Raises OSError."""
    path = place()
    make_folder(path.parent)
    replace_file(path, msgspec.json.format(msgspec.json.encode(calibration), indent=2) + b"\n")
    return path


def newest() -> Calibration | None:
    """The one on this host; None if there is none that can be read."""
    try:
        return msgspec.json.decode(place().read_bytes(), type=Calibration)
    except (OSError, msgspec.DecodeError):
        return None


def cited(now_ms: int) -> Calibrated:
    """What a run's log says of it; `now_ms` is Unix time."""
    found = newest()
    if found is None:
        return Calibrated(calibration=None, reason=f"nobody has calibrated this host: {_MAKE}")
    if found.schema != SCHEMA:
        return Calibrated(calibration=None, reason=f"the calibration is of another kind: {_MAKE}")
    here = made_here((), 0.0)
    for what, then, now in (
        ("host", found.host, here.host),
        ("system", found.platform, here.platform),
        ("Python", found.python, here.python),
        ("version", found.version, here.version),
    ):
        if then != now:
            return Calibrated(calibration=None, reason=f"calibrated with another {what} ({then}, now {now}): {_MAKE}")
    age_s = (now_ms - found.at_ms) / 1000
    if age_s < 0:
        return Calibrated(calibration=None, reason=f"the calibration is of the future, or the clock was set: {_MAKE}")
    return Calibrated(calibration=found, age_s=round(age_s, 1))
