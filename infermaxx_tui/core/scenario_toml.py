"""A scenario as the TOML text that a run folder keeps: what was asked, with every key that had a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from infermaxx_tui.core.scenario import Scenario


def to_toml(scenario: Scenario) -> str:
    """TOML text of a scenario with every key that has a value; `parse_scenario` gives the same scenario back."""
    tables, lines = [], []
    for key, value in msgspec.to_builtins(scenario).items():
        if isinstance(value, dict):
            tables.append((f"[{key}]", value))
        elif isinstance(value, list | tuple):
            tables += [(f"[[{key}]]", one) for one in value]
        else:
            lines.append(f"{key} = {_toml_value(value)}")
    for name, table in tables:
        lines += ["", name]
        lines += [f"{key} = {_toml_value(value)}" for key, value in table.items() if value is not None]
    return "\n".join(lines) + "\n"


def _toml_value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
        case list() | tuple():
            return f"[{', '.join(map(_toml_value, value))}]"
        case dict():
            return "{" + ", ".join(f"{_toml_value(k)} = {_toml_value(v)}" for k, v in value.items()) + "}"
        case _:
            return str(value)
