"""This host's own error bars: what a time that is measured here is worth, before anybody judges a server by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from infermaxx_tui.calibrate import LOAD_S, LOADS, CalibrationError, calibrate, seconds
from infermaxx_tui.calibrated import keep
from infermaxx_tui.core.calibration import Calibration, ErrorBars, error_text
from infermaxx_tui.core.checkup import Item
from infermaxx_tui.core.limits import Limits

SECTION = "instrument"


def instrument_items(
    tell: Callable[[str], None], loads: Sequence[tuple[int, float]] = LOADS, load_s: float = LOAD_S
) -> tuple[list[Item], Calibration | None]:
    """A line for each load that was tried, and the calibration, which later runs cite; `tell` hears how long first."""
    takes_s = seconds(loads, load_s)
    tell(f"calibrating the instrument on this host: about {takes_s:.0f} s; --no-calibration leaves it out")
    try:
        found = calibrate(loads, load_s)
    except (CalibrationError, OSError) as error:
        return [Item(SECTION, "error bars", "unknown", f"could not calibrate: {error}")], None
    items = [*_busy(found), *(_item(bar) for bar in found.bars)]
    if all(bar.reason is not None for bar in found.bars):
        items.append(Item(SECTION, "kept", "unknown", "nothing: no load could be measured", "end what else runs here"))
        return items, found
    try:
        items.append(Item(SECTION, "kept", "ok", f"{keep(found)}: later runs cite it"))
    except OSError as error:
        items.append(Item(SECTION, "kept", "warn", f"not written: {error.strerror or error}"))
    return items, found


def _busy(found: Calibration) -> Iterator[Item]:
    load = found.load_per_core
    if load is not None and load > 1.0:
        said = f"{load:g} processes wanted each core: these are the errors of a busy host"
        yield Item(SECTION, "host meanwhile", "warn", said, "calibrate again when nothing else runs")


def _item(bar: ErrorBars) -> Item:
    said = error_text(bar).partition(": ")[2]
    if bar.reason is not None:
        return Item(SECTION, bar.load, "unknown", said)
    share = Limits().max_loop_lag_share
    lag, period_ms = bar.loop_lag_p99_ms, 1000 / bar.rate_hz
    if lag is not None and lag > share * period_ms:
        advice = f"no time of such a load can be judged here: the loop lags more than {share:g} of the {period_ms:g} ms"
        return Item(SECTION, bar.load, "warn", said, advice)
    return Item(SECTION, bar.load, "ok", said)
