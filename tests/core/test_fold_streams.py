"""Open and decoding streams as counted, beside the same counted anew from what is open, after any order of events."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.events import RequestStarted
from infermaxx_tui.core.fold_streams import Open, Streams

_SESSIONS = st.integers(min_value=-2, max_value=2)
_REQS = st.integers(min_value=0, max_value=3)
_EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("started"), _REQS, _SESSIONS),
        st.tuples(st.sampled_from(["first", "ended"]), _REQS, st.just(0)),
        st.tuples(st.just("restarted"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


def _take(streams: Streams, what: str, req: int, session: int, at: int) -> Open | None:
    match what:
        case "started":
            streams.started(
                RequestStarted(req=req, session=session, turn=0, kind="turn", prompt_tokens=8, max_tokens=8), at
            )
        case "first":
            return streams.first_token(req)
        case "ended":
            return streams.ended(req)
        case _:
            streams.restarted()
    return None


@given(_EVENTS)
def test_counts_are_those_of_what_is_open_whatever_a_log_holds(events: list[tuple[str, int, int]]) -> None:
    streams = Streams()
    for at, (what, req, session) in enumerate(events):
        _take(streams, what, req, session, at)
        open_ = list(streams.open.values())
        decoding = [one for one in open_ if one.first_at is not None]
        assert streams.decoding == len(decoding)
        assert streams._strangers_open == sum(one.session < 0 for one in open_)
        assert streams._strangers_decoding == sum(one.session < 0 for one in decoding)
        assert streams._decoding_of == Counter(one.session for one in decoding)
        assert streams._alone == {req: one.session for req, one in streams.open.items() if not one.beside_other}
        assert 0 <= streams.decoding_peak <= streams.in_flight_peak


@given(_EVENTS)
def test_whatever_came_before_a_run_that_is_in_order_is_seen_as_it_was(events: list[tuple[str, int, int]]) -> None:
    streams = Streams()
    for at, (what, req, session) in enumerate(events):
        _take(streams, what, req, session, at)
    for req in range(4):
        streams.ended(req)
    assert (streams.decoding, streams.open) == (0, {})
    _take(streams, "started", 0, 0, 100)
    _take(streams, "started", 1, 1, 101)
    _take(streams, "first", 0, 0, 102)
    _take(streams, "first", 1, 1, 103)
    assert (streams.decoding, streams.in_flight_peak >= 2, streams.decoding_peak >= 2) == (2, True, True)
    first, second = streams.ended(0), streams.ended(1)
    assert first is not None
    assert second is not None
    assert streams.overlapped(first, clumped=False)
    assert streams.overlapped(second, clumped=False)
