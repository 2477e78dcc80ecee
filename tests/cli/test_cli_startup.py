"""What a run knows of its server's start: from a log that is named, from one of its own, and before anything starts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from clitools import Place, log_of, sim

from infermaxx_tui.core import events as ev
from infermaxx_tui.exitcodes import ExitCode

PARSER = "import argparse\nclass FlexibleArgumentParser(argparse.ArgumentParser): pass\n"
SERVE = """
class Serve:
    name = "serve"
    def subparser_init(self, commands):
        parser = commands.add_parser("serve")
        parser.add_argument("model_tag")
        parser.add_argument("--port")
        return parser
    def validate(self, args): pass
def cmd_init():
    return [Serve()]
"""


def test_a_log_that_is_named_is_read_into_the_regime(place: Place, small: Path, tmp_path: Path) -> None:
    with sim(tmp_path / "sim") as url:
        log = json.dumps(str(tmp_path / "sim" / "log"))
        done = place.run("run", str(small), "--headless", "--json", "--url", url, "--set", f"server.log={log}")
    assert done.code == ExitCode.PASS, done
    regime = done.verdict["regime"]
    assert (regime["dtype"], regime["max_num_seqs"]) == ("float32", 64)
    assert "max_model_len 65536" in regime["pool_shape"]
    assert done.verdict["startup"]["pool_tokens"] == 262144
    (read,) = [event for event in log_of(place.folders[0]) if isinstance(event, ev.StartupRead)]
    assert read.source == "file"


def test_without_a_log_the_labels_speak_and_the_reason_stands_there(place: Place, small: Path, server: str) -> None:
    done = place.run("run", str(small), "--headless", "--json", "--url", server)
    regime = done.verdict["regime"]
    assert regime["pool_tokens"] == 262144
    assert regime["dtype"] is None
    assert "server.log" in regime["missing"]["dtype"]
    assert done.verdict["startup"] is None
    assert "server.log" in done.verdict["startup_reason"]


def test_a_log_that_is_not_there_is_said_and_the_run_goes_on(place: Place, small: Path, server: str) -> None:
    words = ("--url", server, "--set", 'server.log="gone.log"')
    done = place.run("run", str(small), "--headless", "--json", *words)
    assert done.code == ExitCode.PASS
    assert done.verdict["startup_reason"] == "gone.log: No such file or directory"


def test_a_log_of_a_server_that_the_run_starts_is_refused(place: Place, small: Path) -> None:
    done = place.inside("run", str(small), "--dry-run", "--set", 'server.log="x"', "--set", 'server.sim=["clean"]')
    assert done.code == ExitCode.USAGE
    assert "server.log" in done.complaint


def test_arguments_that_its_own_parser_refuses_start_nothing(
    place: Place, small: Path, tmp_path: Path, free_port: int
) -> None:
    for name, text in (("vllm/utils/argparse_utils.py", PARSER), ("vllm/entrypoints/cli/serve.py", SERVE)):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "model", "--port", str(free_port)]
    words += ["--kv-dtype", "fp8"]
    sets = ("--set", f"server.launch={json.dumps(words)}", "--set", f'server.env.PYTHONPATH="{tmp_path}"')
    for how in ("--headless", "--dry-run"):
        done = place.run("run", str(small), how, *sets)
        assert done.code == ExitCode.SERVER
        assert "unrecognized arguments: --kv-dtype fp8" in done.err
        assert place.folders == []


def test_a_server_that_somebody_else_runs_there_is_not_measured(place: Place, small: Path, server: str) -> None:
    port = server.rpartition(":")[2]
    words = ["sh", "-c", "sleep 600", "--port", port]
    done = place.run("run", str(small), "--headless", "--set", f"server.launch={json.dumps(words)}")
    assert done.code == ExitCode.SERVER
    assert f"another server listens at http://127.0.0.1:{port}" in done.complaint
    assert place.folders == []
