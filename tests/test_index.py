"""A log is opened once and any moment of it is found again, exactly as a fold up to it would say; an index is never
trusted, and whatever lies in the folder is said in one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui import index
from infermaxx_tui.core import events as e
from infermaxx_tui.core import timeline as timeline_module
from infermaxx_tui.core.events import Record, Unknown, decode, decode_slowly, encode, is_quick
from infermaxx_tui.core.logtime import LogClock
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stories import SessionStory, Turn
from infermaxx_tui.core.timeline import Timeline
from infermaxx_tui.core.watch import Watch
from infermaxx_tui.index import RunLog, describe_log
from infermaxx_tui.rundir import RunError, RunFolder
from infermaxx_tui.seek import files, lines
from infermaxx_tui.seek.files import placed
from infermaxx_tui.seek.lines import Block, LineReader, decode_block

LOGS: Final = Path(__file__).parent / "logs"
LEAK: Final = (LOGS / "leak.jsonl").read_bytes()
SECOND: Final = 1_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder with the log of a leak."""
    return laid(tmp_path / "20260101-000000-demo-abcd", LEAK)


def laid(path: Path, *parts: bytes) -> Path:
    """A run folder with these parts."""
    path.mkdir()
    for number, data in enumerate(parts):
        (path / ("events.jsonl" if number == 0 else f"events-{number}.jsonl")).write_bytes(data)
    return path


def opened(folder: Path) -> RunLog:
    log = RunLog(folder)
    log.open()
    return log


def dense(patch: pytest.MonkeyPatch) -> None:
    """Copies and marks so close together that a small log has many of them."""
    patch.setattr(index, "FIRST_SPACING", 16)
    patch.setattr(index, "MOST_COPIES", 6)
    patch.setattr(index, "MARK_LINES", 10)
    patch.setattr(LineReader.read, "__defaults__", (None, 3000))


def folded(data: bytes, until_us: int) -> tuple[RunState, tuple[object, ...]]:
    """State and feed of all lines up to a moment, by a fold from the start."""
    watch, clock = Watch(), LogClock()
    for line in data.splitlines():
        record = decode(line)
        if isinstance(record, Record) and clock.at(record) > until_us:
            break
        watch.add(record)
    return watch.fold.snapshot(), watch.feed.entries()


def end_of(data: bytes) -> int:
    clock = LogClock()
    for line in data.splitlines():
        record = decode(line)
        if isinstance(record, Record):
            clock.at(record)
    return clock.now_us


def resumed(data: bytes) -> bytes:
    """The log again as a second segment in another part, a day later and on another clock."""
    made = []
    for line in data.splitlines():
        record = decode(line)
        assert isinstance(record, Record)
        event = record.event
        if isinstance(event, e.RunStarted):
            event = msgspec.structs.replace(event, segment=1)
        moved = msgspec.structs.replace(
            record, part=1, wall_ms=record.wall_ms + 86_400_000, mono_us=record.mono_us + 77, event=event
        )
        made.append(encode(moved))
    return b"".join(made)


class TestSeek:
    @settings(deadline=None, max_examples=12)
    @given(moments=st.lists(st.integers(-SECOND, 5 * SECOND), min_size=1, max_size=8))
    def test_every_moment_is_a_fold_up_to_it(
        self, tmp_path_factory: pytest.TempPathFactory, moments: list[int]
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            dense(patch)
            log = opened(laid(tmp_path_factory.mktemp("runs") / "r", LEAK))
            for at_us in moments:
                moment = log.seek(at_us)
                assert (moment.state, moment.feed) == folded(LEAK, max(at_us, 0))

    def test_each_line_one_after_another_and_back(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        dense(monkeypatch)
        log = opened(folder)
        times = sorted({record.mono_us for record in map(decode, LEAK.splitlines()) if isinstance(record, Record)})
        chosen = times[::9]
        for at_us in (*chosen, *reversed(chosen)):
            assert log.seek(at_us).state == folded(LEAK, at_us)[0]

    def test_a_moment_that_was_handed_out_does_not_change(self, folder: Path) -> None:
        log = opened(folder)
        first = log.seek(SECOND)
        state, feed = first.state, first.feed
        log.seek(2 * SECOND)
        assert (first.state, first.feed) == (state, feed) == folded(LEAK, SECOND)

    def test_the_end_and_beyond_is_the_newest(self, folder: Path) -> None:
        log = opened(folder)
        assert log.seek(log.timeline.end_us) == log.seek(10**15) == log.latest()
        assert log.latest().state == folded(LEAK, 10**15)[0]

    def test_segments_and_parts_are_one_log(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        dense(monkeypatch)
        more = resumed(LEAK)
        log = opened(laid(tmp_path / "r", LEAK, more))
        end = end_of(LEAK)
        assert log.timeline.end_us == 2 * end
        for at_us in (0, end // 2, end, end + end // 3, 2 * end):
            assert log.seek(at_us).state == folded(LEAK + more, at_us)[0]
        assert log.latest().state.segments == 2

    def test_damaged_lines_count_where_they_stand(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        dense(monkeypatch)
        some = LEAK.splitlines(keepends=True)
        data = b"".join([*some[:100], b"{damaged\n", b'{"part":0,"seq":3}\n', *some[100:]])
        log = opened(laid(tmp_path / "r", data))
        assert log.latest().state.instrument.invalid_lines == 2
        for at_us in range(0, 3 * SECOND, 300_000):
            assert log.seek(at_us).state == folded(data, at_us)[0]

    def test_a_repeated_line_counts_once_everywhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        dense(monkeypatch)
        once = LEAK.splitlines(keepends=True)
        twice = opened(laid(tmp_path / "twice", b"".join([*once[:300], *once[100:]])))
        one = opened(laid(tmp_path / "once", LEAK))
        assert twice.latest().feed == one.latest().feed
        assert twice.latest().state.recalls == one.latest().state.recalls
        assert twice.latest().state.instrument.invalid_lines == 200
        end = one.timeline.end_us
        assert twice.timeline.snapshot(0, end, 50) == one.timeline.snapshot(0, end, 50)
        assert twice.session_story(1).items == one.session_story(1).items
        for at_us in range(0, end, 400_000):
            assert twice.seek(at_us).feed == one.seek(at_us).feed


class TestFollow:
    def test_a_growing_log_is_taken_in_as_it_grows(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        dense(monkeypatch)
        folder = laid(tmp_path / "r", b"")
        log = opened(folder)
        taken: list[Record | Unknown] = []
        for start in range(0, len(LEAK), 7001):
            with (folder / "events.jsonl").open("ab") as file:
                file.write(LEAK[start : start + 7001])
            taken += log.follow()
            assert log.latest().state == folded(LEAK[: LEAK.rfind(b"\n", 0, start + 7001) + 1], 10**15)[0]
        assert taken == [decode(line) for line in LEAK.splitlines()]
        assert log.seek(SECOND).state == folded(LEAK, SECOND)[0]
        assert list(log.follow()) == []

    def test_a_new_part_is_found(self, folder: Path) -> None:
        log = opened(folder)
        (folder / "events-1.jsonl").write_bytes(resumed(LEAK))
        assert sum(1 for _ in log.follow()) == len(LEAK.splitlines())
        assert log.latest().state.segments == 2

    def test_whoever_waits_is_told_and_may_stop(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(LineReader.read, "__defaults__", (None, 1000))
        monkeypatch.setattr(files, "_REPORT_BYTES", 1000)
        log, told = RunLog(folder), list[tuple[int, int]]()

        def progress(done: int, total: int) -> bool:
            told.append((done, total))
            return len(told) < 3

        log.open(progress)
        assert len(told) == 3
        assert told == sorted(told)
        assert {total for _, total in told} == {len(LEAK)}
        assert 0 < log.latest().state.events < len(LEAK.splitlines())
        list(log.follow())
        assert log.latest().state == folded(LEAK, 10**15)[0]


class TestFind:
    def test_failures_forwards_and_backwards(self, folder: Path) -> None:
        log = opened(folder)
        leaks = [leak.at for leak in log.latest().state.leaks]
        found, at_us = [], -1
        while (place := log.find("failure", at_us)) is not None:
            at_us = place[0]
            found.append(place[1])
        assert set(found) <= set(leaks)
        assert found[0] == leaks[0]
        last = log.find("failure", 10**15, backwards=True)
        assert last is not None
        assert last[1] == leaks[-1]
        first = log.find("failure", -1)
        assert first is not None
        assert log.find("failure", first[0], backwards=True) is None
        assert log.find("gap", 0) is None

    def test_gaps_misses_and_failed_requests_are_found(self, tmp_path: Path) -> None:
        gap = e.GapNoted(req=1, session=0, gap_ms=3000.0, at_token=4)
        lost = e.ServerLost(how="refused", session=None, req=None, detail="nobody")
        some = list(map(decode, LEAK.splitlines()))[:60]
        kept = [record for record in some if isinstance(record, Record)]
        found: tuple[e.AnyEvent, ...] = (gap, lost, gap)
        tail = [Record(0, 60 + n, 0, (10 + n) * SECOND, event) for n, event in enumerate(found)]
        log = opened(laid(tmp_path / "r", b"".join(map(encode, [*kept, *tail]))))
        assert log.find("gap", 0) == (10 * SECOND, (0, 60))
        assert log.find("failure", 9 * SECOND) == (11 * SECOND, (0, 61))
        assert log.find("gap", 10 * SECOND) == (12 * SECOND, (0, 62))

    def test_every_line_has_its_time_and_is_found_by_its_number(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dense(monkeypatch)
        more = resumed(LEAK)
        log, clock = opened(laid(tmp_path / "r", LEAK, more)), LogClock()
        for number, line in enumerate((LEAK + more).splitlines()):
            record = decode(line)
            assert isinstance(record, Record)
            at_us = clock.at(record)
            if number % 11 == 0:
                assert log.time_of((record.part, record.seq)) == at_us
                assert log.record((record.part, record.seq)) == record

    @pytest.mark.parametrize("ref", [(0, 10**9), (7, 0), (-1, -1), (0, -1)])
    def test_a_line_that_is_not_there(self, folder: Path, ref: tuple[int, int]) -> None:
        log = opened(folder)
        assert log.time_of(ref) is None
        assert log.record(ref) is None


class TestStory:
    @pytest.mark.parametrize("until_us", [None, 0, 700_000, 10**15])
    @pytest.mark.parametrize("session", [0, 4, 99])
    def test_a_story_is_the_lines_of_its_session(self, folder: Path, session: int, until_us: int | None) -> None:
        told, clock = SessionStory(session), LogClock()
        for record in map(decode, LEAK.splitlines()):
            assert isinstance(record, Record)
            if until_us is None or clock.at(record) <= until_us:
                told.add(record.mono_us, record)
        story = opened(folder).session_story(session, until_us)
        assert story.items == told.items
        assert (session == 99) <= (not story.items)
        assert (session == 0) <= bool(story.items)

    def test_questions_are_beside_their_replies(self, folder: Path) -> None:
        turns = [item for item in opened(folder).session_story(1).items if isinstance(item, Turn)]
        asked = [turn for turn in turns if turn.asked is not None]
        assert asked
        assert all(
            turn.ended is not None and turn.asked is not None and turn.ended.req == turn.asked.req for turn in asked
        )


def test_a_stretch_of_a_long_log_is_shown_as_sharp_as_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(map(encode, _minutes(40)))
    sharp = _sharp(data, monkeypatch)
    log = opened(laid(tmp_path / "r", data))
    assert log.timeline.whole.bucket_us == 2 * SECOND
    for start, span in ((600, 60), (0, 30), (1500, 200), (1510, 30), (2000, 390), (605, 60)):
        seen = log.timeline.snapshot(start * SECOND, (start + span) * SECOND, 400)
        known = sharp.snapshot(start * SECOND, (start + span) * SECOND, 400)
        assert seen.bucket_us == SECOND
        assert (seen.from_us, seen.buckets) == (known.from_us, known.buckets)
        assert seen.tokens_per_s == known.tokens_per_s
        assert seen.sessions == known.sessions
        assert [lane.series for lane in seen.lanes] == [lane.series for lane in known.lanes]
        assert seen.series["running"] == known.series["running"]
    assert log.timeline.snapshot(0, 2400 * SECOND, 50).bucket_us >= 48 * SECOND


def test_the_sharp_stretch_goes_on_with_a_log_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [encode(record) for record in _minutes(40)]
    sharp = _sharp(b"".join(some), monkeypatch)
    folder = laid(tmp_path / "r", b"".join(some[:6600]))
    log = opened(folder)
    assert log.timeline.whole.bucket_us == 2 * SECOND
    for cut in range(6600, len(some), 150):
        with (folder / "events.jsonl").open("ab") as file:
            file.writelines(some[cut : cut + 150])
        list(log.follow())
        end = log.timeline.end_us
        seen = log.timeline.snapshot(end - 120 * SECOND, end - 2 * SECOND, 300)
        known = sharp.snapshot(end - 120 * SECOND, end - 2 * SECOND, 300)
        assert seen.tokens_per_s == known.tokens_per_s


def _sharp(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Timeline:
    """A timeline with buckets of a second, whatever its length."""
    monkeypatch.setattr(timeline_module, "MAX_BUCKETS", 8192)
    sharp = Timeline()
    for line in data.splitlines():
        sharp.add(decode(line))
    monkeypatch.undo()
    return sharp


def _minutes(minutes: int) -> Iterator[Record]:
    """A log of so many minutes of two streams, a beat and a reading a second."""
    first = decode(LEAK.splitlines()[0])
    assert isinstance(first, Record)
    events: list[tuple[int, e.AnyEvent]] = [(0, first.event)]
    events += [(0, e.SessionStarted(session=n, wave=0, transcripts=("t",), planned_recalls=0)) for n in (0, 1)]
    for at in range(1, minutes * 60):
        now = at * SECOND + at * 37
        events.append((now, e.Beat(window_ms=1000.0, sessions=(0, 1), tokens=(at % 50, 7), depths=(at, 2 * at))))
        events.append((now + 5, e.MetricsRead(running=float(at % 5))))
        events.append(
            (now + 9, e.RequestStarted(req=at, session=0, turn=at, kind="turn", prompt_tokens=1, max_tokens=1))
        )
    for seq, (now, event) in enumerate(events):
        yield Record(0, seq, now // 1000, 1000 + now, event)


class TestLines:
    @settings(deadline=None, max_examples=60)
    @given(st.lists(st.binary(max_size=40).filter(lambda data: b"\n" not in data), max_size=12), st.data())
    def test_lines_come_out_whole_however_the_file_grows(
        self, tmp_path_factory: pytest.TempPathFactory, wanted: list[bytes], data: st.DataObject
    ) -> None:
        whole = b"".join(line + b"\n" for line in wanted) + b"torn"
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
        path = tmp_path_factory.mktemp("lines") / "x"
        path.touch()
        size = data.draw(st.integers(1, 64))
        reader, got = LineReader(path), list[Block]()
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            with path.open("ab") as file:
                file.write(whole[start:end])
            got += reader.read(size=size)
        assert [line for block in got for line in block.lines] == wanted
        for block in got:
            assert whole[block.offset : block.after] == b"".join(line + b"\n" for line in block.lines)
        assert reader.torn == 4
        assert whole[reader.offset :] == b"torn"

    def test_a_line_that_is_too_long_is_not_held(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lines, "MAX_LINE_BYTES", 5000)
        path = tmp_path / "x"
        path.write_bytes(b"first\n" + b"y" * 100_000 + b"\nlast\n")
        blocks = list(LineReader(path).read(size=512))
        assert [line[:5] for block in blocks for line in block.lines] == [b"first", b"yyyyy", b"last"]
        assert len(blocks[1].lines[0]) <= 5000
        assert [(block.offset, block.after) for block in blocks] == [(0, 6), (6, 100_007), (100_007, 100_012)]
        places = [(offset, after) for _, offset, after, _ in placed((0, block) for block in blocks)]
        assert places == [(0, 6), (6, 100_007), (100_007, 100_012)]

    @settings(deadline=None, max_examples=300)
    @given(st.integers(0, len(LEAK.splitlines()) - 1), st.integers(0, 2000), st.binary(max_size=6), st.integers(0, 4))
    def test_the_quick_decoder_says_what_the_slow_one_says(self, number: int, at: int, put: bytes, cut: int) -> None:
        line = LEAK.splitlines()[number]
        at %= len(line)
        for some in (line, line[:at] + put + line[at + cut :]):
            assert decode(some) == decode_slowly(some)
            assert decode_block(Block(0, [line, some], 0, is_quick(some))) == [decode(line), decode(some)]

    @pytest.mark.parametrize(
        "line",
        [b"", b"null", b"[" * 100_000, b'{"x":' * 50_000, b'{"part":NaN}', b'{"part":0,"event":{"e":"new"}}', b"\xff"],
    )
    def test_what_is_no_event_is_unknown_for_both(self, line: bytes) -> None:
        assert isinstance(decode(line), Unknown)
        assert decode(line) == decode_slowly(line)

    @pytest.mark.parametrize(
        "value",
        [
            '"\\ud800"',
            '"\\udc00\\ud800"',
            '"\\ud83d\\ude00"',
            '"\\u0000"',
            '"\x7f"',
            '"a\tb"',
            '"\\x"',
            '"é"',
            "1",
            "null",
            "true",
            "[]",
            "1e999",
            "-0",
            "01",
            "1.",
            "9" * 30,
        ],
    )
    def test_values_that_decoders_differ_in(self, value: str) -> None:
        for text in (f'{{"e":"noted","text":{value}}}', f'{{"e":"firsttoken","req":1,"session":2,"ttft_ms":{value}}}'):
            for number in ("0", "-1", "1.0", "1e3", "9" * 19, "9" * 20, "true"):
                line = f'{{"part":0,"seq":{number},"wall_ms":1,"mono_us":2,"event":{text}}}'.encode()
                assert decode(line) == decode_slowly(line)
                assert decode(line + b" ") == decode_slowly(line + b" ")


def newer(data: bytes) -> bytes:
    return data.replace(b'"schema":1', b'"schema":9', 1)


class TestDescribe:
    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (LEAK, ""),
            (b"", "the log is empty: the run never began"),
            (LEAK[:-40], "the last line is cut off (93 bytes are left out); the runner died: the log has no last line"),
            (LEAK[: LEAK.rfind(b"\n", 0, -2) + 1], "the runner died: the log has no last line"),
            (newer(LEAK), "written by a newer program (schema 9, this one knows 1): what it does not know is left out"),
            (b"{broken\n" + LEAK.split(b"\n", 1)[1], "the first line is damaged"),
            (LEAK.split(b"\n", 1)[1], "the log does not begin with a run's first line"),
            (
                b"\n".join([*LEAK.split(b"\n")[:1], *LEAK.split(b"\n")[-2:]]),
                "lines are missing in the middle; no turn was played",
            ),
            (b"\n".join([*LEAK.split(b"\n")[:200], *LEAK.split(b"\n")[230:]]), "30 lines are missing in the middle"),
        ],
    )
    def test_what_lies_there(self, tmp_path: Path, data: bytes, said: str) -> None:
        line = describe_log(laid(tmp_path / "r", data))
        assert line.endswith(said)
        assert bool(line) is bool(said)
        assert "\n" not in line
        opened(tmp_path / "r").latest()

    def test_no_log(self, tmp_path: Path) -> None:
        (tmp_path / "r").mkdir()
        assert describe_log(tmp_path / "r") == "no events.jsonl in the folder: no run ever began here"
        assert describe_log(tmp_path / "nowhere") == "no events.jsonl in the folder: no run ever began here"
        with pytest.raises(RunError, match="not a run"):
            RunLog(tmp_path / "r").open()

    def test_a_folder_in_the_place_of_a_log_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "r" / "events.jsonl").mkdir(parents=True)
        assert describe_log(tmp_path / "r") == "no events.jsonl in the folder: no run ever began here"
        with pytest.raises(RunError, match="not a run"):
            RunLog(tmp_path / "r").open()

    def test_a_run_that_goes_on_is_nothing_out_of_the_ordinary(self, tmp_path: Path) -> None:
        folder = laid(tmp_path / "r", LEAK[: len(LEAK) // 2])
        assert "died" in describe_log(folder)
        fd = RunFolder(folder).hold()
        assert describe_log(folder) == ""
        os.close(fd)

    def test_a_huge_log_is_announced(self, tmp_path: Path) -> None:
        folder = laid(tmp_path / "r", LEAK)
        with (folder / "events.jsonl").open("r+b") as file:
            file.truncate(2 << 30)
        assert describe_log(folder).startswith("2.0 GiB of log: reading it takes a while")
