"""The cards as part of a run's regime: only those that the server is known to compute on, else the reason."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from infermaxx_tui.core.gpu import GpuProbe, gpu_name, power_limit_w, why_none
from infermaxx_tui.core.regime import Regime


def with_gpus(regime: Regime, probes: Iterable[GpuProbe]) -> Regime:
    """The regime with the server's cards in it; with several, their UUIDs are joined by commas."""
    seen = list(probes)
    cards = [card for probe in seen for card in probe.of_server]
    drivers = [probe.driver for probe in seen if probe.of_server and probe.driver is not None]
    uuids = [card.uuid for card in cards if card.uuid is not None]
    name, why_no_name = gpu_name(seen)
    limit_w, why_no_limit = power_limit_w(seen)
    why = why_none(seen)
    found: dict[str, tuple[str | float | None, str]] = {
        "gpu": (name, why_no_name),
        "gpu_uuid": (",".join(uuids) or None, "the source gives no UUID" if cards else why),
        "gpu_driver": (drivers[0] if drivers else None, "the source does not say" if cards else why),
        "power_limit_w": (limit_w, why_no_limit),
    }
    missing = {key: reason for key, reason in regime.missing.items() if key not in found}
    missing |= {key: reason or "not read" for key, (value, reason) in found.items() if value is None}
    values = {key: value for key, (value, _) in found.items()}
    return msgspec.structs.replace(regime, missing=missing, **values)


def sensor_lines(probes: Iterable[GpuProbe]) -> tuple[str, ...]:
    """What a user ought to know of the sensors before a run: a line for each thing that is missing or not certain."""
    lines = []
    for probe in probes:
        if probe.error is not None:
            lines.append(f"GPU sensors: {probe.error}")
        lines += [f"GPU sensors: {remark}" for remark in probe.remarks if remark != probe.error]
        for card in probe.cards:
            if not card.server:
                lines.append(f"GPU {card.gpu} ({card.name or 'no name'}) enters no verdict: {card.server_why}")
            elif card.server_why.startswith("inferred"):
                lines.append(
                    f"GPU {card.gpu} ({card.name or 'no name'}) is taken to be the server's; {card.server_why}"
                )
    return tuple(dict.fromkeys(lines))
