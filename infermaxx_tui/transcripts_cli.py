"""`infermaxx transcripts`: what is in recorded sessions, before anything is sent anywhere."""

from __future__ import annotations

from pathlib import Path

import msgspec

from infermaxx_tui import importers, shipped
from infermaxx_tui.core.capacity import Measured, TokenizerName, describe, stats_lines
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.transcript import Session, TranscriptError
from infermaxx_tui.idcache import tokenise_cached
from infermaxx_tui.tokenize import resolve


def stats_output(paths: tuple[str, ...], tokenizer: str, pool: int | None, as_json: bool) -> tuple[str, ...]:
    """Lines to print. Raises TranscriptError or TokenizerError."""
    sessions = importers.load_all(file for path in paths for file in _files(path))
    renderer = resolve(tokenizer, None, "", None, None)
    name = TokenizerName(renderer.name, exact=tokenizer != "shipped")
    stats = describe(sessions, lambda session: _measure(session, renderer), name, pool)
    return (msgspec.json.encode(stats).decode(),) if as_json else stats_lines(stats)


def _files(path: str) -> tuple[Path, ...]:
    """The files that a path means: itself, a folder's transcripts, or a shipped transcript's bare name."""
    found = Path(path).expanduser()
    if found.is_dir():
        inside = tuple(sorted(file for file in found.rglob("*.jsonl*") if file.is_file()))
        if not inside:
            raise TranscriptError(path, None, "no .jsonl file in this folder")
        return inside
    if not found.exists() and "/" not in path:
        bare = shipped.shipped_root() / "transcripts" / (path if path.endswith(".jsonl") else f"{path}.jsonl")
        if bare.is_file():
            return (bare,)
    return (found,)


def _measure(session: Session, renderer: Renderer) -> Measured:
    tokenised = tokenise_cached(session, renderer, truth="none")
    return Measured(tuple(request.prompt_tokens + len(request.reply_ids) for request in tokenised.requests))
