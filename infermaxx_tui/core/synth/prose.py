"""Sentences in plain English: what people ask, what an agent thinks and says, what a document explains."""

from __future__ import annotations

from collections.abc import Iterator

from infermaxx_tui.core.synth.draw import Draw
from infermaxx_tui.core.synth.words import ADJECTIVES, ADVERBS, NOUNS, VERBS, function, path, snake

_OPENINGS = (
    "After that", "As far as I can see", "At first sight", "Before the change", "By default", "For each {noun}",
    "From the log", "If the {noun} is {adjective}", "In the {adjective} case", "In short", "It seems",
    "Looking at `{function}`", "Once the {noun} is {adjective}", "On the second run", "Since the last {noun}",
    "So far",
    "Strangely", "In other words", "To be sure", "Under load", "Until then", "What remains",
    "When two {noun}s meet", "While the {noun} waits", "With a {adjective} {noun}", "Without the {noun}",
)  # fmt: skip
_CORES = (
    "the {adjective} {noun} must {verb} its {noun} before the {noun} is {adjective}",
    "`{function}` should {verb} the {noun}, not the {adjective} {noun}",
    "nobody has to {verb} a {noun} that is {adverb} {adjective}",
    "the {noun} of the {adjective} {noun} is {adverb} wrong by {number}",
    "we {adverb} {verb} {number} {noun}s and {verb} the {adjective} ones",
    "`{file}` line {number} does not {verb} the {noun}",
    "a {noun} can {verb} while another {noun} is {adverb} {adjective}",
    "I will {verb} `{name}` and {verb} the {adjective} {noun} again",
    "the {noun} in `{file}` and the one in `{file}` {adverb} {verb} the same {noun}",
    "{number} of {number} {noun}s are {adjective}, the {noun} is {adverb} {adjective}",
    "each {noun} may {verb} at most {number} {noun}s per {noun}",
    "the {adjective} path through `{function}` leaves the {noun} {adjective}",
    "there is no {noun} for a {adjective} {noun} in `{name}`",
    "to {verb} the {noun} {adverb} costs {number} ms and one {adjective} {noun}",
    "that the {noun} is {adjective} does not {verb} the {noun}, it {adverb} hides it",
)
_JOINTS = (", because", ", so", " and", ", but", "; then", ", which shows that", ", although", " as long as")
_ASKS = (
    "Please {verb} the {noun} in `{file}`: {core}.",
    "Why does `{function}` {verb} the {adjective} {noun}? {core}.",
    "Can you {verb} `{name}` so that {core}?",
    "The {noun} is {adjective} again. Find out why before you {verb} anything.",
    "Next: {verb} the {adjective} {noun}s, with a test for the {adjective} case.",
    "That is not what I meant: {core}. Keep the {noun} as it is.",
    "Good. Now {verb} `{file}` too, and tell me whether {core}.",
)


def filled(draw: Draw, pattern: str) -> str:
    """A pattern with its words put in."""
    parts = pattern.split("{")
    out = [parts[0]]
    for part in parts[1:]:
        kind, rest = part.split("}", 1)
        out.append(_word(draw, kind) + rest)
    return "".join(out)


def _word(draw: Draw, kind: str) -> str:
    match kind:
        case "noun":
            return draw.pick(NOUNS)
        case "verb":
            return draw.pick(VERBS)
        case "adjective":
            return draw.pick(ADJECTIVES)
        case "adverb":
            return draw.pick(ADVERBS)
        case "number":
            return str(draw.between(2, 4000))
        case "function":
            return function(draw)
        case "name":
            return snake(draw)
        case "file":
            return path(draw)
        case _:
            return filled(draw, draw.pick(_CORES))


def clause(draw: Draw) -> str:
    """Half a sentence, without a capital and a full stop."""
    return filled(draw, draw.pick(_CORES))


def sentence(draw: Draw) -> str:
    """A whole sentence."""
    text = clause(draw)
    if draw.chance(0.5):
        text = f"{filled(draw, draw.pick(_OPENINGS))}, {text}"
    if draw.chance(0.4):
        text = f"{text}{draw.pick(_JOINTS)} {clause(draw)}"
    return f"{text[0].upper()}{text[1:]}."


def sentences(draw: Draw) -> Iterator[str]:
    """Paragraphs of a few sentences, a sentence a line."""
    while True:
        for _ in range(draw.between(2, 6)):
            yield sentence(draw)
        yield ""


def document(draw: Draw) -> Iterator[str]:
    """A document with headings, rules and lists."""
    while True:
        yield f"## {draw.pick(VERBS).capitalize()} the {draw.pick(ADJECTIVES)} {draw.pick(NOUNS)}"
        yield ""
        for _ in range(draw.between(1, 3)):
            yield sentence(draw)
        yield ""
        for _ in range(draw.between(2, 7)):
            yield f"- {sentence(draw)}"
        yield ""


def asking(draw: Draw) -> Iterator[str]:
    """What a person asks, then what else there is to say."""
    yield filled(draw, draw.pick(_ASKS))
    while True:
        yield sentence(draw)


def saying(draw: Draw) -> Iterator[str]:
    """What an agent says when it is done: sentences, then a list of what was changed."""
    for _ in range(draw.between(1, 4)):
        yield sentence(draw)
    while True:
        yield f"- `{path(draw)}`: {clause(draw)}"
        if draw.chance(0.2):
            yield ""
            yield sentence(draw)
