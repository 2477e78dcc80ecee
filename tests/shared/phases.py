"""Marks of tasks with one right answer, as tests of pages and of screens want them."""

from __future__ import annotations

from infermaxx_tui.core.verdict import QualityPhase


def marks(right: int) -> QualityPhase:
    """Of 24 tasks so many right, and the others wrong."""
    return QualityPhase(
        phase="before",
        wave=None,
        planned=24,
        right=right,
        wrong=24 - right,
        capped=0,
        error=0,
        not_asked=0,
        fell=0,
        rose=0,
    )
