"""What a server says is hostile and what a machine holds is private: neither gets out of an export."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
import json
import xml.etree.ElementTree as Tree
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.export.picture import FORMATS, Format, Sharing
from infermaxx_tui.export.main import export, read, rendered
from infermaxx_tui.rundir import RunFolder

LOG = Path(__file__).parent.parent / "logs" / "leak.jsonl"
LINES = [json.loads(line) for line in LOG.read_bytes().splitlines()]
SHARED = Sharing(text=True, redact=True)
BARE = Sharing(redact=True, content_free=True)
KEYS = st.integers(0, 2**64).map(lambda n: f"ghp_{hashlib.sha256(str(n).encode()).hexdigest()[:36]}")

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda key: f"the key is {key}, keep it",
    "json": lambda key: json.dumps({"out": f"line\n{key}\nline"}),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "url": lambda key: f"http://h.example.com/?t={''.join(f'%{ord(char):02X}' for char in key)}",
    "split": lambda key: f"{key[:17]}\n{key[17:]}",
    "inside a path": lambda key: f"/srv/cache/{key}/x.txt",
}


def planted(folder: Path, text: str) -> RunFolder:
    """A run in whose log a text stands wherever a server, a host or a person could have put it."""
    lines = []
    for line in LINES:
        event = dict(line["event"])
        match str(event["e"]):
            case "runstarted":
                event |= {"scenario_text": text, "host": {**event["host"], "name": "secretbox-77"}}
            case "regimenoted":
                names = ("engine", "model", "model_root", "server_args", "host", "tokenizer", "gpu")
                missing = {"power_limit_w": text}
                event |= {"regime": {**event["regime"], **dict.fromkeys(names, text), "missing": missing}}
            case "requestended":
                event |= {"content": text, "reasoning": text, "tool_args": text, "error": text, "stop_reason": text}
                event |= {"anomalies": ["burst"], "server_id": text, "degenerate": text}
                event |= {"outcome": "protocol"} if event["req"] % 3 == 0 else {}
            case "sessionended":
                event |= {"detail": text}
            case "runended":
                lines.append({**line, "event": {"e": "noted", "text": text}})
                event |= {"detail": text}
            case _:
                pass
        lines.append({**line, "event": event})
    folder.mkdir(exist_ok=True)
    data = "".join(json.dumps({**line, "seq": seq}) + "\n" for seq, line in enumerate(lines))
    (folder / "events.jsonl").write_text(data)
    return RunFolder(folder)


def readings(made: str | bytes, form: Format) -> str:
    """All that a reader gets out of a file of that format."""
    if form == "parquet":
        assert isinstance(made, bytes)
        table = parquet.read_table(io.BytesIO(made))
        cells = [str(cell) for column in table.columns for cell in column.to_pylist() if cell is not None]
        metadata = [value.decode() for value in (table.schema.metadata or {}).values()]
        return "\n".join((*cells, *metadata, *(json.dumps(json.loads(one)) for one in metadata if one.startswith("{"))))
    assert isinstance(made, str)
    return "\n".join((made, html.unescape(made), made.encode().decode("unicode_escape", "replace")))


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=KEYS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_planted_key_survives_in_any_format(encoding: str, key: str, tmp_path: Path) -> None:
    run = planted(tmp_path / "run", ENCODINGS[encoding](key))
    found = (
        key,
        base64.b64encode(key.encode()).decode(),
        key[6:17],
        quote(key),
        "".join(f"%{ord(c):02X}" for c in key),
    )
    for sharing in (SHARED, BARE):
        seen = read(run, sharing)
        for form in FORMATS:
            said = readings(rendered(seen, form), form)
            for piece in found:
                assert piece not in said, (form, sharing, piece)


def test_the_machine_and_its_people_are_named_nowhere(tmp_path: Path) -> None:
    text = "at /home/wendeline/models on 10.20.30.40:8000 GPU-01234567-89ab-cdef-0123-456789abcdef by wendeline@firm.io"
    run = planted(tmp_path / "run", text)
    for sharing in (SHARED, BARE):
        seen = read(run, sharing)
        for form in FORMATS:
            said = readings(rendered(seen, form), form)
            for private in ("wendeline", "10.20.30.40", "01234567-89ab", "secretbox-77", "firm.io"):
                assert private not in said, (form, private)
    assert "wendeline" in readings(export(run, "csv", "-", Sharing(text=True)), "csv")
    assert "wendeline" in readings(export(run, "json", "-", Sharing()), "json")


HOSTILE = '</script></svg><b onload=x>"\x1b]0;t\x07\x9b2J\u202e\ufffe\x00\ud83d & <![CDATA[ ]]>'


def test_nothing_steers_a_terminal_or_a_page(tmp_path: Path) -> None:
    run = planted(tmp_path / "run", HOSTILE)
    texts: tuple[Format, ...] = ("csv", "html", "svg", "junit", "json")
    for form in texts:
        made = export(run, form, "-", Sharing(text=True))
        assert isinstance(made, str)
        assert harmless(made) == made
        assert "<b onload" not in made.replace('\\"', '"') or form in ("csv", "json")
        made.encode()
    for form in texts[2:4]:
        made = export(run, form, "-", Sharing(text=True))
        assert isinstance(made, str)
        Tree.fromstring(made)
    made = export(run, "parquet", "-", Sharing(text=True))
    assert isinstance(made, bytes)
    assert parquet.read_table(io.BytesIO(made)).num_rows > 30


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1+cmd|x", "@SUM(A1)", "\t=1", "\n=1", "  -1"])
def test_no_cell_is_a_formula(formula: str, tmp_path: Path) -> None:
    made = export(planted(tmp_path / "run", formula), "csv", "-", Sharing(text=True))
    assert isinstance(made, str)
    table = list(csv.DictReader(io.StringIO(made)))
    assert all(row["content"].startswith("'") or not row["content"] for row in table)
    assert any(row["content"] for row in table)
    for row in table:
        for cell in row.values():
            assert not cell.startswith(("=", "+", "@", "\t", "\r"))
            if cell.startswith("-"):
                float(cell)
