"""Tags of earlier runs: one that comes back comes from an old cache, and only who knows them can say so."""

from __future__ import annotations

from pathlib import Path

from infermaxx_tui import rundir
from infermaxx_tui.core.canary import make_labels, make_tags
from infermaxx_tui.core.events import Record, TagIssued
from infermaxx_tui.log import Follower, parts
from infermaxx_tui.rundir import RunFolder

EARLIER_RUNS = 20
"""How many runs back a tag is still known (contract: the last 20)."""
_TAGS_OF_ONE_RUN = 5000
"""Tags of one earlier run that are kept in mind."""
_LINES_BEFORE_TAGS = 16
"""What a log may say of the run and its server before its first tag."""

Known = tuple[tuple[str, tuple[str, ...]], ...]
"""Tags by run."""


def known_tags(root: Path, own: RunFolder) -> Known:
    """Tags that the last runs in `root` sent, `own` left out; a run that cannot be read is left out too."""
    others = [run for run in rundir.list_runs(root) if run.id != own.id]
    known = ((run.id, _issued_tags(run)) for run in others[:EARLIER_RUNS])
    return tuple((run, tags) for run, tags in known if tags)


def _issued_tags(run: RunFolder) -> tuple[str, ...]:
    """Tags of all segments, the newest first."""
    try:
        found = [tag for path in reversed(parts(run.path)) for tag in _issued_in(path)]
    except OSError:
        return ()
    return tuple(found[:_TAGS_OF_ONE_RUN])


def _issued_in(part: Path) -> list[str]:
    tags: list[str] = []
    for place, record in enumerate(Follower(part).read()):
        event = record.event if isinstance(record, Record) else None
        if isinstance(event, TagIssued):
            if event.tag and event.kind != "decoy":
                tags.append(event.tag)
        elif tags or place >= _LINES_BEFORE_TAGS:
            break
    return tags


def earlier_conversation(faults: tuple[str, ...], key: str) -> tuple[Known, tuple[tuple[str, str], ...]]:
    """For a demo of stale caches: the known tags of an earlier run, and its labels and tags to send beforehand."""
    if "stale" not in faults:
        return (), ()
    labels, tags = make_labels(0, f"earlier-{key}", 3), make_tags(0, f"earlier-{key}", 3)
    return (("an earlier run of the demo", tags),), tuple(zip(labels, tags, strict=True))
