"""Each format that is imported is played on the embedded server, from its file to a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest
from replaytools import SAMPLE_NAMES, played_sample

from infermaxx_tui.core.events import RequestStarted, SessionStarted, TagPlanted

_ENDS_EARLY = {
    "openhands": 1,  # its first context with a live reply reaches the depth of the second one
    "weka": 1,  # the exchange that plants the tag takes all the room that the last prompt would have had
}
"""Requests that are not played."""


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_a_format_is_played_from_its_file_to_a_verdict(name: str, tmp_path: Path) -> None:
    played, sessions = played_sample(name, tmp_path)
    verdict = played.verdict
    assert played.fault is None
    assert all(ended.outcome == "ok" for ended in played.ended.values())
    turns = [ended for ended in played.ended.values() if ended.kind == "turn"]
    assert len(turns) == sum(len(session.requests) for session in sessions) - _ENDS_EARLY.get(name, 0)
    recalls = [ended for ended in played.ended.values() if ended.kind == "recall"]
    assert len(recalls) == 2
    assert all(ended.forced == sessions[0].content_free for ended in turns)
    assert not any(ended.forced for ended in recalls)
    assert verdict.verdict == "PASS"
    assert verdict.regime.compaction == "replayed"
    assert verdict.regime.output_lengths == ("forced" if sessions[0].content_free else "natural")
    begun = played.of(SessionStarted)
    assert [event.parent for event in begun] == [None] + [0] * (len(begun) - 1)
    assert len(begun) == len(sessions)
    opened = [event.opens for event in played.of(RequestStarted) if event.opens]
    assert len(opened) == sum(len(session.windows) - 1 for session in sessions) - (name == "openhands")
    assert len({event.label for event in played.of(TagPlanted)}) == 1


@pytest.mark.parametrize("name", ["mooncake", "weka"])
def test_a_trace_is_played_in_its_lengths(name: str, tmp_path: Path) -> None:
    played, sessions = played_sample(name, tmp_path, "canaries.per_session=0", "limits.min_recalls=0")
    for number, session in enumerate(sessions):
        lengths = [(r.usage.prompt_tokens, r.usage.output_tokens) for r in session.requests]
        line = played.main_line(number)
        assert [(len(sent.ids), ended.completion_tokens) for ended, sent in line] == lengths
