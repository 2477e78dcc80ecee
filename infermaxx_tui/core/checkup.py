"""What was looked at on a host, on a server and on its cards, as one page: each thing with its state and what to do."""

from __future__ import annotations

import json
import textwrap
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.calibration import Calibration
from infermaxx_tui.core.display import harmless, one_line
from infermaxx_tui.core.gpu import FAST, OK, SLOW, GpuCard, GpuProbe

State = Literal["ok", "note", "warn", "bad", "unknown"]
"""`note`: a fact; `warn`: works, and will mislead or hurt; `bad`: does not work; `unknown`: not to be seen here."""
_MARK: Final = {"ok": "ok", "note": "", "warn": "warn", "bad": "BAD", "unknown": "?"}
_NAME: Final = 22
_STATE: Final = 5
SCHEMA: Final = 1


class Item(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    section: str
    name: str
    state: State
    said: str
    advice: str | None = None


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """The whole page."""

    schema: int = SCHEMA
    program: str
    url: str | None
    usable: bool | None
    """Whether the server can be used; None if none was named."""
    items: tuple[Item, ...]
    type_next: tuple[str, ...]
    """Commands that make sense now."""
    calibration: Calibration | None = None
    """This host's own error bars; None if they were not asked for or could not be measured."""


def checkup_lines(checkup: Checkup, width: int = 100) -> tuple[str, ...]:
    """The page in lines of at most `width` characters (60 at the least), without anything that steers a terminal."""
    width = max(width, 60)
    lines: list[str] = [checkup.program]
    section = ""
    for item in checkup.items:
        if item.section != section:
            section = item.section
            lines += ["", section]
        lines += _item_lines(item, width)
    if checkup.type_next:
        lines += ["", "what to type", *(f"  {' '.join(harmless(command).split())}" for command in checkup.type_next)]
    return tuple(lines)


def checkup_text(checkup: Checkup) -> list[str]:
    """The page as JSON, line by line."""
    return json.dumps(msgspec.to_builtins(checkup), indent=2).splitlines()


def _item_lines(item: Item, width: int) -> list[str]:
    head = f"  {one_line(item.name, _NAME):<{_NAME}} {_MARK[item.state]:<{_STATE}}"
    indent = " " * (_NAME + _STATE + 4)
    said = harmless(item.said) or "-"
    lines = textwrap.wrap(
        said, width, initial_indent=f"{head} ", subsequent_indent=indent, break_on_hyphens=False, drop_whitespace=True
    )
    if item.advice:
        lines += textwrap.wrap(
            harmless(f"-> {item.advice}"),
            width,
            initial_indent=indent,
            subsequent_indent=f"{indent}   ",
            break_on_hyphens=False,
        )
    return [line.rstrip() for line in lines]


def of_cards(probe: GpuProbe, simulated: bool = False) -> list[Item]:
    """The cards of a source, and for each the sensors that answer and the reason why others do not."""
    section = "GPU"
    if not probe.cards:
        return [Item(section, "sensors", "note", probe.error or "no card", _NO_CARD_ADVICE)]
    versions = (("driver", probe.driver), ("library", probe.library), ("binding", probe.binding))
    said = ", ".join(f"{name} {value}" for name, value in versions if value)
    items = [Item(section, f"source {probe.source}", "ok", f"{said or 'no versions'}; asked in {probe.cost_ms:.0f} ms")]
    items += [Item(section, "remark", "note", remark) for remark in probe.remarks]
    for card in probe.cards:
        items += _card_items(card, section)
    return items


_NO_CARD_ADVICE: Final = "where the server is elsewhere: --gpu-metrics URL, --gpu-ssh HOST, or --sensor-cmd CMD"


def _card_items(card: GpuCard, section: str) -> list[Item]:
    facts = [
        card.name or "a card without a name",
        f"{card.vram_total_mib:.0f} MiB" if card.vram_total_mib is not None else None,
        f"limit {card.limit_w:g} W" if card.limit_w is not None else None,
        f"of {card.min_limit_w:g}-{card.max_limit_w:g} W" if card.min_limit_w and card.max_limit_w else None,
        card.uuid,
        "MIG" if card.mig else None,
    ]
    items = [Item(section, f"GPU {card.gpu}", "ok", ", ".join(fact for fact in facts if fact))]
    whose: State = "ok" if card.server else "unknown" if card.server is None else "note"
    said = {
        True: "the server computes on it",
        False: "not the server's",
        None: "whether it is the server's is not known",
    }
    why = f": {card.server_why}" if card.server_why else ""
    items.append(Item(section, "  whose", whose, said[card.server] + why))
    answering = [name for name in (*FAST, *SLOW) if card.metrics.get(name) == OK]
    items.append(Item(section, "  sensors that answer", "ok" if answering else "bad", ", ".join(answering) or "none"))
    reasons: dict[str, list[str]] = {}
    for name in (*FAST, *SLOW):
        if name not in answering:
            reasons.setdefault(card.why_not(name) or "not read", []).append(name)
    items += [
        Item(section, "  not to be seen", "unknown", f"{', '.join(names)}: {why}") for why, names in reasons.items()
    ]
    return items
