"""What any agent's log becomes: sessions of windows of API requests, with a ledger of what the file could not know."""

from __future__ import annotations

from typing import Literal

import msgspec

Role = Literal["system", "user", "assistant", "tool"]


class ToolCall(msgspec.Struct, frozen=True):
    """One call that the assistant made; `arguments` is JSON text of an object."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation; text is valid Unicode without lone surrogates."""

    role: Role
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    name: str = ""


class Usage(msgspec.Struct, frozen=True):
    """What the recorder's server counted for one request, in that server's tokens."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    """How many of the output tokens were reasoning. Where its text is not in the file, this is all that is known."""


class TokenIds(msgspec.Struct, frozen=True):
    """One request as the ids that really went over the wire, in the recorder's vocabulary."""

    kept_tokens: int
    """How many ids of the previous prompt and reply this prompt begins with; 0 in the first request of a window."""
    added: tuple[int, ...]
    """The ids of the prompt after those."""
    reply: tuple[int, ...]


class BlockIds(msgspec.Struct, frozen=True):
    """A prompt of a content-free trace as ids, each of which stands for all text up to the end of its block."""

    kept_blocks: int
    """How many ids of the previous prompt this one begins with; 0 in the first request of a window."""
    added: tuple[int, ...]
    """The ids after those."""


class Request(msgspec.Struct, frozen=True):
    """One API request: what was added to the prompt since the last one, and the reply."""

    delta: tuple[Message, ...]
    """Messages since the previous reply; in the first request of a window the whole prompt."""
    reply: Message
    usage: Usage = Usage()
    think_s: float = 0.0
    """Seconds a person took before this request."""
    tool_delay_s: float = 0.0
    """Seconds the tools took before this request."""
    ids: TokenIds | None = None
    """The recorded ids, None where the file has none."""
    blocks: BlockIds | None = None
    """What the prompt shares with others, where the file has ids of blocks and no text."""
    at_s: float | None = None
    """When it was asked, in seconds after the start of a content-free trace; None where the file does not say."""


class Window(msgspec.Struct, frozen=True):
    """A stretch in which each prompt starts with the previous prompt and reply."""

    reason: Literal["start", "compaction", "clear", "fork", "subagent"]
    requests: tuple[Request, ...]


class Session(msgspec.Struct, frozen=True):
    """One conversation of one agent."""

    id: str
    format: str
    source: str
    """File name without its folder."""
    windows: tuple[Window, ...]
    tools: str = ""
    """JSON text of the tool list as sent, empty if none is known."""
    parent: str | None = None
    model: str | None = None
    loss: tuple[tuple[str, int], ...] = ()
    """The loss ledger: what the file could not know or what was dropped, by name, with counts; sorted by name."""
    content_free: bool = False
    """The file holds lengths, block ids and delays, and no text: deltas and replies are empty, `usage` says how long
    they were. A replay of it is blind to degeneration, since nobody knows what a good reply would have been."""
    block_tokens: int | None = None
    """Tokens in a block that has an id, None without ids or where the size cannot be told."""
    spawned_after: int | None = None
    """How many of the parent's replies there were when one of them started this session, that one included. None where
    the file does not link the two by an id or by nesting: it is never guessed from times."""

    @property
    def requests(self) -> tuple[Request, ...]:
        """All requests of all windows, in order."""
        return tuple(request for window in self.windows for request in window.requests)


class TranscriptError(Exception):
    """A transcript cannot be used: which file, which line (from 1, None: all of it), what is wrong, what to do."""

    def __init__(self, file: str, line: int | None, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}" if line is not None else f"{file}: {message}")
        self.file = file
        self.line = line


class NothingToUseError(TranscriptError):
    """A file that is sound and holds nothing of what is asked for: an error where it is named, left out of a folder."""
