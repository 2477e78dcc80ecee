"""One request in flight over the whole run, the conversations in turn: the control that leaves out concurrency alone.

All conversations of a wave are open, so that their tags are on the server, and their prompts alternate there. A
failure that needs requests beside one another cannot happen, and everything else can.
"""

from __future__ import annotations

import anyio

from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.dispatch import wanted_now
from infermaxx_tui.runner.exchange import Exchange, Order, Sender, unsent
from infermaxx_tui.runner.meeting import Meeting


class Ring:
    """Whose turn it is: one request each, in the order of their places, whoever is ready first."""

    def __init__(self, parties: int) -> None:
        self._in = [True] * parties
        self._at = 0
        self._moved = anyio.Event()

    async def wait(self, place: int) -> None:
        """Until it is the turn of this place."""
        while self._at != place:
            await self._moved.wait()

    def pass_on(self, place: int) -> None:
        """The turn is over: the next one that is in the ring has it."""
        if self._at == place:
            self._move(place + 1)

    def step_out(self, place: int) -> None:
        """Sends nothing until it steps in again; the others do not wait for it."""
        self._in[place] = False
        self.pass_on(place)

    def step_in(self, place: int) -> None:
        """Back in its place."""
        self._in[place] = True
        if self._at < 0 or not self._in[self._at]:
            self._move(place)

    def _move(self, to: int) -> None:
        size = len(self._in)
        ahead = ((to + step) % size for step in range(size))
        self._at = next((place for place in ahead if self._in[place]), -1)
        self._moved.set()
        self._moved = anyio.Event()


class Seat(Meeting):
    """One conversation's place in the ring: it sends in its turn, and gives the turn away while it waits for others."""

    def __init__(self, run: RunContext, sender: Sender, ring: Ring, place: int, meeting: Meeting) -> None:
        super().__init__(meeting.parties)
        self._run = run
        self._sender = sender
        self._ring = ring
        self._place = place
        self._meeting = meeting

    async def send(self, order: Order) -> Exchange:
        """As the sender does, in turn. Once the run is asked to stop nothing is sent, and nothing logged."""
        await self._ring.wait(self._place)
        wanted_now("turn")
        try:
            if self._run.stopper.by is not None:
                return unsent(order, "not sent: the run was asked to stop")
            return await self._sender.send(order)
        finally:
            self._ring.pass_on(self._place)

    def leave(self) -> None:
        """It will not come to the meeting."""
        self._meeting.leave()

    async def arrive(self) -> None:
        """Waits until nobody is missing."""
        self._ring.step_out(self._place)
        try:
            await self._meeting.arrive()
        finally:
            self._ring.step_in(self._place)

    def over(self) -> None:
        """It sends nothing any more."""
        self._ring.step_out(self._place)
