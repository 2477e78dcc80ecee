"""How tags are spoken of: one wording for planting, asking and recognising, so that none of them drifts apart."""

from __future__ import annotations

import re

_TAG = r"[ACDEFGHJKMNPQRTUVWXY34679]{4}-[ACDEFGHJKMNPQRTUVWXY34679]{4}"
STATEMENT = re.compile(rf"lot tag for the ([a-z]+ [a-z]+) is ({_TAG})")
"""What a planted statement looks like in a prompt: label and tag."""
QUESTION = re.compile(r"What is the lot tag for the ([a-z]+ [a-z]+)\?")
"""What a recall question looks like: the label."""


def tag_statement(label: str, tag: str) -> str:
    """How a person states a tag in the conversation."""
    return f"For the record: the lot tag for the {label} is {tag}. Please repeat it so that I know you have it."


def tag_repeat(label: str, tag: str) -> str:
    """How the assistant repeats a tag that it was told."""
    return f"Understood. The lot tag for the {label} is {tag}."


def tag_line(label: str, tag: str) -> str:
    """How a tag stands inside a tool result or a system prompt."""
    return f"note: lot tag for the {label} is {tag}"


def recall_question(label: str) -> str:
    """How a tag is asked for; the question never holds the answer."""
    return f"What is the lot tag for the {label}?"
