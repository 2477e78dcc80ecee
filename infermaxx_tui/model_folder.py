"""Reads what a checkpoint's folder says of its model: config.json and the heads of its safetensors files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import orjson

from infermaxx_tui.checkpoint import find_checkpoint
from infermaxx_tui.core.model_facts import ModelFacts, Tensor, model_facts

_HEAD_BYTES: Final = 100 << 20
"""The head of a safetensors file is never longer."""


class _Entry(msgspec.Struct):
    data_offsets: tuple[int, int]


def config_of(folder: Path) -> dict[str, object] | str:
    """The parsed config.json, or why there is none."""
    try:
        config: object = orjson.loads((folder / "config.json").read_bytes())
    except OSError as error:
        return f"{folder.name}/config.json: {error.strerror}"
    except orjson.JSONDecodeError as error:
        return f"{folder.name}/config.json: not JSON: {error}"
    return config if isinstance(config, dict) else f"{folder.name}/config.json: holds no object"


def facts_of(folder: Path) -> ModelFacts | str:
    """The facts, or why there are none."""
    config = config_of(folder)
    if isinstance(config, str):
        return config
    files = sorted(folder.glob("*.safetensors"))
    try:
        tensors = tuple(one for file in files for one in _tensors(file)) if files else None
    except (OSError, msgspec.MsgspecError) as error:
        return f"{folder.name}: a safetensors file cannot be read: {error}"
    return model_facts(config, tensors)


def _tensors(file: Path) -> Iterator[Tensor]:
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        head = stream.read(min(length, _HEAD_BYTES))
    entries = msgspec.json.decode(head, type=dict[str, msgspec.Raw])
    for name, raw in entries.items():
        if name != "__metadata__":
            start, end = msgspec.json.decode(raw, type=_Entry).data_offsets
            yield Tensor(name, end - start)


def model_of(launch: Sequence[str]) -> Path | None:
    """The checkpoint's folder that a `vllm serve` command names, if it lies on this machine."""
    return find_checkpoint(model_named(launch))


def model_named(launch: Sequence[str]) -> str | None:
    """The model that a `vllm serve` command names, wherever it is; None if none can be told from its words."""
    words = list(launch)
    named = words[words.index("serve") + 1 : words.index("serve") + 2] if "serve" in words else []
    for place, word in enumerate(words[:-1]):
        if word == "--model":
            named = [words[place + 1]]
    named += [word.removeprefix("--model=") for word in words if word.startswith("--model=")]
    return named[-1] if named and not named[-1].startswith("-") else None
