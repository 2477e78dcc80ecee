"""Exit codes are a contract with scripts, so they live in one place."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process says to the shell when it ends."""

    PASS = 0
    """A written PASS verdict, or a command that did what it was asked."""
    FAIL = 1
    """A written FAIL verdict; nothing else ever exits with 1."""
    USAGE = 2
    """The command line, a scenario or a transcript is wrong; nothing was started."""
    INCONCLUSIVE = 3
    """The instrument could not see enough to judge."""
    SERVER = 4
    """The server was not usable before its first token."""
    INTERNAL = 70
    """A fault of this program."""
    INTERRUPTED = 130
    """Stopped before there was a verdict."""
