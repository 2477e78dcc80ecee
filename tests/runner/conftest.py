"""Settings of the runner's tests: nothing is written outside their own folders, and a busy machine is no failure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "importers"))  # whose samples are played here


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Token ids go to a cache of these tests, in this process and in those that it forks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERMAXX_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
