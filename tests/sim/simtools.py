"""What the tests of the embedded server share: a clock that jumps, conversations, and streams read as raw bytes."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import httpx
import orjson

from infermaxx_tui.core.transcript import Message
from infermaxx_tui.core.wording import recall_question, tag_repeat, tag_statement
from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.config import SimConfig
from infermaxx_tui.sim.engine import Engine
from infermaxx_tui.sim.transport import SimTransport
from infermaxx_tui.vocabulary import Vocabulary, shipped

T = TypeVar("T")
WALL_S = 1_800_000_000.0
TAGS = {
    "copper kettle": "KX7Q-M4TR",
    "paper lantern": "QHAD-9WNC",
    "silver anchor": "T6FG-3PYE",
    "wooden ladder": "ANVR-K7D4",
}


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: what the loop would have slept is added to its clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("the loop would wait for ever")
        ready = super().select(0)
        if not ready:
            self.now_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes at once. Without sockets it is deterministic."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """The result of `main` on a clock that jumps."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def make_app(*faults: str, **settings: Any) -> App:
    """A server with a wall clock that stands still; faults begin at once unless `healthy_turns` says otherwise."""
    config = SimConfig(**{"faults": faults, "healthy_turns": 0, **settings})
    return App(Engine(config, wall=lambda: WALL_S))


def client_of(app: App) -> httpx.AsyncClient:
    """A client of the server in memory."""
    return httpx.AsyncClient(transport=SimTransport(app), base_url="http://sim", timeout=None)


def told(labels: tuple[str, ...], filler: str = "Go on.", tags: Mapping[str, str] = TAGS) -> tuple[Message, ...]:
    """A conversation in which these labels' tags were stated and repeated, and some work done after each."""
    out: list[Message] = [Message("system", "You work on a repository.")]
    for label in labels:
        out += (
            Message("user", tag_statement(label, tags[label])),
            Message("assistant", tag_repeat(label, tags[label])),
            Message("user", f"{filler} First the part with the {label.split()[0]} name."),
            Message("assistant", "It is done, and the tests are green."),
        )
    return tuple(out)


def asking(labels: tuple[str, ...], asked: str, filler: str = "Go on.", tags: Mapping[str, str] = TAGS) -> list[int]:
    """Prompt ids of that conversation with a question at its end."""
    return ids_of((*told(labels, filler, tags), Message("user", recall_question(asked))))


def working(labels: tuple[str, ...], last: str = "Now the next file.", filler: str = "Go on.") -> list[int]:
    """Prompt ids of that conversation with more work at its end."""
    return ids_of((*told(labels, filler), Message("user", last)))


def ids_of(messages: tuple[Message, ...], tools: str = "") -> list[int]:
    """Prompt ids."""
    return list(vocabulary().render(messages, tools, True))


def vocabulary() -> Vocabulary:
    """The shipped one."""
    return shipped()


def completion(ids: list[int], **fields: Any) -> dict[str, Any]:
    """The body of a streamed completion as the runner sends it."""
    return {
        "prompt": ids,
        "max_tokens": 200,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        **fields,
    }


async def raw(app: App, path: str, body: object, **headers: str) -> bytes:
    """The bytes of a response's body."""
    async with client_of(app) as client:
        answer = await client.post(path, json=body, headers=headers)
        return answer.content


async def events_of(app: App, ids: list[int], **fields: Any) -> list[Any]:
    """The JSON events of a streamed completion."""
    return parsed(await raw(app, "/v1/completions", completion(ids, **fields)))


def parsed(data: bytes) -> list[Any]:
    """The JSON events of a sound stream that ends in [DONE]."""
    frames = data.split(b"\n\n")
    assert frames[-2:] == [b"data: [DONE]", b""]
    return [orjson.loads(frame.removeprefix(b"data: ")) for frame in frames[:-2]]


def text_of(events: list[Any]) -> str:
    """The text of a completion's events."""
    return "".join(choice["text"] for event in events for choice in event["choices"])


def ids_in(events: list[Any]) -> list[int]:
    """The generated ids of a completion's events."""
    return [i for event in events for choice in event["choices"] for i in choice["token_ids"] or ()]


def finish_of(events: list[Any]) -> str | None:
    """The finish reason of a completion, None if it never came."""
    found = [c["finish_reason"] for event in events for c in event["choices"] if c["finish_reason"] is not None]
    return found[-1] if found else None


async def said(app: App, ids: list[int], **fields: Any) -> str:
    """What the server says to a prompt."""
    return text_of(await events_of(app, ids, **fields))
