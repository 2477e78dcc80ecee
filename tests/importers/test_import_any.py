"""Nothing that is written into a file breaks an importer: damaged samples of every format, and bytes of no format."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
from formats import SAMPLES, write_sample
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.transcript import Session, TranscriptError
from infermaxx_tui.importers import load
from infermaxx_tui.importers.packed import _Cutter


def check(sessions: tuple[Session, ...]) -> None:
    """What every consumer of sessions relies on."""
    for session in sessions:
        assert session.windows
        assert all(window.requests for window in session.windows)
        assert list(session.loss) == sorted(session.loss)
        assert all(count > 0 for _, count in session.loss)
        for request in session.requests:
            assert request.reply.role == "assistant"
            assert request.think_s >= 0
            assert request.tool_delay_s >= 0
            for message in (*request.delta, request.reply):
                message.content.encode()
                message.reasoning.encode()
                assert all(call.arguments.startswith("{") for call in message.tool_calls)


def attempt(path: Path) -> None:
    """Either sessions that hold, or one line for people."""
    try:
        check(load(path))
    except TranscriptError as error:
        shown = str(error)
        assert "\n" not in shown
        assert error.file  # noqa: PT017


@pytest.mark.parametrize("name", SAMPLES)
def test_each_sample_is_whole(tmp_path: Path, name: str) -> None:
    check(load(write_sample(tmp_path, name)))


Place = tuple[object, object]


def places(value: object) -> Iterator[Place]:
    """Every container of a JSON value with every key or index in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from places(inner)


JUNK: st.SearchStrategy[object] = st.sampled_from(
    [None, True, 0, -1, 1.5, 10**30, float("inf"), "", "x", "\ud800", [], {}, [[]], [None], {"type": []}, {"id": {}}]
)


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=40)
@given(data=st.data())
def test_no_wrong_value_breaks_a_format(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    content = copy.deepcopy(SAMPLES[name][1])
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(list(places(content)) or [([content], 0)]))
        if isinstance(container, dict) and data.draw(st.booleans()):
            del container[key]
        elif isinstance(container, dict | list):
            container[key] = copy.deepcopy(data.draw(JUNK))  # type: ignore[call-overload]  # the key came from this container
    attempt(write_sample(tmp_path_factory.getbasetemp() / "damaged", name, content))


@pytest.mark.parametrize("name", [name for name, (file, _) in SAMPLES.items() if file.endswith((".json", ".jsonl"))])
@settings(max_examples=25)
@given(at=st.floats(0, 1), junk=st.binary(max_size=6), cut=st.booleans())
def test_no_damaged_bytes_break_a_format(
    tmp_path_factory: pytest.TempPathFactory, name: str, at: float, junk: bytes, cut: bool
) -> None:
    path = write_sample(tmp_path_factory.getbasetemp() / "bytes", name)
    raw = path.read_bytes()
    place = int(at * len(raw))
    path.write_bytes(raw[:place] + junk + (b"" if cut else raw[place + len(junk) :]))
    attempt(path)


@given(
    st.binary(max_size=80),
    st.sampled_from([b"", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"SQLite format 3\x00", b"[{", b"{"]),
)
def test_no_bytes_break_the_detection(tmp_path_factory: pytest.TempPathFactory, data: bytes, head: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.bin"
    path.write_bytes(head + data)
    attempt(path)


PIECES = st.lists(
    st.sampled_from(
        [b";base64,", b'"data":"', b'"data": "', b"AAAA", b"A" * 300, b'"', b" ", b";base", b"64,", b'"da']
    ),
    max_size=12,
)


@given(PIECES, st.integers(1, 40))
def test_pictures_are_cut_alike_wherever_the_chunks_end(parts: list[bytes], size: int) -> None:
    data = b"".join(parts)
    whole, pieces = _Cutter(), _Cutter()
    expected = whole.feed(data) + whole.flush()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert b"".join([*map(pieces.feed, chunks), pieces.flush()]) == expected
    if b"base64," not in data:
        assert expected == data


def test_a_long_picture_leaves_its_beginning() -> None:
    cutter = _Cutter()
    url = b'"data:image/png;base64,' + b"A" * 5000 + b'" after'
    assert cutter.feed(url) + cutter.flush() == b'"data:image/png;base64,' + b"A" * 256 + b'" after'
