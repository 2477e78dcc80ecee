"""What sweeps came to: one line each in sweeps.jsonl, only ever appended, and what is compared with what."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from infermaxx_tui.core.experiment.answer import Answer, answer
from infermaxx_tui.core.experiment.since import (
    Drift,
    Since,
    figure_lines,
    like_for_like,
    same_question,
    since,
    since_lines,
)
from infermaxx_tui.experiment.folder import SUBFOLDER, list_experiments, name_of
from infermaxx_tui.private import make_folder
from infermaxx_tui.rundir import RunError


class Swept(msgspec.Struct, frozen=True):
    """A line of sweeps.jsonl: when, and what came of one experiment."""

    at_ms: int
    file: str
    outcome: str
    since: Since | None
    since_first: Since | None = None
    """Beside the oldest one that is like for like, where that is not the last one: small steps add up."""
    drift: Drift | None = None
    """What the comparison comes to; None where nothing was conducted."""

    @property
    def quiet(self) -> bool:
        """Whether it could be told that nothing moved, and no figure became worse by small steps since the first time.

        Of a first time nobody can ask more than that it was conducted.
        """
        crept = self.since_first is not None and any(arm.worse for arm in self.since_first.arms)
        return self.drift in ("first", "none") and not crept

    def lines(self) -> Iterator[str]:
        """For people and for a cron mail."""
        if self.since is None:
            yield f"{self.file}: {self.outcome}"
            return
        yield from since_lines(self.since)
        first = self.since_first
        if first is not None and any(arm.moved for arm in first.arms):
            yield f"  since the first like it, {first.last}:"
            yield from (f"  {line}" for line in figure_lines(first.arms))


def compare(root: Path, now_id: str, now: Answer) -> tuple[Since, Since | None]:
    """Beside the last one that is like for like, and beside the first.

    Where none is, beside the last one that asked the same, which says why they are not alike.
    """
    asked = list(_same(root, now_id, now))
    alike = [(place, name, found) for place, (name, found) in enumerate(asked) if like_for_like(now, found)]
    if not alike:
        last = asked[0] if asked else (None, None)
        return since(now_id, now, *last), None
    skipped, name, found = alike[0]
    first = alike[-1]
    return since(now_id, now, name, found, skipped), since(now_id, now, *first[1:]) if len(alike) > 1 else None


def _same(root: Path, now_id: str, now: Answer) -> Iterator[tuple[str, Answer]]:
    """Finished ones that asked the same of the same arms, newest first."""
    for folder in list_experiments(root):
        if folder.id == now_id or name_of(folder.id) != now.registered.experiment:
            continue
        try:
            found = answer(folder.rows())
        except (RunError, ValueError):
            continue
        if found.finished and same_question(found, now):
            yield folder.id, found


def keep(root: Path, swept: Swept) -> None:
    """Appends one line. Raises RunError where it cannot be written."""
    path = root / SUBFOLDER / "sweeps.jsonl"
    try:
        make_folder(path.parent)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, msgspec.json.encode(swept) + b"\n")
        finally:
            os.close(fd)
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror}); give --runs-dir DIR") from None


def last_lines(root: Path) -> Sequence[str]:
    """What the newest sweep of each file came to, in the order of their names; what cannot be read is left out."""
    newest: dict[str, Swept] = {}
    try:
        with (root / SUBFOLDER / "sweeps.jsonl").open("rb") as lines:
            for line in lines:
                try:
                    one = msgspec.json.decode(line, type=Swept)
                except msgspec.MsgspecError:
                    continue
                newest[one.file] = one
    except OSError:
        return ()
    return [text for name in sorted(newest) for text in _dated(newest[name])]


def _dated(one: Swept) -> Iterator[str]:
    """Its lines under the day of the sweep: what a page says may be older than the page."""
    yield f"{time.strftime('%Y-%m-%d', time.localtime(one.at_ms / 1000))}, {one.file}"
    yield from (f"  {line}" for line in one.lines())
