"""Whole runs through a real nginx: by its defaults it passes a stream on that comes in chunks, and holds back one that
comes to it without, as from another nginx. The first must not be blamed and the second must be seen."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from clitools import Place, sim, write_small
from living import until

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
CONF = """daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off; client_max_body_size 64m; client_body_buffer_size 8m; proxy_max_temp_file_size 0;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
{servers}
}}
"""
SERVER = "  server {{ listen {at}; location / {{ {how} proxy_pass {to}; }} }}\n"
FAR = "http://unix:far"
"""The farther one of two: a socket in the folder."""
PASSING = "proxy_http_version 1.1; proxy_buffering off;"


class Way(msgspec.Struct, frozen=True):
    """What the nginx nearest to the client does, and what must be said of it."""

    how: str
    behind_another: bool = False
    """Whether there is one between it and the server, which passes everything on at once."""
    said: str = ""


WAYS: dict[str, Way] = {
    "by default": Way(""),
    "HTTP/1.1": Way("proxy_http_version 1.1;"),
    "unbuffered": Way(PASSING),
    "compressing": Way("gzip on; gzip_types text/event-stream;"),
    "by default, behind another": Way("", True, "4 KiB"),
    "8k, behind another": Way("proxy_buffer_size 8k; proxy_buffers 8 8k;", True, "8 KiB"),
    "unbuffered, behind another": Way(PASSING, True),
}
SHORT = ("by default", "by default, behind another")


def listens(port: int) -> bool:
    """Whether somebody listens there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def nginx(folder: Path, port: int, way: Way, upstream: str) -> Iterator[str]:
    """The proxy, or two of them; its URL."""
    assert NGINX is not None
    folder.mkdir()
    servers = SERVER.format(at=f"127.0.0.1:{port}", how=way.how, to=FAR if way.behind_another else upstream)
    if way.behind_another:
        servers += SERVER.format(at=FAR.removeprefix("http://"), how=PASSING, to=upstream)
    (folder / "nginx.conf").write_text(CONF.format(folder=folder, servers=servers), "ascii")
    words = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, cwd=folder)
    try:
        until(lambda: listens(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A healthy server that takes its time for a token."""
    with sim(tmp_path_factory.mktemp("sim"), "--decode-ms", "12") as url:
        yield url


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_a_run_through_nginx(
    place: Place, upstream: str, free_port: int, way: str, tell: Callable[[str], None]
) -> None:
    demand = WAYS[way]
    with nginx(place.root / "nginx", free_port, demand, upstream) as url:
        done = place.run("run", str(write_small(place.root)), "--headless", "--json", "--url", url, "--no-gpu")
    checks = {check["name"]: check for check in done.verdict["checks"]}
    seen, timing = done.verdict["instrument"], checks["timing"]["advice"]
    tell(f"nginx {way}: {seen['streams_clumped']} of {seen['streams_seen_coming']} replies in clumps; {timing}")
    assert done.verdict["verdict"] == "PASS", done.verdict
    assert seen["streams_seen_coming"] >= 8
    if demand.said:
        assert checks["timing"]["outcome"] == "not_evaluable"
        assert demand.said in timing
        assert "something between server and client buffers" in timing
    else:
        assert "clump" not in timing
        assert "holds" not in timing
