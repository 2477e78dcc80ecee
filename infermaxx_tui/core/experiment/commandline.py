"""The flags of a server's command, one name each however they are spelled.

vLLM takes `--kv_cache_dtype x`, `--kv-cache-dtype=x`, `-tp 2` and `--no-enforce-eager`. Who tells arms apart by the
letters of a command takes one lever for two, or two for one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

Setting = str | int | float | bool
ON: Final = "on"
"""The text of a flag without a value."""
_NEGATED: Final = "no"
"""The text of a flag that stands there as `--no-…`."""
_NUMBER: Final = re.compile(r"-\d+(\.\d*)?|-\.\d+", re.ASCII)
FLAG_NAME: Final = re.compile(r"-{0,2}[A-Za-z][\w-]*(\.[\w.-]+)?", re.ASCII)
"""How an experiment may name a flag."""
_SHORT: Final = {
    "-ac": "--attention-config",
    "-cc": "--compilation-config",
    "-dc": "--diffusion-config",
    "-dcp": "--decode-context-parallel-size",
    "-dp": "--data-parallel-size",
    "-dpl": "--data-parallel-size-local",
    "-ep": "--enable-expert-parallel",
    "-O": "--optimization-level",
    "-pcp": "--prefill-context-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-q": "--quantization",
    "-sc": "--speculative-config",
    "-tp": "--tensor-parallel-size",
}
"""Short names of vLLM 0.32 that stand for what is measured."""


def is_flag(word: str) -> bool:
    """Whether a word of a command names a flag; a negative number does not."""
    return word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word)


def written(name: str) -> str:
    """The flag of that name as a command has it; what stands behind a dot is a key of JSON, and stays as it is."""
    head, dot, keys = name.partition(".")
    if not head.startswith("-"):
        head = f"--{head}"
    head = _SHORT.get(head, head)
    return (head.replace("_", "-") if head.startswith("--") else head) + dot + keys


def lever_of(name: str) -> str:
    """The one name of a flag: without a negation, and without the keys behind a dot."""
    head = written(name).partition(".")[0]
    return f"--{head.removeprefix('--no-')}" if head.startswith("--no-") else head


def given_flags(words: Sequence[str]) -> dict[str, str]:
    """What a command gives, as text by the names of `lever_of`; of two the last one counts, as for vLLM."""
    found: dict[str, str] = {}
    keyed: dict[str, dict[str, str]] = {}
    for name, values in _pairs(words):
        value = " ".join(values)
        lever, keys = lever_of(name), written(name).partition(".")[2]
        if keys:
            keyed.setdefault(lever, {})[keys] = value
        else:
            found[lever] = _NEGATED if written(name).startswith("--no-") else value or ON
    for lever, parts in keyed.items():
        whole: dict[str, object] = _object(found.get(lever, "")) or {}
        for keys, value in parts.items():
            _put(whole, keys.split("."), value)
        found[lever] = json.dumps(whole)
    return found


def option(words: Sequence[str], name: str) -> str | None:
    """The value of a flag in whatever spelling, without words that stand behind it; None where it has none."""
    lever = lever_of(name)
    found = None
    for there, values in _pairs(words):
        if lever_of(there) != lever:
            continue
        if "." in there:
            return given_flags(words)[lever]
        found = values[0] if values and not written(there).startswith("--no-") else None
    return found


def _pairs(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Name and values of each flag, in order."""
    pairs: list[tuple[str, list[str]]] = []
    for word in words:
        if is_flag(word):
            name, equals, value = word.partition("=")
            if name.startswith("-O") and len(name) > 2 and not name.startswith("--"):
                name, value = "-O", name[2:]
            pairs.append((name, [value] if equals or value else []))
        elif pairs:
            pairs[-1][1].append(word)
    return pairs


def _put(whole: dict[str, object], keys: Sequence[str], value: str) -> None:
    for key in keys[:-1]:
        inner = whole.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        whole = inner
    try:
        whole[keys[-1]] = json.loads(value)
    except ValueError:
        whole[keys[-1]] = value


def _object(text: str) -> dict[str, object] | None:
    """The JSON object that this is; None if it is none."""
    try:
        whole: object = json.loads(text)
    except ValueError:
        return None
    return whole if isinstance(whole, dict) else None


def same_value(left: str | None, right: str | None) -> bool:
    """Whether two texts mean the same: JSON in whatever order, numbers however they are written."""
    return left == right or (left is not None and right is not None and _meant(left) == _meant(right))


def _meant(text: str) -> object:
    if (whole := _object(text)) is not None:
        return json.dumps(whole, sort_keys=True)
    try:
        return float(text) if text.strip().lower() not in ("nan", "inf", "infinity") else text
    except ValueError:
        return text


def moved_keys(left: str | None, right: str | None) -> tuple[str, ...]:
    """Keys in which two JSON objects differ; empty where one of the two is none, which is a flag moved as a whole."""
    a, b = _object(left or ""), _object(right or "")
    if a is None or b is None:
        return ()
    return tuple(sorted(key for key in {*a, *b} if a.get(key) != b.get(key)))


def key_text(value: str, key: str) -> str | None:
    """What a JSON object holds under a key, as text; None if it holds nothing there."""
    whole = _object(value) or {}
    held = whole.get(key)
    return held if held is None or isinstance(held, str) else json.dumps(held)


def command(launch: Sequence[str], flags: Mapping[str, Setting]) -> tuple[str, ...]:
    """The command with these flags; one that stands in `launch` already is taken out there first, with its value.

    `model` of a `vllm serve` command is the word behind `serve`, since that takes no `--model`.
    """
    words = list(launch)
    model = next((value for name, value in flags.items() if lever_of(name) == "--model"), None)
    if "serve" in words and isinstance(model, str):
        flags = {name: value for name, value in flags.items() if lever_of(name) != "--model"}
        at = words.index("serve") + 1
        named = at < len(words) and not words[at].startswith("-")
        words[at : at + named] = [model]
    for name in flags:
        words = _without(words, name)
    for name, value in flags.items():
        match value:
            case False:
                continue
            case True:
                words.append(written(name))
            case _:
                words += [written(name), str(value)]
    return tuple(words)


def _without(words: Sequence[str], name: str) -> list[str]:
    """Without that flag in any of its spellings; one of JSON goes with all of its keys, a key goes alone."""
    kept: list[str] = []
    skip = False
    for word in words:
        if is_flag(word):
            there = word.partition("=")[0]
            same = written(there) == written(name) if "." in name else lever_of(there) == lever_of(name)
            skip = same and "=" not in word
            if not same:
                kept.append(word)
        elif skip:
            skip = False
        else:
            kept.append(word)
    return kept
