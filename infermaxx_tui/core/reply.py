"""The accumulation of one reply: what came, how many tokens, when, and whether it ended as a reply should.

One `Reply` a request, fed event by event on the hot path, so it is mutable and makes no objects of its own.
Tokens come from ids, else from running usage, else they are estimated, aloud, and usage has the last word; a chunk is
never taken for a token silently (peers §4 A, prior-art D14 to D28).
"""

from __future__ import annotations

import msgspec

from infermaxx_tui.core.events import Outcome
from infermaxx_tui.core.sse import Payload, SseFault, SseParser
from infermaxx_tui.core.think import Think, ThinkSplitter
from infermaxx_tui.core.tool_calls import ToolCalls
from infermaxx_tui.core.wire import Chunk, Done, Malformed, ServerError, ToolDelta, Usage, WireEvent, parse, plain_token
from infermaxx_tui.core.wire_odd import as_text, one_line

BUFFERED_US = 1000
BUFFERED_MIN_TOKENS = 16
"""A reply of at least that many tokens whose first and last arrive within that time was not streamed (peers #37)."""

NO_TOKENS: tuple[int | None, int] = (None, 0)


class Ending(msgspec.Struct, frozen=True):
    """How a request ended on the wire, and one line of evidence if it is not `ok`."""

    outcome: Outcome
    detail: str | None = None


class Reply(msgspec.Struct, kw_only=True):
    """Counts, times (µs on the caller's monotonic clock), text and ending of one streamed reply."""

    think: Think | None = None
    """Splits the text of a completion by the ids of its think tokens; a chat reply comes split."""
    keep_prompt_ids: bool = False
    """Keep the prompt as the server saw it: large, so only if it is needed."""
    anomalies: set[str] = msgspec.field(default_factory=set)
    """Oddities by name, each once; complete after `finish`."""
    chunks: int = 0
    """Events of the first choice."""
    ids: list[int] = msgspec.field(default_factory=list)
    """Ids generated, as the server sent them: end-of-turn and think tokens included."""
    tokens: int = 0
    """Tokens counted as they came; see `estimated` and `completion_tokens`."""
    estimated: bool = False
    """Some of `tokens` are only chunks with text."""
    first_chunk_tokens: int | None = None
    first_token_us: int | None = None
    """When the first generated token of any channel came."""
    first_visible_us: int | None = None
    """When the first content that is more than white space, or the first piece of a tool call, came."""
    last_token_us: int | None = None
    usage: Usage | None = None
    """The last one that came."""
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    done: bool = False
    """`[DONE]` came."""
    error: str | None = None
    """The first protocol fault or server error, one line."""
    error_code: int | None = None
    server_id: str | None = None
    prompt_ids: tuple[int, ...] | None = None
    """The prompt as the server saw it, with `keep_prompt_ids`."""
    prompt_ids_count: int | None = None
    cut: bool = False
    """The body ended inside an event."""
    not_sse: bytes = b""
    """The beginning of a body that holds no event but something else."""
    tools: ToolCalls = msgspec.field(default_factory=ToolCalls)
    _content: list[str] = msgspec.field(default_factory=list)
    _reasoning: list[str] = msgspec.field(default_factory=list)
    _splitter: ThinkSplitter | None = None
    _usage_runs: bool = False
    _usage_events: int = 0
    _names: set[str] = msgspec.field(default_factory=set)
    """The ids under which events came, apart from those of the hot path."""

    def __post_init__(self) -> None:
        if self.think is not None:
            self._splitter = ThinkSplitter(self.think)

    def take(self, payload: Payload, at_us: int) -> tuple[int | None, int]:
        """What `add` does and returns, of a payload as the parser gives it.

        The hot path: a token in the middle of a reply, with its ids and nothing else, goes from JSON into this reply
        without an object in between; anything else goes the long way.
        """
        if type(payload) is not bytes or self.server_id is None or self.finish_reason is not None or self.done:
            return self.add(parse(payload), at_us)
        choice = plain_token(payload, self.server_id)
        if choice is None:
            return self.add(parse(payload), at_us)
        content, reasoning, ids, delta = choice.text or "", "", choice.token_ids or (), choice.delta
        if delta is not None:
            content, reasoning = delta.content or content, delta.reasoning or delta.reasoning_content or ""
        if self._splitter is not None:
            content, reasoning = self._splitter.split(content, ids)
        self.chunks += 1
        if reasoning:
            self._reasoning.append(reasoning)
        if content:
            self._content.append(content)
            if self.first_visible_us is None and not content.isspace():
                self.first_visible_us = at_us
        self.ids += ids
        last = self.last_token_us
        if last is None or len(ids) > 1:
            return self._stamp(len(ids), at_us)
        self.tokens += 1
        self.last_token_us = at_us
        return at_us - last, 1

    def add(self, event: WireEvent, at_us: int) -> tuple[int | None, int]:
        """Takes an event that was read at `at_us`.

        Returns the gap in µs since the chunk with tokens before (None for the first) and this chunk's tokens;
        `NO_TOKENS` if it has none.
        """
        if type(event) is not Chunk:
            self._add_other(event)
            return NO_TOKENS
        if event.usage is not None:
            self.usage = event.usage
            self._usage_events += event.has_choice
        if event.anomalies:
            self.anomalies.update(event.anomalies)
        if self.server_id is None or event.prompt_ids is not None:
            self._open(event)
        if not event.has_choice:
            return NO_TOKENS
        self.chunks += 1
        if event.server_id:
            self._names.add(event.server_id)
        content, reasoning, ids = event.content, event.reasoning, event.token_ids
        if self._splitter is not None:
            content, reasoning = self._splitter.split(content, ids)
        bears = bool(content or reasoning or event.tools)
        if bears:
            self._keep(content, reasoning, event.tools, at_us)
        if ids is None:
            tokens = self._count(event, bears)
        else:
            tokens = len(ids)
            self.ids.extend(ids)
        if self.finish_reason is not None or self.done:
            self._note_late(bears or tokens > 0)
        if event.finish_reason is not None:
            self.finish_reason, self.stop_reason = event.finish_reason, event.stop_reason
        return self._stamp(tokens, at_us) if tokens else NO_TOKENS

    def finish(self, parser: SseParser, at_us: int) -> None:
        """Takes what the body's end left in the parser, and what it noticed. Call it once, whatever ended the body."""
        for payload in parser.close() if self.error is None else ():
            event = parse(payload)
            if isinstance(event, Malformed) and not isinstance(payload, SseFault):
                break  # torn by the end, which is what `outcome` reports
            self.add(event, at_us)
        self.cut = parser.cut
        self.anomalies.update(parser.anomalies)
        if parser.junk_line and parser.events == 0:
            self.not_sse = parser.junk_line
        if self._usage_events > 1:
            self.anomalies.add("usage_cumulative")
        if self.usage is None:
            self.anomalies.add("no_usage")
        if self.finish_reason is not None and not self.done:
            self.anomalies.add("no_done")
        if self.estimated:
            self.anomalies.add("tokens_estimated")
        self._check_counts()

    def outcome(self, broken: str | None = None) -> Ending:
        """How it ended, after `finish`. `broken` is what the transport said if the body did not end by itself."""
        if self.error is not None:
            return Ending("protocol", self.error)
        if self.not_sse:
            return Ending("protocol", one_line(f"not an event stream: {as_text(self.not_sse)}"))
        match self.finish_reason:
            case "error":
                return Ending("protocol", "finish_reason error")
            case "abort":
                return Ending("truncated", "the server aborted the request (finish_reason abort)")
            case None if not self.done:
                where = "inside an event" if self.cut else "without finish_reason or [DONE]"
                how = f" ({broken})" if broken else ""
                return Ending("truncated", one_line(f"the stream ended {where} after {self.tokens} tokens{how}"))
        return Ending("ok")

    @property
    def content(self) -> str:
        """The visible text."""
        return "".join(self._content)

    @property
    def reasoning(self) -> str:
        """The thinking."""
        return "".join(self._reasoning)

    @property
    def completion_tokens(self) -> int | None:
        """Generated tokens as the server counted, else the ids received; None if there are neither."""
        if self.usage is not None and self.usage.completion_tokens is not None:
            return self.usage.completion_tokens
        return len(self.ids) or None

    @property
    def reasoning_tokens(self) -> int | None:
        """Tokens of thinking as the server counted, else by the think tokens' ids; None if there are neither."""
        if self.usage is not None and self.usage.reasoning_tokens is not None:
            return self.usage.reasoning_tokens
        return self._splitter.reasoning_tokens if self._splitter is not None and self.ids else None

    @property
    def inside_thinking(self) -> bool:
        """The think block was open when the reply ended."""
        return self._splitter is not None and self._splitter.inside

    def _add_other(self, event: WireEvent) -> None:
        if self.done:
            self.anomalies.add("two_done" if isinstance(event, Done) else "after_done")
        match event:
            case Done():
                self.done = True
            case ServerError(message, code):
                if self.error is None:
                    self.error, self.error_code = message, code
            case Malformed(detail):
                self.error = self.error or detail
            case Chunk():
                pass

    def _open(self, event: Chunk) -> None:
        """What the first chunk says about the request."""
        self.server_id = self.server_id or event.server_id
        if event.prompt_ids is not None:
            self.prompt_ids_count = len(event.prompt_ids)
            if self.keep_prompt_ids:
                self.prompt_ids = event.prompt_ids

    def _count(self, event: Chunk, bears: bool) -> int:
        """Tokens of a chunk without ids: the step of running usage, else one if it bears anything.

        Usage runs if the first chunk with tokens has it; a total that only the last chunk has is no step.
        """
        if event.role_only:
            return 0
        total = None if event.usage is None else event.usage.completion_tokens
        if self.tokens == 0 and total and (bears or event.finish_reason is None):
            self._usage_runs = True
        if self._usage_runs and total is not None:
            return max(0, total - self.tokens)
        if not bears:
            return 0
        self.estimated = True
        return 1

    def _keep(self, content: str, reasoning: str, tools: tuple[ToolDelta, ...], at_us: int) -> None:
        if content:
            self._content.append(content)
        if reasoning:
            self._reasoning.append(reasoning)
        for delta in tools:
            self.tools.add(delta)
        if self.first_visible_us is None and (tools or (content and not content.isspace())):
            self.first_visible_us = at_us

    def _stamp(self, tokens: int, at_us: int) -> tuple[int | None, int]:
        self.tokens += tokens
        if tokens > 1:
            self.anomalies.add("burst")
        last, self.last_token_us = self.last_token_us, at_us
        if last is None:
            self.first_token_us, self.first_chunk_tokens = at_us, tokens
            return None, tokens
        return at_us - last, tokens

    def _note_late(self, bears: bool) -> None:
        if self.done:
            self.anomalies.add("after_done")
        if bears and self.finish_reason is not None:
            self.anomalies.add("after_finish")

    def _check_counts(self) -> None:
        said = None if self.usage is None else self.usage.completion_tokens
        if said is not None and self.ids and said != len(self.ids):
            self.anomalies.add("ids_usage_differ")
        if 1 < len(self._names) < self.chunks:  # a server may name each event anew, and then no name comes again
            self.anomalies.add("mixed_ids")
        silent = not (self._content or self._reasoning or self.tools or self.ids)
        if silent and said is not None and said > 1:  # a single token may be the end-of-turn alone
            self.anomalies.add("unparsed_delta")
        if self.first_token_us is None or self.last_token_us is None or self.tokens < BUFFERED_MIN_TOKENS:
            return
        if self.last_token_us - self.first_token_us < BUFFERED_US:
            self.anomalies.add("buffered")
