"""The peaks of real sessions, which an arm's pool is held against: sized by the largest request, since averages lie."""

from __future__ import annotations

from pathlib import Path

import msgspec

from infermaxx_tui import importers, shipped
from infermaxx_tui.core.capacity import TokenizerName, describe
from infermaxx_tui.transcripts_cli import measured
from infermaxx_tui.vocabulary import shipped as shipped_vocabulary


class Peaks(msgspec.Struct, frozen=True):
    """Sessions by their largest requests."""

    tokens: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    counted_by: str = ""


def peaks_of(patterns: tuple[str, ...], base: Path, source: str) -> Peaks:
    """Tokens of each session's largest request, with the sessions' names, and by whose count.

    The recorded usage stands where there is one, else the shipped vocabulary counts. Raises ScenarioError or
    TranscriptError.
    """
    if not patterns:
        return Peaks()
    files = shipped.find_transcripts(patterns, base, source)
    vocabulary = shipped_vocabulary()

    name = TokenizerName(vocabulary.name, exact=False)
    stats = describe(importers.load_all(files), lambda session: measured(session, vocabulary), name, None)
    recorded = all(one.peak_source == "recorded" for one in stats.sessions)
    return Peaks(
        tuple(one.peak_tokens for one in stats.sessions),
        tuple(one.id for one in stats.sessions),
        ("recorded usage" if recorded else vocabulary.name)
        + (f", and {stats.sessions_left_out:,} more that are not looked at" if stats.sessions_left_out else ""),
    )
