"""`infermaxx transcripts redact`: transcripts that may leave the machine, with their text redacted or without any."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from infermaxx_tui import importers
from infermaxx_tui.core.redact_lengths import rows
from infermaxx_tui.core.redact_session import LENGTHS_CHANGED, SessionRedactor
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.segments import tokenise
from infermaxx_tui.core.transcript import NothingToUseError, Session
from infermaxx_tui.importers import native
from infermaxx_tui.tokenize import resolve
from infermaxx_tui.transcripts_make import make_room, write_lines


def redact_output(files: tuple[Path, ...], out: str, content_free: bool, tokenizer: str) -> Iterator[str]:
    """Writes one new file for each that is given, under a number instead of its name, and gives lines to print.

    All files are read twice: a name that one gives away may stand bare in another. Raises TranscriptError if a file
    cannot be read or written, stands there already or holds no text, TokenizerError if there is no such tokenizer.
    """
    renderer = resolve(tokenizer, None, "", None, None)
    folder = Path(out).expanduser()
    targets = [folder / f"transcript-{number:03}.jsonl" for number in range(1, len(files) + 1)]
    redactor = SessionRedactor(lambda text: len(renderer.encode(text)))
    if not content_free:
        for session in _sessions(files):
            redactor.learn(session)
    make_room(folder, targets)
    seen: set[int] = set()
    salt = secrets.token_bytes(32)
    for file, target in zip(files, targets, strict=True):
        told = _Told()
        sessions = importers.unseen(_with_text(file), seen)
        before = redactor.found.copy()
        lines = _lengths(sessions, renderer, redactor, told, salt) if content_free else _texts(sessions, redactor, told)
        write_lines(target, lines)
        if not told.sessions:
            target.unlink()
            yield f"file {target.stem[-3:]}: nothing that another file does not hold too"
            continue
        taken = redactor.found - before
        what = ", ".join(f"{kind} {count}" for kind, count in sorted(taken.items())) or "nothing found"
        yield f"{target.name}: {told.sessions} session{'s' * (told.sessions != 1)}, " + (
            f"{told.requests} requests as lengths" if content_free else f"{what}; {told.lengths()}"
        )
    yield _CONTENT_FREE if content_free else _WARNING


_WARNING = (
    "Patterns find keys, passwords beside their names, people, hosts and home paths; they cannot know what else is"
    " private. Read what you share, or share --content-free."
)
_CONTENT_FREE = (
    "No text is in these files: lengths, roles, delays, and ids of blocks under a salt that is kept nowhere."
)


class _Told:
    """What went into one file."""

    def __init__(self) -> None:
        self.sessions = self.requests = self.changed = 0

    def take(self, session: Session) -> None:
        """Counts a session."""
        self.sessions += 1
        self.requests += len(session.requests)
        self.changed += dict(session.loss).get(LENGTHS_CHANGED, 0)

    def lengths(self) -> str:
        """Whether the tokens are as many as before."""
        return f"lengths changed in {self.changed} texts" if self.changed else "all lengths kept"


def _sessions(files: tuple[Path, ...]) -> Iterator[Session]:
    for file in files:
        yield from _with_text(file)


def _with_text(file: Path) -> Iterator[Session]:
    for session in importers.stream(file):
        if session.content_free:
            raise NothingToUseError(str(file), None, "holds lengths and no text: there is nothing to redact in it")
        yield session


def _texts(sessions: Iterable[Session], redactor: SessionRedactor, told: _Told) -> Iterator[bytes]:
    for session in sessions:
        done = redactor.session(session)
        told.take(done)
        yield from native.lines(msgspec.structs.replace(done, format=native.FORMAT))


def _lengths(
    sessions: Iterable[Session], renderer: Renderer, redactor: SessionRedactor, told: _Told, salt: bytes
) -> Iterator[bytes]:
    for session in sessions:
        told.take(session)
        name = redactor.session_name(session.id)
        parent = None if session.parent is None else redactor.session_name(session.parent)
        tokens = tokenise(session, renderer, "none")
        yield from rows(session, tokens, name, parent, salt, lambda text: len(renderer.encode(text)))
