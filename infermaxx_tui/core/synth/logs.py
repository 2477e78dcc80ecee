"""What commands print: logs, test runs, searches, listings, tracebacks."""

from __future__ import annotations

from collections.abc import Iterator

from infermaxx_tui.core.synth.draw import Draw
from infermaxx_tui.core.synth.prose import clause
from infermaxx_tui.core.synth.words import ADJECTIVES, NOUNS, VERBS, function, hexes, path, snake, title

_LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "INFO", "WARNING", "ERROR")


def service(draw: Draw) -> Iterator[str]:
    """A service's log, in order of time."""
    parts = draw.some(NOUNS, 12)
    millis = draw.between(0, 80_000_000)
    while True:
        millis += draw.between(1, 900)
        seconds, rest = divmod(millis, 1000)
        clock = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"
        pairs = " ".join(f"{draw.pick(NOUNS)}={_measure(draw)}" for _ in range(draw.between(1, 4)))
        level = draw.pick(_LEVELS)
        yield f"2026-03-{1 + seconds // 86400 % 28:02}T{clock}Z {level} [{draw.pick(parts)}] {_event(draw)} {pairs}"


def _event(draw: Draw) -> str:
    return f"{draw.pick(VERBS)} {draw.pick(ADJECTIVES)} {draw.pick(NOUNS)}"


def _measure(draw: Draw) -> str:
    match draw.below(4):
        case 0:
            return f"{draw.between(1, 9999)}ms"
        case 1:
            return hexes(draw, 8)
        case 2:
            return f"{draw.between(0, 99)}.{draw.between(0, 9)}%"
        case _:
            return str(draw.between(0, 65_535))


def tests(draw: Draw) -> Iterator[str]:
    """A run of tests, with the failures told."""
    yield f"collected {draw.between(40, 3000)} items"
    done = 0
    while True:
        for _ in range(draw.between(4, 20)):
            done = min(done + draw.between(0, 2), 100)
            yield f"tests/{draw.pick(NOUNS)}/test_{snake(draw)}.py {'.' * draw.between(2, 30)} [{done:3}%]"
        yield f"____ test_{function(draw)} ____"
        yield from traceback(draw)
        left, right = draw.between(0, 999), draw.between(0, 999)
        yield f"E       assert {left} == {right}"
        yield f"E        +  where {left} = {function(draw)}({title(draw)}({snake(draw)}={draw.between(0, 99)}))"


def traceback(draw: Draw) -> Iterator[str]:
    """One Python traceback."""
    yield "Traceback (most recent call last):"
    for _ in range(draw.between(2, 6)):
        yield f'  File "{path(draw)}", line {draw.between(3, 900)}, in {function(draw)}'
        yield f"    {snake(draw)} = {function(draw)}({snake(draw)}, {snake(draw)}={draw.between(0, 500)})"
    yield f"{title(draw)}Error: {clause(draw)}"


def search(draw: Draw) -> Iterator[str]:
    """Hits of a search."""
    name = snake(draw)
    while True:
        file = path(draw)
        for _ in range(draw.between(1, 5)):
            call = f"{function(draw)}({name}, {snake(draw)})"
            yield f"{file}:{draw.between(1, 1500)}:{' ' * draw.pick((4, 8, 12))}{snake(draw)} = {call}"


def listing(draw: Draw) -> Iterator[str]:
    """Files with sizes."""
    while True:
        size, day = draw.between(40, 99_999), draw.between(1, 28)
        clock = f"{draw.between(0, 23):02}:{draw.between(0, 59):02}"
        yield f"-rw-r--r-- 1 dev dev {size:7} Mar {day:2} {clock} {path(draw)}"


def history(draw: Draw) -> Iterator[str]:
    """Commits, a line each."""
    while True:
        subject = f"{draw.pick(VERBS).capitalize()} the {draw.pick(ADJECTIVES)} {draw.pick(NOUNS)}"
        yield f"{hexes(draw, 9)} {subject}: {clause(draw)}"


def odd(draw: Draw) -> Iterator[str]:
    """A log with what breaks careless readers: control tokens, colours, separators, and characters beyond the plane."""
    for line in service(draw):
        match draw.below(8):
            case 0:
                yield f"\x1b[{draw.between(31, 36)}m{line}\x1b[0m"
            case 1:
                yield f"{line} <|im_end|>\u2028<|im_start|>user {draw.pick(NOUNS)}"
            case 2:
                yield f"{line} {draw.pick('🛰🧭🪢🜚')} na\u0308ive \u202e{draw.pick(NOUNS)}\u202c"
            case 3:
                yield f"{line}\r{draw.between(0, 100)}%\r\n</think><tool_call>{{}}</tool_call>"
            case _:
                yield line
