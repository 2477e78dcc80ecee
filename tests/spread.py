"""How `pytest -n` spreads tests over workers.

A worker takes a whole group, so that what a file or a folder makes for its tests is made once, and no test runs beside
another of its group. Much of what is in the groups below waits: for processes that start, for servers that keep to a
pace. What is in no group computes, and a worker takes it file by file.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

GROUPS: Final = {
    "a real vLLM": ("tests/real/",),
    "commands": ("tests/cli/",),
    "whoever needs a quiet host": (
        "tests/cli/test_cli_selftest.py",
        "tests/survival/",
        "tests/survival_wire/",
        "tests/runner/test_faults.py",
        "tests/runner/test_sockets.py",
        "tests/sim/test_sim_pace.py",
        "tests/sim/test_sim_sockets.py",
        "tests/tui/test_pty.py",
        "tests/tui/test_ssh.py",
        "tests/test_calibrate.py",
    ),
}
"""Beginnings of the names of what is together; the longest that fits decides. In the order in which they are begun."""


def group_of(nodeid: str) -> str:
    """The name of what a worker takes together with this test: a group, or its file."""
    fits = [(len(start), name) for name, starts in GROUPS.items() for start in starts if nodeid.startswith(start)]
    return max(fits)[1] if fits else nodeid.partition("::")[0]


class Spread(LoadScopeScheduling):  # type: ignore[misc]  # xdist publishes no types
    """Hands out groups before files."""

    def __init__(self, config: pytest.Config, log: Producer | None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        first = next((name for name in GROUPS if name in self.workqueue), None)
        if first is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)
