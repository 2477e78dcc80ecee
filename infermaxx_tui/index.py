"""Opens a run's log once and finds its way in it afterwards: live and review are the same log, one still grows.

Every moment is a fold up to it. Copies of the fold are kept all along the log, so that a jump folds a part of it only,
and places of failures, gaps and each conversation's lines, so that they are found without folding.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from infermaxx_tui.core.events import Record, Unknown, decode
from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.kept import Blocks, DamagedError, put_away, taken
from infermaxx_tui.core.logtime import LogClock
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stories import FeedEntry, SessionStory
from infermaxx_tui.core.timeline import MEASURED, Timeline
from infermaxx_tui.core.watch import Watch, WatchParts
from infermaxx_tui.log import parts
from infermaxx_tui.rundir import RunError, RunFolder
from infermaxx_tui.seek import indexfile
from infermaxx_tui.seek.describe import describe_log, span_us
from infermaxx_tui.seek.files import LogFiles, placed
from infermaxx_tui.seek.indexfile import Copy, Review
from infermaxx_tui.seek.lines import Block, decode_block
from infermaxx_tui.seek.places import TOLD, LogMap, SeekTarget
from infermaxx_tui.seek.walk import Walker
from infermaxx_tui.seek.zoom import ZoomedTimeline

__all__ = ["Moment", "RunLog", "SeekTarget", "describe_log", "keep_index"]

MARK_LINES: Final = 512
"""The place of a line is kept after so many lines, which is half a minute of a large run, and of each file's first."""
FIRST_SPACING: Final = 2048
MOST_COPIES: Final = 512
"""Copies of the fold are so many lines apart at first; when there are too many, every other one is dropped."""
INDEXED_BYTES: Final = 4 << 20
"""A smaller log needs no events.idx."""


class Moment(msgspec.Struct, frozen=True):
    """The run as it stood at one moment of log time."""

    at_us: int
    state: RunState
    feed: tuple[FeedEntry, ...]
    """The newest things that had happened, newest last."""


class RunLog:
    """One run's log: `open` it, `follow` it while it grows, `seek` in it. For one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = LogFiles(folder)
        self._map = LogMap()
        self._watch = Watch()
        self._lines = self._kept = self._marked = 0
        self._file = -1
        self._spacing = FIRST_SPACING
        self._blocks = Blocks()
        self._copies: list[Copy] = []
        self._here: Walker | None = None
        self._latest: Moment | None = None
        self.known_bytes = 0
        """Bytes of the log that were not folded, since events.idx knew what they say."""
        self.timeline = self._zoomed(Timeline())

    def _zoomed(self, whole: Timeline) -> ZoomedTimeline:
        made = ZoomedTimeline(self._watch.clock, self._files.again, lambda at_us: self._map.before(at_us))
        made.whole = whole
        return made

    def open(self, progress: Callable[[int, int], bool] | None = None) -> None:
        """Reads all complete lines there are, or those alone that events.idx does not know. `progress(bytes done, bytes
        in all)` is called now and then; False stops it early. Raises RunError."""
        self._go_on(progress)
        if not self.known_bytes:
            with suppress(OSError):
                self.timeline.whole = Timeline(expected_us=span_us(self._folder))
        for _ in self._take(progress):
            pass
        size = self._files.size
        if size >= INDEXED_BYTES and size != self.known_bytes and not RunFolder(self._folder).alive():
            self.save_index()

    def _go_on(self, progress: Callable[[int, int], bool] | None) -> None:
        """Goes on from events.idx, if that is of this log."""
        kept = indexfile.load(self._folder, progress)
        if kept is None:
            return
        self._files.go_on(kept.taken)
        self.known_bytes = sum(kept.taken)
        self._watch, self._map, self._blocks, self._copies = Watch(kept.newest), kept.places, kept.blocks, kept.copies
        self._lines = self._kept = self._marked = kept.lines
        self._spacing, self._file = kept.spacing, len(kept.taken) - 1
        self.timeline = self._zoomed(Timeline(parts=kept.timeline))

    def follow(self) -> Iterator[Record | Unknown]:
        """Takes in and yields what was written since; a torn tail is kept back. Raises RunError."""
        return self._take(None)

    def _take(self, progress: Callable[[int, int], bool] | None) -> Iterator[Record | Unknown]:
        """A block is taken in as a whole before its lines are handed out, so that nobody can leave half of it."""
        for file, block in self._files.new(progress):
            records = decode_block(block)
            self._latest = None
            self._take_in(file, block, records)
            yield from records

    def _take_in(self, file: int, block: Block, records: list[Record | Unknown]) -> None:
        watch, line_map, whole, offset = self._watch, self._map, self.timeline.whole, block.offset
        if self._lines - self._kept >= self._spacing:
            self._copies.append(self._copy(file, offset))
            self._thin_out()
        self._lines += len(records)
        unmarked = self._lines - self._marked >= MARK_LINES or file != self._file
        for line, record in zip(block.lines, records, strict=True):
            if watch.add(record) and isinstance(record, Record):
                event, now = record.event, watch.clock.now_us
                if type(event) in TOLD:
                    line_map.tell(getattr(event, "session"), file, offset, now)  # noqa: B009 -- all of TOLD have one
                if type(event) in MEASURED:
                    whole.measure(now, event)
                for mark in watch.marks:
                    whole.mark(mark)
                    line_map.found(mark)
                if unmarked:
                    line_map.mark(file, offset, record, watch.clock)
                    unmarked, self._marked, self._file = False, self._lines, file
            offset += len(line) + 1

    def _copy(self, file: int, offset: int) -> Copy:
        """The fold as it is now, before the line at a place."""
        self._kept = self._lines
        data, blocks = put_away(self._watch.parts, self._blocks)
        return Copy(self._watch.clock.now_us, file, offset, data, blocks)

    def _thin_out(self) -> None:
        """With too many copies, every other one goes and the next ones are twice as far apart."""
        if len(self._copies) > MOST_COPIES:
            self._copies = self._copies[1::2]
            self._spacing *= 2

    def latest(self) -> Moment:
        """The run as far as it was read."""
        if self._latest is None:
            self._latest = _moment(self._watch, self.timeline.end_us)
        return self._latest

    def seek(self, at_us: int) -> Moment:
        """The run as it stood at that log time (the last line at or before it). Raises RunError."""
        if at_us >= self.timeline.end_us:
            return self.latest()
        at_us = max(at_us, 0)
        here, self._here = self._nearest(at_us), None
        here.go_to(at_us, self._files.again)
        self._here = here
        return _moment(here.watch, at_us)

    def _nearest(self, at_us: int) -> Walker:
        """A fold that stands nearest before a moment and may go on: the one of the last jump, or one made of a copy.
        A copy that turns out to be damaged is forgotten."""
        here = self._here if self._here is not None and self._here.at_us <= at_us else None
        while at := bisect_right(self._copies, at_us, key=lambda copy: copy.at_us):
            best = self._copies[at - 1]
            if here is not None and here.place >= best.place:
                return here
            with suppress(DamagedError):
                return Walker(Watch(taken(best.data, WatchParts, self._blocks)), *best.place)
            del self._copies[at - 1]
        return here or Walker(Watch(), 0, 0)

    def find(self, target: SeekTarget, after_us: int, backwards: bool = False) -> tuple[int, Ref] | None:
        """Log time and place of the next such thing after (or the last one before) a moment; None if there is none."""
        return self._map.find(target, after_us, backwards)

    def time_of(self, ref: Ref) -> int | None:
        """Log time of an event, for jumping to evidence; None if the log has no such line. Raises RunError."""
        found = self._line(ref)
        return None if found is None else found[0]

    def record(self, ref: Ref) -> Record | None:
        """One event of the log; None if the log has no such line. Raises RunError."""
        found = self._line(ref)
        return None if found is None else found[1]

    def _line(self, ref: Ref) -> tuple[int, Record] | None:
        mark = self._map.before_ref(ref)
        if mark is None:
            return None
        clock = LogClock(mark.at_us, mark.mono_us, mark.segment)
        for _, _, _, record in placed(self._files.again(mark.file, mark.offset)):
            if isinstance(record, Record):
                at_us = clock.at(record)
                if (record.part, record.seq) == ref:
                    return at_us, record
                if record.part != ref[0] or record.seq > ref[1]:
                    return None
        return None

    def session_story(self, session: int, until_us: int | None = None) -> SessionStory:
        """One conversation up to a moment (all of it without one). Raises RunError."""
        story = SessionStory(session)
        told = list(self._map.story(session, until_us))
        lines = self._files.at((file, offset) for file, offset, _ in told)
        for (_, _, at_us), line in zip(told, lines, strict=True):
            record = decode(line)
            if isinstance(record, Record):
                story.add(at_us, record)
        return story

    def save_index(self) -> None:
        """Keeps events.idx in the run folder where that is allowed; without the right to write it is left out."""
        places = self._files.taken
        newest = self._copy(len(places) - 1, places[-1]) if places else None
        if newest is None:
            return
        if not self._copies or self._copies[-1].place != newest.place:
            self._copies.append(newest)
        review = Review(self.timeline.whole.parts, self._map)
        with suppress(OSError):
            indexfile.save(self._folder, places, self._lines, self._spacing, self._blocks, self._copies, review)


def keep_index(folder: Path) -> None:
    """Makes the events.idx of a log that is over, so that whoever opens it first need not wait. A small log needs none;
    where the log cannot be read, or nothing may be written, there will be none."""
    log = RunLog(folder)
    with suppress(RunError, OSError):
        if sum(path.stat().st_size for path in parts(folder)) >= INDEXED_BYTES:
            log.open()
            log.save_index()


def _moment(watch: Watch, at_us: int) -> Moment:
    return Moment(at_us, watch.fold.snapshot(), watch.feed.entries())
