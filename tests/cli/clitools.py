"""What the tests of the command line share: the program as a user starts it, small scenarios, waiting."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import pytest
from living import PATIENCE_S, until

from infermaxx_tui.cli import main
from infermaxx_tui.core.events import AnyEvent, Record
from infermaxx_tui.core.words import FIRST, SECOND
from infermaxx_tui.log import read_log
from infermaxx_tui.rundir import RUN_ID, RunFolder

PROGRAM = (sys.executable, "-m", "infermaxx_tui")


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def verdict(self) -> dict[str, Any]:
        """stdout, which must be one JSON object and nothing else."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value

    @property
    def rows(self) -> list[dict[str, Any]]:
        """stdout, which must be one JSON array and nothing else."""
        value = json.loads(self.out)
        assert isinstance(value, list)
        return value

    @property
    def complaint(self) -> str:
        """stderr, which must be one line."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        return lines[0]


class Place:
    """A home of its own for the program: its runs and its cache, and what the environment says of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = root / "runs"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("INFERMAXX_", "VLLM_"))}
        self.env |= {"INFERMAXX_RUNS": str(self.runs), "INFERMAXX_CACHE": str(root / "cache"), "TERM": "dumb"}
        self.env["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
        root.mkdir(parents=True, exist_ok=True)

    def run(self, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Done:
        """Runs a command to its end."""
        done = subprocess.run(
            [*PROGRAM, *words],
            cwd=cwd or self.root,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def inside(self, *words: str) -> Done:
        """Runs a command in this process: for the many ways to be refused, which start no runner."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in self.env.items():
                patch.setenv(name, value)
            patch.chdir(self.root)
            code = main(words)
        return Done(code, out.getvalue(), err.getvalue())

    @contextmanager
    def started(
        self, *words: str, env: Mapping[str, str] | None = None, stdout: int = subprocess.PIPE
    ) -> Iterator[Command]:
        """A command that goes on; whatever is left of it at the end of the block is killed."""
        with Command([*PROGRAM, *words], self.root, {**self.env, **(env or {})}, stdout) as command:
            yield command

    @property
    def folders(self) -> list[Path]:
        """The run folders, oldest first; anything else in the runs folder is a failure."""
        found = sorted(self.runs.iterdir()) if self.runs.exists() else []
        assert all(RUN_ID.fullmatch(path.name) for path in found), found
        return found


class Command:
    """A started command whose stderr is read line by line."""

    def __init__(self, words: list[str], cwd: Path, env: Mapping[str, str], stdout: int) -> None:
        self.process = subprocess.Popen(
            words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE
        )
        self._err: list[str] = []
        self._out = b""
        self._readers = [threading.Thread(target=self._read_err), threading.Thread(target=self._read_out)]
        for reader in self._readers:
            reader.start()

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._err.append(line.decode())

    def _read_out(self) -> None:
        if self.process.stdout is not None:
            self._out = self.process.stdout.read()

    @property
    def said(self) -> str:
        """What the command has said on stderr so far."""
        return "".join(self._err)

    @property
    def folder(self) -> Path:
        """The run folder, as soon as the command has named it."""

        def named() -> str | None:
            return next((line.removeprefix("run ").strip() for line in self._err if line.startswith("run ")), None)

        return Path(until(named))

    def end(self) -> Done:
        """Waits for the command's own end."""
        code = self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return Done(code, self._out.decode(), "".join(self._err))

    def __enter__(self) -> Command:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for folder in [line.removeprefix("run ").strip() for line in self._err if line.startswith("run ")]:
            kill_runner(Path(folder))
        self.process.kill()
        self.end()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def kill_runner(folder: Path) -> None:
    """Ends a run's runner without any warning, if it is alive."""
    pid = RunFolder(folder).pid()
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        until(lambda: not RunFolder(folder).alive())


def log_of(folder: Path) -> list[AnyEvent]:
    """The events of a run; a line that is none is a failure."""
    records = list(read_log(folder))
    assert all(isinstance(record, Record) for record in records), records
    return [record.event for record in records if isinstance(record, Record)]


def decoding(folder: Path) -> Path:
    """The folder, once the log holds a first token."""
    until(lambda: b'"e":"firsttoken"' in (folder / "events.jsonl").read_bytes())
    return folder


def words(n: int, start: int = 0) -> str:
    """Plain sentences of `n` words, the same for the same start, without anything that looks like a tag."""
    said = [(FIRST if (start + i) % 2 else SECOND)[(start * 7 + i * 13) % 180] for i in range(n)]
    return ". ".join(" ".join(said[i : i + 9]) for i in range(0, n, 9))


def chat_line(turns: int, start: int = 0, words_per_turn: int = 40) -> str:
    """One line of chat JSONL: a conversation of so many user turns with their answers."""
    messages = [{"role": "system", "content": "You help with lists of things."}]
    for turn in range(turns):
        messages.append({"role": "user", "content": words(words_per_turn, start + turn)})
        messages.append({"role": "assistant", "content": words(words_per_turn // 2, start + turn + 50)})
    return json.dumps({"messages": messages}) + "\n"


SCENARIO = """# A small run for tests: two conversations at once, two tags each, asked once.
name = "small"
seed = 5

[transcripts]
paths = ["*.jsonl"]
tokenizer = "shipped"

[sessions]
count = 2
target_depth = 600

[reply]
max_tokens = 16

[canaries]
per_session = 2
plant_at = [0.15, 0.5]
ask_at = [1.0]
max_tokens = 64

[limits]
min_recalls = 4
"""


def write_small(folder: Path, text: str = SCENARIO, transcripts: int = 3, turns: int = 12) -> Path:
    """A scenario file with its transcripts beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(transcripts):
        (folder / f"t{n}.jsonl").write_text(chat_line(turns, start=n * 20), encoding="utf-8")
    path = folder / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path


@contextmanager
def sim(folder: Path, *flags: str, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """The embedded server as a process of its own; its URL."""
    folder.mkdir(parents=True, exist_ok=True)
    port_file = folder / "port"
    program = [
        sys.executable,
        "-m",
        "infermaxx_tui.sim",
        "--port-file",
        str(port_file),
        "--log-file",
        str(folder / "log"),
    ]
    process = subprocess.Popen([*program, *flags], stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})
    try:
        port = until(lambda: port_file.exists() and port_file.read_text(encoding="ascii").strip())
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
