"""`infermaxx export`: a run's log becomes a file for people, spreadsheets, pipelines or CI systems."""

from __future__ import annotations
