"""All panels of a recorded log as text: what the golden files hold.

python tests/core/paneltools.py writes the golden files again; read the difference before you commit it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from infermaxx_tui.core.events import Record, Unknown, decode
from infermaxx_tui.core.glyphs import ASCII, UNICODE, Glyphs
from infermaxx_tui.core.panels import (
    Row,
    RunLine,
    ScenarioLine,
    rows_axis,
    rows_compare,
    rows_feed,
    rows_gpu,
    rows_runs,
    rows_scenarios,
    rows_server,
    rows_session,
    rows_streams,
    rows_summary,
    rows_verdict,
)
from infermaxx_tui.core.panels.axis import axis_columns
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stories import SessionStory
from infermaxx_tui.core.timeline import MEASURED, Timeline
from infermaxx_tui.core.verdict import Verdict, judge_run
from infermaxx_tui.core.watch import Watch

TESTS = Path(__file__).parent.parent
LOGS = TESTS / "logs"
GOLDEN = TESTS / "golden" / "panels"
WIDTHS = (60, 80, 120, 140)
SETS = (UNICODE, ASCII)
NAMES = ("healthy", "leak", "capped")
HALF_US = 1_500_000
"""A moment in the middle of the recorded logs."""

RUNS = (
    RunLine("20261130-171300-demo-ab12", "2026-11-30 17:13:00", "demo", "ended", "PASS", False),
    RunLine("20261130-181300-soak-4x36k-ab13", "2026-11-30 18:13:00", "soak-4x36k", "running", None, False),
    RunLine("20261129-080000-soak-4x36k-ab14", "2026-11-29 08:00:00", "soak-4x36k", "died", "INCONCLUSIVE", True),
    RunLine("20261128-080000-quick-ab15", "2026-11-28 08:00:00", "quick", "ended", "FAIL", True),
)
SCENARIOS = (
    ScenarioLine("demo", "Shows the whole job in seconds.", 6, 3, 2500, 30, None),
    ScenarioLine("soak-4x36k", "Four agent sessions at once keep their own lot tags.", 4, 4, 36_000, 28, "2h"),
    ScenarioLine("broken", "", None, None, None, None, None, problem="broken.toml: not TOML"),
)


class Seen:
    """A log as far as it was read, with everything that panels are drawn from."""

    def __init__(self, records: Iterable[Record | Unknown], session: int = 1, until_us: int | None = None) -> None:
        self.watch, self.timeline, self.story = Watch(), Timeline(), SessionStory(session)
        for record in records:
            if until_us is not None and isinstance(record, Record) and record.mono_us > until_us:
                break
            if self.watch.add(record) and isinstance(record, Record):
                if type(record.event) in MEASURED:
                    self.timeline.measure(self.watch.clock.now_us, record.event)
                for mark in self.watch.marks:
                    self.timeline.mark(mark)
                self.story.add(self.watch.clock.now_us, record)
        self.state: RunState = self.watch.fold.snapshot()
        self.verdict: Verdict = judge_run(self.state)

    def panels(self, width: int, glyphs: Glyphs, cursor_us: int | None = None) -> Iterator[tuple[str, tuple[Row, ...]]]:
        """Every panel by name."""
        view = self.timeline.snapshot(0, self.watch.clock.now_us, axis_columns(width))
        state = self.state
        yield "summary", rows_summary(state, view, width, glyphs, self.verdict)
        yield "streams", rows_streams(state, view, width, glyphs, everyone=True)
        yield "server", rows_server(state, view, width, glyphs)
        yield "gpu", rows_gpu(state, view, width, glyphs)
        yield "axis", rows_axis(state, view, width, glyphs, cursor_us)
        yield "axis, six lines", rows_axis(state, view, width, glyphs, cursor_us, height=6)
        yield "feed", rows_feed(state, self.watch.feed.entries(), width, glyphs, limit=20)
        yield "verdict", rows_verdict(self.verdict, width, glyphs, state)
        yield "session", rows_session(state, self.story, width, glyphs)


def log(name: str) -> Iterator[Record | Unknown]:
    """The records of a recorded log."""
    for line in (LOGS / f"{name}.jsonl").read_bytes().splitlines():
        yield decode(line)


def text(panels: Iterable[tuple[str, tuple[Row, ...]]]) -> str:
    """Panels under their names."""
    lines: list[str] = []
    for name, rows in panels:
        lines += [f"== {name}", *(row.text for row in rows), ""]
    return "\n".join(lines)


def golden_texts() -> Iterator[tuple[str, str]]:
    """The name and the text of each golden file."""
    whole = {name: Seen(log(name)) for name in NAMES}
    half = Seen(log("leak"), until_us=HALF_US)
    for width in WIDTHS:
        for glyphs in SETS:
            end = f"{width}-{glyphs.name}.txt"
            for name, seen in whole.items():
                shown = seen.panels(width, glyphs)
                yield f"{name}-{end}", text(shown if name == "leak" else _short(shown))
            yield f"live-{end}", text(_short(half.panels(width, glyphs, HALF_US)))
            yield f"home-{end}", text(_home(width, glyphs, whole))


def _short(panels: Iterable[tuple[str, tuple[Row, ...]]]) -> Iterator[tuple[str, tuple[Row, ...]]]:
    """What differs between logs: the first lines of the long panels are enough."""
    return ((name, rows[:24]) for name, rows in panels)


def _home(width: int, glyphs: Glyphs, whole: dict[str, Seen]) -> Iterator[tuple[str, tuple[Row, ...]]]:
    healthy, leak = whole["healthy"].verdict, whole["leak"].verdict
    yield "runs", rows_runs(RUNS, width, glyphs)
    yield "scenarios", rows_scenarios(SCENARIOS, width, glyphs)
    yield "compare", rows_compare(healthy, leak, width, glyphs)


def main() -> None:
    """Writes the golden files."""
    GOLDEN.mkdir(exist_ok=True)
    for name, content in golden_texts():
        (GOLDEN / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
