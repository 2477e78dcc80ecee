"""The thread that reads a log for a screen: one picture at a time, right at every moment, gone when it is closed."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tuitools import MakeRun, recorded

from infermaxx_tui.index import RunLog
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.seek import files, indexfile
from infermaxx_tui.tui import asks
from infermaxx_tui.tui.asks import Broken, Loading, Snapshot, Told
from infermaxx_tui.tui.clock import SECOND
from infermaxx_tui.tui.feed import Feed
from infermaxx_tui.verdicts import load_or_judge

PATIENCE_S = 30.0


class Listener:
    """Counts messages, and waits for a picture that passes."""

    def __init__(self, run: RunFolder, fps: float = 50.0, now_s: Callable[[], float] = time.monotonic) -> None:
        self.posts = 0
        self._came = threading.Event()
        self.feed = Feed(run, fps, self._post, now_s)

    def _post(self) -> None:
        self.posts += 1
        self._came.set()

    def wait(self) -> Told:
        """The next picture."""
        assert self._came.wait(PATIENCE_S)
        self._came.clear()
        told = self.feed.take()
        assert told is not None
        return told

    def until(self, test: Callable[[Snapshot], bool]) -> Snapshot:
        """The next picture of which this is so."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            told = self.wait()
            if isinstance(told, Snapshot) and test(told):
                return told
        raise AssertionError("it never came about")


@contextmanager
def listening(run: RunFolder, now_s: Callable[[], float] = time.monotonic) -> Iterator[Listener]:
    """A feed at work; it ends with the block."""
    listener = Listener(run, now_s=now_s)
    thread = threading.Thread(target=listener.feed.work)
    thread.start()
    try:
        yield listener
    finally:
        listener.feed.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_run_that_is_over_comes_as_one_picture_with_its_own_verdict(make_run: MakeRun) -> None:
    run = make_run("leak")
    with listening(run) as listener:
        seen = listener.until(lambda seen: True)
        assert (seen.live, seen.following, seen.final) == (False, True, True)
        assert seen.moment.state.ended == "finished"
        assert seen.verdict == load_or_judge(run)
        assert seen.timeline.from_us <= seen.end_us <= seen.timeline.to_us
        assert seen.what == ""


def test_a_moment_before_has_the_state_and_the_verdict_of_then(make_run: MakeRun) -> None:
    with listening(make_run("leak")) as listener:
        listener.until(lambda seen: seen.following)
        listener.feed.ask(asks.Start())
        first = listener.until(lambda seen: not seen.following)
        assert first.moment.at_us == 0
        assert not first.final
        assert first.verdict is not None
        assert first.verdict.verdict == "INCONCLUSIVE"
        listener.feed.ask(asks.Find("failure", backwards=False))
        leaked = listener.until(lambda seen: seen.moment.at_us > 0)
        assert leaked.said.startswith("failure at event 0:")
        assert leaked.verdict is not None
        assert leaked.verdict.verdict == "FAIL"
        assert leaked.moment.state.leaks
        ref = leaked.moment.feed[-1].ref
        listener.feed.ask(asks.Follow())
        listener.until(lambda seen: seen.following)
        listener.feed.ask(asks.GoTo(ref))
        assert listener.until(lambda seen: not seen.following).moment.at_us == leaked.moment.at_us
        listener.feed.ask(asks.GoTo((7, 7)))
        assert "no event 7:7" in listener.until(lambda seen: bool(seen.said)).said
        listener.feed.ask(asks.Skip(-1000.0))
        assert listener.until(lambda seen: True).moment.at_us == 0
        listener.feed.ask(asks.Skip(0.5))
        assert listener.until(lambda seen: True).moment.at_us == SECOND // 2


def test_from_the_end_the_search_for_failures_begins_anew(make_run: MakeRun) -> None:
    with listening(make_run("leak")) as listener:
        listener.until(lambda seen: seen.following)
        listener.feed.ask(asks.Find("failure", backwards=False))
        first = listener.until(lambda seen: not seen.following).moment.at_us
        listener.feed.ask(asks.Follow())
        listener.until(lambda seen: seen.following)
        listener.feed.ask(asks.Find("failure", backwards=True))
        assert listener.until(lambda seen: not seen.following).moment.at_us > first
        listener.feed.ask(asks.Find("gap", backwards=False))
        assert listener.until(lambda seen: bool(seen.said)).said == "no gap after this moment"


def test_a_story_comes_while_it_is_asked_for(make_run: MakeRun) -> None:
    with listening(make_run()) as listener:
        assert listener.until(lambda seen: True).story is None
        listener.feed.ask(asks.Tell(2))
        story = listener.until(lambda seen: seen.story is not None).story
        assert story is not None
        assert story.session == 2
        whole = len(story.items)
        listener.feed.ask(asks.Start())
        story = listener.until(lambda seen: seen.moment.at_us == 0).story
        assert story is not None
        assert len(story.items) < whole
        listener.feed.ask(asks.Tell(None))
        assert listener.until(lambda seen: True).story is None


def test_pictures_that_nobody_takes_are_replaced_and_told_once(make_run: MakeRun) -> None:
    run = make_run(judged=False, keep=50)
    lock = run.hold()
    with listening(run) as listener:
        listener.until(lambda seen: seen.live)
        posts = listener.posts
        lines = recorded()
        with run.events.open("ab", buffering=0) as file:
            for line in lines[50:]:
                file.write(line)
                time.sleep(0.001)  # so that the log grows for longer than a few pictures take
        assert listener.posts <= posts + 1, "one message is under way at most"
        end = len(lines)
        last = listener.until(lambda seen: seen.moment.state.events == end)
        assert last.live
        assert not last.final
        load_or_judge(run)
        os.close(lock)
        assert listener.until(lambda seen: not seen.live).final


def test_a_runner_that_died_is_told_and_judged_by_its_log(make_run: MakeRun) -> None:
    with listening(make_run(judged=False, keep=150)) as listener:
        seen = listener.until(lambda seen: True)
        assert "the runner died" in seen.what
        assert seen.final
        assert seen.verdict is not None
        assert seen.verdict.verdict == "INCONCLUSIVE"


def test_what_is_no_log_is_one_line(root: Path) -> None:
    run = RunFolder(root / "20300102-030405-demo-a1b2")
    run.path.mkdir()
    with listening(run) as listener:
        told = listener.wait()
        assert isinstance(told, Broken)
        assert "\n" not in told.text


def test_a_folder_that_goes_away_is_one_line_and_no_crash(make_run: MakeRun) -> None:
    run = make_run(judged=False, keep=100)
    lock = run.hold()
    with listening(run) as listener:
        listener.until(lambda seen: seen.live)
        shutil.rmtree(run.path)
        os.close(lock)
        listener.feed.ask(asks.Start())
        told = listener.wait()
        while isinstance(told, Snapshot):
            told = listener.wait()
        assert isinstance(told, Broken)
        assert "\n" not in told.text


class Hand:
    """A clock that a test turns by hand."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        """Seconds."""
        return self.s


def test_playing_moves_by_itself(make_run: MakeRun) -> None:
    """As fast as the clock of the wall, whatever time went by before somebody pressed the key."""
    hand = Hand()
    with listening(make_run(), hand) as listener:
        listener.until(lambda seen: seen.following)
        listener.feed.ask(asks.Faster(3))
        hand.s += 3600
        listener.feed.ask(asks.Play())
        first = listener.until(lambda seen: seen.playing)
        assert (first.speed, first.moment.at_us) == (10, 0)
        hand.s += 0.05
        later = listener.until(lambda seen: seen.moment.at_us > 0)
        assert later.playing
        assert later.moment.at_us == pytest.approx(SECOND // 2, abs=1)
        hand.s += 3600
        assert listener.until(lambda seen: seen.following).moment.state.ended == "finished"


def test_whoever_waits_for_a_log_is_told_before_any_of_it_is_read(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_REPORT_BYTES", 1000)
    run = make_run()
    heard: list[Told | None] = []
    shown = threading.Event()

    def hear() -> None:
        heard.append(feed.take())
        if isinstance(heard[-1], Snapshot):
            shown.set()

    feed = Feed(run, 50.0, hear)
    thread = threading.Thread(target=feed.work)
    thread.start()
    assert shown.wait(PATIENCE_S)
    feed.close()
    thread.join(PATIENCE_S)
    size = run.events.stat().st_size
    assert heard[0] == Loading(0, size)
    done = [told.done for told in heard if isinstance(told, Loading)]
    assert done == sorted(done)
    assert len(done) > 1


@pytest.mark.parametrize("kept", [True, False])
def test_the_verdict_of_a_runner_that_died_is_kept_only_if_the_log_was_folded(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    monkeypatch.setattr(indexfile, "LARGEST_SHARE", 0.001)
    run = make_run("leak", judged=False, keep=150)
    if not kept:
        log = RunLog(run.path)
        log.open()
        log.save_index()
    with listening(run) as listener:
        seen = listener.until(lambda seen: True)
        assert seen.final
        assert seen.verdict is not None
        shown = seen.verdict
    assert run.verdict.exists() is kept
    assert load_or_judge(run).verdict == shown.verdict


@pytest.mark.parametrize("columns", [8, 60, 200])
def test_the_axis_has_as_many_columns_as_there_is_room_for(make_run: MakeRun, columns: int) -> None:
    with listening(make_run()) as listener:
        listener.until(lambda seen: True)
        listener.feed.ask(asks.Columns(columns))
        seen = listener.until(lambda seen: True)
        assert 0 < seen.timeline.buckets <= columns
        window = seen.window_us
        listener.feed.ask(asks.Longer(2))
        assert listener.until(lambda seen: seen.window_us > window).timeline.buckets <= columns
