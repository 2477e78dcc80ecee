"""The log on disk: whole lines or nothing, whatever the disk does and wherever a reader looks in between."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.events import Noted, Record, RunEnded, Unknown, encode
from infermaxx_tui.log import Appender, EvidenceLostError, Follower, last_line, parts, read_log

settings.register_profile("disk", deadline=None)
settings.load_profile("disk")

_texts = st.lists(st.text(max_size=20), max_size=8)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for one example of a property."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _write(folder: Path, texts: list[str], part: int = 0) -> list[Record]:
    name = "events.jsonl" if part == 0 else f"events-{part}.jsonl"
    sink = Appender(folder / name, part=part)
    records = [sink.append(Noted(text=text), n, n * 1000) for n, text in enumerate(texts)]
    sink.close()
    return records


@given(_texts)
def test_what_is_appended_is_read(texts: list[str]) -> None:
    with _folder() as folder:
        records = _write(folder, texts)
        assert list(read_log(folder)) == records
        assert [record.seq for record in records] == list(range(len(texts)))
        assert (folder / "events.jsonl").read_bytes() == b"".join(map(encode, records))


@given(_texts, st.lists(st.integers(1, 40), max_size=60))
@settings(max_examples=40)
def test_a_follower_sees_each_line_once_and_only_when_it_is_whole(texts: list[str], steps: list[int]) -> None:
    with _folder() as folder:
        records = _write(folder, texts)
        whole = (folder / "events.jsonl").read_bytes()
        growing = folder / "growing.jsonl"
        growing.touch()
        follower, seen, at = Follower(growing), [], 0
        for step in [*steps, len(whole)]:
            with growing.open("ab") as file:
                file.write(whole[at : at + step])
            at = min(at + step, len(whole))
            seen += list(follower.read())
            assert len(seen) == whole[:at].count(b"\n")
            assert follower.torn == at - (whole[:at].rfind(b"\n") + 1)
        assert seen == records


@given(_texts.filter(bool), st.data())
@settings(max_examples=40)
def test_a_reader_that_stops_in_the_middle_loses_nothing(texts: list[str], data: st.DataObject) -> None:
    with _folder() as folder:
        records = _write(folder, texts)
        follower = Follower(folder / "events.jsonl")
        taken = data.draw(st.integers(1, len(records)))
        seen = list(islice(follower.read(), taken))
        assert [*seen, *follower.read()] == records


@given(_texts, st.integers(0, 400))
@settings(max_examples=40)
def test_a_log_cut_anywhere_is_read_up_to_the_cut(texts: list[str], cut: int) -> None:
    with _folder() as folder:
        records = _write(folder, texts)
        path = folder / "events.jsonl"
        whole = path.read_bytes()
        path.write_bytes(whole[:cut])
        assert list(read_log(folder)) == records[: whole[:cut].count(b"\n")]


@given(_texts, st.lists(st.integers(1, 7), min_size=1, max_size=20))
@settings(max_examples=40)
def test_short_writes_are_continued(texts: list[str], sizes: list[int]) -> None:
    write, turn = os.write, cycle(sizes)
    with _folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: write(fd, data[: next(turn)]))
        records = _write(folder, texts)
        patch.undo()
        assert list(read_log(folder)) == records


def test_a_write_that_fails_in_the_middle_leaves_a_torn_tail_and_says_so_for_ever(tmp_path: Path) -> None:
    sink = Appender(tmp_path / "events.jsonl")
    kept = sink.append(Noted(text="kept"), 1, 1)
    write, left = os.write, [10]

    def full(fd: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = write(fd, data[: left[0]])
        left[0] -= done
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(EvidenceLostError, match="No space left"):
            sink.append(Noted(text="lost"), 2, 2)
    with pytest.raises(EvidenceLostError, match="No space left"):
        sink.append(Noted(text="later, with space again"), 3, 3)
    assert sink.written == 1
    sink.close()
    follower = Follower(tmp_path / "events.jsonl")
    assert list(follower.read()) == [kept]
    assert follower.torn == 10


def test_a_line_is_one_write(tmp_path: Path) -> None:
    sink, sizes = Appender(tmp_path / "events.jsonl"), []
    write = os.write

    def counting(fd: int, data: bytes) -> int:
        sizes.append(len(data))
        return write(fd, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", counting)
        record = sink.append(Noted(text="x" * 100_000), 1, 1)
    sink.close()
    assert sizes == [len(encode(record))]


def test_two_writers_never_mix_their_lines(tmp_path: Path) -> None:
    ours, theirs = Appender(tmp_path / "events.jsonl"), Appender(tmp_path / "events.jsonl", first_seq=100)
    for n in range(20):
        (ours if n % 3 else theirs).append(Noted(text=f"line {n}"), n, n)
    ours.close()
    theirs.close()
    assert len([record for record in read_log(tmp_path) if isinstance(record, Record)]) == 20


def test_parts_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    expected = [record for part in (0, 1, 2, 10) for record in _write(tmp_path, [f"part {part}"], part)]
    (tmp_path / "events.idx").write_bytes(b"not a part")
    assert [path.name for path in parts(tmp_path)] == [
        "events.jsonl", "events-1.jsonl", "events-2.jsonl", "events-10.jsonl"
    ]  # fmt: skip
    assert list(read_log(tmp_path)) == expected


def test_foreign_files_beside_the_parts_are_no_parts(tmp_path: Path) -> None:
    _write(tmp_path, ["one"])
    for name in ("events-old.jsonl", "events-.jsonl", "events-1.jsonl.bak"):
        (tmp_path / name).write_bytes(b"{}\n")
    assert [path.name for path in parts(tmp_path)] == ["events.jsonl"]


def test_a_damaged_line_is_counted_and_the_next_one_is_read(tmp_path: Path) -> None:
    first, last = _write(tmp_path, ["first", "last"])
    (tmp_path / "events.jsonl").write_bytes(encode(first) + b"\x00\xff{\n" + encode(last))
    found = list(read_log(tmp_path))
    assert [found[0], found[2]] == [first, last]
    assert isinstance(found[1], Unknown)


def test_the_log_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        _write(tmp_path, ["x"])
    finally:
        os.umask(before)
    assert (tmp_path / "events.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("secret", ["sk-0123456789", 'with "quotes" \\ and ü', "eight888"])
def test_a_secret_is_masked_wherever_it_stands(tmp_path: Path, secret: str) -> None:
    sink = Appender(tmp_path / "events.jsonl", secret=secret)
    sink.append(Noted(text=f"Bearer {secret} and again {secret}"), 1, 1)
    sink.append(Noted(text="nothing to hide"), 2, 2)
    sink.close()
    events = [record.event for record in read_log(tmp_path) if isinstance(record, Record)]
    assert events == [Noted(text="Bearer [key] and again [key]"), Noted(text="nothing to hide")]


@pytest.mark.parametrize("secret", [None, "", "short"])
def test_what_is_too_short_to_be_a_secret_masks_nothing(tmp_path: Path, secret: str | None) -> None:
    sink = Appender(tmp_path / "events.jsonl", secret=secret)
    record = sink.append(Noted(text="short and sweet"), 1, 1)
    sink.close()
    assert list(read_log(tmp_path)) == [record]


def test_the_last_line_is_the_last_whole_line_of_the_last_part(tmp_path: Path) -> None:
    assert last_line(tmp_path) is None
    _write(tmp_path, ["x" * 70_000, "end of part 0"])
    assert last_line(tmp_path) == list(read_log(tmp_path))[-1]
    sink = Appender(tmp_path / "events-1.jsonl", part=1)
    assert last_line(tmp_path) is None
    ended = sink.append(RunEnded(reason="finished", events=3), 1, 1)
    sink.close()
    with (tmp_path / "events-1.jsonl").open("ab") as file:
        file.write(b'{"part":1,"se')
    assert last_line(tmp_path) == ended
