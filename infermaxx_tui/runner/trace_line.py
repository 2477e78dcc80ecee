"""The main line of a trace without text: prompts of the recorded lengths, whatever tags and replies stand in them."""

from __future__ import annotations

from infermaxx_tui.core.blocks import Frame, Stretch
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.segments import end_of_turn
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.runner.lines import TokenLine


class TraceLine(TokenLine):
    """A line that is filled up with made text.

    With live replies a user's turn of text follows each reply. Without, the prompt is one text from its first token
    on, as the trace's blocks say it, and replies are in no later prompt; tags then stand in the text.
    """

    def __init__(self, renderer: Renderer, close_thinking: bool, live: bool) -> None:
        super().__init__(renderer, close_thinking)
        self._live_replies = live
        self._first: Frame | None = None
        self._later: Frame | None = None
        self._told: list[tuple[int, tuple[int, ...]]] = []
        """Tags in the text: at which token of it, and their ids."""
        self._text_to = 0

    def fill(self, stretch: Stretch, prompt_tokens: int, anew: bool) -> None:
        """Makes the next prompt, of the given length if what stands in it already leaves room for that."""
        if anew or not self._ids:
            self._begin_text()
        if self._live_replies and self._closed:
            frame = self._later_frame()
            start = len(self._ids) + len(frame.head)
            text = stretch.ids(start, max(start + 1, prompt_tokens - len(frame.tail)))
            self.add((), (*frame.head, *text, *frame.tail))
            return
        frame = self._first_frame()
        stop = max(len(frame.head) + 1, prompt_tokens - len(frame.tail))
        self._ids = [*frame.head, *self._text(stretch, len(frame.head), stop), *frame.tail]
        self._added_at = 0
        self._text_to = stop

    def upcoming(self, prompt_tokens: int) -> int:
        """Tokens that `fill` will add."""
        return max(1, prompt_tokens - len(self._ids))

    def tell(self, statement: str, answer: str) -> None:
        """Adds a whole exchange that needs no request; with text alone the statement stays in it."""
        if self._ids and not self._live_replies:
            self._told.append((self._text_to, self._renderer.encode(f"\n{statement}\n")))
        super().tell(statement, answer)

    def _begin_text(self) -> None:
        self._end = end_of_turn(self._renderer)
        self._suffix = self._closing_suffix()
        self._system = None
        self._ids, self._told = [], []
        self._added_at = self._closed = self._text_to = 0

    def _text(self, stretch: Stretch, start: int, stop: int) -> list[int]:
        """The text with the tags in it, which take the places of other words."""
        out: list[int] = []
        for place, ids in self._told:
            out += stretch.ids(start + len(out), max(place, start + len(out)))
            out += ids
        out += stretch.ids(start + len(out), max(stop, start + len(out)))
        return out

    def _first_frame(self) -> Frame:
        self._first = self._first or Frame.first(self._renderer)
        return self._first

    def _later_frame(self) -> Frame:
        self._later = self._later or Frame.later(self._renderer)
        return self._later

    def close_with(self, reply: Message, ids: tuple[int, ...] | None = None, prompt_tokens: int | None = None) -> None:
        """Ends the turn without a reply: there is none to put in its place."""
        super().close_with(Message("assistant", "."), None, prompt_tokens)
