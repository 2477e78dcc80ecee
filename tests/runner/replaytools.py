"""Samples of each format with texts long enough to be played, and the way in which they are."""

from __future__ import annotations

from pathlib import Path

from formats import SAMPLES, write_sample
from runnertools import Played, Setting, play_small

from infermaxx_tui import importers
from infermaxx_tui.core.transcript import Session
from infermaxx_tui.prepare import lengths_of, tokenised_by
from infermaxx_tui.vocabulary import shipped

SAMPLE_NAMES = tuple(SAMPLES)
_KEPT_SHORT = ("id", "agent_id", "action", "type", "kind", "source", "name")
_RESULT = "\n".join(f"{n:3} part {n} holds a stale value and its limit is off by one" for n in range(14))
_LONG = {
    "s": "You keep a repository in order. You answer in one line and never change what you were not asked to.",
    "go": "Look at the retry loop in src/app.py and say in one line why its second case is missing.\n" + _RESULT,
    "x": _RESULT,
    "look": "I read the file first, since two callers depend on it.",
    "done": "The limit is off by one; two callers depend on it.",
    "b": "The loop never ends, because the limit is off by one.",
}


def _long(value: object) -> object:
    match value:
        case str():
            return _LONG.get(value, value)
        case list():
            return [_long(item) for item in value]
        case dict():
            return {key: inner if key in _KEPT_SHORT else _long(inner) for key, inner in value.items()}
        case _:
            return value


def sample_sessions(name: str, folder: Path) -> tuple[Session, ...]:
    """What the importers make of a sample of that format."""
    return importers.load(write_sample(folder, name, _long(SAMPLES[name][1])))


def played_sample(name: str, folder: Path, *overrides: str) -> tuple[Played, tuple[Session, ...]]:
    """A sample played whole by one conversation with one tag, and its sessions."""
    sessions = sample_sessions(name, folder)
    main = next(one for one in lengths_of(sessions, tokenised_by(shipped(), sessions)) if not one.child)
    depth = main.depths(0, with_replies=main.whole)[0]
    plain = (
        "sessions.count=1",
        f"sessions.target_depth={depth}",
        "canaries.per_session=1",
        "canaries.plant_at=[]",
        "canaries.tail=false",
        "canaries.absent=false",
        "limits.min_recalls=1",
        "reply.max_tokens=24",
    )
    return play_small(Setting(transcripts=sessions, overrides=(*plain, *overrides))), sessions
