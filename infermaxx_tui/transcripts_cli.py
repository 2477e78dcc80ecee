"""`infermaxx transcripts`: what is in recorded sessions, before anything is sent anywhere."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from infermaxx_tui import importers, shipped
from infermaxx_tui.core.capacity import Measured, TokenizerName, describe, stats_lines
from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.kv_layers import ConfigError, layers_of
from infermaxx_tui.core.kv_pool import cost
from infermaxx_tui.core.kv_report import TOKENS_ONLY, KvAsked
from infermaxx_tui.core.overlap import RATES, Rates
from infermaxx_tui.core.prefix_report import NO_TRUTH, PrefixAsked, PrefixReport
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.transcript import NothingToUseError, Session, TranscriptError
from infermaxx_tui.flags import UsageError
from infermaxx_tui.idcache import tokenise_cached
from infermaxx_tui.importers import native
from infermaxx_tui.importers.cline import HISTORY
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.private import make_folder, new_file
from infermaxx_tui.tokenize import resolve


def output(args: argparse.Namespace) -> Iterable[str]:
    """What the verb's actions print, line by line. Raises TranscriptError or TokenizerError."""
    match args.action:
        case "import":
            return import_output(tuple(args.paths), args.out)
        case "make":
            from infermaxx_tui.transcripts_make import make_output

            return make_output(args.preset, args.sessions, args.seed, args.out, args.tokenizer)
        case "redact":
            from infermaxx_tui.transcripts_redact import redact_output

            files = tuple(dict.fromkeys(file for path in args.paths for file in _files(path)[0]))
            return redact_output(files, args.out, args.content_free, args.tokenizer)
        case _:
            prefix = PrefixAsked(args.prefix, args.prefill)
            return stats_output(
                tuple(args.paths), args.tokenizer, args.pool, args.json, _asked(args), args.seed, prefix, _rates(args)
            )


def _rates(args: argparse.Namespace) -> Rates:
    """The server's speeds, as far as they are given."""
    return Rates(args.prefill or RATES.prefill_tokens_per_s, args.decode or RATES.decode_tokens_per_s)


def _asked(args: argparse.Namespace) -> KvAsked:
    """What the flags say of the server. Raises UsageError."""
    if args.model_config is None:
        needing = [name for name in ("kv_memory", "max_model_len", "mtp") if getattr(args, name)]
        if args.kv_dtype != "auto":
            needing.append("kv_dtype")
        if needing:
            raise UsageError(f"infermaxx transcripts stats: --{needing[0].replace('_', '-')} needs --model-config FILE")
    elif args.pool is None and args.kv_memory is None:
        raise UsageError("infermaxx transcripts stats: --model-config needs --kv-memory GIB, or --pool N")
    elif args.pool is not None and args.kv_memory is not None:
        raise UsageError("infermaxx transcripts stats: --pool and --kv-memory say the same: give one")
    return KvAsked(
        config=None if args.model_config is None else _config(args.model_config, args.kv_dtype),
        dtype=args.kv_dtype,
        memory_gib=args.kv_memory,
        max_model_len=args.max_model_len,
        block_size=args.block_size,
        mtp=args.mtp,
    )


def _config(name: str, dtype: str) -> dict[str, object]:
    """A parsed config.json, also that of a model's folder. Raises UsageError."""
    file = Path(name).expanduser()
    file = file / "config.json" if file.is_dir() else file
    try:
        raw = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise UsageError(f"--model-config {name}: {error.strerror or error}") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"--model-config {name}: not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise UsageError(f"--model-config {name}: not the config.json of a model")
    try:
        cost(layers_of(raw), dtype)
    except ConfigError as error:
        raise UsageError(f"--model-config {name}: {error}") from None
    return raw


def stats_output(
    paths: tuple[str, ...],
    tokenizer: str,
    pool: int | None,
    as_json: bool,
    asked: KvAsked = TOKENS_ONLY,
    seed: int = 1,
    prefix: PrefixAsked = NO_TRUTH,
    rates: Rates = RATES,
) -> tuple[str, ...]:
    """Lines to print. Raises TranscriptError or TokenizerError."""
    left_out: list[Path] = []
    sessions = _sessions(paths, left_out)
    renderer = resolve(tokenizer, None, "", None, None)
    name = TokenizerName(renderer.name, exact=tokenizer != "shipped")
    report = PrefixReport(renderer, prefix)
    stats = describe(
        report.watched(sessions), lambda session: measured(session, renderer), name, pool, asked, seed, rates
    )
    if not stats.sessions:
        raise _nothing(paths[0])
    if as_json:
        whole = {**msgspec.to_builtins(stats), "prefix": msgspec.to_builtins(report.json())}
        return (msgspec.json.encode(whole).decode(),)
    said = report.lines()
    return (*stats_lines(stats), *_left_out_line(len(left_out)), *(("", *said) if said else ()))


def _sessions(paths: tuple[str, ...], left_out: list[Path]) -> Iterator[Session]:
    """The sessions of all paths, one after another; takes in which files of folders hold none."""
    seen: set[int] = set()
    for path in paths:
        files, given = _files(path)
        for file in files:
            try:
                yield from importers.unseen(importers.stream(file), seen)
            except NothingToUseError:
                if given:
                    raise
                left_out.append(file)


def import_output(paths: tuple[str, ...], out: str) -> tuple[str, ...]:
    """Writes what the paths hold as OpenAI chat JSONL, one new file for each of theirs, and returns lines to print.

    Raises TranscriptError if a file cannot be read or written, if it stands there already, or if it holds no text.
    """
    folder = Path(out).expanduser()
    sources: dict[Path, bool] = {}
    for path in paths:
        files, given = _files(path)
        sources.update({file: given or sources.get(file, False) for file in files})
    targets = _targets(tuple(sources), folder)
    taken = next((target for target in targets.values() if target.exists()), None)
    if taken is not None:
        raise TranscriptError(str(taken), None, "is there already, and nothing is overwritten: give another --out")
    try:
        make_folder(folder)
    except OSError as error:
        raise TranscriptError(out, None, f"cannot be made: {error.strerror or error}") from None
    seen: set[int] = set()
    lines: list[str] = []
    left_out = 0
    for file, target in targets.items():
        try:
            lines.append(_convert(file, target, seen))
        except NothingToUseError:
            if sources[file]:
                raise
            left_out += 1
    if not lines:
        raise _nothing(paths[0])
    return (*lines, *_left_out_line(left_out))


def _nothing(path: str) -> TranscriptError:
    return TranscriptError(path, None, f"no transcript in this folder: give {importers.KNOWN}")


def _left_out_line(count: int) -> tuple[str, ...]:
    files = "1 file" if count == 1 else f"{count} files"
    return (f"left out: {files} of no known format, or without anything to use in it",) if count else ()


def _targets(files: tuple[Path, ...], folder: Path) -> dict[Path, Path]:
    """Where each file goes: under its own name, under its folder's where that says more, told apart by numbers."""
    out: dict[Path, Path] = {}
    used: set[str] = set()
    for file in files:
        own = file.resolve()
        name = base = own.parent.name if own.name == HISTORY and own.parent.name else stem(own)
        number = 1
        while name in used:
            number += 1
            name = f"{base}-{number}"
        used.add(name)
        out[file] = folder / f"{name}.jsonl"
    return out


def _convert(file: Path, target: Path, seen: set[int]) -> str:
    """Writes one file's sessions, whole or not at all, and says what was written."""
    count = requests = 0
    loss: Counter[str] = Counter()
    done = False
    try:
        written = new_file(target)
    except OSError as error:
        raise TranscriptError(str(target), None, f"cannot be written: {error.strerror or error}") from None
    try:
        with written:
            for session in importers.unseen(importers.stream(file), seen):
                if session.content_free:
                    raise NothingToUseError(str(file), None, "holds lengths and no text, so there is no chat to write")
                written.writelines(native.lines(session))
                count, requests = count + 1, requests + len(session.requests)
                loss.update(dict(session.loss))
        done = count > 0
    except OSError as error:
        raise TranscriptError(str(target), None, f"cannot be written: {error.strerror or error}") from None
    finally:
        if not done:
            target.unlink(missing_ok=True)
    if not count:
        return harmless(f"{file.name}: nothing that another file does not hold too")
    lost = ", ".join(f"{name} {number}" for name, number in sorted(loss.items())) or "nothing lost"
    return harmless(f"{target.name}: {count} session{'s' * (count != 1)}, {requests} requests; {lost}")


def _files(path: str) -> tuple[tuple[Path, ...], bool]:
    """The files that a path means: itself, a folder's transcripts, or a shipped transcript's bare name; and whether it
    names them itself."""
    found = Path(path).expanduser()
    if found.is_dir():
        inside = importers.recordings(found)
        if not inside:
            raise _nothing(path)
        return inside, inside == (found,)
    if not found.exists() and "/" not in path:
        bare = shipped.shipped_root() / "transcripts" / (path if path.endswith(".jsonl") else f"{path}.jsonl")
        if bare.is_file():
            return (bare,), True
    return (found,), True


def measured(session: Session, renderer: Renderer) -> Measured:
    """The sizes of a session's requests by this tokenizer."""
    tokenised = tokenise_cached(session, renderer, truth="none")
    replies = tuple(len(request.reply_ids) for request in tokenised.requests)
    prompts = (request.prompt_tokens for request in tokenised.requests)
    return Measured(tuple(map(sum, zip(prompts, replies, strict=True))), replies)
