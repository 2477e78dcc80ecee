"""Runs that many tests look at are made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clitools import Done, Place, sim, write_small

NONCE = "5e1f7e57"


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place whose runs are looked at and not changed."""
    return Place(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def place(tmp_path: Path, shared: Place) -> Place:
    """A place of one test's own; token ids are cached with the others'."""
    own = Place(tmp_path / "place")
    own.env["INFERMAXX_CACHE"] = shared.env["INFERMAXX_CACHE"]
    return own


@pytest.fixture(scope="session")
def passed(shared: Place) -> tuple[Done, Path]:
    """The demo on a healthy server, and its run folder."""
    return _demo(shared, "--json", "--seed", "9", "--nonce", NONCE)


@pytest.fixture(scope="session")
def forgot(shared: Place, passed: tuple[Done, Path]) -> tuple[Done, Path]:
    """The demo on a server that forgets."""
    return _demo(shared, "--fault", "forget-oldest")


@pytest.fixture(scope="session")
def capped(shared: Place, passed: tuple[Done, Path]) -> tuple[Done, Path]:
    """The demo on a server that cuts its replies short."""
    return _demo(shared, "--fault", "capped")


def _demo(place: Place, *words: str) -> tuple[Done, Path]:
    before = set(place.folders)
    done = place.run("demo", "--headless", *words)
    (folder,) = set(place.folders) - before
    return done, folder


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A healthy embedded server that runs as long as the tests do."""
    with sim(tmp_path_factory.mktemp("sim")) as url:
        yield url


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small scenario with transcripts of its own, without a server."""
    return write_small(tmp_path_factory.mktemp("small"))
