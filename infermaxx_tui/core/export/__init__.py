"""What leaves a run for people and pipelines: one picture of the run, and the texts of each format made of it."""

from __future__ import annotations
