"""Records the logs that the golden panels are drawn from: the demo in memory, healthy and sick, with a fixed nonce.

python tests/tools/record_logs.py OUT_FOLDER

What depends on the machine (its name, its load, the program's version) is replaced, so that only a change of the
scenario, of the transcripts or of the runner makes another log. Golden texts must be made again after that.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from infermaxx_tui.core import events as ev
from infermaxx_tui.core.events import AnyEvent, Record, decode, encode
from infermaxx_tui.selftest import play_in_memory

LOGS = {"healthy": ("clean",), "leak": ("leak",), "capped": ("capped",)}


def settled(record: Record) -> Record:
    """The record without what the machine and the moment put into it."""
    return msgspec.structs.replace(record, event=_event(record.event))


def _event(event: AnyEvent) -> AnyEvent:
    match event:
        case ev.RunStarted():
            host = ev.Host(name="host", system="system", python="3.11", cpus=2)
            return msgspec.structs.replace(
                event, host=host, program="infermaxx", scenario_text='name = "demo"\n', scenario_sha256="0" * 64
            )
        case ev.RegimeNoted(regime=regime):
            return ev.RegimeNoted(regime=msgspec.structs.replace(regime, client="infermaxx"))
        case ev.InstrumentRead():
            return msgspec.structs.replace(
                event, loop_lag_p50_ms=0.1, loop_lag_p99_ms=0.5, loop_lag_max_ms=1.0, cpu_share=0.2, rss_mib=64.0
            )
        case ev.MetricsRead():
            return msgspec.structs.replace(event, process_start_s=1.0, scrape_ms=1.0)
        case _:
            return event


def record(faults: tuple[str, ...]) -> bytes:
    """The log of the demo with these faults."""
    decoded = (decode(line) for line in play_in_memory(faults))
    return b"".join(encode(settled(one)) for one in decoded if isinstance(one, Record))


def main() -> None:
    """Writes all logs into a folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, faults in LOGS.items():
        (folder / f"{name}.jsonl").write_bytes(record(faults))


if __name__ == "__main__":
    main()
