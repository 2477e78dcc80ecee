"""What goes into one request and what comes out of it, and the sum of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from infermaxx_tui.core.events import ControlAsked, ProbeAsked, QualityAsked, RequestEnded, RequestKind
from infermaxx_tui.runner.lag import LagWatch
from infermaxx_tui.runner.lines import Prompt
from infermaxx_tui.runner.prefix import PrefixWatch


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The question that a request carries."""

    label: str
    tag: str
    asked_at: float
    planted_depth_tokens: int | None
    depth_tokens: int
    again_of: int | None = None

    def again(self, first: int) -> Asked:
        """The same question once more, after request `first`."""
        return msgspec.structs.replace(self, again_of=first)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One request as its conversation wants it."""

    prompt: Prompt
    session: int
    turn: int
    kind: RequestKind
    max_tokens: int
    forced: bool = False
    """The reply is to be exactly so long, whatever the model wants."""
    opens: str = ""
    """Why the prompt begins anew here, if it does."""
    salt: str | None = None
    asked: Asked | None = None
    keep_text: bool = False
    prefix: PrefixWatch | None = None
    """Where the conversation's prompts are compared."""
    lags: LagWatch | None = None
    """Watches how prompt the client is while the request is open."""
    on_first: Callable[[], None] | None = None
    """Called at the first token."""
    announced: Callable[[int], QualityAsked | ControlAsked | ProbeAsked] | None = None
    """Makes an event of the request's number, to be logged when it is sent."""

    def again(self, first: int) -> Order:
        """The same once more; a question then says that request `first` had asked it."""
        return self if self.asked is None else msgspec.structs.replace(self, asked=self.asked.again(first))


class Exchange(msgspec.Struct, frozen=True):
    """What came of one request."""

    ended: RequestEnded
    text: str
    ids: tuple[int, ...] | None
    """The reply's own ids; None if the server sent none."""
    retry_after_s: float
    own_tags: tuple[str, ...]
    """The asked tag, if it stands anywhere in the reply."""


def unsent(order: Order, why: str) -> Exchange:
    """What comes of an order that was never sent, and that the log does not know."""
    ended = RequestEnded(req=0, session=order.session, turn=order.turn, kind=order.kind, outcome="cancelled", error=why)
    return Exchange(ended, "", None, 0.0, ())


class Sender(Protocol):
    """Whatever sends the requests of a conversation."""

    async def send(self, order: Order) -> Exchange:
        """Sends one request and returns when it is over, however it ended."""


class Totals:
    """Token counts of all requests so far, to be held against the server's own."""

    def __init__(self) -> None:
        self.generation = 0
        self.prompt = 0
        self.cut = 0
        """Requests that the server may have worked on and that ended before their counts came."""
        self.uncounted = 0

    def add(self, ended: RequestEnded) -> None:
        """Counts a request that is over."""
        match ended.outcome:
            case "shed" | "too_long" | "refused_connection":
                return
            case "rejected" if ended.status is not None and ended.status < 500:
                return
            case "ok":
                self.uncounted += ended.prompt_tokens is None or ended.completion_tokens is None
            case _:
                self.cut += 1
        self.generation += ended.completion_tokens or 0
        self.prompt += ended.prompt_tokens or 0
