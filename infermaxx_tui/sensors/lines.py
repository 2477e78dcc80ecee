"""Readings of a program's lines: nvidia-smi on another host, or a command of the user's that prints key=value."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.gpu import GpuCard, GpuProbe, GpuReading
from infermaxx_tui.core.gpu_text import TextRow, parse_pairs, parse_smi, smi_query
from infermaxx_tui.core.wire_odd import one_line
from infermaxx_tui.sensors.child import LineChild
from infermaxx_tui.sensors.text_cards import TextCards

FIRST_WAIT_S: Final = 10.0
"""How long a program may take to its first line."""
_REST_S: Final = 0.3
"""How long after the first line the others of the same moment may take."""
SILENT_S: Final = 20.0
"""A program that says nothing for so long is not heard any more."""
_AGAIN_S: Final = 5.0
_AFTER_FAILURE_S: Final = 60.0

Parse = Callable[[Sequence[str]], tuple[Sequence[TextRow], Sequence[str]]]
"""Lines -> rows, and what in them could not be read."""


class LinesSource:
    """A sensors.source.Source over a program."""

    def __init__(
        self,
        source: str,
        command: str | Sequence[str],
        parse: Parse,
        claim: Callable[[GpuCard, int], GpuCard],
        local: bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`claim` says of a card, among so many, whether it is the server's."""
        self._source = source
        self._command = command
        self._parse = parse
        self._claim = claim
        self._local = local
        self._now = now
        self._child: LineChild | None = None
        self._cards = TextCards(0)
        self._heard_s = self._started_s = now()
        self._again_s = 0.0
        self._failed: str | None = None
        self._odd: dict[str, None] = {}
        self._said_odd = 0

    def probe(self, first: int) -> GpuProbe:
        """Starts the program and waits for its first lines."""
        began = time.perf_counter()
        self._cards = TextCards(first)
        self._start()
        lines: list[str] = []
        if self._child is not None:
            self._child.wait_for_lines(FIRST_WAIT_S)
            time.sleep(_REST_S)
            lines = self._child.take()
            self._look_at_end(lines)
        self._take(lines)
        self._cards.dirty = False
        error = None
        if not self._cards.cards:
            error = self._failed or "; ".join(self._odd) or f"said nothing within {FIRST_WAIT_S:.0f} s"
            error = one_line(f"{self._source}: {error}")
        return self._made(error, round((time.perf_counter() - began) * 1000, 3))

    def _made(self, error: str | None, cost_ms: float = 0.0) -> GpuProbe:
        cards = tuple(self._claim(card, len(self._cards.cards)) for card in self._cards.cards.values())
        self._said_odd = len(self._odd)
        return GpuProbe(
            source=self._source,
            cards=cards,
            local=self._local,
            error=error,
            remarks=tuple(self._odd),
            cost_ms=cost_ms,
        )

    def read(self, slow: bool) -> tuple[GpuReading, ...]:
        """What it said since the last round; nothing is no reading, and long silence is a lost one."""
        now = self._now()
        lines = self._child.take() if self._child is not None else []
        if self._child is not None:
            self._look_at_end(lines)
        elif slow and now >= self._again_s:
            self._start()
        readings = self._take(lines)
        if readings:
            self._heard_s, self._failed = now, None
            return readings
        why = self._failed
        if why is None and now - self._heard_s > SILENT_S:
            why = f"the program said nothing for {now - self._heard_s:.0f} s"
        if why is None or not slow:
            return ()
        return tuple(GpuReading(gpu=number, lost=why) for number in self._cards.cards)

    def changed(self) -> GpuProbe | None:
        """The probe anew if the program came to say more or less, or something that cannot be read."""
        if not self._cards.dirty and len(self._odd) == self._said_odd:
            return None
        self._cards.dirty = False
        return self._made(None)

    def close(self) -> None:
        """Ends the program."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def _start(self) -> None:
        self._started_s = self._now()
        try:
            self._child = LineChild(self._command)
        except OSError as error:
            self._failed, self._again_s = error.strerror or str(error), self._now() + _AFTER_FAILURE_S

    def _look_at_end(self, lines: list[str]) -> None:
        """A program that ended well is run again in a while; one that failed later, and the reason is kept."""
        child = self._child
        if child is None or (code := child.ended) is None:
            return
        lines += child.take()
        words = child.last_words
        child.stop()
        self._child = None
        if code:
            self._failed = one_line(f"exited with {code}" + (f": {words}" if words else ""))
        self._again_s = self._now() + (_AFTER_FAILURE_S if code else _AGAIN_S - 0.5)

    def _take(self, lines: Sequence[str]) -> tuple[GpuReading, ...]:
        rows, odd = self._parse(lines)
        for what in odd:
            if len(self._odd) < 8:
                self._odd[what] = None
        return self._cards.take(rows)


def pairs(lines: Sequence[str]) -> tuple[Sequence[TextRow], Sequence[str]]:
    """Lines of key=value."""
    return parse_pairs("\n".join(lines))


def smi_rows(lines: Sequence[str]) -> tuple[Sequence[TextRow], Sequence[str]]:
    """Lines of nvidia-smi: the newest of each card."""
    rows: dict[str, TextRow] = {}
    odd = []
    for line in lines:
        row = parse_smi(line)
        if row is not None:
            rows[row.key] = row
        elif line.strip():
            odd.append(f"not a line of readings: {line.strip()[:80]}")
    return tuple(rows.values()), odd


def smi_over_ssh(host: str, seconds: int = 5) -> tuple[str, ...]:
    """The command that reads nvidia-smi on another host, again and again. Never asks for a password."""
    names = f"--query-gpu={smi_query()} --format=csv,noheader,nounits"
    old = f"--query-gpu={smi_query(old_names=True)} --format=csv,noheader,nounits"
    remote = f"nvidia-smi {names} -l {seconds} || exec nvidia-smi {old} -l {seconds}"
    return ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "ServerAliveInterval=10", "--", host, remote)


def claim_only(where: str) -> Callable[[GpuCard, int], GpuCard]:
    """Says of a card that it is the server's if it is the only one; `where` is what the user named as the place."""

    def claim(card: GpuCard, cards: int) -> GpuCard:
        if cards == 1:
            return msgspec.structs.replace(card, server=True, server_why=f"the only card of {where}")
        why = f"{where} has {cards} cards: say which with sensors.server_gpus"
        return msgspec.structs.replace(card, server_why=why)

    return claim
