"""What a fixture of a real run must not say, and that it still says everything that is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from redact_run import CHARS, Redactor, checks_of, main, server_lines, shortened

from infermaxx_tui.core.events import decode, encode
from infermaxx_tui.core.histories import history
from infermaxx_tui.core.histories.writer import records

TEXTS = [
    ("process 833 of the server computes on it", "process 1 of the server computes on it"),
    ("(EngineCore pid=833) INFO", "(EngineCore pid=1) INFO"),
    ("INFO:     Started server process [713]", "INFO:     Started server process [1]"),
    ("cache file: /home/ann/.cache/vllm/x/configs.json", "cache file: DIR/configs.json"),
    ("model='/home/ann/models/m', x", "model='DIR/m', x"),
    ("tcp://10.1.2.3:38393 backend", "tcp://192.0.2.1:38393 backend"),
    ("on http://127.0.0.1:8000", "on http://127.0.0.1:8000"),
    ("library 13.580.159.04, FlashInfer 0.6.14.2", "library 13.580.159.04, FlashInfer 0.6.14.2"),
    ("GPU-01234567-89ab-cdef-0123-456789abcdef", "GPU-00000000-0000-0000-0000-000000000000"),
    ("00000000:3B:06.0", "00000000:00:00.0"),
    ("Route: /v1/models, Methods: GET", "Route: /v1/models, Methods: GET"),
]


@pytest.mark.parametrize(("said", "kept"), TEXTS)
def test_names_of_the_machine_are_replaced_and_nothing_else(said: str, kept: str) -> None:
    assert Redactor().text(said) == kept


def test_a_process_keeps_its_number_through_all_files() -> None:
    redactor = Redactor()
    assert redactor.value({"processes": [{"pid": 900, "vram_mib": 1.0}, {"pid": 833, "vram_mib": 2.0}]}) == {
        "processes": [{"pid": 1, "vram_mib": 1.0}, {"pid": 2, "vram_mib": 2.0}]
    }
    assert redactor.text("process 833 and pid=900") == "process 2 and pid=1"


def test_host_and_replies_in_a_line() -> None:
    line = {
        "event": {"host": {"name": "secretbox", "system": "Linux-6.1-special"}, "content": "x" * 999, "text": "/tmp/a"}
    }
    assert Redactor().value(line) == {
        "event": {"host": {"name": "host", "system": "Linux"}, "content": "x" * CHARS, "text": "DIR/a"}
    }
    assert Redactor().value({"regime": {"host": "secretbox Linux x86_64"}}) == {"regime": {"host": "host Linux x86_64"}}


def test_single_requests_are_left_out_of_a_servers_log() -> None:
    log = (
        'INFO:     127.0.0.1:42692 - "POST /v1/completions HTTP/1.1" 200 OK\nINFO:     Application startup complete.\n'
    )
    assert list(server_lines(log, Redactor())) == ["INFO:     Application startup complete."]


def test_a_shortened_line_reads_as_the_same() -> None:
    for record in records(history()):
        line = encode(record).rstrip(b"\n")
        short = shortened(json.loads(line))
        assert decode(short) == decode(line)
        assert len(short) <= len(line)


def test_the_fixture_is_judged_as_the_run_was(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    run.mkdir()
    (run / "events.jsonl").write_bytes(b"".join(encode(record) for record in records(history())))
    (run / "server.log").write_text("(EngineCore pid=5) ready\n")
    main(run, out)
    before, after = ((folder / "events.jsonl").read_bytes().splitlines() for folder in (run, out))
    assert checks_of(after) == checks_of(before)
    assert len(after) == len(before)
    assert (out / "server.log").read_text() == "(EngineCore pid=1) ready\n"
