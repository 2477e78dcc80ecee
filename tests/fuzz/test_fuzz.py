"""Each target of `targets` on its seeds, and by atheris for some seconds each, or minutes with `--long`."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from targets import TARGETS, seeds

SECONDS = 120
SHORT = 1
PROGRAM = Path(__file__).with_name("fuzz.py")


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_takes_its_seeds_and_any_part_of_them(target: str) -> None:
    for seed in seeds(target):
        for data in (seed, seed[: len(seed) // 2], seed[::-1], b""):
            TARGETS[target](data)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", TARGETS)
def test_atheris_finds_nothing(
    target: str, share: Callable[[int], int], tmp_path: Path, tell: Callable[[str], None]
) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed: it has no wheel for this Python or system")
    seconds = SECONDS if share(SECONDS) == SECONDS else SHORT
    done = subprocess.run(
        [sys.executable, str(PROGRAM), target, str(seconds), str(tmp_path)], capture_output=True, check=False
    )
    said = done.stderr.decode("utf-8", "replace")
    found = [f"{path.name}: {path.read_bytes()[:300]!r}" for path in tmp_path.glob("*-*") if path.is_file()]
    assert done.returncode == 0, f"{found}\n{done.stdout.decode()[-2000:]}\n{said[-3000:]}"
    executed = re.search(r"stat::number_of_executed_units:\s+(\d+)", said)
    assert executed is not None, said[-2000:]
    tell(f"{target}: {executed[1]} executions in {seconds} s, nothing found")
    assert int(executed[1]) > len(seeds(target))
