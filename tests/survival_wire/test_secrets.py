"""The key is in no file, no output and no process list, whatever happens to a run and whatever the server repeats.

What cannot be avoided: a process has its key in its own environment, which the system shows to its owner (and to root)
alone in /proc/PID/environ. A server that the run launches has it too; nothing else that a run starts does.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from clitools import Done, Place, write_small
from living import until
from nasty_server import FACTS, REFUSALS, REPLIES, NastyServer

from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.flags import make_parser
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.secret import Mask

KEY = "sk-CANARY-7fQ2/x+k8d'Zr4mW9tL0pB3yH6uVb1N"
HEAD = KEY[:16]
"""Not even so much of it."""
PASSWORD = "pw-CANARY-Jx5Tn2Qe8Rk"
FOR_CHAT = ("--set", "sessions.prompt=chat", "--set", "limits.stall_s=5.0", "--set", "limits.min_recalls=1")


SIM = ("--set", 'server.sim=["clean"]')


class Case(msgspec.Struct, frozen=True):
    """A way for a run to go, and the codes it may end with."""

    words: tuple[str, ...]
    codes: tuple[int, ...]
    server: tuple[str, ...] | None = None
    """What a nasty server repeats the key in; None if there is none."""
    env: dict[str, str] = {}
    crash: str = ""
    """A line of Python that breaks something in every process of the run; it can say KEY."""


ANY = tuple(int(code) for code in (ExitCode.FAIL, ExitCode.INCONCLUSIVE))
NO_SERVER = (int(ExitCode.SERVER),)
USAGE = (int(ExitCode.USAGE),)
INTERNAL = (int(ExitCode.INTERNAL),)
NASTY = "http://NASTY"

CASES: dict[str, Case] = {
    "success": Case(("demo", "--headless"), (0,)),
    "success, and what it starts prints its environment": Case(
        ("run", "small.toml", "--headless", *SIM, "--on-verdict", "env; env >&2",
         "--sensor-cmd", "env >&2; while :; do env; sleep 1; done"), (0,)
    ),
    "sensors over ssh and an exporter that fail": Case(
        ("run", "small.toml", "--headless", *SIM, "--gpu-ssh", "nobody@127.0.0.1"), (0,)
    ),
    "an exporter is not given the key": Case(
        ("run", "small.toml", "--headless", "--url", NASTY, *FOR_CHAT, "--gpu-metrics", f"{NASTY}/metrics"), ANY,
        server=FACTS,
    ),
    "every reply repeats it": Case(
        ("run", "small.toml", "--headless", "--json", "--url", NASTY, *FOR_CHAT, "--set", "sessions.rounds=3"),
        ANY, server=REPLIES,
    ),
    "every fact repeats it": Case(
        ("run", "small.toml", "--headless", "--json", "--url", NASTY, *FOR_CHAT), ANY, server=FACTS
    ),
    **{
        f"{verb[0]} {verb[-1]}: {place}": Case((*verb, "--url", NASTY), NO_SERVER, server=(place,))
        for verb in (("run", "small.toml", "--headless", "--debug"), ("run", "small.toml", "--dry-run"), ("doctor",))
        for place in REFUSALS
    },
    "doctor: every fact": Case(("doctor", "--json", "--url", NASTY), (0,), server=FACTS),
    "dry run: every fact": Case(("run", "small.toml", "--dry-run", "--url", NASTY, *FOR_CHAT), (0,), server=FACTS),
    "refused": Case(("run", "small.toml", "--headless", "--debug", "--url", "http://127.0.0.1:9"), NO_SERVER),
    "no such host": Case(("run", "small.toml", "--headless", "--debug", "--url", "http://a.invalid"), NO_SERVER),
    "a password in the address": Case(
        ("run", "small.toml", "--headless", "--debug", "--url", f"http://u:{PASSWORD}@127.0.0.1"), USAGE
    ),
    "a key in the address": Case(
        ("run", "small.toml", "--headless", "--debug", "--url", f"http://127.0.0.1/v1?api_key={PASSWORD}"), USAGE
    ),
    "a key behind a #": Case(("doctor", "--debug", "--url", f"http://127.0.0.1/#{PASSWORD}"), USAGE),
    "a password of an exporter": Case(
        ("run", "small.toml", "--dry-run", "--debug", "--gpu-metrics", f"http://u:{PASSWORD}@127.0.0.1/metrics"), USAGE
    ),
    "a key of an exporter": Case(
        ("run", "small.toml", "--dry-run", "--debug", "--gpu-metrics", f"http://127.0.0.1/metrics?token={PASSWORD}"),
        USAGE,
    ),
    "a key on a server's command line": Case(
        ("run", "small.toml", "--headless", "--debug",
         "--set", f'server.launch=["vllm", "serve", "m", "--api-key", "{PASSWORD}"]'), USAGE,
    ),
    "a key in a server's environment": Case(
        ("run", "small.toml", "--headless", "--debug", "--set", 'server.launch=["vllm", "serve", "m"]',
         "--set", f'server.env={{HF_TOKEN="{PASSWORD}"}}'), USAGE,
    ),
    "a bad scenario": Case(("run", "small.toml", "--headless", "--debug", "--set", "sessions.cuont=4"), USAGE),
    "no scenario": Case(("run", "nowhere.toml", "--headless", "--debug"), USAGE),
    "a key that no header can carry": Case(
        ("run", "small.toml", "--headless", "--debug", "--url", "http://127.0.0.1:9"), USAGE,
        env={"VLLM_API_KEY": f"{KEY}\nx: y"},
    ),
    "a server that dies saying it": Case(
        ("run", "small.toml", "--headless", "--debug", "--set", 'server.launch=["PYTHON", "dies.py"]'), NO_SERVER
    ),
    "a server that says it and serves": Case(
        ("run", "small.toml", "--headless", "--set", 'server.launch=["PYTHON", "serves.py", "--port", "PORT"]'), (0,)
    ),
    "a fault of ours before the run": Case(
        ("run", "small.toml", "--headless", "--debug", "--set", 'server.sim=["clean"]'), INTERNAL,
        crash="import infermaxx_tui.prepare as m; m.preflight = lambda *a: (_ for _ in ()).throw(RuntimeError(KEY))",
    ),
    "a fault of ours in the run": Case(
        ("run", "small.toml", "--headless", "--debug", "--set", 'server.sim=["clean"]'), (*ANY, *INTERNAL),
        crash="import infermaxx_tui.runner.summary as m; m._note_differences = "
        "lambda *a: (_ for _ in ()).throw(RuntimeError(KEY))",
    ),
    "a thread of ours that dies": Case(
        ("run", "small.toml", "--headless", "--debug", "--set", 'server.sim=["clean"]'), (0,),
        crash="import threading, infermaxx_tui.rundir as m; old = m.create; "
        "m.create = lambda *a: (threading.Thread(target=int, args=(KEY,)).start(), old(*a))[1]",
    ),
    "a proxy in the environment": Case(
        ("run", "small.toml", "--headless", "--set", 'server.sim=["clean"]'), (0,),
        env=dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), f"http://u:{PASSWORD}@127.0.0.1:9"),
    ),
}  # fmt: skip
SHORT = frozenset(
    {
        "success, and what it starts prints its environment",
        "every reply repeats it",
        "run --debug: models-500",
        "doctor doctor: models-500",
        "a server that dies saying it",
        "a server that says it and serves",
        "a fault of ours before the run",
        "a fault of ours in the run",
    }
)
"""What is tried in the short form beside each usage that is refused."""

_SAYS = """
import os, sys
key = os.environ["VLLM_API_KEY"]
print(f"Error: started by the caller of Bearer {key}", key.encode(), flush=True)
"""
_SERVES = f"{_SAYS}\nfrom infermaxx_tui.sim.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
_CRASH = """
import os, sys
KEY = os.environ.get("VLLM_API_KEY", "")
if "_runner" in sys.argv or any("_runner" in word for word in sys.orig_argv):
    {line}
"""


def lives(case: Case) -> bool:
    """Whether a run begins."""
    return case.codes not in (USAGE, NO_SERVER)


def files(place: Place) -> Iterator[tuple[Path, bytes]]:
    """All that was written, but by the test itself."""
    own = {"dies.py", "serves.py", "sitecustomize.py"}
    for path in place.root.rglob("*"):
        if path.is_file() and path.name not in own:
            yield path, path.read_bytes()


def clean(text: bytes, where: object) -> None:
    """There is nothing of a secret in the text, in any spelling."""
    for secret in (HEAD, quote(KEY, "")[:16], PASSWORD):
        assert secret.encode() not in text, (where, text[max(0, text.find(secret.encode()) - 200) :][:600])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All cases with `--long`, else those of a usage that is refused and some of the others."""
    if "case" in metafunc.fixturenames:
        whole = metafunc.config.getoption("--long")
        metafunc.parametrize("case", [name for name in CASES if whole or name in SHORT or CASES[name].codes == USAGE])


MASKED = {
    "success, and what it starts prints its environment": (),
    "every reply repeats it": (("events.jsonl", b"[key]"), ("verdict.json", b"[key]")),
    "every fact repeats it": (("events.jsonl", b"[key]"),),
    "a server that says it and serves": (("server.log", b"Bearer ***"),),
    "a server that dies saying it": (("server.log", b"Bearer ***"),),
    "a fault of ours in the run": (("runner.log", b"[key]"),),
}
"""Where it was masked: files of the run, so that the case is known to have come to what it is about."""


def test_a_run_shows_the_key_nowhere(place: Place, case: str, free_port: int) -> None:
    write_small(place.root)
    (place.root / "dies.py").write_text(f"{_SAYS}sys.exit(1)\n", encoding="utf-8")
    (place.root / "serves.py").write_text(_SERVES, encoding="utf-8")
    done, bearers = played(place, CASES[case], str(free_port))
    assert done.code in CASES[case].codes, done
    clean(done.out.encode(), "stdout")
    clean(done.err.encode(), "stderr")
    if CASES[case].server is not None:
        assert bearers == {f"Bearer {KEY}", *([""] if "exporter" in case else [])}
    for name, mark in MASKED.get(case, ()):
        # the log of a launched server is masked once that has ended, and the command does not wait for it
        until(lambda name=name, mark=mark: any(mark in data for path, data in files(place) if path.name == name))  # type: ignore[misc]
    for path, data in files(place):
        clean(data, path)
    if lives(CASES[case]):
        for words in (("judge", "latest"), ("judge", "latest", "--json"), ("runs", "--json")):
            seen = place.inside(*words)
            clean((seen.out + seen.err).encode(), words)


def played(place: Place, case: Case, port: str) -> tuple[Done, set[str]]:
    """The case as a command, and the bearers that a server saw."""
    env = {"VLLM_API_KEY": KEY, **case.env}
    if case.crash:
        folder = place.root / "site"
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text(_CRASH.format(line=case.crash), encoding="utf-8")
        env["PYTHONPATH"] = f"{folder}{os.pathsep}{place.env['PYTHONPATH']}"
    words = tuple(word.replace("PYTHON", sys.executable).replace("PORT", port) for word in case.words)
    if case.server is None:
        return place.run(*words, env=env), set()
    with NastyServer(*case.server) as server:
        done = place.run(*(word.replace(NASTY, server.url) for word in words), env=env)
        return done, server.bearers


def test_every_case_is_named_where_it_is_looked_for() -> None:
    assert set(MASKED) | SHORT <= set(CASES)
    assert len(CASES) >= 35


def test_the_process_list_and_the_environments_of_a_run(place: Place) -> None:
    if not Path("/proc/self/environ").exists():
        pytest.skip("this system has no /proc")
    write_small(place.root)
    sensor = "while :; do sleep 1; done #sensor-of-the-test"
    words = (
        "run",
        "small.toml",
        *SIM,
        "--set",
        "sessions.rounds=40",
        "--sensor-cmd",
        sensor,
    )
    with place.started(*words, env={"VLLM_API_KEY": KEY}) as command:
        runner = until(lambda: RunFolder(command.folder).pid())
        mine = until(lambda: found if len(found := below(runner)) >= 2 else None)
        for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
            clean(read(cmdline), cmdline)
        for pid in mine:
            of_sim = b"infermaxx_tui.sim" in read(Path(f"/proc/{pid}/cmdline"))
            assert (KEY.encode() in read(Path(f"/proc/{pid}/environ"))) is of_sim, pid
        environ = Path(f"/proc/{runner}/environ")
        assert KEY.encode() in read(environ)  # what the system keeps of a start cannot be taken back
        assert stat.S_IMODE(environ.stat().st_mode) == 0o400
        clean(read(Path(f"/proc/{runner}/cmdline")), "the runner")
        os.kill(runner, 15)
        command.end()


def read(path: Path) -> bytes:
    """A file of /proc; nothing if its process is gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def below(pid: int) -> set[int]:
    """The children of a process, and theirs."""
    parents = {}
    for stat_file in Path("/proc").glob("[0-9]*/stat"):
        fields = read(stat_file).rpartition(b")")[2].split()
        if fields:
            parents[int(stat_file.parent.name)] = int(fields[1])
    out, size = {pid}, 0
    while len(out) > size:
        size = len(out)
        out |= {child for child, parent in parents.items() if parent in out}
    return out - {pid}


def test_no_flag_takes_a_key() -> None:
    """Only the name of a variable may be given."""
    text = make_parser(with_runner=False).format_help()
    assert not re.search(r"--(api-)?key\b(?!-env)|--token(?!izer)|--password", text)


@pytest.mark.parametrize("cut", range(len(KEY) + 1))
def test_a_key_that_is_cut_off_is_masked_as_far_as_it_goes(cut: int) -> None:
    mask = Mask(KEY)
    shown = mask.text(f"Bearer {KEY[:cut]}")
    assert shown == (f"Bearer {KEY[:cut]}" if cut < len(HEAD) else "Bearer [key]")
    assert mask.text(f"{KEY[cut:]}{KEY}{KEY[:cut]}").count("[key]") >= 1
    assert HEAD not in mask.text(KEY * 3 + KEY[:cut])


def test_a_masked_file_keeps_its_length(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    border = "x" * ((1 << 20) - 10)
    path.write_text(f"{border}{KEY} and {quote(KEY, '')}\n{KEY}", encoding="utf-8")
    size = path.stat().st_size
    assert Mask(KEY).file(path) == 3
    data = path.read_bytes()
    clean(data, path)
    assert (len(data), data.count(b"*")) == (size, 2 * len(KEY) + len(quote(KEY, "")))
    assert Mask(KEY).file(path) == 0
    assert textwrap.shorten(data[-80:].decode(), 80)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        Mask("xxxxxxxx").file(link)
