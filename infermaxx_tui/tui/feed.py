"""The only place that reads a log for a screen: a thread that folds, and hands over one frozen picture at a time.

A tick never queues work: the newest picture replaces one that nobody took, and at most one message is under way. So a
terminal that stops reading costs nothing but the pictures it does not see.
"""

from __future__ import annotations

import gc
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from infermaxx_tui.core.stories import SessionStory
from infermaxx_tui.core.timeline import TimelineView
from infermaxx_tui.core.verdict import Verdict, judge_run, read_verdict
from infermaxx_tui.index import Moment, RunLog, SeekTarget, describe_log
from infermaxx_tui.rundir import RunError, RunFolder
from infermaxx_tui.tui import asks
from infermaxx_tui.tui.asks import Ask, Broken, Loading, Snapshot, Told
from infermaxx_tui.tui.clock import SECOND, Clock
from infermaxx_tui.verdicts import restated, write_verdict

_IDLE_S: Final = 2.0
"""How often a log that nobody writes is looked at."""
_JUDGE_SHARE: Final = 20.0
"""A judgement may take a twentieth of the time,"""
_JUDGE_S: Final = 4.0
"""and while a run goes on it is made this often at most: a verdict is no meter."""
_STORY_SHARE: Final = 10.0


class Feed:
    """One run's log for one screen. `work` is the thread; the rest may be called from anywhere."""

    def __init__(
        self, run: RunFolder, fps: float, post: Callable[[], None], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._run = run
        self._now_s = now_s
        self._ticked_s = now_s()
        self._period_s = 1.0 / fps
        self._post = post
        self._asked: queue.SimpleQueue[Ask] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._closed = False
        self._lock = threading.Lock()
        self._told: Told | None = None
        self._log = RunLog(run.path)
        self._clock = Clock()
        self._columns = 60
        self._live = False
        self._said = ""
        self._what = ""
        self._axis_made: tuple[TimelineView, tuple[int, int], int, int] | None = None
        self._verdicts = _Verdicts(run)
        self._stories = _Stories(self._log)

    def ask(self, ask: Ask) -> None:
        """Hands a question on; the answer is in one of the next pictures."""
        self._asked.put(ask)
        self._wake.set()

    def take(self) -> Told | None:
        """The newest picture, once; None if there is no new one."""
        with self._lock:
            told, self._told = self._told, None
        return told

    def close(self) -> None:
        """Ends the thread soon."""
        self._closed = True
        self._wake.set()

    def work(self) -> None:
        """Reads until it is closed."""
        try:
            with _no_collection():
                self._log.open(self._progress)
                gc.freeze()  # what a whole log holds stays, so nobody needs to look at it for garbage
            self._verdicts.folded = not self._log.known_bytes
            self._loop()
        except RunError as error:
            self._tell(Broken(str(error)))

    def _progress(self, done: int, total: int) -> bool:
        self._tell(Loading(done, total))
        return not self._closed

    def _loop(self) -> None:
        self._ticked_s = self._now_s()
        fresh = fresh_log = True
        while not self._closed:
            was_live, self._live = self._live, self._run.alive()
            if fresh_log or was_live != self._live:
                self._what, fresh_log = describe_log(self._run.path), False
            grew = sum(1 for _ in self._log.follow()) > 0
            now, played = self._now_s(), self._clock.playing
            self._clock = self._clock.ticked(int((now - self._ticked_s) * SECOND), self._end_us)
            self._ticked_s = now
            if fresh or grew or played or self._verdicts.due(self._live):
                self._tell(self._picture())
            period = self._period_s if self._live or self._clock.playing else _IDLE_S
            self._wake.wait(period)
            self._wake.clear()
            fresh = self._answer()

    @property
    def _end_us(self) -> int:
        return self._log.timeline.end_us

    def _answer(self) -> bool:
        """Does all that was asked. Whether anything was."""
        any_asked = False
        while True:
            try:
                ask = self._asked.get_nowait()
            except queue.Empty:
                return any_asked
            if not isinstance(ask, asks.Columns | asks.Tell):
                self._said = ""
            self._do(ask)
            any_asked = True

    def _do(self, ask: Ask) -> None:
        end, clock = self._end_us, self._clock
        match ask:
            case asks.Step(columns):
                self._clock = clock.by(columns * max(clock.window_us(end, self._live) // self._columns, 1), end)
            case asks.Skip(seconds):
                self._clock = clock.by(int(seconds * SECOND), end)
            case asks.Find(target, backwards):
                self._find(target, backwards)
            case asks.GoTo(ref):
                at = self._log.time_of(ref)
                if at is None:
                    self._said = f"the log has no event {ref[0]}:{ref[1]}"
                else:
                    self._clock = clock.to(at, end)
            case asks.Start():
                self._clock = clock.to(0, end)
            case asks.Follow():
                self._clock = clock.follow()
            case asks.Play():
                self._clock, self._ticked_s = clock.play(end), self._now_s()
            case asks.Faster(steps):
                self._clock = clock.faster(steps)
                self._said = f"plays {self._clock.speed} times as fast"
            case asks.Longer(steps):
                self._clock = clock.longer(steps, end, self._live)
            case asks.Columns(columns):
                self._columns = columns
            case asks.Tell(session):
                self._stories.session = session

    def _find(self, target: SeekTarget, backwards: bool) -> None:
        """From the end there is nothing after, so that the search begins anew."""
        again = self._clock.at_us is None and not backwards
        found = self._log.find(target, -1 if again else self._clock.moment(self._end_us), backwards)
        if found is None:
            self._said = f"no {target}" if again else f"no {target} {'before' if backwards else 'after'} this moment"
        else:
            at, ref = found
            self._clock = self._clock.to(at, self._end_us)
            self._said = f"{target} at event {ref[0]}:{ref[1]}"

    def _picture(self) -> Snapshot:
        end = self._end_us
        self._clock = clock = self._clock.settled(end, self._live)
        with _no_collection():
            moment = self._log.latest() if clock.at_us is None else self._log.seek(clock.moment(end))
        window = clock.window_us(end, self._live)
        verdict, final = self._verdicts.of(moment, self._live, clock.at_us is None)
        return Snapshot(
            moment=moment,
            timeline=self._axis(clock.from_us, window),
            end_us=end,
            live=self._live,
            following=clock.at_us is None,
            playing=clock.playing,
            speed=clock.speed,
            window_us=window,
            verdict=verdict,
            final=final,
            story=self._stories.until(moment.at_us, self._live),
            said=self._said,
            what=self._what,
        )

    def _axis(self, from_us: int, window_us: int) -> TimelineView:
        """The stretch of the axis. While it grows, it is made again when half a column has come, and each second where
        columns are short."""
        end, cut, before = self._end_us, (window_us, self._columns), self._axis_made
        if before is not None:
            view, made_cut, made_from, made_end = before
            moved = max(end - made_end, abs(from_us - made_from))
            if made_cut == cut and (not moved or (self._live and moved < view.bucket_us // 2)):
                return view
        view = self._log.timeline.snapshot(from_us, from_us + window_us, self._columns)
        self._axis_made = (view, cut, from_us, end)
        return view

    def _tell(self, told: Told) -> None:
        with self._lock:
            waiting, self._told = self._told is not None, told
        if not waiting:
            self._post()


@contextmanager
def _no_collection() -> Iterator[None]:
    """No search for garbage while much is made that stays: it would look at all that a log holds again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Verdicts:
    """The verdict at a moment: the run's own at its end, else what the log earns by then, judged now and then."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._own: Verdict | None = None
        self._newest: Verdict | None = None
        self._next_s = 0.0
        self._was_live = False
        self.folded = True
        """Whether the log was folded here from its first line on: no other verdict is kept."""

    def due(self, live: bool) -> bool:
        """Whether the run has just ended, so that its own verdict is there."""
        return self._was_live and not live

    def of(self, moment: Moment, live: bool, at_end: bool) -> tuple[Verdict | None, bool]:
        """The verdict, and whether it is the run's own."""
        ended, self._was_live = self.due(live), live
        if ended or live:
            self._own = None
        if at_end and not live:
            if self._own is None:
                self._own = self._read_or_judge(moment)
            return self._own, True
        now = time.monotonic()
        if now >= self._next_s or not live:
            self._newest = judge_run(moment.state)
            self._next_s = now + max((time.monotonic() - now) * _JUDGE_SHARE, _JUDGE_S)
        return self._newest, False

    def _read_or_judge(self, moment: Moment) -> Verdict:
        """What the run wrote; for a runner that died what its log earns, kept from now on, without folding it anew."""
        try:
            verdict = read_verdict(self._run.verdict.read_bytes())
            if verdict.regime.segments < moment.state.segments:
                raise msgspec.DecodeError("a verdict on less than there is")
            return restated(verdict, moment.state, self._run)
        except (OSError, msgspec.DecodeError):
            verdict = judge_run(moment.state)
            if self.folded:
                with suppress(OSError):
                    write_verdict(self._run, verdict)
            return verdict


class _Stories:
    """One conversation's story up to the moment; it is read from the log again only now and then."""

    def __init__(self, log: RunLog) -> None:
        self.session: int | None = None
        self._log = log
        self._story: SessionStory | None = None
        self._key: tuple[int, int] | None = None
        self._next_s = 0.0

    def until(self, at_us: int, live: bool) -> SessionStory | None:
        """The story, or None if nobody asked for one."""
        if self.session is None:
            self._story = self._key = None
            return None
        key, now = (self.session, at_us), time.monotonic()
        other = self._key is None or self._key[0] != self.session
        if key != self._key and (other or not live or now >= self._next_s):
            self._story = self._log.session_story(self.session, at_us)
            self._key = key
            self._next_s = now + (time.monotonic() - now) * _STORY_SHARE
        return self._story
