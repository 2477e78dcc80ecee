"""Who is behind a connection over which nothing comes: a server, or perhaps a forwarder, and nobody is accused then."""

from __future__ import annotations

import pytest

from infermaxx_tui.core.standing import Standing, behind

KNOWN = {
    "a process that lives": (Standing(True, 2), "its process is here"),
    "processes that are stopped": (Standing(True, 3, 2), "2 of its 3 processes here are stopped"),
    "another host": (Standing(False, why="10.0.0.7 is not this machine"), "its host takes connections"),
}
UNKNOWN = {
    "a forwarder": Standing(True, why="ssh listens on port 8000 for a server elsewhere"),
    "a container": Standing(True, why="nobody is seen to listen on port 8000 here: the server is in a container"),
    "a host without an address": Standing(None, why="x has no address that can be found"),
    "nothing that is known": Standing(None),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_server_that_is_there(name: str) -> None:
    standing, said = KNOWN[name]
    assert behind(standing) == (True, said)


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_may_be_a_forwarder_is_nobody_s_fault(name: str) -> None:
    there, said = behind(UNKNOWN[name])
    assert there is None
    assert (UNKNOWN[name].why or "no process of it is seen") in said
