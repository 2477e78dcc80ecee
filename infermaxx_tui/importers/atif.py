"""ATIF trajectories, which evaluation runs write for some forty agents; the only format with the real token ids.

A step of the agent is one request. One stamp a step does not say whether it is its beginning or its end, so people's
times to think are taken from it and tools' delays are not. What converters are known to get wrong is put right where
the file shows it: doubled observations, counts that add up over the run, and prompts counted without what was cached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import Session
from infermaxx_tui.importers.atif_steps import FORMAT, Trajectory
from infermaxx_tui.importers.building import with_loss
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.pieces import Pieces
from infermaxx_tui.importers.values import as_object

__all__ = ["FORMAT", "sessions"]


def sessions(path: Path) -> Iterator[Session]:
    """The sessions of a file: the trajectory, what was interleaved with it, and its subagents."""
    reader = Pieces(path)
    number, held = -1, list[Session]()
    talk = Trajectory(stem(path), path.name)
    for piece in reader:
        if piece.document != number:
            yield from held
            held, number = (list(talk.finish()), piece.document) if number >= 0 else ([], piece.document)
            talk = Trajectory(stem(path), path.name)
        if piece.key == "steps" and piece.item:
            talk.step(as_object(piece.value))
        elif piece.key == "subagent_trajectories" and piece.item:
            talk.subagent(as_object(piece.value))
        else:
            talk.describe(piece.key, piece.value)
    rest = [*held, *talk.finish()]
    loss = reader.take_loss()
    for session in rest:
        yield with_loss(session, loss)
        loss = Counter()
