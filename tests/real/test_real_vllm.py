"""The main job on a real vLLM: what the model can do passes, what it cannot fails, what is unseen is not judged."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from living import holding
from realtools import served

from infermaxx_tui.core.events import QualityAsked, Record, RequestEnded
from infermaxx_tui.core.experiment.answer import answer
from infermaxx_tui.core.experiment.lines import answer_lines
from infermaxx_tui.core.experiment.rows import ArmRow, arm_rows
from infermaxx_tui.core.verdict import Verdict, read_verdict
from infermaxx_tui.experiment.folder import list_experiments
from infermaxx_tui.log import read_log
from infermaxx_tui.shipped import find_scenario

NONCE = "c0ffee0123456789"
"""Fixed, so that the tags are: which tags this model can recall depends on their letters."""

pytestmark = [pytest.mark.real, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A vLLM on the CPU, started as the shipped scenario starts it, for all tests of this file."""
    with served(find_scenario("cpu-recall"), tmp_path_factory.mktemp("vllm") / "server.log") as address:
        yield address


def _run(url: str, runs: Path, scenario: str, *flags: str) -> tuple[int, Verdict]:
    command = [sys.executable, "-m", "infermaxx_tui", "run", scenario, "--url", url, "--headless", "--json"]
    done = subprocess.run(
        [*command, "--nonce", NONCE, "--runs-dir", str(runs), *flags], capture_output=True, check=False, timeout=1400
    )
    assert done.stdout, done.stderr.decode()
    verdict = read_verdict(done.stdout)
    print(json.dumps(msgspec.to_builtins(verdict), indent=1))
    return done.returncode, verdict


def _outcomes(verdict: Verdict) -> dict[str, str]:
    return {check.name: check.outcome for check in verdict.checks}


def _counts_agree(verdict: Verdict) -> None:
    seen = verdict.instrument
    assert seen.counts_reason is None
    assert seen.generation_client == seen.generation_server
    assert seen.prompt_client == seen.prompt_server
    assert seen.generation_client


def test_within_its_depth_it_passes_and_the_counts_agree(url: str, tmp_path: Path) -> None:
    code, verdict = _run(url, tmp_path, "cpu-recall")
    recall = next(check for check in verdict.checks if check.name == "recall")
    assert (code, verdict.verdict) == (0, "PASS"), _outcomes(verdict)
    assert recall.n_planned == 24
    assert recall.n_evaluated >= 22
    assert verdict.regime.engine is not None
    assert verdict.regime.engine.startswith("vllm 0.32")
    assert not verdict.simulated
    assert verdict.regime.concurrency_admitted_peak == 4
    assert verdict.regime.depth_reached is not None
    assert verdict.regime.depth_reached >= 1500
    _counts_agree(verdict)


def test_beyond_its_depth_it_fails_alone_too_and_nothing_leaks(url: str, tmp_path: Path) -> None:
    code, verdict = _run(url, tmp_path, "cpu-too-deep")
    recall = next(check for check in verdict.checks if check.name == "recall")
    assert (code, verdict.verdict, recall.outcome, recall.cause) == (1, "FAIL", "fail", "alone_too")
    assert recall.evidence
    assert _outcomes(verdict)["isolation"] != "fail"
    assert _outcomes(verdict)["availability"] == "pass"


def test_a_budget_of_eight_tokens_is_not_amnesia(url: str, tmp_path: Path) -> None:
    code, verdict = _run(url, tmp_path, "cpu-capped")
    assert (code, verdict.verdict) == (3, "INCONCLUSIVE")
    assert "fail" not in _outcomes(verdict).values()
    budget = next(check for check in verdict.checks if check.name == "budget")
    assert budget.outcome == "not_evaluable"
    assert budget.advice is not None
    assert "canaries.max_tokens=8" in budget.advice
    _counts_agree(verdict)


def test_chat_replay_counts_what_the_server_counts(url: str, tmp_path: Path) -> None:
    flags = [
        word
        for key, value in (
            ("sessions.prompt", "chat"),
            ("sessions.count", "1"),
            ("sessions.at_once", "1"),
            ("sessions.target_depth", "800"),
            ("limits.min_recalls", "2"),
        )
        for word in ("--set", f"{key}={value}")
    ]
    code, verdict = _run(url, tmp_path, "cpu-recall", *flags)
    recall = next(check for check in verdict.checks if check.name == "recall")
    assert recall.n_evaluated == 2, _outcomes(verdict)
    assert verdict.regime.prompt_mode == "chat"
    assert code in (0, 1)
    isolation = next(check for check in verdict.checks if check.name == "isolation")
    assert not isolation.required
    _counts_agree(verdict)


def _logged(runs: Path) -> list[RequestEnded]:
    """How the requests of the only run in a folder ended."""
    (folder,) = (path.parent for path in runs.glob("*/events.jsonl"))
    events = [record.event for record in read_log(folder) if isinstance(record, Record)]
    return [event for event in events if isinstance(event, RequestEnded)]


def _one_session(path: Path, depth: int, *more: str) -> list[str]:
    """Flags that play one transcript by one conversation to so many tokens."""
    settings = (
        f'transcripts.paths=["{path}"]',
        "sessions.count=1",
        "sessions.at_once=1",
        "sessions.rounds=1",
        f"sessions.target_depth={depth}",
        *more,
    )
    return [word for setting in settings for word in ("--set", setting)]


def test_a_session_of_claude_code_is_replayed_from_its_own_file(url: str, tmp_path: Path) -> None:
    found = "\n".join(f"{n:3} def part_{n}(): return {n} + offset  # off by one?" for n in range(16))
    use = [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "src/app.py"}}]
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": found}]
    said = [{"type": "text", "text": "The offset is one too large in all of them."}]
    records = [
        ("user", "u", None, {"role": "user", "content": "Read src/app.py and say in one line what is wrong."}),
        ("assistant", "a", "u", {"id": "m1", "role": "assistant", "content": use}),
        ("user", "r", "a", {"role": "user", "content": result}),
        ("assistant", "b", "r", {"id": "m2", "role": "assistant", "content": said}),
    ]
    file = tmp_path / "S.jsonl"
    lines = ({"sessionId": "S", "type": kind, "uuid": own, "parentUuid": parent, "message": message}
             for kind, own, parent, message in records)  # fmt: skip
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    code, verdict = _run(url, tmp_path / "runs", "cpu-recall", *_one_session(file, 330, "limits.min_recalls=1"))
    ended = _logged(tmp_path / "runs")
    turns = [one for one in ended if one.kind == "turn"]
    assert len(turns) == 2, _outcomes(verdict)
    assert all(one.outcome == "ok" and not one.forced for one in ended)
    assert [one.prefix_shared for one in turns] == [None, 1.0]
    assert code in (0, 3)
    assert _outcomes(verdict)["recall"] == "pass"
    _counts_agree(verdict)


def test_a_trace_of_lengths_is_replayed_in_exactly_those(url: str, tmp_path: Path) -> None:
    rows = [(130, 10, [1, 2, 3]), (290, 12, [1, 2, 4, 5, 6]), (330, 8, [1, 2, 4, 5, 7, 8])]
    keys = ("input_length", "output_length", "hash_ids")
    file = tmp_path / "trace.jsonl"
    file.write_text(
        "".join(
            json.dumps({"session_id": "one", "timestamp": 1000 * n, **dict(zip(keys, row, strict=True))}) + "\n"
            for n, row in enumerate(rows)
        ),
        encoding="utf-8",
    )
    bare = (
        "canaries.per_session=0",
        "canaries.plant_at=[]",
        "canaries.tail=false",
        "canaries.absent=false",
        "limits.min_recalls=0",
    )
    code, verdict = _run(url, tmp_path / "runs", "cpu-recall", *_one_session(file, 400, *bare))
    turns = _logged(tmp_path / "runs")
    assert [(one.prompt_tokens, one.completion_tokens) for one in turns] == [row[:2] for row in rows]
    assert all(one.outcome == "ok" and one.forced and one.finish_reason == "length" for one in turns)
    assert [one.prefix_shared for one in turns] == [None, 1.0, 1.0]
    assert turns[1].cached_tokens is not None
    assert turns[1].cached_tokens >= 128, "the first block of the last prompt comes from the cache"
    degeneration = next(check for check in verdict.checks if check.name == "degeneration")
    assert degeneration.outcome == "not_evaluable"
    assert (degeneration.advice or "").startswith("blind to degeneration")
    assert verdict.regime.replies_mode == "length_matched"
    assert (code, verdict.verdict) == (3, "INCONCLUSIVE")
    _counts_agree(verdict)


def _program(*words: str) -> str:
    command = [sys.executable, "-m", "infermaxx_tui", *words]
    return subprocess.run(command, capture_output=True, check=False, timeout=60).stdout.decode()


def test_answers_are_told_apart_and_speeds_of_a_failed_gate_are_shown_nowhere(
    url: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """A model of this size answers a few tasks rightly, most wrongly, and talks past its budget in others."""
    whole = bool(pytestconfig.getoption("--long"))
    tasks, budget, when = (24, 128, '["before", "during", "after"]') if whole else (12, 32, '["before", "during"]')
    demanded = {
        "sessions.count": 2,
        "sessions.at_once": 2,
        "sessions.target_depth": 400,
        "quality.tasks": tasks,
        "quality.max_tokens": budget,
        "quality.when": when,
        "limits.min_quality": 0.9,
        "limits.min_recalls": 2,
    }
    code, verdict = _run(url, tmp_path, "cpu-recall", *(w for key, one in demanded.items() for w in _set(key, one)))
    quality = next(check for check in verdict.checks if check.name == "quality")
    assert (code, verdict.verdict, quality.outcome, quality.cause) == (1, "FAIL", "fail", "alone_too")
    assert _outcomes(verdict)["isolation"] != "fail"
    assert _outcomes(verdict)["availability"] == "pass"
    (folder,) = tmp_path.iterdir()
    events = [record.event for record in read_log(folder) if isinstance(record, Record)]
    phase_of = {event.req: event.phase for event in events if isinstance(event, QualityAsked)}
    ended = [event for event in events if isinstance(event, RequestEnded) and event.req in phase_of]
    for phase in verdict.quality:
        marks = (phase.right, phase.wrong, phase.capped, phase.error, phase.not_asked)
        cut = [one for one in ended if phase_of[one.req] == phase.phase and one.finish_reason == "length"]
        assert sum(marks) == phase.planned == tasks
        assert phase.capped == len(cut)
        assert min(phase.wrong, phase.capped) >= 1
        assert (phase.error, phase.not_asked) == (0, 0)
    assert verdict.quality[0].right >= 1
    _nowhere(verdict, folder)


def _set(key: str, value: object) -> tuple[str, str]:
    return "--set", f"{key}={value}"


def _nowhere(verdict: Verdict, folder: Path) -> None:
    """No command shows a speed of this run, and each says why."""
    assert verdict.speed_withheld is not None
    assert (verdict.instrument.gap_p50_ms, verdict.pace) == (None, None)
    said = _program("judge", str(folder))
    assert f"Speeds are withheld: {verdict.speed_withheld}" in " ".join(said.split())
    beside = _program("compare", str(folder), str(folder))
    assert "withheld" in next(line for line in beside.splitlines() if "gap p50" in line)
    for text in (said, beside, _program("runs", "--runs-dir", str(folder.parent))):
        assert "tok/s" not in text


def test_the_five_measures_streams_and_identity_on_a_real_server(url: str, tmp_path: Path) -> None:
    """Speeds are whatever this machine has; what must hold is that they were cold, cached, counted and repeated.

    An experiment draws its tags, and this model loses or babbles on some: its verdict is whatever it earns, and where
    it babbles its speeds are withheld.
    """
    file = Path(__file__).with_name("cpu-five.toml")
    command = [sys.executable, "-m", "infermaxx_tui", "experiment", str(file), "--set", f'vars.URL="{url}"', "--json"]
    done = subprocess.run([*command, "--runs-dir", str(tmp_path)], capture_output=True, check=False, timeout=1400)
    assert done.stdout, done.stderr.decode()
    (folder,) = list_experiments(tmp_path)
    found = answer(folder.rows())
    print("\n".join(answer_lines(found)))
    assert done.returncode == 0, done.stderr.decode()
    (arm,) = found.arms
    (row,) = arm.rows
    assert (row.outcome, "recall" in row.checks) == ("judged", True)
    by_key = {one.key: one for one in arm.measures}
    hits = by_key["ttft.repeat_hit_tokens", 512, 1]
    assert len(hits.values) == 3
    assert all(384 <= value <= 512 for value in hits.values)
    assert by_key["aggregate.admitted", 0, 4].values == (4.0, 4.0, 4.0)
    assert by_key["aggregate.admitted", 0, 2].values == (2.0, 2.0, 2.0)
    for name, depth in (("decode.tokens_per_s", 0), ("decode.tokens_per_s", 512), ("prefill.tokens_per_s", 512)):
        one = by_key[name, depth, 1]
        if arm.withheld is None:
            assert one.values or "lagged" in (one.reason or ""), one
        else:
            assert one.values == (), one
    assert arm.identity is not None
    assert (arm.identity.prompts, arm.identity.control_same) == (2, 2)


_REASONS = {
    "unknown-dtype": ("argument --kv-cache-dtype: invalid choice: 'fp7'",),
    "window": ("User-specified max_model_len (100000) is greater", "the model was made for 8192 tokens"),
    "no-model": ("the model's folder /nowhere/at/all is not there",),
    "used-port": ("another server listens at http://127.0.0.1:",),
    "slow": ("used up its 14 s (start_s)", "and is not up at http://127.0.0.1:"),
}


def test_arms_that_cannot_start_or_cannot_do_it_are_rows_and_the_others_go_on(url: str, tmp_path: Path) -> None:
    """Nine arms on one file: two healthy, two that ask what this model cannot do, five that must not come up."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    used = url.rpartition(":")[2]
    own = {"URL": url, "USED_PORT": used, "BOOT_PORT": str(port)}
    words = [str(Path(__file__).with_name("cpu-bad-arms.toml")), "--no-gpu", "--runs-dir", str(tmp_path)]
    words += [word for name, value in own.items() for word in ("--set", f'vars.{name}="{value}"')]
    command = [sys.executable, "-m", "infermaxx_tui", "experiment", *words]
    done = subprocess.run(command, capture_output=True, check=False, timeout=900, text=True)
    print(done.stdout)
    assert done.returncode == 3, done.stderr
    (folder,) = list_experiments(tmp_path)
    rows = {row.arm: row for row in arm_rows(folder.rows())}
    assert list(rows) == ["there", "no-tools", "no-vision", "booted", *_REASONS]
    for name, said in _REASONS.items():
        row = rows[name]
        assert (row.outcome, row.verdict, row.run) == ("boot_failed", None, None)
        reason = row.reason or ""
        assert all(text in reason for text in said), reason
        assert "\n" not in reason
        assert (
            sum(line.startswith("  start 1: boot failed: ") and reason in line for line in done.stdout.splitlines())
            == 1
        )
    assert all(row.server_log is None or (folder.path / row.server_log).stat().st_size for row in rows.values())
    _whole_configuration(rows, tmp_path)
    for name, missing in (("no-tools", "--enable-auto-tool-choice"), ("no-vision", "is not a multimodal model")):
        lines = [line for line in done.stdout.splitlines() if line.startswith(f"  {name.removeprefix('no-')}.")]
        assert len(lines) == 1, lines
        assert "n/a (unsupported: " in lines[0]
        assert missing in lines[0]
    _nothing_is_left(tmp_path, port)
    ahead = _program("experiment", *words, "--dry-run")
    assert "hours: " in ahead
    assert "by the newest starts here, 5 of them failed then" in ahead
    assert "WILL NOT START: the model's folder /nowhere/at/all is not there" in ahead


def _whole_configuration(rows: dict[str, ArmRow], runs: Path) -> None:
    """Each row says all that its server was started with, and what was reckoned before it came to pass.

    Verdicts are not looked at: which tags this model recalls depends on their letters, and those of an arm are drawn.
    """
    for name in ("booted", "unknown-dtype", "window", "used-port", "slow"):
        settings, facts = rows[name].settings, rows[name].facts
        assert settings.launch[0].endswith("venv/bin/vllm")
        assert settings.env["VLLM_CPU_KVCACHE_SPACE"] == "1"
        assert settings.levers["--dtype"] == "float32"
        assert facts is not None
        assert facts.weight_bytes == 269_030_016
    assert rows["slow"].settings.start_s == 14.0
    assert rows["window"].settings.levers["--max-model-len"] == "100000"
    booted = rows["booted"]
    assert {rows[name].outcome for name in ("there", "no-tools", "no-vision", "booted")} == {"judged"}
    assert all(
        row.run is not None and (runs / row.run / "verdict.json").is_file() for row in rows.values() if row.verdict
    )
    assert booted.forecast is not None
    assert booted.startup is not None
    assert booted.forecast.kv_bytes_per_token == 46_080
    assert booted.forecast.pool_tokens == booted.startup.pool_tokens == 23_296
    assert rows["there"].forecast is None


def _nothing_is_left(folder: Path, port: int) -> None:
    """No process of any server that was started for this lives, whatever its name, and its port is free."""
    assert holding(folder) == []
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
