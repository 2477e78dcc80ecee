"""The peaks of real sessions, which an arm's pool is held against: sized by the largest request, since averages lie."""

from __future__ import annotations

from pathlib import Path

from infermaxx_tui import importers, shipped
from infermaxx_tui.core.capacity import TokenizerName, describe
from infermaxx_tui.transcripts_cli import measured
from infermaxx_tui.vocabulary import shipped as shipped_vocabulary


def peaks_of(patterns: tuple[str, ...], base: Path, source: str) -> tuple[tuple[int, ...], str]:
    """Tokens of each session's largest request, and by whose count.

    The recorded usage stands where there is one, else the shipped vocabulary counts. Raises ScenarioError or
    TranscriptError.
    """
    if not patterns:
        return (), ""
    files = shipped.find_transcripts(patterns, base, source)
    vocabulary = shipped_vocabulary()

    name = TokenizerName(vocabulary.name, exact=False)
    stats = describe(importers.load_all(files), lambda session: measured(session, vocabulary), name, None)
    recorded = all(one.peak_source == "recorded" for one in stats.sessions)
    return tuple(one.peak_tokens for one in stats.sessions), "recorded usage" if recorded else vocabulary.name
