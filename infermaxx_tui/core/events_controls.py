"""Events of the controls: which of them is being played, and what each of its requests compares with what."""

from __future__ import annotations

from typing import Literal

from infermaxx_tui.core.event import Event

ControlName = Literal["repeat", "cache", "alike", "salt", "solo", "after"]
"""As the keys of `[controls]`."""
Arm = Literal["cold", "cold_again", "cached", "alike", "filler", "shared", "salted", "after"]
"""`cold`, `cold_again`: the same prompt with a salt of its own each. `cached`: once more with the salt of `cold_again`.
`alike`: one of several identical prompts at once. `filler`: what fills the cache first. `shared`: a question behind a
prefix that others share; `salted`: the same with a salt of its own. `after`: a trivial prompt after the run."""
Stage = Literal["controls", "solo_before", "waves", "solo_after", "after"]


class StageBegan(Event, frozen=True, kw_only=True):
    """From here on requests belong to this stage of the run, until the next one begins."""

    stage: Stage
    session: int | None = None
    """The conversation that is played alone."""


class ControlAsked(Event, frozen=True, kw_only=True):
    """Request `req` is one side of a comparison."""

    req: int
    arm: Arm
    pair: int
    """Requests of the same number are compared."""
    label: str = ""
    """Of the tag that is asked for; empty if none is."""
    tag: str = ""


class ControlAnswered(Event, frozen=True, kw_only=True):
    """What is known of the reply to a control beside its RequestEnded."""

    req: int
    ids_sha256: str | None
    """Of all ids of the reply; None if the server sent none."""
    cached_tokens: int | None
    """Prompt tokens from the prefix cache."""
    cached_by: Literal["usage", "metrics"] | None
    """Who counted them: the reply's usage, or the server's counters before and after it."""
