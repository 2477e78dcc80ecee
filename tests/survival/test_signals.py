"""One signal at each phase of a run: a hang-up changes nothing, a wish to stop ends it with a readable verdict."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from clitools import Place, sim
from survivaltools import Left, Runner, left_in, running, same_bytes, when

from infermaxx_tui.core import events as ev
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.log import parts
from infermaxx_tui.wish import Wish

SOON_S: Final = 10.0
"""What the contract grants an end (it is measured and shown; a busy machine is not the program's fault)."""
_FAR_TOO_LATE_S: Final = 45.0


class Phase(NamedTuple):
    """A moment of a run, known by what its log holds."""

    name: str
    marker: bytes
    fault: str = "clean"
    more: tuple[str, ...] = ()
    over: bool = False
    """Whether everything was seen by then."""


QUALITY: Final = ("quality.tasks=6", "quality.when=['before', 'after']")
PHASES: Final = (
    Phase("first line", b'"e":"runstarted"'),
    Phase("gates", b'"e":"gatechecked"', more=("gates.prefix_cache=true",)),
    Phase("quality before", b'"e":"qualityasked"', more=QUALITY),
    Phase("waves", b'"e":"firsttoken"'),
    Phase("ask", b'"e":"tagasked"'),
    Phase("asked again", b'"kind":"reask_alone"', fault="forget-oldest"),
    Phase("counts compared", b'"e":"countsreconciled"', over=True),
    Phase("verdict writing", b'"e":"runended"', over=True),
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A healthy server and one that forgets."""
    folder = tmp_path_factory.mktemp("sims")
    with sim(folder / "clean") as clean, sim(folder / "forgets", "--fault", "forget-oldest") as forgets:
        yield {"clean": clean, "forget-oldest": forgets}


def _holds(runner: Runner, marker: bytes) -> Callable[[], bool]:
    def look() -> bool:
        found = parts(runner.folder) if runner.folder is not None else ()
        return any(marker in path.read_bytes() for path in found)

    return look


@contextmanager
def _told(tell: Callable[[str], None], phase: str, number: signal.Signals) -> Iterator[None]:
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    tell(f"{phase:16} {number.name:8} over after {took:5.2f} s{'' if took <= SOON_S else '  LATE'}")
    assert took < _FAR_TOO_LATE_S


def _ended_in_order(runner: Runner, code: int, over: bool) -> Left:
    assert runner.folder is not None
    left = left_in(runner.folder)
    assert left.over
    assert left.torn_bytes == 0
    assert same_bytes(runner.folder)
    assert code == left.code
    if not over:
        assert left.verdict.verdict in ("INCONCLUSIVE", "FAIL")
        last = left.events[-1]
        assert isinstance(last, ev.RunEnded)
    return left


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name.replace(" ", "-"))
def test_a_wish_to_stop_at_any_moment_leaves_a_verdict(
    place: Place, servers: dict[str, str], two_waves: Path, phase: Phase, tell: Callable[[str], None]
) -> None:
    number = (signal.SIGINT, signal.SIGTERM)[PHASES.index(phase) % 2]
    url = servers[phase.fault]
    wish = Wish(scenario=str(two_waves), overrides=phase.more, url=url, no_gpu=True)
    with running(place, wish) as runner:
        assert when(_holds(runner, phase.marker), runner)
        runner.process.send_signal(signal.SIGHUP)
        runner.process.send_signal(number)
        with _told(tell, phase.name, number):
            code, _ = runner.end()
        _ended_in_order(runner, code, phase.over)


@pytest.mark.parametrize("delay_s", [0.0, 0.15, 0.5])
def test_a_wish_to_stop_before_the_run_begins_leaves_nothing(
    place: Place, two_waves: Path, delay_s: float, free_port: int
) -> None:
    launch = json.dumps(["sh", "-c", "sleep 600"])
    wish = Wish(scenario=str(two_waves), overrides=(f"server.launch={launch}",), no_gpu=True)
    with running(place, wish) as runner:
        since = runner.started_s
        when(lambda: time.monotonic() - since > delay_s, runner)
        runner.process.send_signal(signal.SIGTERM)
        code, _ = runner.end()
    assert code in (ExitCode.INTERRUPTED, -signal.SIGTERM), "before it can obey, the signal does what it always does"
    assert place.folders == []


def test_a_second_signal_ends_the_run_at_once_and_leaves_its_log(
    place: Place, servers: dict[str, str], two_waves: Path
) -> None:
    wish = Wish(scenario=str(two_waves), overrides=("sessions.rounds=40",), url=servers["clean"], no_gpu=True)
    with running(place, wish) as runner:
        assert when(_holds(runner, b'"e":"firsttoken"'), runner)
        runner.process.send_signal(signal.SIGTERM)
        runner.process.send_signal(signal.SIGINT)
        code, _ = runner.end()
        assert code == ExitCode.INTERRUPTED
        folder = runner.folder
    assert folder is not None
    left = left_in(folder)
    assert left.code == ExitCode.INCONCLUSIVE
    assert not (folder / "verdict.json").exists()
    with running(place, Wish(scenario="", resume=str(folder), no_gpu=True)) as runner:
        assert when(_holds(runner, b'"e":"resumed"'), runner)
        runner.process.send_signal(signal.SIGTERM)
        code, _ = runner.end()
        _ended_in_order(runner, code, over=False)
