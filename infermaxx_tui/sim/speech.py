"""What the embedded server says when nobody asks for a tag: short, plausible, varied, and the same each run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import msgspec
import orjson

T = TypeVar("T")

_VERBS = ("read", "compare", "trim", "rename", "split", "measure", "check", "sketch", "rewrite", "trace", "sort")
_NOUNS = (
    "parser", "loader", "cache", "retry loop", "test table", "changelog", "index", "option list", "timer", "queue",
    "fixture", "summary", "error path", "header", "import order", "lock file", "docstring", "fallback", "batch",
)  # fmt: skip
_PLACES = (
    "src/app.py", "lib/io.c", "docs/usage.md", "tests/test_core.py", "pkg/queue.go", "Makefile", "conf/site.toml",
    "web/main.ts", "bin/sync.sh", "src/naïve.rs", "notes/café.txt", "tools/gen.py", "data/rows.csv", "README.md",
)  # fmt: skip
_FINDINGS = (
    "two cases are missing", "one name is wrong", "the order matters", "nothing else uses it", "it runs twice",
    "the limit is off by one", "it holds a stale value", "the type is too wide", "the test still passes",
    "three callers depend on it", "it never closes the file", "the default hides the error",
)  # fmt: skip
_SENTENCES = (
    "I {verb} the {noun} in {place} first — {finding}.",
    "In {place} the {noun} shows that {finding}.",
    "Next I will {verb} the {noun}, since {finding}.",
    "The {noun} looks sound, but in {place} {finding}.",
    "Before I {verb} the {noun} I want to see {place}.",
    "So far {finding}; the {noun} comes after that.",
    "My plan: {verb} the {noun}, then look at {place} again.",
    "That explains the {noun}: {finding}.",
    "It is enough to {verb} the {noun} there → {place} stays as it is.",
    "I would leave the {noun} alone unless {finding}.",
)
_TOOLS = ("read_file", "list_files", "run_tests", "search")


class Spoken(msgspec.Struct, frozen=True):
    """A reply in its three channels, before it becomes tokens."""

    content: str = ""
    reasoning: str = ""
    tool: str = ""
    """JSON text of a call, name and arguments; empty for none."""


class Dice:
    """Choices that follow from a seed alone, the same on each Python."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._throws = 0

    def roll(self, sides: int) -> int:
        """A number from 0 to `sides` - 1."""
        self._throws += 1
        digest = hashlib.blake2b(self._throws.to_bytes(4, "big"), key=self._seed[:64], digest_size=4).digest()
        return int.from_bytes(digest, "big") % sides

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[self.roll(len(choices))]


def sentences(dice: Dice, count: int) -> str:
    """So many sentences, no two of the same build among ten."""
    builds = list(_SENTENCES)
    said = []
    for _ in range(count):
        builds = builds or list(_SENTENCES)
        build = builds.pop(dice.roll(len(builds)))
        said.append(
            build.format(
                verb=dice.pick(_VERBS), noun=dice.pick(_NOUNS), place=dice.pick(_PLACES), finding=dice.pick(_FINDINGS)
            )
        )
    return " ".join(said)


def turn(dice: Dice, may_call: bool) -> Spoken:
    """A main-line reply: one to three sentences, sometimes after thinking, sometimes with a call."""
    kind = dice.roll(8)
    reasoning = sentences(dice, 1) if kind in (1, 4) else ""
    tool = ""
    if may_call and kind in (2, 3, 4):
        arguments = {"path": dice.pick(_PLACES), "limit": 20 + dice.roll(200)}
        tool = orjson.dumps({"name": dice.pick(_TOOLS), "arguments": arguments}).decode()
        tool = tool.replace('":', '": ').replace(',"', ', "')
    return Spoken(sentences(dice, 1 + dice.roll(2) if reasoning or tool else 2), reasoning, tool)


def recalled(label: str, tag: str) -> str:
    """The answer to a recall question."""
    return f"The lot tag for the {label} is {tag}."


def answered(dice: Dice, answer: str) -> Spoken:
    """The answer to a task, after a thought half of the time."""
    return Spoken(f"Answer: {answer}", sentences(dice, 1) if dice.roll(2) else "")


def not_given(label: str) -> str:
    """The answer to a question for a label that the prompt does not hold."""
    return f"I was not given a lot tag for the {label}."


def declined(label: str) -> str:
    """A refusal."""
    return f"I'm sorry, but I can't share the lot tag for the {label}. That is confidential."
