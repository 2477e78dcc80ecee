"""How well the client could see, out of all the parts of a fold that noticed something of it."""

from __future__ import annotations

from infermaxx_tui.core.fold_gauges import distribution
from infermaxx_tui.core.fold_parts import FoldParts
from infermaxx_tui.core.state import Instrument


def instrument_of(parts: FoldParts) -> Instrument:
    """The client's own readings, the damage of the log, and what was not understood."""
    gauges, lines, run = parts.gauges, parts.lines, parts.run
    return Instrument(
        readings=gauges.readings,
        loop_lag_p50_ms=gauges.lag_p50_ms,
        loop_lag_p99_ms=gauges.lag_p99_ms,
        loop_lag_max_ms=gauges.lag_max_ms,
        cpu_share_max=gauges.cpu_share_max,
        rss_first_mib=gauges.rss_first_mib,
        rss_last_mib=gauges.rss_last_mib,
        rss_max_mib=gauges.rss_max_mib,
        events_parsed=gauges.events_parsed,
        wall_step_ms=gauges.wall_step_ms,
        ttft_ms=distribution(gauges.ttft),
        gap_ms=distribution(gauges.gaps),
        streams_timed=gauges.streams_timed,
        streams_buffered=gauges.streams_buffered,
        anomalies=dict(sorted(run.anomalies.items())),
        unparsed=parts.deliveries.unparsed.findings(),
        unknown_events=lines.unknown_events,
        invalid_lines=lines.invalid_lines + lines.repeated,
        torn_tail=lines.torn_tail,
        lines_missing=lines.missing,
        unlabelled_asks=parts.replies.unlabelled_asks,
        evidence_lost=run.evidence_lost.findings(),
        sight=parts.itself.sight(),
    )
