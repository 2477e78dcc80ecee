"""events.idx never changes an answer: what comes from it and the rest of the log is what the whole log says, and one
that is damaged, cut short, of another log, of less of it or from another program is as good as none."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_index import LEAK, SECOND, dense, folded, laid, opened, resumed

from infermaxx_tui import index, verdicts
from infermaxx_tui.core import events as e
from infermaxx_tui.core.events import Record, encode
from infermaxx_tui.index import RunLog, keep_index
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.seek import indexfile
from infermaxx_tui.seek.indexfile import NAME
from infermaxx_tui.verdicts import judge_folder

MORE: Final = resumed(LEAK)


@pytest.fixture(autouse=True)
def roomy() -> Iterator[None]:
    """Small logs get an index too, with many copies in it, however large it is beside them."""
    with pytest.MonkeyPatch.context() as patch:
        dense(patch)
        patch.setattr(index, "MOST_COPIES", 40)
        patch.setattr(indexfile, "LARGEST_SHARE", 0.001)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder with the log of a leak and its index."""
    made = laid(tmp_path / "20260101-000000-demo-abcd", LEAK)
    opened(made).save_index()
    return made


def says_the_same(log: RunLog, data: bytes, moments: list[int]) -> None:
    """Whether a log answers as one that was folded from its first line on."""
    assert log.latest().state == folded(data, 10**15)[0]
    for at_us in moments:
        moment = log.seek(at_us)
        assert (moment.state, moment.feed) == folded(data, max(at_us, 0))


def same_review(log: RunLog, fresh: RunLog) -> None:
    """Whether both show the same axis, stories, places and lines."""
    end = fresh.timeline.end_us
    assert log.timeline.end_us == end
    for buckets in (7, 90):
        assert log.timeline.snapshot(0, end, buckets) == fresh.timeline.snapshot(0, end, buckets)
    assert log.session_story(1).items == fresh.session_story(1).items
    for at_us in (-1, end // 3, end):
        assert log.find("failure", at_us) == fresh.find("failure", at_us)
        assert log.find("failure", at_us, backwards=True) == fresh.find("failure", at_us, backwards=True)
    ref = fresh.latest().feed[-1].ref
    assert log.time_of(ref) == fresh.time_of(ref)
    assert log.record(ref) == fresh.record(ref)


@settings(deadline=None, max_examples=15)
@given(
    cut=st.integers(1, len(LEAK)),
    second=st.booleans(),
    moments=st.lists(st.integers(-SECOND, 9 * SECOND), min_size=1, max_size=4),
)
def test_an_index_and_the_rest_of_the_log_are_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, cut: int, second: bool, moments: list[int]
) -> None:
    cut = LEAK.find(b"\n") + 1 + cut % (len(LEAK) - LEAK.find(b"\n") - 1)
    folder = laid(tmp_path_factory.mktemp("runs") / "r", LEAK[:cut])
    opened(folder).save_index()
    with (folder / "events.jsonl").open("ab") as file:
        file.write(LEAK[cut:])
    if second:
        (folder / "events-1.jsonl").write_bytes(MORE)
    data = LEAK + MORE if second else LEAK
    log = opened(folder)
    assert log.known_bytes == LEAK.rfind(b"\n", 0, cut) + 1
    says_the_same(log, data, moments)
    (folder / NAME).unlink()
    same_review(log, opened(folder))


def test_a_log_that_did_not_grow_is_not_read_again(folder: Path) -> None:
    log = opened(folder)
    assert log.known_bytes == len(LEAK)
    says_the_same(log, LEAK, [0, SECOND, 2 * SECOND])
    assert (folder / NAME).stat().st_mode & 0o077 == 0


def test_an_index_of_an_index_goes_on(tmp_path: Path) -> None:
    folder = laid(tmp_path / "r", b"")
    for start in range(0, len(LEAK), len(LEAK) // 5 + 1):
        with (folder / "events.jsonl").open("ab") as file:
            file.write(LEAK[start : start + len(LEAK) // 5 + 1])
        log = opened(folder)
        log.save_index()
    says_the_same(opened(folder), LEAK, [SECOND // 2, SECOND, 3 * SECOND])


@settings(deadline=None, max_examples=60)
@given(at=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255), cut=st.booleans())
def test_a_damaged_or_torn_one_is_none(
    tmp_path_factory: pytest.TempPathFactory, at: float, bits: int, cut: bool
) -> None:
    folder = laid(tmp_path_factory.mktemp("runs") / "r", LEAK)
    opened(folder).save_index()
    data = bytearray((folder / NAME).read_bytes())
    place = int(at * len(data))
    if cut:
        del data[place:]
    else:
        data[place] ^= bits
    (folder / NAME).write_bytes(data)
    assert indexfile.load(folder) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        b"\x00" * 100,
        b"{}",
        b'{"version":1}',
        b"\xff\xfe",
        b"[" * 100_000,
        pickle.dumps({"version": 1}),
    ],
)
def test_anything_else_is_none(folder: Path, data: bytes) -> None:
    for raw in (data, indexfile._MAGIC + data, indexfile._MAGIC + hashlib.sha256(data).digest() + data):
        (folder / NAME).write_bytes(raw)
        assert indexfile.load(folder) is None
    says_the_same(opened(folder), LEAK, [SECOND])


def test_one_of_another_log_is_none(folder: Path, tmp_path: Path) -> None:
    other = laid(tmp_path / "other", LEAK.replace(b"selftest", b"somebody"))
    (other / NAME).write_bytes((folder / NAME).read_bytes())
    assert indexfile.load(folder) is not None
    assert indexfile.load(other) is None


@pytest.mark.parametrize("where", [0.01, 0.5, 0.999])
def test_one_of_a_log_that_was_changed_since_is_none(folder: Path, where: float) -> None:
    data = bytearray(LEAK)
    place = data.index(b'"', int(where * len(data) - 30)) + 1
    data[place] ^= 1
    (folder / "events.jsonl").write_bytes(data)
    assert indexfile.load(folder) is None
    (folder / "events.jsonl").write_bytes(LEAK[: LEAK.rfind(b"\n", 0, -2) + 1])
    assert indexfile.load(folder) is None


def test_one_of_parts_of_which_an_earlier_one_grew_is_none(tmp_path: Path) -> None:
    folder = laid(tmp_path / "r", LEAK, MORE)
    opened(folder).save_index()
    assert opened(folder).known_bytes == len(LEAK) + len(MORE)
    with (folder / "events.jsonl").open("ab") as file:
        file.write(encode(Record(0, 999_999, 0, 0, e.Noted(text="more"))))
    assert indexfile.load(folder) is None
    (folder / "events.jsonl").rename(folder / "gone")
    assert indexfile.load(folder) is None


def test_one_from_another_program_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexfile, "_program", lambda: "another one")
    assert indexfile.load(folder) is None


def changed(folder: Path, **facts: object) -> None:
    """Writes the index again with other facts in it, whole and of the right log."""
    raw = (folder / NAME).read_bytes()[len(indexfile._MAGIC) + 32 :]
    saved = msgspec.structs.replace(msgspec.msgpack.decode(raw, type=indexfile._Saved), **facts)
    data = msgspec.msgpack.encode(saved)
    (folder / NAME).write_bytes(indexfile._MAGIC + hashlib.sha256(data).digest() + data)


@pytest.mark.parametrize(
    "facts",
    [
        {"copies": []},
        {"copies": [[0, 0, 0, b"", []]]},
        {"copies": [[0, 9, 0, b"", []]]},
        {"copies": [[0, 0, 10**12, b"", []]]},
        {"copies": [[0, 0, -1, b"", []]]},
        {"lines": -1},
        {"spacing": 0},
        {"blocks": []},
        {"blocks": [b"\xff" * 9] * 500},
        {"timeline": b"\xc1"},
        {"places": b""},
        {"files": []},
    ],
)
def test_facts_that_cannot_be_are_none(folder: Path, facts: dict[str, object]) -> None:
    changed(folder, **facts)
    log = opened(folder)
    assert log.known_bytes == 0
    says_the_same(log, LEAK, [SECOND])


def test_a_copy_that_cannot_be_taken_out_is_passed_over(folder: Path) -> None:
    kept = indexfile.load(folder)
    assert kept is not None
    broken = [msgspec.structs.replace(copy, data=b"\xc1") for copy in kept.copies[:-1]]
    assert len(broken) > 3
    changed(folder, copies=(*broken[::2], kept.copies[-1]))
    log = opened(folder)
    assert log.known_bytes == len(LEAK)
    says_the_same(log, LEAK, [2 * SECOND, SECOND, 0, 3 * SECOND])


def test_a_link_is_not_followed_and_a_huge_file_is_not_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexfile, "MOST_BYTES", 10)
    assert indexfile.load(folder) is None
    monkeypatch.setattr(indexfile, "MOST_BYTES", 1 << 30)
    target = tmp_path / "elsewhere"
    (folder / NAME).rename(target)
    (folder / NAME).symlink_to(target)
    assert indexfile.load(folder) is None
    opened(folder).save_index()
    assert not (folder / NAME).is_symlink()
    assert target.exists()


def test_where_nothing_may_be_written_nothing_is_said(folder: Path) -> None:
    log = opened(folder)
    (folder / NAME).unlink()
    (folder / NAME).mkdir()
    log.save_index()
    assert sorted(path.name for path in folder.iterdir()) == [NAME, "events.jsonl"]


def test_a_large_log_that_is_over_gets_one_and_one_that_is_written_does_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / NAME).unlink()
    opened(folder)
    keep_index(folder)
    assert not (folder / NAME).exists()
    monkeypatch.setattr(index, "INDEXED_BYTES", 1000)
    fd = RunFolder(folder).hold()
    opened(folder)
    assert not (folder / NAME).exists()
    keep_index(folder)
    assert opened(folder).known_bytes == len(LEAK), "its own runner knows that it is over"
    os.close(fd)
    (folder / NAME).unlink()
    opened(folder)
    assert opened(folder).known_bytes == len(LEAK)


def test_it_takes_no_more_than_a_fourth_of_what_the_log_takes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = indexfile.load(folder)
    assert whole is not None
    size = (folder / NAME).stat().st_size
    monkeypatch.setattr(indexfile, "LARGEST_SHARE", len(LEAK) / (size * 0.8))
    opened(folder).save_index()
    thinned = indexfile.load(folder)
    assert thinned is not None
    assert 1 <= len(thinned.copies) < len(whole.copies)
    assert thinned.copies[-1].place == whole.copies[-1].place
    assert (folder / NAME).stat().st_size < size
    says_the_same(opened(folder), LEAK, [SECOND, 2 * SECOND])
    (folder / NAME).unlink()
    monkeypatch.setattr(indexfile, "LARGEST_SHARE", len(LEAK))
    opened(folder).save_index()
    assert not (folder / NAME).exists()


def test_a_judge_does_not_look_at_it(folder: Path, tmp_path: Path) -> None:
    """Copies of another run's fold under this log's name change no verdict, and no judge has the module at hand."""
    honest = judge_folder(RunFolder(folder))
    short = laid(tmp_path / "short", LEAK[: LEAK.find(b"\n", len(LEAK) // 9) + 1])
    opened(short).save_index()
    other = indexfile.load(short)
    kept = indexfile.load(folder)
    assert other is not None
    assert kept is not None
    forged = msgspec.structs.replace(other.copies[-1], file=0, offset=len(LEAK))
    raw = (short / NAME).read_bytes()[len(indexfile._MAGIC) + 32 :]
    changed(folder, copies=(forged,), blocks=msgspec.msgpack.decode(raw, type=indexfile._Saved).blocks)
    assert not opened(folder).latest().state.leaks, "the forgery is good enough for a screen"
    assert judge_folder(RunFolder(folder)) == honest
    assert honest.verdict == "FAIL"
    assert not hasattr(verdicts, "RunLog")
