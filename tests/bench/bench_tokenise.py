"""How fast we tokenise beside the bare tokenizer of the same vocabulary, in one run: the target is 80 % of its speed.

    python tests/bench/bench_tokenise.py [DIRECTORY ...]

DIRECTORY is a tokenizer's, such as SmolLM2's or one that tests/tools/qwen_vocabulary.py made; the shipped vocabulary is
always measured. Both tokenise the same, in turns, and the best of ROUNDS counts for each: in CPU seconds, so that what
else runs on the machine does not. `texts` are the messages of the shipped transcripts one by one, which the target is
for; `sessions` are whole conversations with their templates, beside the bare tokenizer on their words alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.segments import tokenise
from infermaxx_tui.core.transcript import Session
from infermaxx_tui.importers import load_all
from infermaxx_tui.shipped import shipped_root
from infermaxx_tui.tokenize import resolve

ROUNDS = 3
TARGET = 0.8


def texts_of(session: Session) -> Iterator[str]:
    """All that anybody said in a session."""
    for request in session.requests:
        for message in (*request.delta, request.reply):
            yield message.content
            yield message.reasoning
            yield from (call.arguments for call in message.tool_calls)


def best(works: Sequence[Callable[[], int]]) -> list[tuple[float, int]]:
    """CPU seconds and tokens of each, the best of ROUNDS, in turns so that nobody has the quieter machine."""
    times = [float("inf")] * len(works)
    counts = [0] * len(works)
    for _ in range(ROUNDS):
        for place, work in enumerate(works):
            begin = time.process_time()
            counts[place] = work()
            times[place] = min(times[place], time.process_time() - begin)
    return list(zip(times, counts, strict=True))


def ratios(renderer: Renderer, bare: Tokenizer, sessions: Sequence[Session]) -> Iterator[tuple[str, float, str]]:
    """What was measured, our speed as a share of the bare tokenizer's, and both in tokens a second."""
    texts = [text for session in sessions for text in texts_of(session) if text]
    whole = ["\n".join(filter(None, texts_of(session))) for session in sessions]

    def plainly(some: Sequence[str]) -> Callable[[], int]:
        return lambda: sum(len(bare.encode(text, add_special_tokens=False).ids) for text in some)

    cases: list[tuple[str, Callable[[], int], Callable[[], int]]] = [
        ("texts", plainly(texts), lambda: sum(len(renderer.encode(text)) for text in texts)),
        ("sessions", plainly(whole), lambda: sum(_ids(session, renderer) for session in sessions)),
    ]
    for name, theirs, ours in cases:
        (bare_s, bare_n), (our_s, our_n) = best((theirs, ours))
        yield name, (our_n / our_s) / (bare_n / bare_s), f"{our_n / our_s:,.0f} of {bare_n / bare_s:,.0f} tokens/s"


def _ids(session: Session, renderer: Renderer) -> int:
    done = tokenise(session, renderer, "none")
    return sum(len(request.delta_ids) + len(request.reply_ids) for request in done.requests)


def main(folders: Sequence[str]) -> int:
    """Prints a line for each vocabulary and case; 1 if one is below the target."""
    sessions = load_all(sorted((shipped_root() / "transcripts").glob("*.jsonl")))
    data = Path(__file__).parent.parent.parent / "infermaxx_tui" / "data" / "tokenizer.json"
    slow = 0
    for choice, file in (("shipped", data), *((folder, Path(folder) / "tokenizer.json") for folder in folders)):
        renderer = resolve(choice, None, "", None, None)
        for name, ratio, speeds in ratios(renderer, Tokenizer.from_file(str(file)), sessions):
            slow += name == "texts" and ratio < TARGET
            print(f"{renderer.name:12} {name:9} {ratio:6.2f} of the bare tokenizer's speed  ({speeds})")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
