"""`infermaxx transcripts make`: synthetic sessions on disk, and how they compare with real ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.segments import tokenise
from infermaxx_tui.core.synth import check
from infermaxx_tui.core.synth.compose import Composer
from infermaxx_tui.core.synth.presets import PRESETS, Preset
from infermaxx_tui.core.synth.shapes import shapes
from infermaxx_tui.core.transcript import Session, TranscriptError
from infermaxx_tui.importers import native
from infermaxx_tui.private import make_folder, new_file
from infermaxx_tui.tokenize import resolve

_REPEATS_OF = 8
"""In how many sessions the largest repeat is looked for: it takes the square of a session's length."""


def make_output(preset: str, sessions: int, seed: int, out: str, tokenizer: str) -> Iterator[str]:
    """Writes one new file for each session, its subagents in it, and gives lines to print: files, then the check.

    Raises TranscriptError if a file cannot be written or is there already, TokenizerError without such a tokenizer.
    """
    chosen = PRESETS[preset]
    renderer = resolve(tokenizer, None, "", None, None)
    folder = Path(out).expanduser()
    targets = [folder / f"{preset}-{seed}-{number + 1:03}.jsonl" for number in range(sessions)]
    make_room(folder, targets)
    composer = Composer(chosen, seed, renderer)
    made: list[check.Made] = []
    repeats: list[float] = []
    for number, shape in enumerate(shapes(chosen, sessions, seed)):
        family = composer.sessions(shape, number)
        write_lines(targets[number], (line for session in family for line in native.lines(session)))
        made += _measured(family, renderer)
        if number < _REPEATS_OF:
            text = check.session_text(family[0])
            repeats.append(100 * check.largest_repeat(text) / len(text))
        yield harmless(f"{targets[number].name}: {_told(family, made[-len(family)])}")
    yield from _check_lines(chosen, made, max(repeats), renderer.name, tokenizer)


def make_room(folder: Path, targets: list[Path]) -> None:
    """Makes the folder. Raises TranscriptError if that cannot be done or one of the files is there already."""
    taken = next((target for target in targets if target.exists()), None)
    if taken is not None:
        raise TranscriptError(str(taken), None, "is there already, and nothing is overwritten: give another --out")
    try:
        make_folder(folder)
    except OSError as error:
        raise TranscriptError(str(folder), None, f"cannot be made: {error.strerror or error}") from None


def write_lines(target: Path, lines: Iterable[bytes]) -> None:
    """Writes a new file, whole or not at all. Raises TranscriptError if the disk does not take it."""
    done = False
    try:
        file = new_file(target)
    except OSError as error:
        raise TranscriptError(str(target), None, f"cannot be written: {error.strerror or error}") from None
    try:
        with file:
            file.writelines(lines)
        done = True
    except OSError as error:
        raise TranscriptError(str(target), None, f"cannot be written: {error.strerror or error}") from None
    finally:
        if not done:
            target.unlink(missing_ok=True)


def _measured(family: tuple[Session, ...], renderer: Renderer) -> list[check.Made]:
    return [
        check.made(session, tokenise(session, renderer, "none"), 0 if session.parent else len(family) - 1)
        for session in family
    ]


def _told(family: tuple[Session, ...], parent: check.Made) -> str:
    windows = len(family[0].windows)
    more = f", {windows} windows" if windows > 1 else ""
    helpers = f", {len(family) - 1} subagents" if len(family) > 1 else ""
    return f"{len(parent.asked)} requests, peak {parent.peak:,} tokens{more}{helpers}"


def _check_lines(preset: Preset, made: list[check.Made], repeat: float, name: str, choice: str) -> Iterator[str]:
    exact = "" if choice != "shipped" else " (not the model's: counts are not exact)"
    yield ""
    yield harmless(f"{preset.name}: {preset.about}")
    yield harmless(f"tokenizer {name}{exact}")
    yield from check.table(check.rows(made, preset.targets))
    yield f"largest block that stands twice in one session: {repeat:.1f} % of its text"
