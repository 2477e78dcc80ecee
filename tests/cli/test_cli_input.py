"""Bad input gets one clear line and exit 2, and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from clitools import SCENARIO, Done, Place, chat_line, write_small

from infermaxx_tui.exitcodes import ExitCode


def _refused(place: Place, done: Done, *said: str) -> None:
    assert done.code == ExitCode.USAGE, done
    assert done.out == ""
    assert "Traceback" not in done.err
    for text in said:
        assert text in done.complaint
    assert not place.runs.exists()


_CHANGES = {
    "key": ("target_depth = 600", "target_dept = 600", ("small.toml", "sessions.target_dept", "sessions.target_depth")),
    "table": ("[canaries]", "[canarys]", ("small.toml", "canarys", "canaries")),
    "type": ("count = 2", 'count = "two"', ("small.toml", "sessions.count", "int")),
    "item": ("ask_at = [1.0]", 'ask_at = [0.5, "end"]', ("canaries.ask_at[1]", "float")),
    "missing": ('name = "small"\n', "", ("small.toml", "name", "is missing")),
    "name": ('name = "small"', 'name = "../up"', ("name", "letters")),
    "range": ("count = 2", "count = 0", ("sessions.count", "the least is 1")),
    "toml": ("count = 2", "count = = 2", ("small.toml", "not TOML", "line 10")),
    "paths": ('["*.jsonl"]', '["none-*.jsonl"]', ("transcripts.paths", "none-*.jsonl", "matches no file")),
    "servers": ("[reply]", '[server]\nurl = "http://h:1"\nsim = ["clean"]\n[reply]', ("server.sim", "server.url")),
    "duration": ("[reply]", '[stop]\nduration = "soon"\n[reply]', ("stop.duration", "30m")),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_a_scenario_that_is_wrong(place: Place, change: str) -> None:
    old, new, said = _CHANGES[change]
    assert old in SCENARIO
    path = write_small(place.root, SCENARIO.replace(old, new))
    _refused(place, place.inside("run", str(path), "--dry-run"), *said)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("min_recalls = 4", "min_recalls = 400", ("limits.min_recalls", "--set sessions.rounds=")),
        ("target_depth = 600", "target_depth = 60000", ("sessions.target_depth", "--set sessions.target_depth=")),
        ('tokenizer = "shipped"', 'tokenizer = "/nowhere/at/all"', ("/nowhere/at/all",)),
        ('name = "small"', "name = 3", ("small.toml", "name", "str")),
    ],
)
def test_a_run_that_cannot_start_leaves_nothing_behind(
    place: Place, server: str, old: str, new: str, said: tuple[str, ...]
) -> None:
    path = write_small(place.root, SCENARIO.replace(old, new))
    _refused(place, place.run("run", str(path), "--headless", "--url", server), *said)


def test_the_depth_that_is_advised_works(place: Place, server: str) -> None:
    path = write_small(place.root, SCENARIO.replace("target_depth = 600", "target_depth = 60000"))
    refused = place.inside("run", str(path), "--url", server, "--dry-run")
    advised = refused.complaint.rpartition("--set ")[2]
    assert advised.startswith("sessions.target_depth=")
    assert place.inside("run", str(path), "--url", server, "--dry-run", "--set", advised).code == ExitCode.PASS


def test_a_scenario_that_is_not_there(place: Place) -> None:
    _refused(place, place.inside("run", "nowhere.toml"[:-5], "--dry-run"), "nowhere", "demo")
    _refused(place, place.inside("run", "./nowhere.toml", "--dry-run"), "no such file")
    _refused(place, place.inside("run", str(place.root), "--dry-run"), "folder")
    _refused(place, place.inside("run", "x" * 5000, "--dry-run"), "name too long")
    _refused(place, place.inside("run", "~nobody-at-all/x.toml", "--dry-run"), "no such file")


def test_a_scenario_that_is_not_text(place: Place) -> None:
    (place.root / "x.toml").write_bytes(b'name = "\xff\xfe"')
    _refused(place, place.inside("run", "x.toml", "--dry-run"), "x.toml", "UTF-8")


def test_a_scenario_without_a_server(place: Place, small: Path) -> None:
    _refused(place, place.run("run", str(small)), "server.url", "--url URL")


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--set", "sessions.cuont=3", "sessions.count"),
        ("--set", "sessions.count", "KEY=VALUE"),
        ("--set", "name.first=3", "not a table"),
        ("--nonce", "xyz", "hex"),
        ("--duration", "0s", "more than nothing"),
        ("--duration", "yesterday", "30m"),
        ("--exclude", "150%", "between 0 and 1"),
        ("--exclude", "some", "1%"),
        ("--exclude", "0.0000001", "sessions.rounds"),
        ("--url", "ftp://127.0.0.1:1", "http://HOST:PORT"),
        ("--url", "http://[::1", "not an address"),
        ("--url", "http://me:secret@127.0.0.1:1", "--api-key-env"),
        ("--url", "http://", "http://HOST:PORT"),
        ("--url", "http://127.0.0.1:70000", "not an address"),
        ("--seed", "-1", "seed"),
        ("--seed", "one", "--seed"),
        ("--sneed", "1", "--sneed"),
    ],
)
def test_a_flag_that_is_wrong(place: Place, small: Path, flag: str, value: str, said: str) -> None:
    done = place.inside("run", str(small), "--dry-run", flag, value)
    _refused(place, done, said)
    assert "secret" not in done.err


_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
_TAGGED = [
    {"role": "user", "content": "Where is it?"},
    {"role": "assistant", "content": "", "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "lot QHAD-9WNC is on its way"},
    {"role": "assistant", "content": "On its way."},
]
_SYSTEMS = [{"role": "system", "content": "Be short."}, {"role": "system", "content": "Be long."}, *_TAGGED[:1]]
_BAD = {
    "empty": ("", ("bad.jsonl", "empty")),
    "blank": ("\n\n", ("bad.jsonl",)),
    "text": ("this is no JSON\n", ("bad.jsonl:1", "JSON")),
    "foreign": ('{"weather": "fine"}\n', ("bad.jsonl:1", "OpenAI chat JSONL")),
    "no-reply": (json.dumps({"messages": _TAGGED[:1]}) + "\n", ("bad.jsonl", "nothing to replay")),
    "two-systems": (json.dumps({"messages": _SYSTEMS}) + "\n", ("bad.jsonl:1", "system")),
    "tag": (json.dumps({"messages": _TAGGED}) + "\n", ("bad.jsonl", "request 1", "QHAD-9WNC", "looks like a tag")),
}


@pytest.mark.parametrize("case", _BAD)
def test_a_transcript_that_is_wrong(place: Place, case: str) -> None:
    content, said = _BAD[case]
    path = write_small(place.root)
    (place.root / "bad.jsonl").write_text(content, encoding="utf-8")
    _refused(place, place.inside("run", str(path), "--dry-run"), *said)


def test_lines_that_are_left_out_are_told(place: Place, server: str) -> None:
    path = write_small(place.root)
    (place.root / "torn.jsonl").write_text(chat_line(12) + "{broken\n" + chat_line(12, 9), encoding="utf-8")
    done = place.inside("run", str(path), "--dry-run", "--url", server)
    assert done.code == ExitCode.PASS
    assert "torn.jsonl: lines left out: 1 malformed_line" in done.out


def test_sessions_of_one_turn_work(place: Place, server: str) -> None:
    path = write_small(place.root, transcripts=0)
    lines = (chat_line(1, start=20 * n, words_per_turn=120) for n in range(12))
    (place.root / "short.jsonl").write_text("".join(lines), encoding="utf-8")
    done = place.run("run", str(path), "--headless", "--json", "--url", server)
    assert done.code == ExitCode.PASS, done
    assert done.verdict["verdict"] == "PASS"


@pytest.mark.parametrize("verb", ["attach", "judge", "stop"])
@pytest.mark.parametrize(
    "name", ["../../etc", "..", "a/../b", "nothing", "", "latest", ".hidden", "~nobody-at-all", "x" * 5000]
)
def test_a_run_that_is_not_there(place: Place, verb: str, name: str) -> None:
    _refused(place, place.inside(verb, name), "infermaxx")
