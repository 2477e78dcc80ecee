"""When the schedule wanted a request, and when its bytes went out: what lies between is ours, and no TTFT shows it.

A conversation's next request is wanted when the reply before it is over, when its think time ends, when the others have
arrived, or when its wave starts. That moment hangs on the conversation's own task, so that whatever waits there can set
it, and whoever sends finds it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Literal

import anyio

from infermaxx_tui.core.events_read import Spent
from infermaxx_tui.core.stats import LogHistogram

Why = Literal["wave", "turn", "pause", "meeting"]


class Due:
    """When the next request of a conversation is wanted."""

    __slots__ = ("at_us", "render_us", "why")

    def __init__(self, at_us: int) -> None:
        self.at_us = at_us
        self.why: Why = "wave"
        self.render_us = 0
        """What rendering took since then, with the wait for its turn."""


_DUE: ContextVar[Due | None] = ContextVar("due", default=None)


def begin(at_us: int) -> None:
    """From here on this task, and what it calls, is a conversation whose first request is wanted at that moment."""
    _DUE.set(Due(at_us))


def wanted(at_us: int, why: Why) -> None:
    """The next request of this conversation is wanted at that moment; nothing where no conversation is played."""
    due = _DUE.get()
    if due is not None:
        due.at_us, due.why, due.render_us = at_us, why, 0


def wanted_now(why: Why) -> None:
    """The next request is wanted now."""
    wanted(round(anyio.current_time() * 1e6), why)


def rendered(us: int) -> None:
    """So much of the time went to rendering."""
    due = _DUE.get()
    if due is not None:
        due.render_us += us


def current() -> Due | None:
    """Of the conversation that asks; None outside of one."""
    return _DUE.get()


class _Sum:
    """How often, how long in all, how long at most."""

    __slots__ = ("longest_us", "n", "total_us")

    def __init__(self) -> None:
        self.n = self.total_us = self.longest_us = 0

    def add(self, us: int) -> None:
        self.n += 1
        self.total_us += us
        self.longest_us = max(self.longest_us, us)


class Sends:
    """What went out since the last reading. A request costs it a few additions; an event of a stream none."""

    def __init__(self) -> None:
        self.delays_ms: list[float] = []
        self.connects_ms: list[float] = []
        self.unsaid = 0
        """Requests whose transport said nothing of a connection."""
        self.new = 0
        self.reused = 0
        self._by: dict[str, _Sum] = {}
        self._parts: dict[str, _Sum] = {}

    def sent(self, due: Due | None, at_us: int, connect_us: int | None, reused: bool = False) -> None:
        """The first bytes of a request went out; `connect_us` is None with a transport that does not say."""
        if connect_us is None:
            self.unsaid += 1
        else:
            self.connects_ms.append(connect_us / 1000)
            self.new += not reused
            self.reused += reused
        if due is None:
            return
        delay_us = max(at_us - due.at_us, 0)
        self.delays_ms.append(delay_us / 1000)
        self._by.setdefault(due.why, _Sum()).add(delay_us)
        render_us = min(due.render_us, delay_us)
        connecting_us = min(connect_us or 0, delay_us - render_us)
        for name, us in (
            ("render", render_us),
            ("connect", connecting_us),
            ("other", delay_us - render_us - connecting_us),
        ):
            self._parts.setdefault(name, _Sum()).add(us)

    @property
    def by(self) -> tuple[Spent, ...]:
        """The delays by why the moment came."""
        return _spent(self._by)

    @property
    def parts(self) -> tuple[Spent, ...]:
        """The delays by what they went to."""
        return _spent(self._parts)


def _spent(sums: dict[str, _Sum]) -> tuple[Spent, ...]:
    return tuple(
        Spent(name, one.n, round(one.total_us / 1000, 3), round(one.longest_us / 1000, 3))
        for name, one in sorted(sums.items())
    )


def buckets(values_ms: list[float]) -> tuple[tuple[int, int], ...]:
    """The values as a histogram that adds up over windows."""
    histogram = LogHistogram()
    for value in values_ms:
        histogram.add(value)
    return histogram.pairs()
