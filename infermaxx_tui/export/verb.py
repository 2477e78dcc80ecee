"""The verb `export`: what its flags mean, and where the result goes."""

from __future__ import annotations

import argparse

from infermaxx_tui.core.export.picture import Sharing
from infermaxx_tui.export.main import export
from infermaxx_tui.flags import UsageError
from infermaxx_tui.rundir import RunFolder


def exported(args: argparse.Namespace, run: RunFolder, on_terminal: bool) -> str | bytes:
    """What goes to stdout: nothing if it was written to a file. Raises UsageError, ExportError or RunError."""
    if args.include_text and args.content_free:
        raise UsageError("infermaxx export: --include-text and --content-free exclude each other")
    to_stdout = args.output == "-"
    if args.format == "parquet" and to_stdout and on_terminal:
        raise UsageError("infermaxx export: a terminal cannot show parquet; give --output FILE")
    sharing = Sharing(args.include_text, args.redact or args.content_free, args.content_free)
    made = export(run, args.format, args.output, sharing)
    return made if to_stdout else ""
