"""Which tests a worker of `pytest -n` takes together."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
from spread import GROUPS, Spread, group_of

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/real/test_real_vllm.py::test_a", "a real vLLM"),
        ("tests/cli/test_cli_demo.py::test_a[x::y]", "commands"),
        ("tests/cli/test_cli_selftest.py::test_a", "whoever needs a quiet host"),
        ("tests/survival_wire/test_proxies.py::test_a", "whoever needs a quiet host"),
        ("tests/core/test_sse.py::test_a[::]", "tests/core/test_sse.py"),
        ("tests/sim/test_sim_wire.py::TestX::test_a", "tests/sim/test_sim_wire.py"),
    ],
)
def test_the_longest_beginning_decides_and_else_the_file(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group


def test_each_beginning_is_there_and_in_one_group() -> None:
    starts = [start for starts in GROUPS.values() for start in starts]
    assert len(set(starts)) == len(starts)
    assert [start for start in starts if not (ROOT / start).exists()] == []


class _Config:
    """What xdist asks of pytest: three workers."""

    def __init__(self) -> None:
        self.option = Namespace(loadscopereorder=True)

    def getvalue(self, name: str) -> list[str]:
        assert name == "tx"
        return ["3*popen"]


class _Node:
    """A worker that is told what to run."""

    shutting_down = False
    gateway = Namespace(id="gw")

    def __init__(self) -> None:
        self.told: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.told += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_groups_are_begun_before_files_and_each_goes_to_one_worker() -> None:
    names = [
        "tests/core/test_a.py::test_1",
        "tests/core/test_a.py::test_2",
        "tests/cli/test_b.py::test_1",
        "tests/survival/test_c.py::test_1",
        "tests/real/test_d.py::test_1",
        "tests/cli/test_e.py::test_1",
        "tests/real/test_d.py::test_2",
        "tests/survival/test_c.py::test_2",
    ]
    spread = Spread(_Config(), None)  # type: ignore[arg-type]
    nodes = [_Node() for _ in range(spread.numnodes)]
    for node in nodes:
        spread.add_node(node)
    for node in nodes:
        spread.add_node_collection(node, names)
    spread.schedule()
    # who has no more than two left is given the next, which is a file once all groups are begun
    assert [node.told for node in nodes] == [[4, 6, 0, 1], [2, 5], [3, 7]]
