"""Settings of all property tests: no deadlines and no complaint of slowness, since time is never asserted.

In CI the examples are the same each time, so that a red run can be run again; elsewhere they are always new ones.
Tests marked `long` do a tenth of their work unless `--long` is given, and never none of it.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tinydisk import NO_TMPFS, fill_up, mounted

if TYPE_CHECKING:
    from spread import Spread
    from xdist.remote import Producer

for _name in ("COLUMNS", "LINES"):
    # readline sets them for what pytest starts, its workers among them, and programs with no terminal would obey
    os.environ.pop(_name, None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell makes what it starts in its background deaf to Ctrl-C, and tests would hand that on to what they start
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

_SHARE = 10
"""The short form of a long test does one part in so many."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--long`: the long forms whole."""
    parser.addoption("--long", action="store_true", help="run the tests marked `long` at their whole length")


@pytest.fixture(scope="session")
def share(pytestconfig: pytest.Config) -> Callable[[int], int]:
    """How many of a long test's repetitions are done here: all of them with `--long`, else a tenth, at least one."""
    whole = bool(pytestconfig.getoption("--long"))
    return lambda repetitions: repetitions if whole else max(1, repetitions // _SHARE)


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port on which nobody listens, and which the system gives to nobody who asks for any port.

    What is bound and does not listen refuses connections, and who asks for this very port may listen there.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MiB."""
    with mounted(tmp_path / "tiny") as folder:
        yield folder


@pytest.fixture
def fill() -> Callable[[Path], None]:
    """Leaves no byte free in such a file system."""
    return fill_up


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Takes a figure that a test measured, which is shown after all tests: a worker of `-n` has no terminal."""
    return lambda figure: record_property("figure", figure)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With INFERMAXX_NO_SKIP a test that skips itself fails, but for what nobody can install."""
    report = yield
    if report.skipped and call.excinfo is not None and os.environ.get("INFERMAXX_NO_SKIP"):
        reason = str(call.excinfo.value)
        if isinstance(call.excinfo.value, pytest.skip.Exception) and not reason.startswith(NO_TMPFS):
            report.outcome, report.longrepr = "failed", f"{item.nodeid}: nothing may be skipped here: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have measured."""
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, [])]
    figures = [value for one in reports for name, value in one.user_properties if name == "figure"]
    if figures:
        terminalreporter.section("figures")
        terminalreporter.write("\n".join((*figures, "")))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Spread:
    """With `-n`: what needs a quiet host goes through one worker."""
    from spread import Spread

    return Spread(config, log)
