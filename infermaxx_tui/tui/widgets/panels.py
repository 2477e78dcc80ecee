"""The panels of a run: which rows each shows of a picture, how they are looked at, and where there is room for them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from infermaxx_tui.core.glyphs import Glyphs
from infermaxx_tui.core.panels import (
    STREAM_ORDERS,
    Row,
    rows_axis,
    rows_feed,
    rows_gpu,
    rows_server,
    rows_streams,
    rows_verdict,
)
from infermaxx_tui.core.panels.axis import axis_columns
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stories import FeedEntry
from infermaxx_tui.core.verdict import Verdict
from infermaxx_tui.tui.arrange import PANELS, Panel, arrange
from infermaxx_tui.tui.asks import Snapshot
from infermaxx_tui.tui.widgets.lines import Draw, Lines
from infermaxx_tui.tui.widgets.panel_set import PanelSet
from infermaxx_tui.tui.widgets.slices import HEAD_CELLS, SLICE_CELLS

_TITLES: dict[Panel, str] = {
    "streams": "1 streams",
    "axis": "2 over time",
    "machine": "3 server and GPU",
    "verdict": "4 verdict",
    "feed": "5 events",
}
_CALM: frozenset[Panel] = frozenset({"machine", "feed"})
"""Panels that change in every line when anything does; of a live run every other picture does for them."""
_SLICES: dict[Panel, int] = {"streams": SLICE_CELLS, "axis": HEAD_CELLS}
_AXIS_LINES = 6
"""Lines over time beside one for each stream."""


class Panels(PanelSet[Panel]):
    """Five lists over one picture."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(PANELS)
        self._glyphs = glyphs
        self._seen: Snapshot | None = None
        self._order = 0
        self._reverse = False
        self._everyone = False
        self._verdict_rows: tuple[Verdict, int, tuple[Row, ...]] | None = None
        self._event_rows: tuple[tuple[int, str], tuple[FeedEntry, ...], tuple[Row, ...]] | None = None
        draws: dict[Panel, Draw] = {
            "streams": self._streams,
            "axis": self._axis,
            "machine": self._machine,
            "verdict": self._verdict,
            "feed": self._events,
        }
        self.lists: dict[Panel, Lines] = {
            name: Lines(
                glyphs,
                id=name,
                title=_TITLES[name],
                head=1 if name == "streams" else 0,
                slices=_SLICES.get(name, 0),
                tail=name == "feed",
                draw=draws[name],
            )
            for name in PANELS
        }

    def show(self, seen: Snapshot | None, calm: bool = False) -> bool:
        """Shows a picture; when `calm`, lists that nobody reads that fast are left out.

        Whether there are more or fewer streams than before, so that room is to be made anew.
        """
        self._seen = seen
        wanted = self.lists["streams"].wanted
        for name, lines in self.lists.items():
            if not (calm and name in _CALM and not lines.has_focus):
                lines.redraw()
        return self.lists["streams"].wanted != wanted

    def make_room(self, width: int, height: int, screen_height: int) -> int | None:
        """Puts the lists where there is room for them; how many columns the axis has then, if it is there."""
        streams = self.lists["streams"].wanted
        wanted: dict[Panel, int] = {"streams": streams, "axis": streams + _AXIS_LINES}
        wanted |= {name: self.lists[name].wanted for name in ("machine", "verdict")}
        boxes = arrange(width, height, wanted, self.chosen, self._alone, screen_height)
        self.put(boxes)
        return axis_columns(boxes["axis"].width) if "axis" in boxes else None

    def reachable(self) -> Sequence[Panel]:
        """Those that are shown, or all of them where one alone is."""
        visible = [name for name in PANELS if self.lists[name].display]
        return visible if len(visible) > 1 else PANELS

    def sort(self, steps: int) -> None:
        """The next column to sort streams by."""
        self._order = (self._order + steps) % len(STREAM_ORDERS)
        self._reverse = False
        self._name_order()

    def reverse(self) -> None:
        """The other way round."""
        self._reverse = not self._reverse
        self._name_order()

    def _name_order(self) -> None:
        way = ", reversed" if self._reverse else ""
        order = STREAM_ORDERS[self._order]
        streams = self.lists["streams"]
        streams.title = _TITLES["streams"] + ("" if order == "session" and not way else f" by {order}{way}")
        streams.redraw()

    def everyone(self) -> None:
        """Ended streams too, or open ones alone."""
        self._everyone = not self._everyone

    def _streams(self, width: int, height: int) -> tuple[Row, ...]:
        seen = self._seen
        if seen is None:
            return ()
        order = STREAM_ORDERS[self._order]
        state = _without_flicker(seen.moment.state) if seen.live and seen.following else seen.moment.state
        return rows_streams(state, seen.timeline, width, self._glyphs, order, self._reverse, self._everyone, self.match)

    def _axis(self, width: int, height: int) -> tuple[Row, ...]:
        seen = self._seen
        if seen is None:
            return ()
        cursor = None if seen.following else seen.moment.at_us
        return rows_axis(seen.moment.state, seen.timeline, width, self._glyphs, cursor, (), height)

    def _machine(self, width: int, height: int) -> tuple[Row, ...]:
        seen = self._seen
        if seen is None:
            return ()
        state, glyphs = seen.moment.state, self._glyphs
        return (*rows_server(state, seen.timeline, width, glyphs), *rows_gpu(state, seen.timeline, width, glyphs))

    def _verdict(self, width: int, height: int) -> tuple[Row, ...]:
        seen = self._seen
        if seen is None or seen.verdict is None:
            return ()
        kept = self._verdict_rows
        if kept is None or kept[0] is not seen.verdict or kept[1] != width:
            rows = rows_verdict(seen.verdict, width, self._glyphs, seen.moment.state)
            self._verdict_rows = kept = (seen.verdict, width, rows)
        return kept[2]

    def _events(self, width: int, height: int) -> tuple[Row, ...]:
        """The feed; of a feed that has grown, only what is new is made."""
        seen = self._seen
        if seen is None:
            return ()
        state, entries = seen.moment.state, seen.moment.feed
        before, key = self._event_rows, (width, self.match)
        new = entries if before is None or before[0] != key or self.match else _after(before[1], entries)
        if before is not None and len(new) < len(entries):
            rows = before[2] + (rows_feed(state, new, width, self._glyphs) if new else ())
            rows = rows[len(rows) - len(entries) :]
        else:
            rows = rows_feed(state, entries, width, self._glyphs, match=self.match)
        self._event_rows = (key, entries, rows)
        return rows


def _after(before: tuple[FeedEntry, ...], now: tuple[FeedEntry, ...]) -> tuple[FeedEntry, ...]:
    """What has come since; all of it if it is not the same feed."""
    for back in range(len(now)):
        if before and now[-1 - back] is before[-1]:
            return now[len(now) - back :]
    return now


def _without_flicker(state: RunState) -> RunState:
    """Ages in whole seconds: of a live stream they are other milliseconds in each picture, which say nothing."""
    replace = msgspec.structs.replace
    sessions = tuple(
        one if one.silent_ms is None else replace(one, silent_ms=one.silent_ms // 1000 * 1000.0)
        for one in state.sessions
    )
    return replace(state, sessions=sessions)
