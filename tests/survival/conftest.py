"""The command line's helpers, a place of each test's own, a server that outlives runs, and a small scenario."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "cli"))

from clitools import SCENARIO, Place, sim, write_small

_TWO_WAVES = ("target_depth = 600", "target_depth = 400\nrounds = 2"), ("min_recalls = 4", "min_recalls = 8")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Token ids, tokenised once."""
    return tmp_path_factory.mktemp("survival") / "cache"


@pytest.fixture
def place(tmp_path: Path, cache: Path) -> Place:
    """A home of a test's own."""
    own = Place(tmp_path / "place")
    own.env["INFERMAXX_CACHE"] = str(cache)
    return own


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A healthy embedded server that outlives every run."""
    with sim(tmp_path_factory.mktemp("sim"), "--decode-ms", "1") as url:
        yield url


@pytest.fixture(scope="session")
def two_waves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two conversations at once and then two more, without a server: eight recalls, in a second or two."""
    text = SCENARIO
    for old, new in _TWO_WAVES:
        text = text.replace(old, new)
    return write_small(tmp_path_factory.mktemp("two"), text)
