"""What the program says of servers: none there, not a vLLM, another model, a window or a pool that is too small."""

from __future__ import annotations

from pathlib import Path

import pytest
from clitools import SCENARIO, Place, log_of, sim, write_small
from plain_openai import MODELS, PlainServer

from infermaxx_tui.core import events as ev
from infermaxx_tui.exitcodes import ExitCode


def test_nobody_there(place: Place, small: Path, free_port: int) -> None:
    url = f"http://127.0.0.1:{free_port}"
    done = place.run("run", str(small), "--headless", "--url", url)
    assert done.code == ExitCode.SERVER
    assert done.out == ""
    assert f"{url}: no answer (connection refused)" in done.complaint
    assert place.folders == []


def test_a_dry_run_without_the_server_plans_all_the_same(place: Place, small: Path, free_port: int) -> None:
    done = place.inside("run", str(small), "--dry-run", "--url", f"http://127.0.0.1:{free_port}/v1")
    assert done.code == ExitCode.PASS
    assert "not asked" in done.out
    assert "4 recalls planned" in done.out
    assert place.folders == []


@pytest.mark.parametrize("dry", [True, False])
def test_a_model_that_is_not_served_is_answered_with_those_that_are(place: Place, small: Path, dry: bool) -> None:
    with PlainServer(MODELS) as plain:
        words = ("run", str(small), "--url", plain.url)
        runs = [
            place.inside(*words, *more, "--dry-run") if dry else place.run(*words, *more)
            for more in (("--model", "gpt-9"), ())
        ]
    for done in runs:
        assert done.code == ExitCode.SERVER
        assert "plain-large" in done.complaint
        assert "plain-small" in done.complaint
    assert "gpt-9" in runs[0].complaint
    assert "--model NAME" in runs[1].complaint
    assert place.folders == []


def test_something_else_that_listens(place: Place, small: Path) -> None:
    with PlainServer() as plain:
        done = place.inside("run", str(small), "--dry-run", "--url", f"{plain.url}/elsewhere")
    assert done.code == ExitCode.SERVER
    assert "404" in done.complaint


def test_chat_replay_on_a_server_that_is_no_vllm(place: Place) -> None:
    text = SCENARIO.replace('tokenizer = "shipped"', 'tokenizer = "auto"')
    path = write_small(place.root, text.replace("count = 2", 'count = 2\nprompt = "chat"'))
    with PlainServer() as plain:
        done = place.run("run", str(path), "--headless", "--json", "--url", f"{plain.url}/v1")
    assert done.code == ExitCode.PASS, done
    assert "no tokenizer" in done.err
    regime = done.verdict["regime"]
    assert done.verdict["simulated"] is False
    assert regime["engine"] is None
    assert regime["pool_tokens"] is None
    assert {"engine", "pool_tokens", "max_model_len", "tokenizer"} <= set(regime["missing"])
    assert regime["prompt_mode"] == "chat"
    assert {request for request, _ in plain.requests} == {"/v1/chat/completions", "/tokenize"}


def test_token_replay_on_a_server_that_is_no_vllm_needs_a_tokenizer(place: Place) -> None:
    path = write_small(place.root, SCENARIO.replace('tokenizer = "shipped"', 'tokenizer = "auto"'))
    with PlainServer() as plain:
        done = place.inside("run", str(path), "--dry-run", "--url", plain.url)
    assert done.code == ExitCode.USAGE
    assert "transcripts.tokenizer" in done.complaint


def test_token_replay_with_a_tokenizer_of_ours_says_what_it_cannot_know(place: Place, small: Path) -> None:
    with PlainServer() as plain:
        done = place.run("run", str(small), "--headless", "--json", "--url", plain.url)
    assert done.code == ExitCode.PASS, done
    assert "could not be compared" in done.err
    assert "tokenised again here" in done.err
    assert {"tokenizer_agreement", "reply_token_ids"} <= set(done.verdict["regime"]["missing"])
    completions = [body for request, body in plain.requests if request == "/v1/completions"]
    assert all(isinstance(body["prompt"], list) for body in completions)
    assert all(body["return_token_ids"] is True for body in completions)


def test_what_does_not_fit_the_window_is_refused_with_what_to_type(place: Place, tmp_path: Path) -> None:
    path = write_small(place.root)
    with sim(tmp_path / "sim", "--max-model-len", "700") as url:
        refused = place.run("run", str(path), "--headless", "--url", url)
        assert refused.code == ExitCode.USAGE
        assert "max_model_len is 700" in refused.complaint
        assert place.folders == []
        advice = refused.complaint.partition("700: ")[2].split()
        assert advice[0] == "--set"
        done = place.run("run", str(path), "--headless", "--json", "--url", url, *advice)
    assert done.code == ExitCode.PASS, done
    assert done.verdict["regime"]["target_depth"] < 600


def test_a_pool_that_is_too_small_is_told_with_what_to_type(place: Place, tmp_path: Path) -> None:
    path = write_small(place.root)
    with sim(tmp_path / "sim", "--pool", "960", "--max-model-len", "900") as url:
        warned = place.inside("run", str(path), "--dry-run", "--url", url)
        assert warned.code == ExitCode.PASS
        assert "the KV pool has 960" in warned.out
        advice = next(line for line in warned.out.splitlines() if "--set" in line).partition("avoid them ")[2].split()
        heeded = place.inside("run", str(path), "--dry-run", "--url", url, *advice)
    assert heeded.code == ExitCode.PASS
    assert "--set" not in heeded.out


def test_a_server_that_refuses_every_turn_is_not_judged(place: Place, small: Path) -> None:
    with PlainServer(status=500) as plain:
        done = place.run("run", str(small), "--headless", "--json", "--url", plain.url)
    assert done.code in (ExitCode.FAIL, ExitCode.INCONCLUSIVE)
    assert done.verdict["verdict"] != "PASS"


_KEY = "sk-test-0123456789abcdef"


def test_the_key_is_sent_and_written_nowhere(place: Place, small: Path) -> None:
    with (
        PlainServer(key=_KEY, status=500) as plain,
        place.started(
            "run", str(small), "--url", plain.url, "--api-key-env", "MY_KEY", "--set", "sessions.rounds=40",
            env={"MY_KEY": _KEY},
        ) as command,
    ):  # fmt: skip
        folder = command.folder
        listing = b"".join(path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
        done = command.end()
    assert _KEY.encode() not in listing
    errors = [event.error or "" for event in log_of(folder) if isinstance(event, ev.RequestEnded)]
    assert errors
    assert all("HTTP 500: cannot serve the caller of Bearer [key]" in error for error in errors)
    for path in [path for path in place.root.rglob("*") if path.is_file()]:
        assert _KEY.encode() not in path.read_bytes(), path
    assert _KEY not in done.out + done.err


def test_a_key_that_is_missing_is_asked_for(place: Place, small: Path, tmp_path: Path) -> None:
    key = {"VLLM_API_KEY": _KEY}
    with sim(tmp_path / "sim", env=key) as url:
        without = place.inside("run", str(small), "--dry-run", "--url", url)
        with_key = place.run("run", str(small), "--headless", "--url", url, env=key)
    assert without.code == ExitCode.SERVER
    assert "VLLM_API_KEY" in without.complaint
    assert with_key.code == ExitCode.PASS
