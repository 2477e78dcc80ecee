"""A file of 2 GB is read in less than 200 MB of memory, by a process of its own; a twentieth of it without `--long`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MOST_MIB = 200
WHOLE_BYTES = 2_000_000_000
SHORT_BYTES = 100_000_000


@pytest.fixture
def size(pytestconfig: pytest.Config) -> int:
    """How large a file is."""
    return WHOLE_BYTES if pytestconfig.getoption("--long") else SHORT_BYTES


PROGRAM = """
import sys
from pathlib import Path
from infermaxx_tui.cli import main
code = main(sys.argv[2:])
sys.stdout.flush()
Path(sys.argv[1]).write_text(Path("/proc/self/status").read_text())
sys.exit(code)
"""


def cost(words: list[str], tmp_path: Path) -> tuple[float, str]:
    """MiB of memory that a command took at its peak, and what it printed.

    The program asks for its own peak: what a process is charged for at its end holds that of whoever forked it.
    """
    env = {**os.environ, "INFERMAXX_CACHE": str(tmp_path / "cache")}
    status = tmp_path / "status"
    command = [sys.executable, "-c", PROGRAM, str(status), "transcripts", *words]
    done = subprocess.run(command, capture_output=True, env=env, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (peak,) = (line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024, done.stdout


def request_log(file: Path, size: int) -> int:
    """A proxy's log whose lines hold the whole history each; how many conversations are in it."""
    filler = "".join(f"line {n:06} of a tool's output, as logs have them\n" for n in range(400))
    written = count = 0
    with file.open("w", encoding="utf-8") as out:
        while written < size:
            count += 1
            messages: list[dict[str, object]] = [{"role": "system", "content": f"You are agent {count}."}]
            for turn in range(20):
                messages.append({"role": "user", "content": f"{count}/{turn} {filler}"})
                reply = {"role": "assistant", "content": f"done with {turn}"}
                usage = {"prompt_tokens": 5000 * (turn + 1), "completion_tokens": 10}
                body = {"choices": [{"message": reply, "finish_reason": "stop"}], "usage": usage}
                record = {"session_id": f"s{count}", "request": {"messages": messages}, "response": body}
                written += out.write(json.dumps(record) + "\n")
                messages.append(dict(reply))
    return count


def screenshots(file: Path, size: int) -> int:
    """One Claude Code session, most of whose bytes are pictures; how many requests are in it."""
    picture, written, count = "iVBORw0KGgo" * 100_000, 0, 0
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture}}
    with file.open("w", encoding="utf-8") as out:
        while written < size:
            count += 1
            shown = [{"type": "tool_result", "tool_use_id": f"t{count - 1}", "content": [image]}]
            said = [{"type": "tool_use", "id": f"t{count}", "name": "Shot", "input": {"n": count}}]
            usage = {"input_tokens": 6, "cache_read_input_tokens": 100 * count, "output_tokens": 50}
            common = {"sessionId": "S", "timestamp": "2026-05-01T09:00:00.000Z"}
            asked = {"role": "user", "content": shown if count > 1 else "go on"}
            answer = {"id": f"m{count}", "role": "assistant", "model": "m", "content": said, "usage": usage}
            before = f"a{count - 1}" if count > 1 else None
            for record in (
                {"type": "user", "uuid": f"u{count}", "parentUuid": before, "message": asked},
                {"type": "assistant", "uuid": f"a{count}", "parentUuid": f"u{count}", "message": answer},
            ):
                written += out.write(json.dumps({**record, **common}) + "\n")
    return count


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_large_file_takes_little_memory(size: int, tmp_path: Path) -> None:
    file = tmp_path / "large.jsonl"
    count = request_log(file, size)
    used, said = cost(["stats", str(file)], tmp_path)
    assert used < MOST_MIB
    assert said.count("openai-chat") == count
    used, said = cost(["import", str(file), "--out", str(tmp_path / "out")], tmp_path)
    assert used < MOST_MIB
    assert f"{count} session" in said
    file.unlink()
    count = screenshots(file, size // 2)
    used, said = cost(["stats", str(file)], tmp_path)
    assert used < MOST_MIB
    assert f"{count}" in said
