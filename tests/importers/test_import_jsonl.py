"""The reader: what separates lines, what survives, and what one bad line costs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.transcript import TranscriptError
from infermaxx_tui.importers.jsonl import JsonLines
from infermaxx_tui.importers.values import call_arguments, epoch_s, parse_json, repair


def read(path: Path, data: bytes, **options: int) -> tuple[list[tuple[int, object]], JsonLines]:
    path.write_bytes(data)
    reader = JsonLines(path, **options)
    return [(number, record) for number, record in reader], reader


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.jsonl"


def test_only_newlines_separate(file: Path) -> None:
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"
    line = json.dumps({"t": text}, ensure_ascii=False).replace("\\u000b", "\\u000b").encode()
    records, reader = read(file, line + b"\n" + line + b"\n")
    assert records == [(1, {"t": text}), (2, {"t": text})]
    assert not +reader.loss


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'\xef\xbb\xbf{"a":1}\n{"a":2}\n', [1, 2]),
        (b'{"a":1}\r\n{"a":2}\r\n', [1, 2]),
        (b'\n\n{"a":1}\n   \n{"a":2}', [1, 2]),
        (b'{"a":1,"a":2}\n', [2]),
    ],
    ids=["bom", "crlf", "blank lines and no last newline", "duplicate keys: the last wins"],
)
def test_harmless_shapes(file: Path, data: bytes, expected: list[int]) -> None:
    records, reader = read(file, data)
    assert [record["a"] for _, record in records if isinstance(record, dict)] == expected
    assert not +reader.loss


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        (b'{"a":', "malformed_line"),
        (b"[1,2]", "malformed_line"),
        (b'"text"', "malformed_line"),
        (b"null", "malformed_line"),
        (b"\xff\xfe\x00", "malformed_line"),
        (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "malformed_line"),
        (b'{"a":' + b"9" * 5000 + b"}", "malformed_line"),
    ],
    ids=["cut", "list", "string", "null", "binary", "nested too deeply", "a number of 5000 digits"],
)
def test_a_bad_line_costs_itself_alone(file: Path, bad: bytes, name: str) -> None:
    records, reader = read(file, b'{"a":1}\n' + bad + b'\n{"a":2}\n')
    assert [number for number, _ in records] == [1, 3]
    assert reader.loss[name] == 1
    assert reader.problem is not None
    assert reader.problem[0] == 2


def test_torn_tail_is_told_from_a_malformed_line(file: Path) -> None:
    assert read(file, b'{"a":1}\n{"a":2')[1].loss == {"torn_tail": 1}
    assert read(file, b'{"a":1}\n{"a":2\n')[1].loss == {"malformed_line": 1}
    assert read(file, '{"a":"é"}\n{"a":"é'.encode()[:-1])[1].loss["torn_tail"] == 1


def test_overlong_line_is_left_out(file: Path) -> None:
    long = json.dumps({"a": "x" * 3_000_000}).encode()
    records, reader = read(file, b'{"a":1}\n' + long + b'\n{"a":2}\n' + long, max_line_bytes=2_000_000)
    assert [number for number, _ in records] == [1, 3]
    assert reader.loss == {"line_too_long": 2}
    assert len(read(file, long, max_line_bytes=4_000_000)[0]) == 1


def test_lone_surrogates_are_repaired_and_pairs_joined(file: Path) -> None:
    records, reader = read(file, b'{"k":["\\ud83d","\\ud83d\\ude00","\\ude00x",{"\\ud800":1}],"n":NaN}\n')
    record = records[0][1]
    assert isinstance(record, dict)
    assert record["k"] == ["\ufffd", "\U0001f600", "\ufffdx", {"\ufffd": 1}]
    assert reader.loss == {"surrogate_repaired": 3}
    json.dumps(record, ensure_ascii=False).encode()


def test_invalid_utf8_is_replaced_and_counted(file: Path) -> None:
    records, reader = read(file, b'{"a":"caf\xe9"}\n')
    assert records == [(1, {"a": "caf\ufffd"})]
    assert reader.loss["invalid_utf8"] == 1


def test_gzip_whole_and_cut(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl.gz"
    packed = gzip.compress(b'{"a":1}\n{"a":2}\n')
    assert [n for n, _ in read(file, packed)[0]] == [1, 2]
    noise = "".join(chr(0x4E00 + i * 7919 % 20000) for i in range(4000))
    live = gzip.compress(b'{"a":1}\n' + json.dumps({"a": noise}).encode() * 50)[:-2000]
    records, _ = read(file, live)
    assert records[0] == (1, {"a": 1})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x28\xb5\x2f\xfd1234", "damaged zstd"),
        ("{}\n".encode("utf-16"), "UTF-16"),
        (b"\x1f\x8b\x08\x00junkjunkjunkjunk", "damaged gzip"),
    ],
)
def test_files_that_cannot_be_read_say_what_to_do(file: Path, data: bytes, message: str) -> None:
    with pytest.raises(TranscriptError, match=message):
        read(file, data)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match=r"gone\.jsonl: no such file"):
        list(JsonLines(tmp_path / "gone.jsonl"))
    with pytest.raises(TranscriptError, match="is a folder"):
        list(JsonLines(tmp_path))


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=30) | st.integers(-(2**53), 2**53), max_size=4)))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]]) -> None:
    data = b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)
    got, reader = read(tmp_path_factory.mktemp("given") / "x.jsonl", data)
    assert [record for _, record in got] == records
    assert not +reader.loss


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.mktemp("any") / "x.jsonl"
    try:
        got, reader = read(file, data)
    except TranscriptError:
        return
    assert len(got) + sum(reader.loss[name] for name in ("malformed_line", "torn_tail")) == reader.lines


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_repair_gives_valid_unicode_and_keeps_what_was_valid(text: str) -> None:
    mended = repair(text)
    mended.encode()
    assert repair(mended) == mended
    if not any(0xD800 <= ord(char) < 0xE000 for char in text):
        assert mended == text


@pytest.mark.parametrize(
    ("value", "text", "wrapped"),
    [
        ({"a": 1}, '{"a":1}', False),
        ('{"a": 1}', '{"a": 1}', False),
        ("", "{}", False),
        (None, "{}", False),
        ("[]", '{"_raw":"[]"}', True),
        ("null", '{"_raw":"null"}', True),
        ('{"a":', '{"_raw":"{\\"a\\":"}', True),
        ([1], '{"_raw":[1]}', True),
        ('{"a":"\\ud83d"}', '{"a":"\ufffd"}', False),
    ],
)
def test_call_arguments_are_always_an_object(value: object, text: str, wrapped: bool) -> None:
    assert call_arguments(value) == (text, wrapped)
    assert isinstance(parse_json(text), dict)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2026-05-01T09:00:00.500Z", 1777626000.5),
        ("2026-05-01T09:00:00.500", 1777626000.5),
        ("2026-05-01T11:00:00.500+02:00", 1777626000.5),
        (1777626000.5, 1777626000.5),
        (1777626000500, 1777626000.5),
        (1777626000500000, 1777626000.5),
        ("yesterday", None),
        (None, None),
        (True, None),
        (float("nan"), None),
    ],
)
def test_times_by_shape_and_magnitude(value: object, seconds: float | None) -> None:
    assert epoch_s(value) == seconds
