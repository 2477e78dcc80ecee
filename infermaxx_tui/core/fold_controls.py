"""What the controls of a run brought: each reply of a comparison, and the speed of one conversation alone.

Only facts stand in the log. Whether two replies are the same is decided by `core.control_findings`, from all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.controls import Controls
from infermaxx_tui.core.controls_seen import ControlReply, ControlsSeen, Speed
from infermaxx_tui.core.events import ControlAnswered, ControlAsked, MetricsRead, RequestEnded, StageBegan
from infermaxx_tui.core.events_controls import Stage
from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.fold_delivery import Tally, capped, finding
from infermaxx_tui.core.fold_server import IN_A_ROW
from infermaxx_tui.core.inflation import Inflation, Pace, inflation
from infermaxx_tui.core.kept import Rows, Table
from infermaxx_tui.core.stats import LogHistogram
from infermaxx_tui.core.tag_scan import find_known

_TEXT_KEPT: Final = 4000
"""Characters of a reply that are kept, so that the place can be shown where two of them part."""


def _speeds() -> dict[Stage, Pace]:
    return {"solo_before": Pace(), "solo_after": Pace()}


def _ttfts() -> dict[Stage, LogHistogram]:
    return {"solo_before": LogHistogram(), "waves": LogHistogram(), "solo_after": LogHistogram()}


@dataclass(slots=True)
class ControlsKept:
    """All replies of the controls, of which there are few, and sums of the rest."""

    planned: Controls = field(default_factory=Controls)
    stage: Stage = "controls"
    solo_session: int | None = None
    replies: Rows[ControlReply] = field(default_factory=Rows)
    paces: dict[Stage, Pace] = field(default_factory=_speeds)
    ttft: dict[Stage, LogHistogram] = field(default_factory=_ttfts)
    others_running: int = 0
    degenerate: dict[Stage, Tally] = field(default_factory=dict)
    failed: dict[Stage, int] = field(default_factory=dict)
    played: dict[Stage, int] = field(default_factory=dict)
    _over: int = 0
    _asked: dict[int, ControlAsked] = field(default_factory=dict)
    _beside: set[int] = field(default_factory=set)
    """Requests that were not alone."""
    _place: Table[int, int] = field(default_factory=Table)

    def began(self, event: StageBegan) -> None:
        """Another stage of the run."""
        self.stage = event.stage
        if event.session is not None:
            self.solo_session = event.session

    @property
    def solo(self) -> Literal["before", "after"] | None:
        """Which of the two times the conversation is played alone right now."""
        match self.stage:
            case "solo_before":
                return "before"
            case "solo_after":
                return "after"
            case _:
                return None

    def asked(self, event: ControlAsked, now_open: int) -> None:
        """A control went out; `now_open` counts itself."""
        self._asked[event.req] = event
        if now_open > 1:
            self._beside.add(event.req)

    def sent(self) -> None:
        """A request went out: whatever control is open is not alone any more."""
        self._beside.update(self._asked)

    def ended(self, at: Ref, event: RequestEnded, max_model_len: int | None) -> None:
        """A request is over."""
        stage = self.stage
        if stage in ("solo_before", "solo_after", "after"):
            self._count(stage, at, event)
        if event.kind == "turn" and stage in self.ttft:
            self._time(stage, event)
        asked = self._asked.pop(event.req, None)
        if asked is None:
            return
        said = "\n".join(text for text in (event.content, event.reasoning, event.tool_args) if text)
        self._place.put(event.req, len(self.replies.rows))
        self.replies.append(
            ControlReply(
                at=at,
                req=event.req,
                arm=asked.arm,
                pair=asked.pair,
                label=asked.label,
                ok=event.outcome == "ok",
                capped=capped(event, max_model_len),
                alone=event.req not in self._beside,
                degenerate=event.degenerate is not None,
                prompt_tokens=event.prompt_tokens,
                text=said[:_TEXT_KEPT],
                text_sha256=event.text_sha256,
                found=bool(asked.tag) and bool(find_known(said, (asked.tag,))),
            )
        )
        self._beside.discard(event.req)

    def _count(self, stage: Stage, at: Ref, event: RequestEnded) -> None:
        self.played[stage] = self.played.get(stage, 0) + 1
        if event.degenerate is not None:
            self.degenerate.setdefault(stage, Tally()).add(finding(at, event, event.degenerate))
        said = event.content_chars or event.reasoning_chars or event.tool_chars
        if event.outcome != "ok" or not said:
            self.failed[stage] = self.failed.get(stage, 0) + 1

    def _time(self, stage: Stage, event: RequestEnded) -> None:
        if stage in self.paces:
            self.paces[stage].take(event)
        if event.outcome == "ok" and event.ttft_ms is not None and event.ttft_ms >= 0:
            self.ttft[stage].add(event.ttft_ms)

    @property
    def solo_pace(self) -> Pace | None:
        """Of the conversation that is played alone right now; of nobody while other controls are; None in the waves."""
        beside = Pace() if self.planned.any and self.stage != "waves" else None
        return self.paces.get(self.stage, beside)

    def answered(self, event: ControlAnswered) -> None:
        """What else is known of a reply."""
        place = self._place.by.get(event.req)
        if place is None:
            return
        row = self.replies.rows[place]
        changes = {"ids_sha256": event.ids_sha256, "cached_tokens": event.cached_tokens}
        self.replies.replace(place, msgspec.structs.replace(row, **changes))

    def read(self, event: MetricsRead, now_open: int) -> None:
        """The server's counters: whether it has others to serve while a control needs it to itself.

        One reading may still count a request of ours that is over; several in a row do not.
        """
        over = 0 if not self._asked or event.running is None else round(event.running) - now_open
        self._over = self._over + 1 if over > 0 else 0
        if self._over >= IN_A_ROW:
            self.others_running = max(self.others_running, over)

    def segment_began(self) -> None:
        """What was open is gone, and requests are counted anew."""
        self._asked.clear()
        self._beside.clear()
        self._place = Table()

    def inflations(self, waves: Pace) -> tuple[Inflation, ...]:
        """What came after the conversation that was played alone, beside it at equal depth."""
        before, after = self.paces["solo_before"], self.paces["solo_after"]
        if not before.bands:
            return ()
        alone = "one conversation alone before"
        return tuple(inflation(pace, before, alone) for pace in (waves, after) if pace.bands)

    def seen(self, waves: Pace) -> ControlsSeen:
        """Everything so far; `waves` are the turns of all waves."""
        paces = {**self.paces, "waves": waves if self.planned.solo else Pace()}
        return ControlsSeen(
            planned=self.planned,
            replies=tuple(self.replies.rows),
            others_running=self.others_running,
            speeds={
                stage: Speed(dict(sorted(pace.bands.items())), self.ttft[stage].quantile(0.5))
                for stage, pace in paces.items()
                if pace.bands
            },
            degenerate={stage: tally.findings() for stage, tally in self.degenerate.items()},
            failed=dict(self.failed),
            played=dict(self.played),
        )
