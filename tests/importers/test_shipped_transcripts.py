"""What ships as sample transcripts must be what its README says, and must betray nobody."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from infermaxx_tui.core.canary import tag_shaped
from infermaxx_tui.core.segments import tokenise
from infermaxx_tui.core.transcript import Message, Session
from infermaxx_tui.importers import load
from infermaxx_tui.shipped import shipped_root
from infermaxx_tui.vocabulary import shipped

FILES = sorted((shipped_root() / "transcripts").glob("*.jsonl"))
SCRIPTS = Path(__file__).resolve().parents[1] / "tools" / "sessions"
BLOCK_CHARS = 200
_PATHS = re.compile(r"(?<![\w.-])/(?:work|root|Users|mnt|tmp/tmp[a-z0-9_]{6,})/|\.pyenv")
_ADDRESS = re.compile(r"\b(?:10|172\.(?:1[6-9]|2\d|3[01])|192\.168)\.\d{1,3}\.\d{1,3}(?:\.\d{1,3})?\b")


def _texts(session: Session) -> list[str]:
    messages: list[Message] = [m for r in session.requests for m in (*r.delta, r.reply)]
    return [
        text for m in messages for text in (m.content, m.reasoning, *(call.arguments for call in m.tool_calls)) if text
    ]


def _largest_repeat(text: str) -> int:
    """Characters of the largest block of at least BLOCK_CHARS that stands twice without overlap, 0 if there is none."""
    first: dict[str, int] = {}
    best = 0
    for start in range(0, len(text) - BLOCK_CHARS, 20):
        first.setdefault(text[start : start + BLOCK_CHARS], start)
    at = 0
    while at < len(text) - BLOCK_CHARS:
        seen = first.get(text[at : at + BLOCK_CHARS])
        if seen is None or seen + BLOCK_CHARS > at:
            at += 1
            continue
        length = BLOCK_CHARS
        while at + length < len(text) and seen + length < at and text[at + length] == text[seen + length]:
            length += 1
        best = max(best, length)
        at += length
    return best


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def session(request: pytest.FixtureRequest) -> Session:
    """Each shipped transcript."""
    path: Path = request.param
    (only,) = load(path)
    return only


def test_there_are_six_short_and_four_long_ones() -> None:
    peaks = sorted(tokenise(load(path)[0], shipped(), truth="none").peak_tokens for path in FILES)
    short = [peak for peak in peaks if peak < 12_000]
    long = [peak for peak in peaks if peak >= 12_000]
    assert len(short) >= 6
    assert len(long) >= 4
    assert all(4_500 <= peak <= 8_500 for peak in short)
    assert all(30_000 <= peak <= 42_000 for peak in long)
    assert 5_400 <= sum(short) / len(short) <= 6_900
    assert 33_000 <= sum(long) / len(long) <= 39_000


def test_each_has_the_script_that_it_was_recorded_from() -> None:
    assert {path.stem for path in FILES} == {path.stem for path in SCRIPTS.glob("*.toml")}


def test_they_are_agent_sessions(session: Session) -> None:
    replies = [request.reply for request in session.requests]
    assert session.tools
    assert session.requests[0].delta[0].role == "system"
    assert any(len(reply.tool_calls) > 1 for reply in replies)
    assert any(reply.reasoning for reply in replies)
    calls = {call.id for reply in replies for call in reply.tool_calls}
    answers = {m.tool_call_id for request in session.requests for m in request.delta if m.role == "tool"}
    assert calls == answers
    assert not replies[-1].tool_calls


def test_nothing_is_repeated_for_bulk(session: Session) -> None:
    text = "\n".join(_texts(session))
    assert _largest_repeat(text) < 0.05 * len(text)


def test_the_repeat_finder_finds_repeats() -> None:
    block = "".join(chr(97 + (i * i) % 26) for i in range(400))
    assert _largest_repeat(f"{block} something between {block} end") >= 380
    assert _largest_repeat("".join(chr(97 + (i * i * i + i // 7) % 26) for i in range(300))) == 0


def test_they_betray_nobody_and_look_like_no_tag(session: Session) -> None:
    for text in _texts(session):
        assert tag_shaped(text) is None
        assert not _PATHS.search(text)
        assert not _ADDRESS.search(text)


def test_they_hold_errors_and_long_results() -> None:
    texts = [text for path in FILES for text in _texts(load(path)[0])]
    assert sum("Traceback" in text or "FAILED" in text or "Error" in text for text in texts) >= 10
    assert sum(len(text) > 4_000 for text in texts) >= 5
    words = Counter(word for text in texts for word in re.findall(r"[a-z]{4,}", text))
    assert len(words) > 2_000
