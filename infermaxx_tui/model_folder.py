"""Reads what a checkpoint's folder says of its model: config.json and the heads of its safetensors files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from infermaxx_tui.checkpoint import find_checkpoint
from infermaxx_tui.core.model_facts import ModelFacts, Tensor, model_facts

_HEAD_BYTES: Final = 100 << 20
"""The head of a safetensors file is never longer."""


_INDEX: Final = "model.safetensors.index.json"
_PART: Final = re.compile(r"(.+)-\d+-of-(\d+)\.safetensors", re.ASCII)


class _Entry(msgspec.Struct):
    data_offsets: tuple[int, int]
    dtype: str = ""


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


class _NotWholeError(Exception):
    """Why the bytes of a checkpoint cannot be summed."""


def config_of(folder: Path) -> dict[str, object] | str:
    """The parsed config.json, with what ModelOpt writes beside it, or why there is none."""
    config = _json(folder / "config.json")
    if isinstance(config, str):
        return config
    beside = _json(folder / "hf_quant_config.json")
    quant = None if isinstance(beside, str) else beside.get("quantization")
    if isinstance(quant, dict) and not config.get("quantization_config"):
        return {**config, "quantization_config": {"quant_method": "modelopt", **quant}}
    return config


def _json(path: Path) -> dict[str, object] | str:
    """An object, or why there is none; Infinity and NaN stand in files of some models, though JSON has none."""
    name = f"{path.parent.name}/{path.name}"
    try:
        config: object = json.loads(path.read_bytes())
    except OSError as error:
        return f"{name}: {error.strerror}"
    except (ValueError, RecursionError) as error:
        return f"{name}: not JSON: {error}"
    return config if isinstance(config, dict) else f"{name}: holds no object"


def facts_of(folder: Path) -> ModelFacts | str:
    """The facts, or why there are none."""
    config = config_of(folder)
    if isinstance(config, str):
        return config
    try:
        return model_facts(config, tuple(_listed(folder)))
    except _NotWholeError as why:
        return model_facts(config, None, str(why))


def _listed(folder: Path) -> Iterator[Tensor]:
    """Every tensor that a server would load, once. Raises _NotWholeError where some of them, or which, is not known."""
    index = folder / _INDEX
    try:
        named = msgspec.json.decode(index.read_bytes(), type=_Index).weight_map if index.exists() else None
    except (OSError, msgspec.MsgspecError) as error:
        raise _NotWholeError(f"{index.name} cannot be read: {error}") from None
    files = (
        sorted(folder.glob("*.safetensors")) if named is None else [folder / one for one in sorted({*named.values()})]
    )
    gone = [file.name for file in files if not file.is_file()] if named is not None else _gone(files)
    if gone:
        raise _NotWholeError(f"{len(gone)} of its files are missing: {gone[0]}" + (" …" if gone[1:] else ""))
    if not files:
        raise _NotWholeError("no safetensors files to look into")
    if named is None and len({_set_of(file) for file in files}) > 1:
        raise _NotWholeError(f"{len(files)} safetensors files, and no {_INDEX} says which belong together")
    found: dict[str, Tensor] = {}
    for file in files:
        for tensor in _tensors(file):
            if named is not None and named.get(tensor.name) != file.name:
                continue
            if tensor.name in found:
                raise _NotWholeError(f"{tensor.name} lies in two files, and no index says which one counts")
            found[tensor.name] = tensor
    if named is not None and (lost := named.keys() - found.keys()):
        raise _NotWholeError(f"{len(lost)} tensors of {_INDEX} are not in its files")
    yield from found.values()


def _set_of(file: Path) -> str:
    """What numbered parts of one checkpoint share; of any other file its name."""
    part = _PART.fullmatch(file.name)
    return file.name if part is None else f"{part[1]}-of-{part[2]}"


def _gone(files: Sequence[Path]) -> list[str]:
    """Files of a numbered set that are not there, where no index names them."""
    gone: list[str] = []
    for file in files:
        if (part := _PART.fullmatch(file.name)) is not None:
            names = [f"{part[1]}-{at:0{len(part[2])}}-of-{part[2]}.safetensors" for at in range(1, int(part[2]) + 1)]
            gone += [name for name in names if not file.with_name(name).is_file() and name not in gone]
    return gone


def _tensors(file: Path) -> Iterator[Tensor]:
    """Those of one file, by its head. Raises _NotWholeError for one that is cut short or no such file."""
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            head = stream.read(min(length, _HEAD_BYTES))
        size = file.stat().st_size
        raws = msgspec.json.decode(head, type=dict[str, msgspec.Raw])
        entries = {name: msgspec.json.decode(raw, type=_Entry) for name, raw in raws.items() if name != "__metadata__"}
    except (OSError, msgspec.MsgspecError) as error:
        raise _NotWholeError(f"{file.name} cannot be read: {error}") from None
    end = 8 + length + max((one.data_offsets[1] for one in entries.values()), default=0)
    if size < end:
        raise _NotWholeError(f"{file.name} is cut short: {size:,} of {end:,} bytes are there")
    for name, one in entries.items():
        yield Tensor(name, one.data_offsets[1] - one.data_offsets[0], one.dtype)


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
