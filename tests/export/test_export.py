"""`infermaxx export`: what each format holds of healthy, sick, resumed, dead and running runs."""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
import shutil
import stat
import sys
import xml.etree.ElementTree as Tree
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pyarrow import parquet

from infermaxx_tui.cli import main
from infermaxx_tui.core.export.charts import svg_text
from infermaxx_tui.core.export.junit import junit_text
from infermaxx_tui.core.export.page import html_text
from infermaxx_tui.core.export.picture import FORMATS, Format, Sharing, json_text, picture
from infermaxx_tui.core.export.requests import RequestRows
from infermaxx_tui.core.export.table import csv_text
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.judges import judge_all
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.panels.withheld import shown
from infermaxx_tui.core.timeline import Timeline
from infermaxx_tui.core.verdict import judge_run
from infermaxx_tui.export.main import export, read
from infermaxx_tui.flags import EXPORTS
from infermaxx_tui.log import read_log
from infermaxx_tui.rundir import RunFolder

LOGS = Path(__file__).parent.parent / "logs"
Folder = Callable[[str], RunFolder]
NOTHING = Sharing()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A run folder made of a recorded log."""

    def make(name: str) -> RunFolder:
        path = tmp_path / "20260101-000000-demo-abcd"
        path.mkdir()
        shutil.copyfile(LOGS / name, path / "events.jsonl")
        return RunFolder(path)

    return make


def text(run: RunFolder, form: Format, sharing: Sharing = NOTHING) -> str:
    made = export(run, form, "-", sharing)
    assert isinstance(made, str)
    return made


def rows(run: RunFolder, sharing: Sharing = NOTHING) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text(run, "csv", sharing))))


def test_the_command_line_knows_all_formats() -> None:
    assert EXPORTS == FORMATS


def test_csv_has_a_row_for_each_request_with_its_regime(folder: Folder) -> None:
    table = rows(folder("healthy.jsonl"))
    assert len({row["req"] for row in table}) == len(table) > 30
    assert {row["kind"] for row in table} >= {"turn", "recall"}
    assert {row["simulated"] for row in table} == {"true"}
    assert {row["regime_engine"] for row in table} == {"vllm 0.32.0+infermaxxsim"}
    assert {row["reply_class"] for row in table if row["kind"] == "recall"} == {"recalled"}
    for row in table:
        assert 0.0 <= float(row["start_s"]) <= float(row["first_token_s"]) <= float(row["end_s"])
        assert float(row["ttft_ms"]) > 0
        assert int(row["depth_tokens"]) == int(row["prompt_tokens"]) + int(row["completion_tokens"])
        if int(row["completion_tokens"]) > 1 and row["decode_ms"]:
            assert float(row["tokens_per_s"]) == pytest.approx(1000 / float(row["gap_mean_ms"]), rel=1e-4)
    assert "content" not in table[0]


def test_text_comes_only_when_it_is_asked_for(folder: Folder) -> None:
    run = folder("leak.jsonl")
    kept = [row["content"] for row in rows(run, Sharing(text=True)) if row["content"]]
    assert kept
    long = max(kept, key=len)
    for form in ("json", "csv", "html", "svg", "junit"):
        assert long not in text(run, form)
        assert html.escape(long) not in text(run, form)
    said = json.loads(text(run, "json"))["verdict"]["checks"]
    evidence = next(check for check in said if check["name"] == "isolation")["evidence"]
    assert all(one["said"].startswith("sha256 ") for one in evidence)
    assert evidence[0]["tag"]
    bare = json.loads(text(run, "json", Sharing(redact=True, content_free=True)))["verdict"]
    evidence = next(check for check in bare["checks"] if check["name"] == "isolation")["evidence"]
    assert all(one["tag"] is None and one["label"] is None for one in evidence)
    assert bare["regime"]["missing"]["host"] == "not shared"


def test_parquet_holds_what_csv_holds(folder: Folder, tmp_path: Path) -> None:
    run = folder("leak.jsonl")
    file = tmp_path / "run.parquet"
    export(run, "parquet", str(file), NOTHING)
    table = parquet.read_table(file)
    lines = rows(run)
    assert table.num_rows == len(lines)
    assert table.column_names == list(lines[0])
    assert [str(n) for n in table["req"].to_pylist()] == [row["req"] for row in lines]
    kinds = {field.name: str(field.type) for field in table.schema}
    assert (kinds["ttft_ms"], kinds["simulated"], kinds["req"], kinds["regime_gpu"]) == (
        "double",
        "bool",
        "int64",
        "string",
    )
    assert json.loads(table.schema.metadata[b"infermaxx.verdict"])["verdict"] == "FAIL"
    assert table.schema.metadata[b"infermaxx.marked"] == b"SIMULATED"


def test_without_pyarrow_there_is_one_line(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = folder("healthy.jsonl")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["export", str(run.path), "--format", "parquet", "--output", "x.parquet"]) == 2
    assert capsys.readouterr().err == "infermaxx: parquet needs pyarrow: pip install 'infermaxx-tui[parquet]'\n"


@pytest.mark.parametrize(
    ("log", "verdict", "fails"),
    [("healthy.jsonl", "PASS", set()), ("leak.jsonl", "FAIL", {"isolation"}), ("capped.jsonl", "INCONCLUSIVE", set())],
)
def test_junit_has_a_case_for_each_check(folder: Folder, log: str, verdict: str, fails: set[str]) -> None:
    root = Tree.fromstring(text(folder(log), "junit"))
    suite = root[0]
    assert "[SIMULATED]" in suite.attrib["name"]
    cases = {case.attrib["name"]: case for case in suite.iter("testcase")}
    kinds = {name: {child.tag for child in case} for name, case in cases.items()}
    assert {name for name, tags in kinds.items() if "failure" in tags} == fails
    assert ("error" in set().union(*kinds.values())) == (verdict != "PASS")
    assert "skipped" in kinds["quality"]
    counted = {tag: sum(tag in tags for tags in kinds.values()) for tag in ("failure", "error", "skipped")}
    assert suite.attrib["tests"] == str(len(cases))
    assert [suite.attrib[name] for name in ("failures", "errors", "skipped")] == list(map(str, counted.values()))
    said = {one.attrib["name"]: one.attrib["value"] for one in suite.iter("property")}
    assert (said["verdict"], said["simulated"]) == (verdict, "True")
    for name in fails:
        failure = cases[name].find("failure")
        assert failure is not None
        assert "event 0:" in (failure.text or "")


def test_the_page_fetches_nothing_and_says_what_it_is(folder: Folder) -> None:
    page = text(folder("leak.jsonl"), "html")
    assert "default-src 'none'" in html.unescape(page)
    assert not re.search(r"<script|<link|<img|https?://(?!www\.w3\.org/2000/svg)|url\(|@import", page)
    assert "prefers-color-scheme:dark" in page
    for said in ("SIMULATED", "FAIL", "isolation", "witnesses", "Regime", "Limits", "throughput by stream"):
        assert said in page
    assert page.count("<svg y=") == 5


def test_the_picture_is_sound_and_marked(folder: Folder) -> None:
    root = Tree.fromstring(text(folder("leak.jsonl"), "svg"))
    said = " ".join(root.itertext())
    assert "FAIL (SIMULATED)" in said
    assert "depth by stream (tokens)" in said
    lines = list(root.iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(lines) >= 5
    assert any(mark.tag.endswith("title") and "leak" in (mark.text or "") for mark in root.iter())


def test_json_is_the_verdict_and_the_series(folder: Folder) -> None:
    said = json.loads(text(folder("healthy.jsonl"), "json"))
    assert (said["schema"], said["run_state"], said["marked"]) == (1, "ended", ["SIMULATED"])
    assert said["verdict"]["verdict"] == "PASS"
    assert len(said["series"]["streams"]) == 3
    assert any(said["series"]["tokens_per_s"])
    assert said["requests"]["recall"] == {"ok": 30}


def test_speeds_of_a_run_that_answers_wrongly_stand_nowhere(folder: Folder) -> None:
    run = folder("healthy.jsonl")
    fold, timeline, requests = Fold(), Timeline(), RequestRows()
    for record in read_log(run.path):
        fold.add(record)
        timeline.add(record)
        requests.add(record)
    why = "3 of 24 tasks right"
    state = msgspec.structs.replace(fold.snapshot(), speed_withheld=why)
    checks = judge_all(state, Limits())
    verdict = msgspec.structs.replace(judge_run(state), speed_withheld=why, checks=checks)
    view = shown(state, timeline.snapshot(0, timeline.end_us, 60))
    assert view is not None
    seen = picture(state, verdict, view, requests.rows(state), "infermaxx", "ended", NOTHING)
    for row in csv.DictReader(io.StringIO(csv_text(seen))):
        assert row["speed_withheld"] == why
        assert row["timing_void"].endswith(f"times of answers that are wrong say nothing: {why}")
        assert float(row["ttft_ms"]) > 0, "evidence of one request stays, and its row says what it is"
        assert row["tokens_per_s"] == row["gap_mean_ms"] == row["decode_ms"] == row["total_ms"] == ""
    said = json.loads(json_text(seen))
    assert "speeds withheld" in said["marked"]
    assert not any(said["series"]["tokens_per_s"])
    assert not any(any(stream["tokens_per_s"]) for stream in said["series"]["streams"])
    for made in (html_text(seen), svg_text(seen)):
        assert f"withheld: {why}" in made
        assert "<circle" not in made, "no first token is drawn either"
    assert why in junit_text(seen)


def test_times_that_could_not_be_seen_say_so_on_each_row_and_good_ones_say_nothing(folder: Folder) -> None:
    run = folder("healthy.jsonl")
    assert {row["timing_void"] for row in rows(run)} == {""}
    assert "Times are void" not in text(run, "html")
    lines = [json.loads(line) for line in run.events.read_bytes().splitlines()]
    for line in lines:
        if line["event"]["e"] == "instrumentread":
            line["event"]["loop_lag_max_ms"] = 3000.0
    run.events.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    why = "the client once lagged 3000 ms, limits.max_loop_lag_ms=1000"
    table = rows(run)
    assert {(row["timing_void"], row["speed_withheld"]) for row in table} == {(why, "")}
    assert all(row["tokens_per_s"] for row in table if int(row["completion_tokens"]) > 1 and row["decode_ms"])
    assert "times void" in json.loads(text(run, "json"))["marked"]
    assert f"Times are void: {why}" in text(run, "html")
    assert "[times void]" in text(run, "junit")
    assert "times void" in text(run, "svg")


def test_a_torn_log_of_a_runner_that_died(folder: Folder) -> None:
    run = folder("healthy.jsonl")
    whole = run.events.read_bytes()
    run.events.write_bytes(whole[: len(whole) // 2])
    for form in ("json", "csv", "html", "svg", "junit"):
        assert text(run, form)
    said = json.loads(text(run, "json"))
    assert said["run_state"] == "died"
    assert "its runner died" in said["marked"]
    assert {row["state"] for row in rows(run)} == {"ended", "open"}
    open_rows = [row for row in rows(run) if row["state"] == "open"]
    assert all(row["end_s"] == row["outcome"] == row["total_ms"] == "" for row in open_rows)


def test_a_run_that_goes_on_is_marked(folder: Folder) -> None:
    run = folder("healthy.jsonl")
    whole = run.events.read_bytes()
    run.events.write_bytes(whole[: len(whole) // 2])
    fd = run.hold()
    try:
        assert "still running" in json.loads(text(run, "json"))["marked"]
        assert "still running" in text(run, "html")
        assert "still running" in text(run, "junit")
        assert {row["run_state"] for row in rows(run)} == {"running"}
    finally:
        os.close(fd)


def test_a_resumed_run_keeps_its_segments_apart(folder: Folder) -> None:
    run = folder("healthy.jsonl")
    lines = run.events.read_bytes().splitlines(keepends=True)
    half = lines[: len(lines) // 2]
    again = []
    for line in lines:
        record = json.loads(line)
        record["part"] = 1
        if record["event"]["e"] == "runstarted":
            record["event"]["segment"] = 1
        again.append(json.dumps(record).encode() + b"\n")
    run.events.write_bytes(b"".join(half))
    (run.path / "events-1.jsonl").write_bytes(b"".join(again))
    table = rows(run)
    assert {row["segment"] for row in table} == {"0", "1"}
    assert {row["state"] for row in table if row["segment"] == "1"} == {"ended"}
    starts = [float(row["start_s"]) for row in table]
    assert starts == sorted(starts)
    assert Tree.fromstring(text(run, "svg")) is not None


def test_a_real_run_on_a_card_shows_its_power() -> None:
    run = RunFolder(LOGS / "gpu-h200-real")
    seen = read(run, NOTHING)
    assert seen.marks == ("speeds withheld",)
    assert any(value for value in seen.view.series["gpu_power_w"])
    assert "SIMULATED" not in text(run, "html")
    assert {row["regime_gpu"] for row in rows(run)} == {"NVIDIA H200"}


def test_files_are_the_owners_alone(folder: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = folder("healthy.jsonl")
    for form in FORMATS:
        file = tmp_path / f"out.{form}"
        assert main(["export", str(run.path), "--format", form, "--output", str(file)]) == 0
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.stat().st_size > 1000
    assert capsys.readouterr().out == ""
    assert main(["export", str(run.path), "--format", "csv"]) == 0
    assert capsys.readouterr().out == (tmp_path / "out.csv").read_text()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--format", "pdf"), "invalid choice"),
        (("--format", "csv", "--include-text", "--content-free"), "exclude each other"),
        (("--format", "csv", "--output", "/nowhere/x.csv"), "No such file"),
        (("--format", "csv", "--output", "."), "name a file"),
        ((), "--format"),
    ],
)
def test_what_is_wrong_is_one_line(
    folder: Folder, flags: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(folder("healthy.jsonl").path), *flags]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert said in err
    assert err.count("\n") == 1
