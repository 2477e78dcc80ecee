"""Faults that lie in how a sound reply travels: the bytes of a stream's events and where their writes end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

import orjson

PROXY_BLOCK_BYTES: Final = {"clumps-4k": 4096, "clumps-8k": 8192, "buffered": 16 * 1024}
"""What a proxy collects before it hands it on, by the fault's name."""
BATCH_EVENTS: Final = 8
"""The same in whole events, as one does that hands on at intervals."""
HUGE_EVENT_BYTES = 9 * 1024 * 1024
_HUGE_WRITE_BYTES = 256 * 1024
_DONE = b"[DONE]"
_BAD_EVERY = 5

ERROR_EVENT = (
    b'{"error": {"message": "EngineCore encountered an issue. See stack trace (above) for the root cause.",'
    b' "type": "InternalServerError", "param": null, "code": 500}}'
)
"""What vLLM sends into a stream whose engine died (vllm-wire §1.9)."""
HTML_PAGE = (
    b"<!DOCTYPE html>\n<html><head><title>Gateway</title></head>\n"
    b"<body><h1>The service is starting</h1><p>Please come back in a moment.</p></body></html>\n"
)


class Delivery:
    """Frames the events of one stream as server-sent events, as sound or as odd as the faults say."""

    def __init__(self, faults: frozenset[str]) -> None:
        self._faults = faults
        self._prefix = b"data:" if "no-space" in faults else b"data: "
        self._end = b"\r\n\r\n" if "crlf" in faults else b"\n\n"
        self._block = min((size for name, size in PROXY_BLOCK_BYTES.items() if name in faults), default=0)
        self._batch = BATCH_EVENTS if "batched" in faults else 0
        self._sound = not (self._block or self._batch) and faults.isdisjoint({"ping", "split"})
        self._held = bytearray()
        self._events = 0

    def event(self, payload: bytes) -> list[bytes]:
        """The writes that one event becomes; none while a proxy holds it."""
        frame = self._prefix + payload + self._end
        if self._sound:
            return [frame]
        self._events += 1
        if "ping" in self._faults and self._events % 3 == 1:
            frame = b": ping" + self._end + frame
        return self._written(frame)

    def done(self) -> list[bytes]:
        """The end of a stream."""
        times = 0 if "no-done" in self._faults else 2 if "two-done" in self._faults else 1
        writes = [write for _ in range(times) for write in self.event(_DONE)]
        return writes + self.flush()

    def flush(self) -> list[bytes]:
        """What a proxy still holds."""
        held, self._held = bytes(self._held), bytearray()
        return [held] if held else []

    def _written(self, frame: bytes) -> list[bytes]:
        if self._block:
            self._held += frame
            if len(self._held) < self._block:
                return []
            block, self._held = bytes(self._held[: self._block]), self._held[self._block :]
            return [block, *self._written(b"")] if len(self._held) >= self._block else [block]
        if self._batch:
            self._held += frame
            return self.flush() if self._events % self._batch == 0 else []
        return _pieces(frame, self._events) if "split" in self._faults else [frame]


def _pieces(frame: bytes, number: int) -> list[bytes]:
    """The frame cut inside its first character beyond ASCII, and at places that wander from event to event."""
    if number == 1 and len(frame) < 4096:
        return [frame[at : at + 1] for at in range(len(frame))]
    cuts = {1 + (number * 7 + k * 31) % (len(frame) - 1) for k in range(3)}
    wide = next((at for at, byte in enumerate(frame) if byte >= 0x80), None)
    if wide is not None:
        cuts.add(wide + 1)
    ends = [*sorted(cuts), len(frame)]
    return [frame[start:end] for start, end in zip([0, *ends], ends, strict=False) if start < end]


def text_encoder(faults: frozenset[str]) -> Callable[[str], bytes]:
    """How texts become JSON strings under these faults; a fresh one for each stream."""
    if "escapes" in faults:
        return escaped
    return _BadUtf8() if "bad-utf8" in faults else orjson.dumps


def escaped(text: str) -> bytes:
    """The text as JSON in its longest form: every character but letters, digits and spaces of ASCII is escaped."""
    out = []
    for char in text:
        if char == "/":
            out.append("\\/")
        elif char.isascii() and (char.isalnum() or char == " "):
            out.append(char)
        else:
            units = char.encode("utf-16-be")
            out += [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
    return ('"' + "".join(out) + '"').encode()


class _BadUtf8:
    """Now and then a byte that no UTF-8 text holds, or the first half of a character, behind the text."""

    def __init__(self) -> None:
        self._texts = 0

    def __call__(self, text: str) -> bytes:
        self._texts += 1
        sound = orjson.dumps(text)
        if self._texts % _BAD_EVERY != 1:
            return sound
        return sound[:-1] + (b'\xff"' if self._texts % 2 else b'\xc3"')


def with_nan(payload: bytes) -> bytes:
    """The event with a number that is none."""
    return payload.replace(b'"logprobs":null', b'"logprobs":NaN', 1)


@functools.lru_cache(maxsize=1)
def huge_event() -> tuple[bytes, ...]:
    """The writes of one event that no sound server would send."""
    text = b"x" * HUGE_EVENT_BYTES
    frame = b'data: {"id":"cmpl-huge","object":"text_completion","choices":[{"index":0,"text":"' + text + b'"}]}\n\n'
    return tuple(frame[at : at + _HUGE_WRITE_BYTES] for at in range(0, len(frame), _HUGE_WRITE_BYTES))
