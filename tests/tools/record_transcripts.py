"""Record the shipped transcripts: run the tool calls of each script in tests/tools/sessions and keep their true output.

A script holds what the user and the assistant say and which tools are called; nothing that a tool answers is written by
hand. The calls run in namespaces of their own as the user `dev` on the host `devbox`, with an empty home, a copy of the
package under /home/dev and no network, so that no path, name or address of the recording machine can show up.

Run it as `python tests/tools/record_transcripts.py` (all) or with names of scripts; those of about 110k tokens are
`long/NAME`, and go to a folder of their own so that globs over the short ones do not take them. It needs Linux, root or
the right to make namespaces, git, and a package index for the pinned sources below. `--out FOLDER` writes elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).resolve().parent / "sessions"
SOURCES = {
    "anyio": "4.9.0",
    "attrs": "25.3.0",
    "click": "8.1.8",
    "iniconfig": "2.1.0",
    "itsdangerous": "2.2.0",
    "jinja2": "3.1.6",
    "packaging": "25.0",
    "pluggy": "1.6.0",
    "sqlparse": "0.5.3",
    "tomli": "2.2.1",
}
"""Packages that scripts work on, by version; the source distributions are unpacked into /home/dev."""
OWN = "infermaxx"
OWN_COMMIT = "73d0f3514ea0136adb857570d1a88b1374498479"
"""This project as it was at this commit, under the name `infermaxx`, unless a script names another `commit`."""
LIBRARIES = (
    "anyio==4.9.0",
    "attrs==25.3.0",
    "certifi==2025.4.26",
    "chardet==5.2.0",
    "freezegun==1.5.1",
    "h11==0.16.0",
    "httpcore==1.0.9",
    "hypothesis==6.131.15",
    "idna==3.10",
    "iniconfig==2.1.0",
    "msgspec==0.20.0",
    "orjson==3.11.4",
    "packaging==25.0",
    "pluggy==1.6.0",
    "pretend==1.0.9",
    "pytest==8.3.5",
    "pytest-timeout==2.3.1",
    "python-dateutil==2.9.0.post0",
    "ruff==0.11.9",
    "six==1.17.0",
    "sniffio==1.3.1",
    "sortedcontainers==2.4.0",
    "typing-extensions==4.13.2",
)
"""What the tools of a session can import and run beside the package itself."""
EXTRA = {"jinja2": ("markupsafe==3.0.2",)}
"""What one package needs besides; the other sessions do not have it."""
MAX_OUTPUT_CHARS = 16_000
"""A longer output is cut in the middle, with a line that says so, as agents do."""
TIMEOUT_S = 120
DAY = "2026-03-02T09:00:00+00:00"

Json = dict[str, object]


def tool(name: str, description: str, **parameters: str) -> Json:
    """A function in the form that chat APIs take; a parameter whose description begins with `?` may be left out."""
    properties = {key: _parameter(text.removeprefix("?")) for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": [k for k, t in parameters.items() if t[0] != "?"]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def _parameter(text: str) -> Json:
    kind, _, description = text.partition(": ")
    return {"type": kind, "description": description}


BASH = tool(
    "bash",
    "Run a command in bash and return stdout and stderr together. The working directory is the project; it does not "
    "change between calls.",
    command="string: The command line to run.",
)
READ = tool(
    "read_file",
    "Return lines of a text file with their numbers.",
    path="string: Path relative to the project.",
    start="?integer: First line, 1 if left out.",
    limit="?integer: How many lines, 200 if left out.",
)
EDIT = tool(
    "edit_file",
    "Replace a piece of text in a file. The old text must occur exactly once.",
    path="string: Path relative to the project.",
    old="string: The text to replace, byte for byte.",
    new="string: The text to put in its place.",
)
WRITE = tool(
    "write_file",
    "Write a whole text file; an existing one is replaced.",
    path="string: Path relative to the project.",
    text="string: The new content.",
)
TOOLS: dict[str, list[Json]] = {"shell": [BASH], "editor": [BASH, READ, EDIT, WRITE]}


def cut(text: str) -> str:
    """The text without its middle, if it is too long for a tool result."""
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    half = MAX_OUTPUT_CHARS // 2
    head, tail = text[:half].rpartition("\n")[0], text[-half:].partition("\n")[2]
    return f"{head}\n[... {len(text) - len(head) - len(tail)} characters left out ...]\n{tail}"


def run_bash(command: str) -> str:
    """What a command prints, and its exit status if that is not 0."""
    limited = ["timeout", "-k", "5", str(TIMEOUT_S), "bash", "-c", command]
    done = subprocess.run(
        limited, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    text = cut(done.stdout.decode("utf-8", "replace").rstrip("\n"))
    if done.returncode:
        return f"{text}\n[exit status {done.returncode}]".lstrip("\n")
    return text or "(no output)"


def read_file(path: str, start: int = 1, limit: int = 200) -> str:
    """Numbered lines of a file, or why there are none."""
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError as error:
        return f"error: {path}: {error.strerror}"
    shown = lines[start - 1 : start - 1 + limit]
    if not shown:
        return f"error: {path} has {len(lines)} lines"
    return cut("\n".join(f"{number:5d}  {line}" for number, line in enumerate(shown, start)))


def edit_file(path: str, old: str, new: str) -> str:
    """Replaces the one occurrence, or says why it did not."""
    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        return f"error: {path}: {error.strerror}"
    count = text.count(old)
    if count != 1:
        return f"error: the old text occurs {count} times in {path}; nothing was changed"
    Path(path).write_text(text.replace(old, new), "utf-8")
    line = text[: text.index(old)].count("\n") + 1
    return f"{path}: replaced {old.count(chr(10)) + 1} lines at line {line} by {new.count(chr(10)) + 1}"


def write_file(path: str, text: str) -> str:
    """Writes the file."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, "utf-8")
    return f"{path}: wrote {len(text.splitlines())} lines, {len(text.encode())} bytes"


HANDLERS: dict[str, Callable[..., str]] = {
    "bash": run_bash,
    "read_file": read_file,
    "edit_file": edit_file,
    "write_file": write_file,
}


def record(script: Json) -> Json:
    """The conversation of a script as one line of chat JSONL; runs inside the sandbox, in the project's folder."""
    tools = TOOLS[str(script["tools"])]
    messages: list[Json] = [{"role": "system", "content": str(script["system"]).strip()}]
    steps = script["step"]
    assert isinstance(steps, list)
    made = 0
    for step in steps:
        if "user" in step:
            messages.append({"role": "user", "content": step["user"].strip()})
            continue
        reply: Json = {"role": "assistant", "content": step.get("say", "").strip()}
        if "think" in step:
            reply["reasoning"] = step["think"].strip()
        calls: list[Json] = []
        results: list[Json] = []
        for call in step.get("call", []) + [{"tool": "bash", "command": command} for command in step.get("bash", [])]:
            made += 1
            name = call["tool"]
            arguments = {key: value for key, value in call.items() if key != "tool"}
            function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
            calls.append({"id": f"call_{made}", "type": "function", "function": function})
            renamed = {"command": arguments["command"]} if name == "bash" else arguments
            results.append({"role": "tool", "tool_call_id": f"call_{made}", "content": HANDLERS[name](**renamed)})
        if calls:
            reply["tool_calls"] = calls
        messages += [reply, *results]
    return {"messages": messages, "tools": tools}


def inside(script_file: str, out_file: str) -> None:
    """The part that runs in the sandbox."""
    script = tomllib.loads(Path(script_file).read_text("utf-8"))
    os.chdir(f"/home/dev/{script['project']}")
    if "setup" in script:
        subprocess.run(["bash", "-ec", script["setup"]], check=True, stdout=subprocess.DEVNULL)
    line = json.dumps(record(script), ensure_ascii=False)
    Path(out_file).write_text(line + "\n", "utf-8")


SANDBOX = """
set -e
hostname devbox
mkdir -p "$STAGE"/site && mount --bind "$SITE" "$STAGE"/site && mount --rbind "$STAGE" /mnt && SITE=/mnt/site
for folder in /tmp /home /opt /media /srv; do mount -t tmpfs -o mode=1777 tmpfs $folder; done
mkdir -p /opt/python /home/dev
mount --bind "$PYTHON" /opt/python
mount --bind /mnt/passwd /etc/passwd
mount --bind /mnt/group /etc/group
for hidden in $HIDDEN; do mount -t tmpfs -o mode=000 tmpfs $hidden; done
cp -r /mnt/project /home/dev/"$PROJECT"
/opt/python/bin/python3 -m venv --without-pip /home/dev/.venv
cp /mnt/pytest "$SITE"/bin/ruff /home/dev/.venv/bin/
find /home/dev -exec touch -h -d "$DAY" {} +
chown -R 1000:1000 /home/dev
mount --bind "$SITE" /home/dev/.venv/lib/python3.*/site-packages
exec setpriv --reuid 1000 --regid 1000 --clear-groups env -i HOME=/home/dev USER=dev LOGNAME=dev LANG=C.UTF-8 TZ=UTC \
  PATH=/home/dev/.venv/bin:/usr/bin:/bin LD_LIBRARY_PATH=/opt/python/lib \
  PYTHONDONTWRITEBYTECODE=1 COLUMNS=100 PAGER=cat \
  GIT_AUTHOR_NAME=Dev GIT_AUTHOR_EMAIL=dev@example.com GIT_COMMITTER_NAME=Dev GIT_COMMITTER_EMAIL=dev@example.com \
  GIT_AUTHOR_DATE="$DAY" GIT_COMMITTER_DATE="$DAY" GIT_CONFIG_NOSYSTEM=1 \
  python /mnt/tests/tools/record_transcripts.py --inside /mnt/script.toml /mnt/out/session.jsonl
"""


def unpack(project: str, commit: str, cache: Path, into: Path) -> None:
    """The sources of a project in a new folder; the commit counts for this project only."""
    if project == OWN:
        packed = cache / "own.tar"
        subprocess.run(["git", "-C", ROOT, "archive", "-o", packed, commit], check=True)
        into.mkdir()
        with tarfile.open(packed) as archive:
            archive.extractall(into, filter="data")
        return
    wanted = f"{project}-{SOURCES[project]}.tar.gz"
    if not (cache / wanted).exists():
        pip("download", "--no-deps", "--no-binary", ":all:", "-d", str(cache), f"{project}=={SOURCES[project]}")
    with tarfile.open(cache / wanted) as archive:
        archive.extractall(into.parent, filter="data")
    (into.parent / wanted.removesuffix(".tar.gz")).rename(into)


def pip(*arguments: str) -> None:
    """Runs pip of this interpreter."""
    subprocess.run([sys.executable, "-m", "pip", *arguments, "-q", "--disable-pip-version-check"], check=True)


def libraries(cache: Path, project: str) -> Path:
    """A folder with the libraries of a project's sessions, installed once."""
    extra = EXTRA.get(project, ())
    site = cache / (f"site-{project}" if extra else "site")
    if not site.exists():
        pip("install", "--no-deps", "--target", str(site), *LIBRARIES, *extra)
    return site


def record_outside(name: str, cache: Path, out: Path) -> None:
    """Prepares a sandbox for one script, runs it and takes its line."""
    script = tomllib.loads((SCRIPTS / f"{name}.toml").read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        stage.chmod(0o755)
        unpack(str(script["project"]), str(script.get("commit", OWN_COMMIT)), cache, stage / "project")
        (stage / "pytest").write_text("#!/home/dev/.venv/bin/python\nimport pytest\nraise SystemExit(pytest.main())\n")
        (stage / "pytest").chmod(0o755)
        (stage / "tests" / "tools").mkdir(parents=True)
        shutil.copy(Path(__file__), stage / "tests" / "tools")
        shutil.copy(SCRIPTS / f"{name}.toml", stage / "script.toml")
        (stage / "out").mkdir()
        (stage / "out").chmod(0o777)
        (stage / "passwd").write_text("root:x:0:0::/root:/bin/sh\ndev:x:1000:1000::/home/dev:/bin/bash\n")
        (stage / "group").write_text("root:x:0:\ndev:x:1000:\n")
        hidden = " ".join(str(path) for path in (Path("/work"), Path("/data")) if path.exists())
        variables = {
            "STAGE": str(stage),
            "SITE": str(libraries(cache, str(script["project"]))),
            "PYTHON": sys.base_prefix,
            "PROJECT": str(script["project"]),
            "DAY": DAY,
            "HIDDEN": hidden,
        }
        exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in variables.items())
        command = ["unshare", "--mount", "--uts", "--net", "--ipc", "--pid", "--fork", "--mount-proc"]
        subprocess.run([*command, "bash", "-c", exports + SANDBOX], check=True)
        target = out / f"{name}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(stage / "out" / "session.jsonl", target)


def main(argv: list[str]) -> int:
    """Records the scripts that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="scripts to record, without .toml")
    parser.add_argument("--out", type=Path, default=ROOT / "transcripts")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "transcript-sources")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.inside:
        inside(*options.inside)
        return 0
    options.cache.mkdir(parents=True, exist_ok=True)
    every = sorted(str(path.relative_to(SCRIPTS).with_suffix("")) for path in SCRIPTS.rglob("*.toml"))
    for name in options.names or every:
        sys.stderr.write(f"{name}\n")
        record_outside(name, options.cache, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
