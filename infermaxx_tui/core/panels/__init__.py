"""The lines of every panel, from what a log says and a width: the same for the TUI, tests and exported text."""

from __future__ import annotations

from infermaxx_tui.core.panels.axis import rows_axis
from infermaxx_tui.core.panels.compare import rows_compare, rows_compare_all
from infermaxx_tui.core.panels.feed import rows_feed
from infermaxx_tui.core.panels.gpu import rows_gpu
from infermaxx_tui.core.panels.home import RunLine, ScenarioLine, rows_runs, rows_scenarios
from infermaxx_tui.core.panels.readings import rows_server
from infermaxx_tui.core.panels.row import Role, Row, Span
from infermaxx_tui.core.panels.session import rows_session
from infermaxx_tui.core.panels.streams import STREAM_ORDERS, StreamOrder, rows_streams
from infermaxx_tui.core.panels.summary import rows_summary
from infermaxx_tui.core.panels.verdict import rows_verdict

__all__ = [
    "STREAM_ORDERS",
    "Role",
    "Row",
    "RunLine",
    "ScenarioLine",
    "Span",
    "StreamOrder",
    "rows_axis",
    "rows_compare",
    "rows_compare_all",
    "rows_feed",
    "rows_gpu",
    "rows_runs",
    "rows_scenarios",
    "rows_server",
    "rows_session",
    "rows_streams",
    "rows_summary",
    "rows_verdict",
]
