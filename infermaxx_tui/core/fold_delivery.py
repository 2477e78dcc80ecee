"""Did turns and questions deliver? A stream that broke as the server went away is availability's, not delivery's."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import msgspec

from infermaxx_tui.core import classify
from infermaxx_tui.core.display import excerpt
from infermaxx_tui.core.events import RequestEnded, RequestKind
from infermaxx_tui.core.evidence import Finding, Findings, Ref
from infermaxx_tui.core.state import Delivery

KEPT = 50
"""Findings that are kept of each sort; all are counted."""
LOSS_WINDOW_US = 10_000_000
"""Streams that broke this long before the server was found to be away broke because of it."""
DELIVERY_KINDS: Final[frozenset[RequestKind]] = frozenset({"turn", "recall", "tail", "absent", "quality", "control"})
"""Requests whose delivery is judged; the same question asked again would count one fault several times."""


class Tally(msgspec.Struct):
    """Counts findings and keeps the first of them."""

    count: int = 0
    kept: list[Finding] = []

    def add(self, finding: Finding) -> None:
        """One more."""
        self.count += 1
        if len(self.kept) < KEPT:
            self.kept.append(finding)

    def drop(self, finding: Finding) -> None:
        """One less: it turned out to be something else."""
        self.count -= 1
        if finding in self.kept:
            self.kept.remove(finding)

    def findings(self) -> Findings:
        """What was counted so far."""
        return Findings(self.count, tuple(self.kept))


def said(event: RequestEnded, around: str = "") -> str | None:
    """A short stretch of the first channel that has `around` in it, or any text at all; None if no text was logged."""
    texts = [text for text in (event.content, event.reasoning, event.tool_args) if text]
    if not texts:
        return None
    return excerpt(next((text for text in texts if around and around in text), texts[0]), around)


def finding(at: Ref, event: RequestEnded, what: str) -> Finding:
    """A request as a finding."""
    return Finding(
        at=at,
        session=event.session,
        turn=event.turn,
        req=event.req,
        what=what,
        kind=event.kind,
        said=said(event) or (excerpt(event.error) if event.error else None),
    )


def capped(event: RequestEnded, max_model_len: int | None) -> bool:
    """Whether a stream that ended as it should hit a limit on its length, or may have."""
    return event.outcome == "ok" and classify.is_capped(
        event.finish_reason, event.completion_tokens, event.max_tokens or None, event.prompt_tokens, max_model_len
    )


def _broken() -> deque[tuple[int, Finding]]:
    return deque(maxlen=4096)


@dataclass(slots=True)
class Deliveries:
    """Requests that could be judged and those that failed; of constant size."""

    judged: int = 0
    failed: Tally = field(default_factory=Tally)
    unparsed: Tally = field(default_factory=Tally)
    lost_with_server: int = 0
    _broken: deque[tuple[int, Finding]] = field(default_factory=_broken)
    _server_lost: bool = False

    def ended(self, at: Ref, mono_us: int, event: RequestEnded, max_model_len: int | None) -> bool:
        """Counts a turn or a question whose delivery can be judged; what we could not read is nobody's failure.

        True if it broke because the server was away.
        """
        if "unparsed_delta" in event.anomalies:
            self.unparsed.add(finding(at, event, "tokens in usage that no delta showed"))
            return False
        what = _failed(event, max_model_len)
        if what is None and event.outcome != "ok":
            return False
        if what is not None and event.outcome != "ok" and self._server_lost:
            self.lost_with_server += 1
            return True
        self.judged += 1
        if what is not None:
            failed = finding(at, event, what)
            self.failed.add(failed)
            if event.outcome != "ok":
                self._broken.append((mono_us, failed))
        return False

    def server_lost(self, mono_us: int) -> set[int]:
        """The server is away: streams that broke just now, or break until it speaks again, are not delivery's.

        The conversations whose streams broke just now come out.
        """
        self._server_lost = True
        cut_off: set[int] = set()
        for broke_us, broken in self._broken:
            if mono_us - broke_us <= LOSS_WINDOW_US:
                self.judged -= 1
                self.failed.drop(broken)
                self.lost_with_server += 1
                if broken.session is not None:
                    cut_off.add(broken.session)
        self._broken.clear()
        return cut_off

    def server_spoke(self) -> None:
        """A first token came."""
        self._server_lost = False

    def segment_began(self) -> None:
        """The run goes on after a gap: the server of now has not failed yet."""
        self._broken.clear()
        self._server_lost = False

    def delivery(self) -> Delivery:
        """What was counted so far."""
        return Delivery(self.judged, self.failed.findings(), self.lost_with_server)


def _failed(event: RequestEnded, max_model_len: int | None) -> str | None:
    """What a request failed to deliver, in words; None if it delivered, or if that is not delivery's to say."""
    match event.outcome:
        case "ok":
            if _delivered(event) or capped(event, max_model_len):
                return None
            return "only reasoning" if event.reasoning_chars else "nothing delivered"
        case "protocol" | "truncated":
            return event.outcome
        case "rejected" if event.status is None or event.status >= 500:
            return "rejected" if event.status is None else f"HTTP {event.status}"
        case _:
            return None


def _delivered(event: RequestEnded) -> bool:
    """Whether a person or an agent got anything: text or a tool call, reasoning aside."""
    if event.tool_chars:
        return True
    return bool(event.content_chars) and (event.content is None or bool(event.content.strip()))
