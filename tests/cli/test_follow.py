"""When the status is shown, and that a place that takes no more text does not matter."""

from __future__ import annotations

import errno
import io

import pytest

from infermaxx_tui.core.fold import Fold
from infermaxx_tui.follow import LINES_PERIOD_S, StatusLine


def _shown_at(tty: bool, until_s: int) -> list[int]:
    """Seconds at which a line is due, when somebody asks once a second from second 1000 on."""
    status = StatusLine(io.StringIO(), tty, lambda: 80)
    return [second for second in range(until_s) if status.due(1000.0 + second)]


def test_without_a_terminal_a_line_at_once_one_soon_and_then_one_every_half_minute() -> None:
    assert LINES_PERIOD_S == 30.0
    assert _shown_at(tty=False, until_s=100) == [0, 5, 35, 65, 95]


def test_on_a_terminal_a_line_a_second() -> None:
    assert _shown_at(tty=True, until_s=4) == [0, 1, 2, 3]


def test_lines_or_one_line_that_is_rewritten() -> None:
    lines, screen = io.StringIO(), io.StringIO()
    for out, tty in ((lines, False), (screen, True)):
        status = StatusLine(out, tty, lambda: 12, str.upper)
        status.show(Fold())
        status.show(Fold(), last=True)
    assert lines.getvalue() == "WAITING FOR \nWAITING FOR \n"
    assert screen.getvalue() == "\r\x1b[2KWAITING FOR \r\x1b[2KWAITING FOR \n"


class _Gone(io.StringIO):
    """A terminal that hung up."""

    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("tty", [True, False])
def test_a_terminal_that_hung_up_ends_the_status_and_not_the_run(tty: bool) -> None:
    status = StatusLine(_Gone(), tty, lambda: 80)
    status.show(Fold())
    status.show(Fold(), last=True)
