"""Requests as a Parquet file, where pyarrow is there: typed columns, and the verdict as the file's metadata."""

from __future__ import annotations

import io
from typing import Final, get_args, get_type_hints

from infermaxx_tui.core.export.picture import Picture, columns
from infermaxx_tui.core.export.requests import REGIME, RequestRow
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.verdict import verdict_bytes
from infermaxx_tui.flags import UsageError

_MISSING: Final = "parquet needs pyarrow: pip install 'infermaxx-tui[parquet]'"


def parquet_bytes(shown: Picture) -> bytes:
    """The file. Raises UsageError without pyarrow."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError(_MISSING) from None
    kinds = {bool: arrow.bool_(), int: arrow.int64(), float: arrow.float64(), str: arrow.string()}
    names, rows = columns(shown)
    types = _types()
    said = {b"infermaxx.verdict": verdict_bytes(shown.verdict), b"infermaxx.marked": ", ".join(shown.marks).encode()}
    schema = arrow.schema([(name, kinds[types[name]]) for name in names], metadata=said)
    cells = zip(*rows, strict=True) if rows else ([] for _ in names)
    arrays = [
        arrow.array([_cell(value, types[name]) for value in column], schema.field(name).type)
        for name, column in zip(names, cells, strict=True)
    ]
    out = io.BytesIO()
    parquet.write_table(arrow.Table.from_arrays(arrays, schema=schema), out, compression="zstd")
    return out.getvalue()


def _cell(value: object, kind: type) -> object:
    """A string without lone surrogates, which no Parquet file may hold; a number of the column's own kind."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return float(value) if kind is float and isinstance(value, int) else value


def _types() -> dict[str, type]:
    """By column, what its cells are."""
    run = {"run": str, "scenario": str, "simulated": bool, "run_state": str, "speed_withheld": str, "timing_void": str}
    own = {name: _bare(hint) for name, hint in get_type_hints(RequestRow).items()}
    hints = get_type_hints(Regime)
    return {**run, **own, **{f"regime_{name}": _bare(hints[name]) for name in REGIME}}


def _bare(hint: object) -> type:
    """The type of an annotation without its None."""
    kinds = [one for one in get_args(hint) if one is not type(None)] or [hint]
    assert isinstance(kinds[0], type)
    return kinds[0]
