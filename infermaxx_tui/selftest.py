"""Proves that each judge passes the healthy, fails the sick and refuses the blind, before anybody believes it.

Every fault of the embedded server is played through the whole runner in memory and on a clock of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import as_completed
from functools import cache, lru_cache
from typing import Final

import msgspec

from infermaxx_tui.core.events import AnyEvent, Record, decode, encode
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.histories.bases import BASES, SICK
from infermaxx_tui.core.histories.edits import Lines
from infermaxx_tui.core.judges import Word
from infermaxx_tui.core.mutations import EARNED
from infermaxx_tui.core.scenario import parse_scenario
from infermaxx_tui.core.verdict import Verdict, judge_run
from infermaxx_tui.earlier import earlier_conversation
from infermaxx_tui.prepare import prepare
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.context import Stopper
from infermaxx_tui.runner.play import play
from infermaxx_tui.selftest_rows import SelftestRow, certified, selftest_json, selftest_lines
from infermaxx_tui.selftest_work import MADE_UP, Run, base_of, certify, made_up, missed, row_of, worker_pool
from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.config import SimConfig
from infermaxx_tui.sim.engine import Engine
from infermaxx_tui.sim.faults import FAULTS, TIMED
from infermaxx_tui.sim.faults import Verdict as Verdict3
from infermaxx_tui.sim.transport import SimTransport
from infermaxx_tui.virtual import VirtualClock, run_virtual
from infermaxx_tui.virtual_gpus import VirtualSensors
from infermaxx_tui.vocabulary import Vocabulary, shipped
from infermaxx_tui.wish import Loaded, Wish, load

__all__ = (
    "ALL",
    "EXACT",
    "NONCE",
    "SelftestRow",
    "demand",
    "judge_lines",
    "play_in_memory",
    "played_in_memory",
    "run_selftest",
    "selftest_json",
    "selftest_lines",
)

_URL = "http://127.0.0.1:1"
NONCE = "5e1f7e57"
"""Of all that is played, so that a selftest is the same each time."""
_REMEMBERED = 1024
"""Texts kept in mind from one run to the next."""


class History(msgspec.Struct, frozen=True):
    """A run that no fault alone stands for: keys of the demo's scenario, a server, and what it must earn."""

    overrides: tuple[str, ...]
    wanted: Verdict3
    check: str | None = None
    faults: tuple[str, ...] = ("clean",)
    finds: tuple[str, ...] = ()
    """What its controls must find."""


_SERIAL: Final = ('sessions.control="serial"',)
_CONTROLS: Final = (
    "controls.repeat=2",
    "controls.cache=2",
    "controls.salt=2",
    "controls.solo=true",
    "controls.after=3",
)
_SAME: Final = ("repeat same", "cache same", "salt same", "solo healthy", "after healthy")
_SHORT: Final = ("sessions.rounds=1", "limits.min_recalls=15")
_QUALITY: Final = ("quality.tasks=24", *_SHORT)
HISTORIES: Final[dict[str, History]] = {
    "serial": History(_SERIAL, "PASS"),
    "serial-parallel": History(_SERIAL, "PASS", None, ("leak-parallel",)),
    "serial-leak": History(_SERIAL, "FAIL", "isolation", ("leak",)),
    "serial-blind": History(_SERIAL, "INCONCLUSIVE", None, ("refuse",)),
    "timed": History(TIMED, "PASS"),
    "timed-burst": History(TIMED, "PASS", None, ("burst",)),
    "timed-buffered": History(TIMED, "INCONCLUSIVE", None, ("buffered",)),
    "controls": History(_CONTROLS, "PASS", finds=_SAME),
    "controls-shared": History((*_SHORT, "controls.salt=2"), "FAIL", "recall", ("cache-rot",), ("salt differs",)),
    "controls-blind": History((*_CONTROLS, "reply.temperature=0.5"), "INCONCLUSIVE", finds=("cache not_evaluable",)),
    "quality": History(_QUALITY, "PASS"),
    "quality-chat": History((*_QUALITY, 'sessions.prompt="chat"'), "PASS"),
    "quality-demand": History((*_QUALITY, "limits.min_quality=0.9"), "FAIL", "quality", ("dull",)),
    "quality-capped": History((*_QUALITY, "quality.max_tokens=4"), "INCONCLUSIVE"),
    "quality-few": History((*_QUALITY, "quality.tasks=6"), "INCONCLUSIVE"),
    "quality-blind": History((*_QUALITY, 'quality.when=["during", "after"]'), "INCONCLUSIVE"),
}
"""Good, bad and blind runs of judges that look at more than one request of a kind."""
EXACT: Final = frozenset({"timed", "timed-burst"})
"""Those whose times are shorter than a busy client's lag, and which can pass in memory alone."""


class _Memory:
    """A log in memory. Each line is encoded and decoded, as a file's would be."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    @property
    def written(self) -> int:
        """Lines written so far."""
        return len(self.lines)

    def append(self, event: AnyEvent, wall_ms: int, mono_us: int) -> Record:
        """The record as written."""
        record = Record(0, len(self.lines), wall_ms, mono_us, event)
        self.lines.append(encode(record))
        return record


def play_in_memory(faults: tuple[str, ...], overrides: tuple[str, ...] = ()) -> tuple[bytes, ...]:
    """The log of the demo, with keys overridden, against the embedded server with these faults."""
    wish = Wish(scenario="demo", faults=faults, overrides=overrides, nonce=NONCE)
    memory = _Memory()
    run_virtual(_play, _loaded(wish), wish, memory)
    return tuple(memory.lines)


class _Remembering:
    """The package's vocabulary, which is asked the same of each run: it renders and encodes a text once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.name, self.sha256 = vocabulary.name, vocabulary.sha256
        self.template_sha256 = vocabulary.template_sha256
        self.render = lru_cache(_REMEMBERED)(vocabulary.render)
        self.encode = lru_cache(_REMEMBERED)(vocabulary.encode)
        self.decode, self.special_id = vocabulary.decode, vocabulary.special_id


@cache
def _vocabulary() -> _Remembering:
    return _Remembering(shipped())


@cache
def _demo() -> Loaded:
    """The demo as it is shipped: reading its transcripts takes as long as some of the runs."""
    return load(Wish(scenario="demo", nonce=NONCE))


def _loaded(wish: Wish) -> Loaded:
    """What `load` makes of a wish with faults and overrides, without reading the transcripts again."""
    demo = _demo()
    scenario = parse_scenario(demo.text, demo.source, wish.overrides)
    if wish.faults:
        server = msgspec.structs.replace(scenario.server, sim=wish.faults, url=None, launch=())
        scenario = msgspec.structs.replace(scenario, server=server)
    return msgspec.structs.replace(demo, scenario=scenario)


async def _play(loaded: Loaded, wish: Wish, memory: _Memory) -> None:
    clock = VirtualClock()
    engine = Engine(SimConfig(faults=wish.faults), wall=lambda: clock.wall_ms() / 1000)
    transport = SimTransport(App(engine))
    known, earlier = earlier_conversation(wish.faults, NONCE)
    prepared, _ = await prepare(loaded, wish, _URL, None, known, transport=transport, renderer=_vocabulary())
    prepared = msgspec.structs.replace(prepared, earlier=earlier)
    async with make_client(_URL, None, transport) as client:
        gpus = VirtualSensors(prepared.scenario.sensors, wish.faults, clock)
        await play(prepared, "selftest", client, memory, clock, Stopper(), gpus=gpus)


def judge_lines(lines: tuple[bytes, ...]) -> Verdict:
    """The verdict that a log's lines earn."""
    fold = Fold()
    for line in lines:
        fold.add(decode(line))
    return judge_run(fold.snapshot())


def run_selftest(faults: tuple[str, ...], narrate: Callable[[str], None]) -> tuple[SelftestRow, ...]:
    """A row for each of the faults, or for all of them, the histories and the made-up runs.

    One process a core plays them. A whole selftest leaves a certificate in the user's cache.
    """
    names = faults or (*_COSTLY, *(name for name in ALL if name not in _COSTLY))
    rows, began = {}, time.monotonic()
    with worker_pool(min(len(names), os.cpu_count() or 1)) as pool:
        for done in as_completed([pool.submit(played_in_memory, name) for name in names]):
            row = done.result()
            rows[row.fault] = row
            if not row.caught:
                narrate(missed(row))
    table = tuple(rows[name] for name in (faults or ALL))
    if not faults:
        certify(certified(table, time.monotonic() - began), narrate)
    return table


def played_in_memory(name: str) -> SelftestRow:
    """The row of one run: a fault, a history or a made-up one."""
    return row_of(name, _run(name))


class Demand(msgspec.Struct, frozen=True):
    """How a run is played, and what it must earn."""

    faults: tuple[str, ...]
    overrides: tuple[str, ...]
    wanted: Word
    check: str | None
    finds: tuple[str, ...] = ()


def demand(name: str) -> Demand:
    """Of a fault, or of a history that no fault alone stands for."""
    if name in HISTORIES:
        history = HISTORIES[name]
        return Demand(history.faults, history.overrides, history.wanted, history.check, history.finds)
    fault = FAULTS[name]
    return Demand((name,), fault.overrides, fault.verdict, fault.check, fault.finds)


def _run(name: str) -> Run:
    if made_up(name):
        base = base_of(name)
        return Run(EARNED[base], SICK.get(base), BASES[base]())
    wanted = demand(name)
    return Run(wanted.wanted, wanted.check, _played(wanted.faults, wanted.overrides), wanted.finds)


def _played(faults: tuple[str, ...], overrides: tuple[str, ...]) -> Lines:
    return tuple(decode(line) for line in play_in_memory(faults, overrides))


ALL: Final = (*FAULTS, *HISTORIES, *(f"{MADE_UP}{base}" for base in BASES))
_COSTLY: Final = ("cache-rot", "vram-creep", "slow-start", "clean", "quality")
"""Begun first, so that no core waits for another one at the end."""
