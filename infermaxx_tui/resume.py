"""Takes a run up again that was stopped or whose runner died: what its log says of it, and what is to be played again.

Nothing in the run's folder is changed before everything is prepared and the next line can be written.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from infermaxx_tui.core.continuing import differences, how_ended, remaining, unfinished
from infermaxx_tui.core.events import Record, RequestStarted, Resumed, RunEnded, TagIssued, TagsKnown
from infermaxx_tui.core.events_resume import BrokenOff
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.predictions import sha256_of
from infermaxx_tui.core.quality.gate import Asked
from infermaxx_tui.core.scenario import ScenarioError, parse_scenario
from infermaxx_tui.core.state import Meta, RunState
from infermaxx_tui.core.verdict import judge_run
from infermaxx_tui.log import Follower, last_line, parts
from infermaxx_tui.origin import Origin
from infermaxx_tui.rundir import RunError, RunFolder
from infermaxx_tui.runner.context import Prepared
from infermaxx_tui.runner.continued import Continued
from infermaxx_tui.wish import Loaded, complete

_OVER = ("finished", "duration")
"""Last lines after which there is nothing to take up."""
_PART = re.compile(r"events-(\d+)\.jsonl", re.ASCII)
_TAIL_BYTES = 1 << 20


class Earlier(msgspec.Struct, frozen=True):
    """What the log of a run says, before it is taken up again."""

    state: RunState
    meta: Meta
    last: Record
    last_req: int
    issued: tuple[TagIssued, ...]
    """Tags that conversations have, and decoys."""
    retired: tuple[str, ...]
    """Tags that conversations had before they were begun anew."""

    @property
    def segment(self) -> int:
        """The number of the next segment."""
        return self.state.segments


def refuse_over(run: RunFolder) -> None:
    """Raises RunError for a run that is still going on, that came to its end, or that never began."""
    if run.alive():
        raise RunError(f"{run.id}: its runner is alive; `infermaxx attach {run.id}` follows it")
    last = last_line(run.path)
    if isinstance(last, Record) and isinstance(last.event, RunEnded):
        if last.event.reason in _OVER:
            raise RunError(f"{run.id}: it came to its end; `infermaxx judge {run.id}` shows its verdict")
        if last.event.reason == "gate":
            raise RunError(f"{run.id}: a gate kept it from beginning, so there is nothing to take up: run it anew")


def read_earlier(run: RunFolder) -> Earlier:
    """What the log says until now. Raises RunError where it gives nothing to go on from."""
    fold, owned, loose = Fold(), dict[int, tuple[int, list[TagIssued]]](), list[TagIssued]()
    retired: list[str] = []
    last: Record | None = None
    last_req = 0
    try:
        for record in (line for path in parts(run.path) for line in Follower(path).read()):
            fold.add(record)
            if not isinstance(record, Record):
                continue
            last = record
            match record.event:
                case RequestStarted(req=req):
                    last_req = max(last_req, req)
                case TagIssued(session=None) as issued:
                    loose.append(issued)
                case TagIssued(session=int(session)) as issued:
                    now = fold.parts.run.segment
                    segment, own = owned.setdefault(session, (now, []))
                    if segment != now:
                        retired += [one.tag for one in own if one.tag]
                        own = []
                        owned[session] = (now, own)
                    own.append(issued)
                case _:
                    pass
    except OSError as error:
        raise RunError(f"{run.path}: the log cannot be read ({error.strerror})") from None
    state = fold.snapshot()
    if last is None or state.meta is None:
        raise RunError(f"{run.id}: its log has no first line, so no run ever began in it: run it anew")
    issued_now = (*loose, *(one for _, own in owned.values() for one in own))
    return Earlier(state, state.meta, last, last_req, issued_now, tuple(retired))


def load_again(earlier: Earlier, origin: Origin) -> Loaded:
    """The scenario as the log has it, and its transcripts. Raises ScenarioError, TranscriptError or RunError."""
    meta = earlier.meta
    scenario = parse_scenario(meta.scenario_text, "scenario.toml")
    if sha256_of(scenario.predictions) != (meta.predictions_sha256 or sha256_of(())):
        raise RunError(f"{meta.run}: its claims are not those of its first line; the log was changed")
    try:
        return complete(scenario, meta.scenario_text, "scenario.toml", Path(origin.base))
    except ScenarioError as error:
        if error.key == "transcripts.paths":
            raise RunError(f"{meta.run}: its transcripts are not where they were: {error}") from None
        raise


def continued(run: RunFolder, earlier: Earlier, prepared: Prepared) -> Prepared:
    """What is left to be done, as the plan of this segment has it.

    Raises RunError where the server, the model, the transcripts or this program are not what they were.
    """
    moved: tuple[str, ...] = ()
    if earlier.state.regime is not None:
        other, moved = differences(earlier.state.regime, prepared.regime)
        if other:
            why = "a run is not continued on something else; run it anew"
            raise RunError(f"{run.id}: not what it was: {', '.join(other)}: {why}")
    planned = prepared.plan
    again = unfinished(planned, how_ended(earlier.state.sessions))
    whole = {one.session for one in planned.conversations} - again
    still = tuple(one for one in earlier.issued if one.session is None or one.session in whole)
    dropped = [one.tag for one in earlier.issued if one.session is not None and one.session not in whole and one.tag]
    resumed = Resumed(
        how=how_it_broke_off(earlier),
        gap_ms=_gap_ms(earlier),
        last=(earlier.last.part, earlier.last.seq),
        torn_bytes=sum(_torn_bytes(path) for path in parts(run.path)),
        open_requests=earlier.state.in_flight,
        verdict=judge_run(earlier.state).verdict,
        finished=len(whole),
        again=len(again),
        moved=moved,
    )
    going_on = Continued(
        event=resumed,
        segment=earlier.segment,
        sessions=len(planned.conversations),
        planned_recalls=planned.planned_recalls,
        last_req=earlier.last_req,
        elapsed_s=earlier.state.elapsed_ms / 1000.0,
        baseline_asked=_all_asked(earlier.state.quality, "before"),
        issued=still,
        retired=TagsKnown(run=run.id, tags=(*earlier.retired, *dropped)),
    )
    return msgspec.structs.replace(
        prepared,
        plan=remaining(planned, again),
        scenario_text=earlier.meta.scenario_text,
        continued=going_on,
    )


def _all_asked(quality: Asked, phase: str) -> bool:
    """Whether each task of the phase has an answer."""
    return len({one.task for one in quality.answers if one.phase == phase}) >= quality.tasks


def how_it_broke_off(earlier: Earlier) -> BrokenOff:
    """What became of the segment before."""
    match earlier.state.ended:
        case "stopped" | "server_lost" | "evidence_lost" | "internal" as reason:
            return reason
        case _:
            return "host_restarted" if _booted_ms() > earlier.last.wall_ms else "killed"


def _booted_ms() -> float:
    """When this machine was started, Unix time."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return (time.time() - time.clock_gettime(clock)) * 1000.0


def _gap_ms(earlier: Earlier) -> float | None:
    gap_ms = time.time() * 1000.0 - earlier.last.wall_ms
    return gap_ms if gap_ms >= 0 else None


def _torn_bytes(path: Path) -> int:
    """Bytes after the last newline."""
    with path.open("rb") as file:
        size = at = file.seek(0, os.SEEK_END)
        while at:
            begin = max(at - _TAIL_BYTES, 0)
            file.seek(begin)
            found = file.read(at - begin).rfind(b"\n")
            if found >= 0:
                return size - (begin + found + 1)
            at = begin
        return size


def make_way(run: RunFolder) -> tuple[Path, int]:
    """The path and the number of the next part. A torn line is cut off, and the verdict until now goes: it is in the
    log's story, and whoever looks while the run goes on must not take it for the run's.

    Raises OSError.
    """
    for path in parts(run.path):
        if torn := _torn_bytes(path):
            os.truncate(path, path.stat().st_size - torn)
    for left in (run.verdict, run.read_mark, *run.path.glob(".*.json.*"), *run.path.glob(".*.toml.*")):
        with suppress(FileNotFoundError):
            left.unlink()
    numbers = [int(match[1]) for path in run.path.iterdir() if (match := _PART.fullmatch(path.name))]
    part = max(numbers, default=0) + 1
    return run.path / f"events-{part}.jsonl", part


def put_aside_server_log(run: RunFolder) -> Path | None:
    """The log of the server that was launched before, under another name: a start is read from the head of its log."""
    if not run.server_log.exists() or not run.server_log.stat().st_size:
        return None
    number = 0
    while (aside := run.path / f"server-{number}.log").exists():
        number += 1
    os.rename(run.server_log, aside)
    return aside
