"""Makes infermaxx_tui/data/tokenizer.json from the sample transcripts: the shipped vocabulary can be made again.

Run it as `python tests/tools/train_vocabulary.py transcripts` (a folder of OpenAI chat or Claude Code JSONL). With
`--python-sources` it reads the installed Python sources and markdown too, for when there are few transcripts yet.
"""

from __future__ import annotations

import argparse
import json
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from infermaxx_tui.vocabulary import SPECIAL_TOKENS  # noqa: E402

VOCABULARY = 2400
"""Entries in all: so few that the texts it learned from cost about 3.4 characters a token, as unseen text does."""
_MAX_FILE_CHARS = 60_000
_MAX_SOURCES = 400


def strings(value: object) -> Iterator[str]:
    """Every string inside a JSON value; one that is JSON itself is opened too, as it is when it is rendered."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from strings(item)
        case dict():
            for item in value.values():
                yield from strings(item)
        case _:
            return


def transcript_texts(folder: Path) -> Iterator[str]:
    """All texts of all transcripts in `folder`, in the order of the file names."""
    for path in sorted(folder.glob("**/*.jsonl")):
        for line in path.read_text("utf-8-sig", errors="replace").splitlines():
            try:
                yield from strings(json.loads(line))
            except json.JSONDecodeError:
                continue


def source_texts() -> Iterator[str]:
    """A spread of Python sources and markdown that are installed with this interpreter."""
    paths = sysconfig.get_paths()
    found = [*Path(paths["stdlib"]).glob("*.py"), *Path(paths["purelib"]).glob("**/*.md")]
    for path in sorted(found)[:_MAX_SOURCES]:
        yield path.read_text("utf-8", errors="replace")[:_MAX_FILE_CHARS]


def train(texts: Iterator[str], size: int = VOCABULARY) -> Tokenizer:
    """A byte-level BPE over the texts; every valid Unicode text round-trips through it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS],
        max_token_length=24,
    )
    tokenizer.train_from_iterator((text for text in texts if text), trainer)
    return tokenizer


def main(argv: list[str]) -> int:
    """Writes the vocabulary; exit 2 if there is nothing to learn from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("transcripts", type=Path, nargs="?", default=ROOT / "transcripts")
    parser.add_argument("--python-sources", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "infermaxx_tui" / "data" / "tokenizer.json")
    args = parser.parse_args(argv)
    texts = list(transcript_texts(args.transcripts))
    if args.python_sources:
        texts += source_texts()
    if not texts:
        sys.stderr.write(f"{args.transcripts}: no texts in *.jsonl; give a folder of transcripts or --python-sources\n")
        return 2
    tokenizer = train(iter(texts))
    compact = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
    args.out.write_text(compact + "\n", "utf-8")
    sys.stderr.write(f"{args.out}: {tokenizer.get_vocab_size()} entries, {args.out.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
