"""GPU readings of another host through dcgm-exporter or nvidia_gpu_exporter, scraped in the slow rounds."""

from __future__ import annotations

import time
from typing import Final

import httpx
import msgspec

from infermaxx_tui.core.gpu import GpuCard, GpuProbe, GpuReading
from infermaxx_tui.core.gpu_text import parse_exporter
from infermaxx_tui.core.wire_odd import one_line
from infermaxx_tui.sensors.text_cards import TextCards

_TIMEOUT_S: Final = 3.0
_MOST_BYTES: Final = 8 << 20
_LONGEST: Final = 200


class ExporterSource:
    """A sensors.source.Source over an exporter's URL."""

    def __init__(self, url: str, same_host: bool, local: bool, transport: httpx.BaseTransport | None = None) -> None:
        """`same_host`: whether the exporter is on the server's host; `local`: whether that is this machine."""
        self._url = url
        self._same_host = same_host
        self._local = local
        self._http = httpx.Client(trust_env=False, timeout=_TIMEOUT_S, transport=transport, follow_redirects=False)
        self._cards = TextCards(0)
        self._probe = GpuProbe(source="exporter", local=local)

    def probe(self, first: int) -> GpuProbe:
        """The first scrape."""
        began = time.perf_counter()
        self._cards = TextCards(first)
        error = None
        try:
            self._cards.take(parse_exporter(self._scrape()))
        except ValueError as problem:
            error = f"{self._url}: {problem}"
        self._cards.dirty = False
        cards = tuple(_claimed(card, len(self._cards.cards), self._same_host) for card in self._cards.cards.values())
        cost_ms = round((time.perf_counter() - began) * 1000, 3)
        self._probe = GpuProbe(source="exporter", cards=cards, local=self._local, error=error, cost_ms=cost_ms)
        return self._probe

    def read(self, slow: bool) -> tuple[GpuReading, ...]:
        """A scrape in a slow round; in the others nothing new can have come."""
        if not slow:
            return ()
        try:
            return self._cards.take(parse_exporter(self._scrape()))
        except ValueError as problem:
            return tuple(GpuReading(gpu=number, lost=str(problem)) for number in self._cards.cards)

    def changed(self) -> GpuProbe | None:
        """The probe anew if the exporter came to say more or less of a card."""
        if not self._cards.dirty:
            return None
        self._cards.dirty = False
        cards = tuple(_claimed(card, len(self._cards.cards), self._same_host) for card in self._cards.cards.values())
        self._probe = msgspec.structs.replace(self._probe, cards=cards, error=None)
        return self._probe

    def close(self) -> None:
        """Closes the connection."""
        self._http.close()

    def _scrape(self) -> bytes:
        """The metrics text. Raises ValueError with the reason."""
        text = bytearray()
        try:
            with self._http.stream("GET", self._url) as answer:
                if answer.status_code != 200:
                    raise ValueError(f"answers {answer.status_code}")
                for chunk in answer.iter_bytes():
                    text += chunk
                    if len(text) > _MOST_BYTES:
                        raise ValueError(f"the answer is larger than {_MOST_BYTES >> 20} MiB")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ValueError(one_line(f"{type(error).__name__}: {error}")[:_LONGEST]) from None
        return bytes(text)


def _claimed(card: GpuCard, cards: int, same_host: bool) -> GpuCard:
    advice = "say which with sensors.server_gpus"
    if not same_host:
        return msgspec.structs.replace(card, server_why=f"the exporter's host is not the server's: {advice}")
    if cards == 1:
        return msgspec.structs.replace(card, server=True, server_why="the only card of the server's host")
    return msgspec.structs.replace(card, server_why=f"the server's host has {cards} cards: {advice}")
