"""Replays tokenised agent transcripts against a vLLM server and says whether it can be trusted."""

from __future__ import annotations

__version__ = "0.1.0"
