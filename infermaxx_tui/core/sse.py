"""Server-sent events from bytes, because the bytes arrive cut anywhere and a client that decodes or splits them
by text lines loses or invents events: the payloads that come out are the same under any chunking.

The rules are those of the WHATWG HTML standard, section 9.2.6, but for three: an unterminated last event is handed
out by `close` and not dropped, an event without data is counted as a keep-alive, and size is capped.
"""

from __future__ import annotations

from typing import Final

import msgspec

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""Largest line and largest payload of one event. More is a protocol error: nothing a model says is that long."""

_BOM = b"\xef\xbb\xbf"
_SHOWN_BYTES = 200


class NamedEvent(msgspec.Struct, frozen=True):
    """A payload that came under an `event:` name other than `message`."""

    name: str
    data: bytes


class SseFault(msgspec.Struct, frozen=True):
    """The stream broke a rule that cannot be mended; nothing comes out after it."""

    detail: str


Payload = bytes | NamedEvent | SseFault
"""What the parser hands out: the joined `data:` lines of one event, bare or with the event's name, or the end of it."""


_NAMES: Final = (b"data:", b"event:", b"id:", b"retry:", _BOM)


def _begins_a_field(torn: bytes) -> bool:
    """Whether a line without an end may be the beginning of a field's name, which says nothing yet."""
    return any(name.startswith(torn) and name != torn for name in _NAMES)


class SseParser:
    """Incremental parser of one response body. Time is linear in the bytes, memory is bounded by the size cap.

    What was odd about the framing stands in `comments`, `events`, `saw_cr`, `no_space`, `junk_line` and `cut`.
    """

    __slots__ = (
        "_bom_possible",
        "_clean",
        "_data",
        "_data_bytes",
        "_dead",
        "_max_bytes",
        "_name",
        "_skip_lf",
        "_tail",
        "_tail_bytes",
        "comments",
        "cut",
        "events",
        "junk_line",
        "no_space",
        "saw_cr",
    )

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_event_bytes
        self._bom_possible = True
        self._clean = True  # at the border between two events, with nothing held back
        self._dead = False
        self._skip_lf = False  # a CR ended the last line; an LF that follows belongs to it
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._name = ""
        self.events = 0
        """Events with a payload so far."""
        self.comments = 0
        """Comment lines and events without data so far: keep-alives."""
        self.saw_cr = False
        """A line ended in CR or CRLF."""
        self.no_space = False
        """A `data:` had its value right behind the colon."""
        self.junk_line = b""
        """The first line that is no field of the standard, at most 200 bytes: the evidence that this is not SSE."""
        self.cut = False
        """The body ended inside an event."""

    @property
    def anomalies(self) -> tuple[str, ...]:
        """Names of the harmless oddities of framing seen so far."""
        seen = (("ping", self.comments > 0), ("crlf", self.saw_cr), ("no_space", self.no_space))
        return tuple(name for name, was_seen in seen if was_seen)

    @property
    def inside(self) -> bool:
        """Whether an event has begun that is not whole yet."""
        return bool(self._tail or self._data)

    def feed(self, chunk: bytes) -> list[Payload]:
        """The payloads that `chunk` completes, in order; after an `SseFault` always empty."""
        if self._clean:
            border = len(chunk) - 2
            if border > 6 and chunk.find(b"\n") == border and chunk[-1] == 0x0A:
                # a lone event of one line, which is what a server that flushes each token sends
                if chunk[:6] == b"data: " and b"\r" not in chunk and border <= self._max_bytes:
                    self._bom_possible = False
                    self.events += 1
                    return [chunk[6:border]]
                return self._feed_lines(chunk)
            if chunk[:6] == b"data: " and b"\r" not in chunk and len(chunk) <= self._max_bytes:
                return self._feed_plain(chunk)
            return self._feed_lines(chunk)
        if self._dead or not chunk:
            return []
        if not self._tail:
            return self._feed_lines(chunk)
        if b"\n" not in chunk and b"\r" not in chunk:
            return self._hold(chunk)
        self._tail.append(chunk)
        joined = b"".join(self._tail)
        self._tail.clear()
        self._tail_bytes = 0
        if self._data or self._name or b"\r" in chunk or joined[:6] != b"data: " or len(joined) > self._max_bytes:
            return self._feed_lines(joined)
        return self._feed_plain(joined)

    def close(self) -> list[Payload]:
        """The event that the body's end left unterminated, if any; `cut` then says that it may be torn."""
        if self._dead:
            return []
        out: list[Payload] = []
        if self._tail:
            line = b"".join(self._tail)
            self._tail.clear()
            if not _begins_a_field(line.removeprefix(_BOM) if self._bom_possible else line):
                self._line(line, out)
            self.cut = True
        if self._data:
            self.cut = True
        if not self._dead:
            self._dispatch(out)
        self._clean = False
        self._dead = True
        return out

    def _feed_plain(self, chunk: bytes) -> list[Payload]:
        """The common case: `chunk` begins an event, has no CR, and holds `data: …` events of one line and nothing else.

        It is that case exactly if the separators account for every LF; else the line parser takes over.
        """
        end = len(chunk) if chunk[-2:] == b"\n\n" else chunk.rfind(b"\n\n") + 2
        if end < 8:  # no whole event
            return self._feed_lines(chunk)
        parts: list[bytes] = chunk[6 : end - 2].split(b"\n\ndata: ")
        if chunk.count(b"\n", 0, end) != 2 * len(parts):
            return self._feed_lines(chunk)
        self._bom_possible = False
        if b"" in parts:
            self.comments += parts.count(b"")
            parts = [part for part in parts if part]
        self.events += len(parts)
        out: list[Payload] = parts  # type: ignore[assignment]  # a fresh list, so that its invariance is no hazard
        if end == len(chunk):
            self._clean = True
        else:
            out += self._feed_lines(chunk[end:])
        return out

    def _hold(self, piece: bytes) -> list[Payload]:
        """Keeps a piece of an unfinished line."""
        self._tail.append(piece)
        self._tail_bytes += len(piece)
        self._clean = False
        out: list[Payload] = []
        if self._tail_bytes > self._max_bytes:
            self._fault(out)
        return out

    def _feed_lines(self, block: bytes) -> list[Payload]:
        """Any framing: line by line. `block` begins at the beginning of a line."""
        if self._skip_lf and block:
            self._skip_lf = False
            if block[0] == 0x0A:
                block = block[1:]
        if not block:
            return []
        lines = block.splitlines()  # of bytes: at LF, CR and CRLF only
        last = block[-1]
        rest = b"" if last in (0x0A, 0x0D) else lines.pop()
        self._skip_lf = last == 0x0D
        if b"\r" in block:
            self.saw_cr = True
        out: list[Payload] = []
        for line in lines:
            self._line(line, out)
            if self._dead:
                return out
        if rest:
            return out + self._hold(rest)
        self._clean = not (self._data or self._name or self._skip_lf)
        return out

    def _line(self, line: bytes, out: list[Payload]) -> None:
        if len(line) > self._max_bytes:
            self._fault(out)
            return
        if self._bom_possible:
            self._bom_possible = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(out)
        elif line.startswith(b"data:"):
            value = line[6:] if line[5:6] == b" " else line[5:]
            self.no_space = self.no_space or line[5:6] not in (b" ", b"")
            self._keep(value, out)
        elif line == b"data":
            self._keep(b"", out)
        else:
            self._other_field(line)

    def _keep(self, value: bytes, out: list[Payload]) -> None:
        self._data.append(value)
        self._data_bytes += len(value) + 1  # the LF that joins it to the next
        if self._data_bytes - 1 > self._max_bytes:
            self._fault(out)

    def _other_field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        match field:
            case b"":
                self.comments += 1
            case b"event":
                self._name = value.removeprefix(b" ").decode("utf-8", "replace")
            case b"id" | b"retry":
                pass
            case _:
                self.junk_line = self.junk_line or line[:_SHOWN_BYTES]

    def _dispatch(self, out: list[Payload]) -> None:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        name, had_data = self._name, bool(self._data)
        self._data.clear()
        self._data_bytes = 0
        self._name = ""
        if not data and name != "error":
            self.comments += had_data
            return
        self.events += 1
        out.append(data if name in ("", "message") else NamedEvent(name, data))

    def _fault(self, out: list[Payload]) -> None:
        self._dead = True
        self._clean = False
        self._tail.clear()
        self._data.clear()
        out.append(SseFault(f"an event is larger than {self._max_bytes} bytes"))
