"""Fuzzes one target of this folder with atheris: `python tests/fuzz/fuzz.py TARGET SECONDS CORPUS_FOLDER`.

It ends the process, as libFuzzer does: 0 if nothing was found. What was found lies in the folder as `crash-…`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

TIMEOUT_S = 10
"""One input that takes longer is a fault."""
RSS_MIB = 1024

with atheris.instrument_imports(include=["infermaxx_tui.core", "infermaxx_tui.runner.http", "infermaxx_tui.importers"]):
    from targets import TARGETS, seeds

    for warm in sys.argv[1:2]:
        for seed in seeds(warm):
            TARGETS[warm](seed)


def main() -> None:
    """Fuzzes until the time is over or something is found."""
    target, seconds, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (corpus / f"seed-{number}").write_bytes(seed)
    limits = [f"-timeout={TIMEOUT_S}", f"-rss_limit_mb={RSS_MIB}", "-max_len=8192", "-print_final_stats=1"]
    atheris.Setup(
        [sys.argv[0], f"-max_total_time={seconds}", f"-artifact_prefix={folder}/", *limits, str(corpus)],
        TARGETS[target],
    )
    atheris.Fuzz()


main()
