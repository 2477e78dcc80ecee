"""Requests as CSV that a spreadsheet reads without running any of it."""

from __future__ import annotations

import csv
import io

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.export.picture import Picture, columns

_RUNS = ("=", "+", "-", "@", "\t")
"""What a spreadsheet takes for the beginning of a formula."""


def csv_text(shown: Picture) -> str:
    """One line for each request; a missing value is an empty cell."""
    names, rows = columns(shown)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
        case str():
            said = harmless(value)
            return f"'{said}" if said.lstrip(" \n").startswith(_RUNS) else said
        case _:
            return value
