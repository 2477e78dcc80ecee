"""`infermaxx transcripts`: what is in recorded sessions, before anything is sent anywhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from infermaxx_tui import importers, shipped
from infermaxx_tui.core.capacity import Measured, TokenizerName, describe, stats_lines
from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.transcript import Session, TranscriptError
from infermaxx_tui.idcache import tokenise_cached
from infermaxx_tui.importers import native
from infermaxx_tui.importers.cline import HISTORY
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.tokenize import resolve


def stats_output(paths: tuple[str, ...], tokenizer: str, pool: int | None, as_json: bool) -> tuple[str, ...]:
    """Lines to print. Raises TranscriptError or TokenizerError."""
    sessions = importers.stream_all(file for path in paths for file in _files(path))
    renderer = resolve(tokenizer, None, "", None, None)
    name = TokenizerName(renderer.name, exact=tokenizer != "shipped")
    stats = describe(sessions, lambda session: _measure(session, renderer), name, pool)
    return (msgspec.json.encode(stats).decode(),) if as_json else stats_lines(stats)


def import_output(paths: tuple[str, ...], out: str) -> tuple[str, ...]:
    """Writes what the paths hold as OpenAI chat JSONL, one new file for each of theirs, and returns lines to print.

    Raises TranscriptError if a file cannot be read or written, if it stands there already, or if it holds no text.
    """
    folder = Path(out).expanduser()
    files = tuple(dict.fromkeys(file for path in paths for file in _files(path)))
    targets = _targets(files, folder)
    taken = next((target for target in targets.values() if target.exists()), None)
    if taken is not None:
        raise TranscriptError(str(taken), None, "is there already, and nothing is overwritten: give another --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TranscriptError(out, None, f"cannot be made: {error.strerror or error}") from None
    seen: set[int] = set()
    lines = tuple(_convert(file, target, seen) for file, target in targets.items())
    return (*lines, f"{len(files)} file{'s' * (len(files) != 1)} read into {out}")


def _targets(files: tuple[Path, ...], folder: Path) -> dict[Path, Path]:
    """Where each file goes: under its own name, under its folder's where that says more, told apart by numbers."""
    out: dict[Path, Path] = {}
    used: Counter[str] = Counter()
    for file in files:
        name = file.parent.name if file.name == HISTORY and file.parent.name else stem(file)
        used[name] += 1
        out[file] = folder / (f"{name}.jsonl" if used[name] == 1 else f"{name}-{used[name]}.jsonl")
    return out


def _convert(file: Path, target: Path, seen: set[int]) -> str:
    """Writes one file's sessions, whole or not at all, and says what was written."""
    count = requests = 0
    loss: Counter[str] = Counter()
    try:
        with target.open("xb") as written:
            for session in importers.unseen(importers.stream(file), seen):
                if session.content_free:
                    raise TranscriptError(str(file), None, "holds lengths and no text, so there is no chat to write")
                for line in native.lines(session):
                    written.write(line)
                count, requests = count + 1, requests + len(session.requests)
                loss.update(dict(session.loss))
    except FileExistsError:
        raise TranscriptError(str(target), None, "is there already, and nothing is overwritten") from None
    except OSError as error:
        target.unlink(missing_ok=True)
        raise TranscriptError(str(target), None, f"cannot be written: {error.strerror or error}") from None
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    if not count:
        target.unlink(missing_ok=True)
        return f"{file.name}: nothing that another file does not hold too"
    lost = ", ".join(f"{name} {number}" for name, number in sorted(loss.items())) or "nothing lost"
    return harmless(f"{target.name}: {count} session{'s' * (count != 1)}, {requests} requests; {lost}")


def _files(path: str) -> tuple[Path, ...]:
    """The files that a path means: itself, a folder's transcripts, or a shipped transcript's bare name."""
    found = Path(path).expanduser()
    if found.is_dir():
        inside = importers.recordings(found)
        if not inside:
            raise TranscriptError(path, None, f"no transcript in this folder: give {importers.KNOWN}")
        return inside
    if not found.exists() and "/" not in path:
        bare = shipped.shipped_root() / "transcripts" / (path if path.endswith(".jsonl") else f"{path}.jsonl")
        if bare.is_file():
            return (bare,)
    return (found,)


def _measure(session: Session, renderer: Renderer) -> Measured:
    tokenised = tokenise_cached(session, renderer, truth="none")
    return Measured(tuple(request.prompt_tokens + len(request.reply_ids) for request in tokenised.requests))
