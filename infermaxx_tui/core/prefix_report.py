"""What `transcripts stats` says of prefixes: where the user's own prompts part, and what a chat template loses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.prefix_truth import (
    PrefixCost,
    TemplateFinding,
    cost_lines,
    findings_line,
    prefix_cost,
    template_findings,
)
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.segments import TokenizerError
from infermaxx_tui.core.transcript import Session
from infermaxx_tui.core.volatile_prompts import Parting, PromptWatch, parting_lines


class PrefixAsked(msgspec.Struct, frozen=True):
    """What is wanted."""

    truth: bool = False
    """Whether every prompt is rendered whole, which takes the square of the length."""
    tokens_per_s: float | None = None
    """The speed of prefill, None if nobody knows it."""


NO_TRUTH = PrefixAsked()
"""Only what costs nothing."""


class PrefixJson(msgspec.Struct, frozen=True):
    """The same for scripts."""

    findings: tuple[TemplateFinding, ...] | None
    """None if it was not asked for."""
    costs: tuple[PrefixCost, ...] | None
    prefill_tokens_per_s: float | None
    prompts_part: tuple[Parting, ...]
    without_system_prompt: int


class PrefixReport:
    """Looks at sessions while others read them, and keeps nothing of them but figures and the newest prompts."""

    def __init__(self, renderer: Renderer, asked: PrefixAsked) -> None:
        self._renderer = renderer
        self._asked = asked
        self._prompts = PromptWatch(renderer)
        self._costs: list[PrefixCost] = []
        self._refused: list[str] = []

    def watched(self, sessions: Iterable[Session]) -> Iterator[Session]:
        """The sessions as they come."""
        for session in sessions:
            self._prompts.take(session)
            if self._asked.truth and not session.content_free:
                try:
                    self._costs.append(prefix_cost(session, self._renderer))
                except TokenizerError as error:
                    self._refused.append(f"{session.id}: {error}")
            yield session

    def lines(self) -> tuple[str, ...]:
        """For people."""
        lines = list(parting_lines(self._prompts.found, self._prompts.without))
        if self._asked.truth:
            findings = template_findings(self._renderer)
            lines += [*([""] if lines else []), findings_line(self._renderer, findings)]
            lines += [f"it also {one.said}" for one in findings if not one.breaks]
            lines += ["prompts rendered anew for each request; by token ids none of this is lost", ""]
            lines += cost_lines(self._costs, self._asked.tokens_per_s)
            lines += [f"not rendered: {why}" for why in self._refused]
        return tuple(harmless(line) for line in lines)

    def json(self) -> PrefixJson:
        """For scripts."""
        truth = self._asked.truth
        return PrefixJson(
            findings=template_findings(self._renderer) if truth else None,
            costs=tuple(self._costs) if truth else None,
            prefill_tokens_per_s=self._asked.tokens_per_s,
            prompts_part=tuple(self._prompts.found),
            without_system_prompt=self._prompts.without,
        )
