"""Makes a fixture of a real run's folder: the same log without what names the machine, and with nothing said twice.

python tests/tools/redact_run.py RUN_FOLDER OUT_FOLDER

Out come `events.jsonl` and `server.log`, the latter without the lines for single requests. Host names, kernel, UUIDs,
bus numbers, process numbers, folders and addresses are replaced, keys and people taken out; values that are a field's
default are left out, and so are hashes and numbers of replies; replies are cut to CHARS characters. Nothing of that
is what a judge goes by, which the tool makes sure of: it fails if any check of the verdict differs from that of the
log as it was.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from infermaxx_tui.core.events import Record, decode
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.redact import redact
from infermaxx_tui.core.redact_machine import machine
from infermaxx_tui.core.verdict import judge_run

CHARS: Final = 240
_REPLY: Final = ("content", "reasoning", "tool_args")
_UNNEEDED: Final = ("text_sha256", "server_id")
_PID: Final = re.compile(r"(?P<before>\bpid=|\bprocess \[?)(?P<pid>\d+)")
_ACCESS: Final = re.compile(r'INFO:\s+\S+ - "(?:GET|POST) ')


class Redactor:
    """Replaces what names a machine; the same process gets the same small number everywhere."""

    def __init__(self) -> None:
        self._pids: dict[str, int] = {}

    def pid(self, number: str) -> int:
        """The number that stands for a process."""
        return self._pids.setdefault(number, len(self._pids) + 1)

    def text(self, text: str) -> str:
        """A line or a field without names of the machine."""
        text = redact(machine(text)).text
        return _PID.sub(lambda match: f"{match['before']}{self.pid(match['pid'])}", text)

    def value(self, value: object, key: str = "") -> object:
        """The same for whatever a line of a log holds."""
        match value:
            case dict():
                return {name: self._field(name, inner, key) for name, inner in value.items()}
            case list():
                return [self.value(inner, key) for inner in value]
            case str():
                return self.text(value)
            case _:
                return value

    def _field(self, name: str, inner: object, key: str) -> object:
        match name, inner:
            case ("pid", int()):
                return self.pid(str(inner))
            case ("name", str()) if key == "host":
                return "host"
            case ("system", str()) if key == "host":
                return inner.partition("-")[0]
            case ("host", str()):
                return f"host {inner.partition(' ')[2]}"
            case _ if name in _UNNEEDED:
                return None
            case _ if name in _REPLY:
                return inner[:CHARS] if isinstance(inner, str) else inner
            case _:
                return self.value(inner, name)


def shortened(line: dict[str, object]) -> bytes:
    """A line of a log without what its reader would take for granted."""
    whole, event = _read(line), line["event"]
    assert isinstance(event, dict)
    for name in list(event):
        kept = event.pop(name)
        try:
            same = _read(line) == whole
        except AssertionError:
            same = False
        if not same:
            event[name] = kept
    return _bytes(line)


def _bytes(line: dict[str, object]) -> bytes:
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode()


def _read(line: dict[str, object]) -> Record:
    record = decode(_bytes(line))
    assert isinstance(record, Record), record
    return record


def checks_of(lines: list[bytes]) -> list[tuple[object, ...]]:
    """What a log's checks say, without their words."""
    fold = Fold()
    for line in lines:
        fold.add(decode(line))
    return [_outcome(check) for check in judge_run(fold.snapshot()).checks]


def _outcome(check: Check) -> tuple[object, ...]:
    evidence = tuple((one.event, one.what, one.tag) for one in check.evidence)
    return (check.name, check.outcome, check.n_evaluated, check.n_planned, check.cause, check.excluded, evidence)


def server_lines(text: str, redactor: Redactor) -> Iterator[str]:
    """A server's log without one line for each request."""
    for line in text.splitlines():
        if _ACCESS.search(line) is None:
            yield redactor.text(line).rstrip()


def main(run: Path, out: Path) -> None:
    """Writes the fixture. Exits with a complaint if the verdict would be another."""
    redactor = Redactor()
    before = (run / "events.jsonl").read_bytes().splitlines()
    after = []
    for line in before:
        value = redactor.value(json.loads(line))
        assert isinstance(value, dict)
        after.append(shortened(value))
    if checks_of(before) != checks_of(after):
        sys.exit("the checks of the redacted log are others")
    out.mkdir(parents=True, exist_ok=True)
    (out / "events.jsonl").write_bytes(b"\n".join(after) + b"\n")
    text = (run / "server.log").read_text(encoding="utf-8", errors="replace")
    (out / "server.log").write_text("\n".join(server_lines(text, redactor)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
