"""Which tags enter a conversation now, and the lines in which they stand. A tag is noted only once it is in."""

from __future__ import annotations

from typing import Literal

from infermaxx_tui.core.events import TagPlanted
from infermaxx_tui.core.plan import TagPlan, reached
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.core.wording import tag_line, tag_repeat, tag_statement
from infermaxx_tui.runner.lines import Line

LINE_TOKENS = 40
"""Room for a tag's line inside a message; the lines of core.wording take about 20 tokens."""


class Planting:
    """The tags of one conversation, and where each was planted."""

    def __init__(self, line: Line, session: int, tags: tuple[TagPlan, ...], target: int) -> None:
        self._line = line
        self._session = session
        self._tags = tags
        self._target = target
        self.depths: dict[str, int] = {}
        """Tokens before each tag that stands in the prompt, by label."""
        self._once: set[str] = set()
        """Labels that were planted at some time."""
        self._fresh: list[TagPlanted] = []

    def with_head(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The first messages with the tags that belong to the system prompt."""
        for tag in self._tags:
            if tag.how == "head":
                messages = _with_head(messages, tag)
        return messages

    def began(self, turn: int) -> None:
        """The first messages of a prompt are in the line."""
        for tag in self._tags:
            if tag.how == "head":
                self._note(tag, "head", 0, turn)

    def forget(self) -> None:
        """The prompt begins anew: what was planted is in no prompt any more, and is planted again in its place."""
        self.depths.clear()

    def due(self, upcoming_tokens: int, reply_tokens: int) -> list[TagPlan]:
        """Tags whose place lies nearer before the coming turn than after it, and all that are left before the last one.

        `reply_tokens` is what the coming reply may add.
        """
        depth = self._line.depth_tokens
        last = reached(depth + upcoming_tokens + reply_tokens, self._target)
        return [
            tag
            for tag in self._tags
            if tag.label not in self.depths and (last or depth + upcoming_tokens / 2 >= tag.depth_tokens)
        ]

    def tell(self, tags: list[TagPlan], turn: int) -> None:
        """Plants tags as exchanges of their own before the coming turn."""
        for tag in tags:
            depth = self._line.depth_tokens
            self._line.tell(tag_statement(tag.label, tag.tag), tag_repeat(tag.label, tag.tag))
            self._note(tag, "exchange", depth, turn)

    def tell_the_rest(self, turn: int) -> None:
        """Plants whatever is left as exchanges: the conversation ends here, and its deepest questions come next."""
        self.tell([tag for tag in self._tags if tag.label not in self.depths], turn)

    def inlined(self, tags: list[TagPlan], turn: int) -> None:
        """The messages that `with_lines` gave were added."""
        for tag in tags:
            self._note(tag, "inline", self._line.depth_tokens, turn)

    def _note(self, tag: TagPlan, how: Literal["exchange", "inline", "head"], floor_tokens: int, turn: int) -> None:
        """Notes a tag that is in the line; where its exact place is not known, the depth below it stands for it."""
        where = self._line.where(tag.tag)
        depth = self.depths[tag.label] = floor_tokens if where is None else where
        again = tag.label in self._once
        self._once.add(tag.label)
        session, label = self._session, tag.label
        self._fresh.append(
            TagPlanted(session=session, label=label, tag=tag.tag, how=how, depth_tokens=depth, turn=turn, again=again)
        )

    def fresh(self) -> list[TagPlanted]:
        """What was planted since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh


def _with_head(messages: tuple[Message, ...], tag: TagPlan) -> tuple[Message, ...]:
    """The messages with the tag at the end of the system prompt; one is made where there is none."""
    note = tag_line(tag.label, tag.tag)
    if messages and messages[0].role == "system":
        return (Message("system", f"{messages[0].content}\n\n{note}"), *messages[1:])
    return (Message("system", note), *messages)


def with_lines(messages: tuple[Message, ...], tags: list[TagPlan]) -> tuple[Message, ...]:
    """The messages with the tags' lines in the middle of the last tool result, else of the last user message."""
    for tag in tags:
        place = _place(messages)
        lines = messages[place].content.split("\n")
        lines.insert(len(lines) // 2, tag_line(tag.label, tag.tag))
        old = messages[place]
        changed = Message(old.role, "\n".join(lines), tool_call_id=old.tool_call_id, name=old.name)
        messages = (*messages[:place], changed, *messages[place + 1 :])
    return messages


def takes_lines(messages: tuple[Message, ...]) -> bool:
    """Whether a line can stand in these messages."""
    return any(message.role in ("tool", "user") for message in messages)


def _place(messages: tuple[Message, ...]) -> int:
    last = {message.role: place for place, message in enumerate(messages)}
    return last["tool"] if "tool" in last else last["user"]
