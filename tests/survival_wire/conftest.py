"""Settings of these tests: what the tests of the runner and of the command line share is theirs too, and their caches
are nobody else's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

for folder in ("runner", "cli"):
    sys.path.append(str(Path(__file__).resolve().parents[1] / folder))

from clitools import Place  # noqa: E402 -- its folder is known only now


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Of the module's ways between a run and its server all with `--long`, else some."""
    if "way" in metafunc.fixturenames:
        ways = list(metafunc.module.WAYS) if metafunc.config.getoption("--long") else metafunc.module.SHORT
        metafunc.parametrize("way", ways)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A home of the program for one test."""
    made = Place(tmp_path / "place")
    made.env["INFERMAXX_CACHE"] = os.environ["INFERMAXX_CACHE"]
    return made


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERMAXX_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
