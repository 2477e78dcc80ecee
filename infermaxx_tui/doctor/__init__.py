"""`infermaxx doctor`: this host, its cards, and a server that is named, on one page."""

from __future__ import annotations

from collections.abc import Callable

import infermaxx_tui
from infermaxx_tui.core.checkup import Checkup, Item, of_cards
from infermaxx_tui.doctor.host import host_items
from infermaxx_tui.doctor.instrument import instrument_items
from infermaxx_tui.doctor.server import Examined, examine_server, read_log
from infermaxx_tui.sensors import probe_local


def examine(
    url: str | None,
    model: str,
    log: str | None,
    runs_dir: str | None,
    api_key: str | None,
    calibrating: Callable[[str], None] | None = None,
) -> Checkup:
    """Everything that can be seen without sending the model anything. Takes as long as the slowest answer.

    `calibrating` is told how long it takes to measure this host's own errors; without it they are not measured.
    """
    items = host_items(runs_dir)
    calibration = None
    if calibrating is not None:
        measured, calibration = instrument_items(calibrating)
        items += measured
    probe = probe_local(url)
    items += of_cards(probe)
    server: Examined | None = None
    if url is None:
        items.append(Item("server", "URL", "note", "none was named", "infermaxx doctor --url http://HOST:8000"))
        items += read_log(log)
    else:
        server = examine_server(url, model, log, api_key, probe)
        items += server.items
    return Checkup(
        program=f"infermaxx {infermaxx_tui.__version__} doctor",
        url=server.url if server is not None else None,
        usable=server.usable if server is not None else None,
        items=tuple(items),
        type_next=_next(server),
        calibration=calibration,
    )


def _next(server: Examined | None) -> tuple[str, ...]:
    if server is None:
        return ("infermaxx demo", "infermaxx selftest", "infermaxx doctor --url http://HOST:8000")
    if not server.usable:
        return (f"infermaxx doctor --url {server.url}", "infermaxx demo")
    sets = "".join(f" --set {key}={value}" for key, value in server.fits)
    return tuple(f"infermaxx run quick --url {server.url}{how}{sets}" for how in (" --dry-run", ""))
