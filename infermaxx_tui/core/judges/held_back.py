"""Whose times were seen, the server's or those of something on the way that passes the stream on in clumps?

A buffer of some KiB makes the first token as late as the buffer takes to fill, and gaps of nothing and of silence. Only
repeated clumps are an accusation: a client that read late once has seen one, too.
"""

from __future__ import annotations

import math
from typing import Final

from infermaxx_tui.core.calibration import short
from infermaxx_tui.core.fold_lumps import Travel
from infermaxx_tui.core.judges.check import plural
from infermaxx_tui.core.state import Instrument

MOST_AT_ONCE: Final = 0.5
"""Share of replies in one clump, or in clumps of whole events, above which the times are not the server's."""
MOST_AGAIN: Final = 0.25
"""The same of replies that came in clumps again and again: a moment without the processor makes a short one look so."""
MOST_CUT: Final = 0.1
"""The same of clumps that end inside an event, which neither a server nor a late client makes."""
LEAST_WAITS: Final = 3
"""Silences before clumps in all the run that it takes to say what makes them."""
_LAGS: Final = 2.0
"""Clumps that come no further apart than so many of the client's own lags (p99) may be its own."""
_KIB: Final = 1024
_NOT_ITS_OWN: Final = "TTFT, gaps and speed are not the server's own"
_REMEDY: Final = "ask the server itself, or have every proxy pass events on (nginx: proxy_buffering off)"


def held_back(seen: Instrument) -> list[str]:
    """Why the times that were seen are not the server's.

    Empty where they may be, and where the client itself was late, which is said elsewhere.
    """
    way = seen.sight.travel
    cut = way.cuts >= LEAST_WAITS and way.cut > MOST_CUT * way.replies
    many = way.held > MOST_AT_ONCE * way.replies
    held = (many and way.waits >= LEAST_WAITS) or way.again > MOST_AGAIN * way.replies
    if cut or (held and not own_lag(seen)):
        return [_accused(way, cut)]
    if seen.streams_timed and seen.streams_buffered > MOST_AT_ONCE * seen.streams_timed:
        return [
            f"{seen.streams_buffered} of {plural(seen.streams_timed, 'reply', 'replies')} came in one clump:"
            " something between server and client buffers"
        ]
    if many and way.waits < LEAST_WAITS:
        return [
            f"{way.held} of {plural(way.replies, 'reply', 'replies')} came in a clump or two, too few to tell whether"
            " something between server and client holds the stream back"
        ]
    return []


def _accused(way: Travel, cut: bool) -> str:
    apart = "" if way.wait_ms is None else f", {short(way.wait_ms)} ms apart"
    came = f"{way.held} of {plural(way.replies, 'reply', 'replies')} came in clumps{_size(way)}{apart}"
    if cut:
        where = f"{way.cuts} of {way.waits} of them behind half an event"
        return f"{came}, {where}: something between server and client buffers, and {_NOT_ITS_OWN}; {_REMEDY}"
    return f"{came}: something holds whole events back, and {_NOT_ITS_OWN}; {_REMEDY}"


def _size(way: Travel) -> str:
    if way.lump_bytes is not None:
        return f" of {way.lump_bytes / _KIB:.3g} KiB"
    return "" if way.most_bytes is None else f" of at most {math.ceil(way.most_bytes / _KIB)} KiB"


def own_lag(seen: Instrument) -> bool:
    """Whether this client was so late itself that the clumps may be of its own making, or nobody knows how late."""
    lag_ms, wait_ms = seen.loop_lag_p99_ms, seen.sight.travel.wait_ms
    return lag_ms is None or wait_ms is None or wait_ms <= _LAGS * lag_ms


def unseen_way(seen: Instrument) -> str | None:
    """What to say where nothing shows how the stream travelled; None where something does."""
    if seen.sight.travel.replies:
        return None
    return "not seen: whether a proxy holds the stream back"
