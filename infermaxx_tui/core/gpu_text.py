"""Sensors that come as text: exporters, lines of nvidia-smi, a user's key=value. Each is turned into rows of one shape.

What is not a number (`[N/A]`, `[Not Supported]`, `ERR!`, a blank value of DCGM) is refused with its own words as the
reason, and never read as 0.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from infermaxx_tui.core.gpu import FAST, SLOW, GpuCard, GpuReading
from infermaxx_tui.core.gpu_nvml import checked
from infermaxx_tui.core.gpu_text_names import (
    CARD_NUMBERS,
    CARD_WORDS,
    INFO_LABELS,
    MIB,
    OF_CARD,
    SAMPLES,
    SMI_FIELDS,
    WHOLE,
)

_BLANKS: Final = ((2**31 - 16, 2**31), (2**47, 2**47 + 16), (2**62, math.inf))
"""From and before: numbers that DCGM writes where it has no value, as 32-bit, floating and 64-bit ones."""
_SAMPLE: Final = re.compile(rb"^((?:DCGM_FI_|nvidia_smi_)\w+)\{([^\n]*)\} (\S+)", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_NOT_A_NUMBER: Final = 60
"""Longest piece of an odd value that is told."""


class TextRow(msgspec.Struct):
    """What a text says of one card."""

    key: str
    """Its UUID, else its number."""
    numbers: dict[str, float] = {}
    """By the names of GpuReading; `xid` is the last XID that the source knows."""
    card: dict[str, float | str] = {}
    """By the names of GpuCard, with `driver`."""
    refused: dict[str, str] = {}
    """Readings that were no numbers, with the reason."""


def parse_exporter(text: bytes) -> tuple[TextRow, ...]:
    """Rows of dcgm-exporter or of nvidia_gpu_exporter. Raises ValueError with the reason if the text is neither."""
    rows: dict[str, TextRow] = {}
    for match in _SAMPLE.finditer(text):
        name = match[1].decode("ascii")
        labels = dict(_LABEL.findall(match[2].decode("utf-8", "replace")))
        key = _uuid(labels.get("UUID") or labels.get("uuid") or "") or labels.get("gpu", "")
        if not key:
            continue
        row = rows.setdefault(key, TextRow(key))
        for label, field in INFO_LABELS.items():
            if label in labels and _means(labels[label]):
                row.card.setdefault(field, labels[label])
        if (known := SAMPLES.get(name)) is not None:
            _take(row, known[0], match[3].decode("ascii", "replace"), known[1])
    rows = {key: row for key, row in rows.items() if row.numbers or row.refused}
    if rows:
        return tuple(rows.values())
    if text.lstrip()[:1] == b"<":
        raise ValueError("the answer is a web page, not metrics: is it the right address, with /metrics?")
    raise ValueError("no metrics of dcgm-exporter or nvidia_gpu_exporter in the answer")


def smi_query(old_names: bool = False) -> str:
    """The fields to ask nvidia-smi for; drivers before 535 know the clock events by another name."""
    names = ",".join(name for name, _, _ in SMI_FIELDS)
    return names.replace("clocks_event_reasons", "clocks_throttle_reasons") if old_names else names


def parse_smi(line: str) -> TextRow | None:
    """A row of `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`; None for a line that is none."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(SMI_FIELDS):
        return None
    given = {field: (cell, scale) for (_, field, scale), cell in zip(SMI_FIELDS, cells, strict=True)}
    key = given["uuid"][0] if _means(given["uuid"][0]) else given["index"][0]
    row = TextRow(key)
    for field, (cell, scale) in given.items():
        if field in CARD_WORDS:
            if _means(cell):
                row.card[field] = cell
        elif field != "index":
            _take(row, field, cell, scale)
    return row


def parse_pairs(lines: str) -> tuple[tuple[TextRow, ...], tuple[str, ...]]:
    """Rows of lines of `key=value`, and what in them could not be read.

    Keys are the names of GpuReading and GpuCard (power_w, hotspot_c, limit_w, name …). `gpu=` (a number or a UUID)
    says which card the pairs after it are of; without it they are of card 0. A later value stands over an earlier one.
    """
    rows: dict[str, TextRow] = {}
    odd: dict[str, None] = {}
    key = "0"
    for line in lines.splitlines():
        for word in _words(line):
            name, equals, value = word.partition("=")
            if not equals:
                odd[f"not key=value: {word[:_NOT_A_NUMBER]}"] = None
            elif name == "gpu":
                key = value
            elif name in CARD_WORDS:
                rows.setdefault(key, TextRow(key)).card[name] = value
            elif name in FAST or name in SLOW or name in CARD_NUMBERS:
                _take(rows.setdefault(key, TextRow(key)), name, value, 1.0)
            else:
                odd[f"no such key: {name[:_NOT_A_NUMBER]}"] = None
    return tuple(rows.values()), tuple(odd)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line.replace(",", " "), comments=True)
    except ValueError:  # an open quote
        return line.split()


def _take(row: TextRow, field: str, text: str, scale: float) -> None:
    """A number goes to its place; anything else is refused by name."""
    try:
        value = float(int(text, 16)) if text.startswith("0x") else float(text)
    except ValueError:
        row.refused[field] = f"the source says {text[:_NOT_A_NUMBER]}"
        return
    if not math.isfinite(value) or any(low <= value < high for low, high in _BLANKS):
        row.refused[field] = "the source has no value"
        return
    value *= scale
    if field == "xid":
        row.numbers[field] = value
        return
    good, why = checked(field, value)
    if good is None:
        row.refused[field] = why
    elif field in CARD_NUMBERS and field not in FAST and field not in SLOW:
        row.card[field] = good
    else:
        row.numbers[field] = good
        if field in OF_CARD:
            row.card[field] = good


def _means(text: str) -> bool:
    return bool(text) and not text.startswith("[") and text not in ("N/A", "ERR!")


def _uuid(text: str) -> str:
    """nvidia_gpu_exporter leaves out the `GPU-` that everything else writes."""
    return text if not text or "-" not in text or text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"


def reading_of(row: TextRow, number: int, xids: tuple[int, ...] = ()) -> GpuReading:
    """A row as a reading of card `number`."""
    values: dict[str, float | int | str] = {
        name: round(value) if name in WHOLE else round(value, 3) for name, value in row.numbers.items() if name != "xid"
    }
    return msgspec.structs.replace(msgspec.convert({"gpu": number, **values}, GpuReading), xids=xids)


def card_of(row: TextRow, number: int, status: Callable[[str], str]) -> GpuCard:
    """A row as a card; `status` says of a reading that the row has not why it has not."""
    words: Mapping[str, float | str] = {
        name: round(value) if isinstance(value, float) and name in WHOLE else value
        for name, value in row.card.items()
        if name != "driver"
    }
    uuid = row.key if not row.key.isdigit() else None
    metrics = dict(_metrics(row, status))
    return msgspec.convert({"gpu": number, "uuid": uuid, **words, "metrics": metrics}, GpuCard)


def _metrics(row: TextRow, status: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    for name in (*FAST, *SLOW):
        there = name in row.numbers or (name == "xids" and "xid" in row.numbers)
        yield name, "ok" if there else row.refused.get(name) or status(name)


__all__ = ["MIB", "TextRow", "card_of", "parse_exporter", "parse_pairs", "parse_smi", "reading_of", "smi_query"]
