"""One conversation as a story: its turns with their growth, and each recall with question, reply and class."""

from __future__ import annotations

from typing import Final

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.classify import RECALLED
from infermaxx_tui.core.evidence import Reask, Recall, Ref
from infermaxx_tui.core.glyphs import UNICODE, Glyphs, bar, cells, pad, settle
from infermaxx_tui.core.marks import degenerate
from infermaxx_tui.core.panels.row import Piece, Role, Row, row, wrapped
from infermaxx_tui.core.panels.streams import depth_axis, depth_head, known_depth, phase_piece
from infermaxx_tui.core.panels.table import share
from infermaxx_tui.core.panels.texts import NONE, clock_text, ms_text
from infermaxx_tui.core.quality.outcome import QualityAnswer
from infermaxx_tui.core.rows import tokens_text
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stories import Closing, Planting, SessionStory, Turn
from infermaxx_tui.core.wording import recall_question

REPLY_LINES: Final = 6
"""Lines of a reply that are shown; the log has all of it."""
_BAR_FROM: Final = 90
_KIND: Final = 12


def rows_session(state: RunState, story: SessionStory, width: int, glyphs: Glyphs = UNICODE) -> tuple[Row, ...]:
    """Head lines (state, depth, tags), then turns and recalls in the order of the log; `Row.ref` is set on each."""
    teller = _Teller(state, story.session, width, glyphs)
    rows = [*teller.head(), *teller.worst_miss(story)]
    depth = 0
    for item in story.items:
        match item:
            case Turn():
                rows += teller.turn(item, depth)
                depth = _depth_after(item, depth)
            case Planting(at_us=at_us, ref=ref, event=event):
                where = f"{event.label} as {event.tag} at {tokens_text(event.depth_tokens)}, turn {event.turn}"
                rows.append(teller.line(at_us, "planted", ref, [(settle(where, glyphs), "accent")]))
            case Closing(at_us=at_us, ref=ref, event=event):
                rows.append(teller.line(at_us, "session", ref, [(settle(_closing(event), glyphs), "title")]))
    return tuple(rows)


def _depth_after(turn: Turn, before: int) -> int:
    """Tokens of the main line after a turn; a side branch leaves it as it was."""
    ended = turn.ended
    if ended is None or ended.kind != "turn" or ended.prompt_tokens is None or ended.outcome != "ok":
        return before
    return ended.prompt_tokens


def _closing(event: e.SessionStarted | e.SessionEnded) -> str:
    match event:
        case e.SessionStarted(wave=wave, transcripts=transcripts, planned_recalls=planned):
            return f"began in wave {wave}: {', '.join(transcripts)}; {planned} recalls planned"
        case e.SessionEnded(reason=reason, depth_tokens=depth, turns=turns, detail=detail):
            said = f": {detail}" if detail else ""
            return f"over at {tokens_text(depth)} after {turns} turns, {reason.replace('_', ' ')}{said}"


class _Teller:
    """Makes the lines of one conversation."""

    def __init__(self, state: RunState, session: int, width: int, glyphs: Glyphs) -> None:
        self._state = state
        self._tasks = {answer.at: answer for answer in state.quality.answers}
        self._session = session
        self._width = width
        self._glyphs = glyphs
        answers = (*state.recalls, *state.tails, *state.absents, *state.alone)
        self._answers: dict[Ref, Recall] = {one.at: one for one in answers if one.session == session}
        self._reasks: dict[Ref, Reask] = {again.at: again for one in self._answers.values() for again in one.reasks}
        self._whole = depth_axis(state)[0]

    def head(self) -> tuple[Row, ...]:
        """The conversation as it stands."""
        found = next((one for one in self._state.sessions if one.session == self._session), None)
        if found is None:
            said = f"session {self._session} is not in the log up to this moment"
            return (row([(said, "dim")], self._width, self._glyphs),)
        whole, target = depth_axis(self._state)
        known = known_depth(found)
        gauge = bar(known, whole, 16, self._glyphs, target)
        depth = NONE if known is None else tokens_text(known)
        lost: Role | None = "bad" if found.lost else None
        first: list[Piece] = [
            (f"session {found.session}  ", "title"),
            phase_piece(found, self._glyphs),
            (f"  turn {found.turn}  depth {depth} {gauge}", None),
            (f" {depth_head(whole, target)}", "dim"),
        ]
        second: list[Piece] = [
            (
                f"planted {found.planted}, asked {found.asked} of {found.planned_recalls}, recalled {found.recalled}",
                None,
            ),
            (f", lost {found.lost}{' ' + self._glyphs.bad if found.lost else ''}", lost),
            (f", capped {found.capped}", "warn" if found.capped else None),
        ]
        return tuple(row(one, self._width, self._glyphs, session=found.session) for one in (first, second))

    def worst_miss(self, story: SessionStory) -> tuple[Row, ...]:
        """The turn that lost most of what had been sent before it, if one did, and what the server had cached then."""
        ended = [item.ended for item in story.items if isinstance(item, Turn) and item.ended is not None]
        lost = [one for one in ended if one.kind == "turn" and one.prefix_missed]
        if not lost:
            return ()
        worst = max(lost, key=lambda one: one.prefix_missed or 0)
        missed, kept = worst.prefix_missed or 0, worst.prefix_tokens or 0
        cached = NONE if worst.cached_tokens is None else tokens_text(worst.cached_tokens)
        said = (
            f"worst prefix miss: turn {worst.turn} lost {tokens_text(missed)} of {tokens_text(kept + missed)},"
            f" {tokens_text(kept)} could be cached and {cached} were"
        )
        return (row([(said, "warn")], self._width, self._glyphs, session=self._session),)

    def line(self, at_us: int, kind: str, ref: Ref, pieces: list[Piece], role: Role | None = None) -> Row:
        """Time, kind, and what there is to say."""
        lead: list[Piece] = [(f"{clock_text(at_us)} ", "dim"), (pad(kind, _KIND, self._glyphs) + " ", role)]
        return row([*lead, *pieces], self._width, self._glyphs, ref=ref, session=self._session)

    def turn(self, turn: Turn, depth: int) -> list[Row]:
        """A request and what came of it; a question with its reply below it."""
        ended, started = turn.ended, turn.started
        kind = ended.kind if ended is not None else started.kind if started is not None else "turn"
        number = ended.turn if ended is not None else started.turn if started is not None else 0
        pieces = [*self._prompt(turn, depth, kind == "turn"), *self._outcome(turn)]
        if kind == "turn":
            return [self.line(turn.at_us, f"turn {number}", turn.ref, pieces)]
        word, role = self._word(turn)
        name = kind.replace("reask_", "again ").replace("_", " ")
        lines = [self.line(turn.at_us, name, turn.ref, [(word + "  ", role), *pieces], role)]
        return lines + self._dialogue(turn)

    def _prompt(self, turn: Turn, depth: int, grows: bool) -> list[Piece]:
        prompt = turn.ended.prompt_tokens if turn.ended is not None else None
        if prompt is None and turn.started is not None:
            prompt = turn.started.prompt_tokens
        if prompt is None:
            return [("prompt n/a", "dim")]
        text = f"prompt {tokens_text(prompt)}" + (f" ({prompt - depth:+,})" if grows else "")
        pieces: list[Piece] = [(pad(text, 23, self._glyphs), None)]
        if grows and self._width >= _BAR_FROM:
            pieces.append((f" {bar(prompt, self._whole, 10, self._glyphs)}", "dim"))
        return pieces

    def _outcome(self, turn: Turn) -> list[Piece]:
        ended = turn.ended
        if ended is None:
            return [("  open", "accent")]
        cached = NONE
        if ended.cached_tokens is not None and ended.prompt_tokens:
            cached = share(ended.cached_tokens / ended.prompt_tokens)
        pieces: list[Piece] = [(f" ttft {ms_text(ended.ttft_ms):>6} cached {cached:>4}", None)]
        if ended.completion_tokens is not None:
            timed = ended.decode_ms and ended.completion_tokens > 1 and self._state.speed_withheld is None
            forced = " forced" if ended.forced else ""
            speed = f" {(ended.completion_tokens - 1) * 1000 / (ended.decode_ms or 1):.0f}/s{forced}" if timed else ""
            pieces.append((f"  {ended.completion_tokens} tok{speed}", None))
        if ended.kind == "turn" and ended.prefix_missed:
            pieces.append((f"  prefix lost {tokens_text(ended.prefix_missed)}", "warn"))
        bad = ended.outcome not in ("ok", "cancelled")
        reason = ended.finish_reason or "no finish reason"
        text = f"{self._glyphs.bad} {ended.outcome.replace('_', ' ')}: {ended.error or reason}" if bad else reason
        pieces.append((f"  {settle(text, self._glyphs)}", "bad" if bad else "dim"))
        if (rule := degenerate(ended)) is not None:
            pieces.append((f"  {self._glyphs.bad} degenerate: {settle(rule, self._glyphs)}", "bad"))
        if turn.gaps_ms:
            pieces.append((f"  ! {len(turn.gaps_ms)} gaps, longest {ms_text(max(turn.gaps_ms))}", "warn"))
        return pieces

    def _word(self, turn: Turn) -> tuple[str, Role | None]:
        """The class of a reply, with its sign."""
        glyphs, answer = self._glyphs, self._answers.get(turn.ref)
        if answer is None:
            again, task = self._reasks.get(turn.ref), self._tasks.get(turn.ref)
            if task is not None:
                return self._marked(task)
            if again is None:
                return (glyphs.phases["decoding"], None) if turn.ended is None else (glyphs.unsure, None)
            good, word = again.cls in RECALLED, again.cls
            return (f"{glyphs.ok if good else glyphs.bad} {word}", "ok" if good else "bad")
        if answer.miss or answer.cls in ("leaked", "stale"):
            return f"{glyphs.bad} {answer.cls}", "bad"
        good = answer.cls in RECALLED or answer.cls == "none"
        return (f"{glyphs.ok} {answer.cls}", "ok") if good else (f"{glyphs.unsure} {answer.cls}", "warn")

    def _marked(self, task: QualityAnswer) -> tuple[str, Role | None]:
        match task.mark:
            case "right":
                return f"{self._glyphs.ok} right", "ok"
            case "wrong":
                return f"{self._glyphs.bad} wrong", "bad"
            case mark:
                return f"{self._glyphs.unsure} {mark}", "warn"

    def _dialogue(self, turn: Turn) -> list[Row]:
        """What was asked, what was said, and where the tag had been planted."""
        rows: list[Row] = []
        asked, ended = turn.asked, turn.ended
        if asked is not None:
            planted = (
                "" if asked.planted_depth_tokens is None else f", planted at {tokens_text(asked.planted_depth_tokens)}"
            )
            wanted = (
                f" (tag {asked.tag}{planted}, asked at {tokens_text(asked.depth_tokens)})"
                if asked.tag
                else " (no such tag)"
            )
            rows += self._told("asked", recall_question(asked.label) + wanted, None)
        if (task := self._tasks.get(turn.ref)) is not None:
            rows += self._told("asked", f"{task.question} ({task.task}: {task.expected})", REPLY_LINES)
        if ended is None:
            return self._pointing(rows, turn.ref)
        channels = (("reply", ended.content), ("reasoning", ended.reasoning), ("tool call", ended.tool_args))
        for name, text in channels:
            if text:
                rows += self._told(name, text, REPLY_LINES)
        for hit in ended.hits:
            whose = "an earlier run" if hit.owner is None else f"session {hit.owner}"
            rows += self._told(
                f"{self._glyphs.bad} {hit.kind}", f"{hit.tag} of {whose} in its {hit.channel}", None, "bad"
            )
        answer = self._answers.get(turn.ref)
        if answer is not None and answer.note:
            rows += self._told("note", answer.note, None)
        return self._pointing(rows, turn.ref)

    def _told(self, name: str, text: str, most: int | None, role: Role | None = None) -> list[Row]:
        lead = f"        {name}: "
        rows = list(wrapped(text, self._width, self._glyphs, " " * min(cells(lead), self._width // 2), role))
        if most is not None and len(rows) > most:
            rows = [*rows[:most], *wrapped(f"{len(rows) - most} more lines", self._width, self._glyphs, " " * 8, "dim")]
        if not rows or len(lead) > self._width // 2:
            return [row([(lead, "dim")], self._width, self._glyphs), *rows]
        first = rows[0].text[len(lead) :]
        return [row([(lead, "dim"), (first, role)], self._width, self._glyphs), *rows[1:]]

    def _pointing(self, rows: list[Row], ref: Ref) -> list[Row]:
        return [msgspec.structs.replace(one, ref=ref, session=self._session) for one in rows]
