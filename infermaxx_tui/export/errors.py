"""What can be wrong with an export, apart from its formats so that the program's edge can name it for nothing."""

from __future__ import annotations


class ExportError(Exception):
    """One line for people."""
