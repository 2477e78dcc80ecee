"""Colours. Meaning never hangs on them: words and signs say the same, and NO_COLOR leaves bold and reverse."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="infermaxx-dark",
    primary="#5fafd7",
    secondary="#87afaf",
    accent="#5fd7d7",
    warning="#d7af5f",
    error="#ff6b6b",
    success="#87d787",
    foreground="#d0d0d0",
    background="#121212",
    surface="#1c1c1c",
    panel="#262626",
    dark=True,
)
LIGHT = Theme(
    name="infermaxx-light",
    primary="#005f87",
    secondary="#3a5f5f",
    accent="#006f6f",
    warning="#875f00",
    error="#af0000",
    success="#00691f",
    foreground="#1c1c1c",
    background="#fafafa",
    surface="#f0f0f0",
    panel="#e4e4e4",
    dark=False,
)
THEMES = (DARK, LIGHT)
