"""Figures of probes: the right value where all was seen, and a reason where it was not."""

from __future__ import annotations

import msgspec
import pytest

from infermaxx_tui.core.events import ProbeAsked, ProbeCached, RequestEnded
from infermaxx_tui.core.fold_probes import ProbeReply, Probes
from infermaxx_tui.core.measures import Measure, find, measure_text
from infermaxx_tui.core.probe_measures import probe_measures, texts, texts_cut
from infermaxx_tui.core.probes import Probe, deepest, rounds, wrong_with

_COLD = ProbeReply(
    probe=0,
    part="cold",
    rep=0,
    streams=1,
    wanted_tokens=1000,
    outcome="ok",
    error=None,
    prompt_tokens=1000,
    cached_tokens=0,
    tokens=1,
    first_chunk_tokens=1,
    ttft_ms=100.0,
    decode_ms=0.0,
    sent_us=0,
    ended_us=100_000,
    total_ms=100.0,
    forced=False,
    degenerate=None,
)
_LOADED = msgspec.structs.replace(
    _COLD, part="loaded", cached_tokens=992, tokens=101, ttft_ms=10.0, decode_ms=500.0, ended_us=510_000
)
_DEPTH = Probe(kind="depth", depths=(1000,), n=1)


def _one(name: str, *replies: ProbeReply, probe: Probe = _DEPTH, streams: int = 1, depth: int = 1000) -> Measure:
    found = find(probe_measures((probe,), replies), (name, depth, streams))
    assert found is not None
    return found


def _with(reply: ProbeReply, **fields: object) -> ProbeReply:
    return msgspec.structs.replace(reply, **fields)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ttft.cold_ms", 100.0),
        ("prefill.tokens_per_s", 10_000.0),
        ("ttft.repeat_ms", 10.0),
        ("ttft.repeat_hit_tokens", 992.0),
        ("decode.tokens_per_s", 200.0),
    ],
)
def test_a_healthy_server_gives_its_figures(name: str, value: float) -> None:
    found = _one(name, _COLD, _LOADED)
    assert found.values == (value,)
    assert found.reason is None


def test_several_tokens_in_the_first_piece_do_not_count_as_decoded() -> None:
    assert _one("decode.tokens_per_s", _with(_LOADED, first_chunk_tokens=51)).values == (100.0,)


@pytest.mark.parametrize(
    ("name", "reply", "reason"),
    [
        ("ttft.cold_ms", _with(_COLD, cached_tokens=16), "16 tokens of it came from the cache: not cold"),
        ("ttft.cold_ms", _with(_COLD, cached_tokens=None), "nobody counted what came from the cache"),
        ("prefill.tokens_per_s", _with(_COLD, cached_tokens=16), "not cold"),
        ("prefill.tokens_per_s", _with(_COLD, prompt_tokens=None), "the prompt's tokens were not counted"),
        ("prefill.tokens_per_s", _with(_COLD, ttft_ms=0.0), "its first token came in no time at all"),
        ("ttft.cold_ms", _with(_COLD, outcome="shed", error="busy"), "a request ended shed: busy"),
        ("ttft.cold_ms", _with(_COLD, ttft_ms=None), "no token came"),
        ("ttft.repeat_hit_tokens", _with(_LOADED, cached_tokens=None), "does not say what came from its cache"),
        ("decode.tokens_per_s", _with(_LOADED, tokens=None), "its tokens were not counted"),
        ("ttft.cold_ms", _with(_COLD, counted_cached_tokens=992), "992 tokens of it came from the cache: not cold"),
        ("ttft.cold_ms", _with(_COLD, prompt_tokens=500), "counts 500 tokens in a prompt of 1000: it was cut"),
        ("ttft.repeat_ms", _with(_LOADED, prompt_tokens=500), "counts 500 tokens in a prompt of 1000: it was cut"),
        ("decode.tokens_per_s", _with(_LOADED, prompt_tokens=500), "counts 500 tokens in a prompt of 1000"),
        (
            "ttft.repeat_hit_tokens",
            _with(_LOADED, counted_cached_tokens=16),
            "says that 992 tokens came from the cache",
        ),
        ("decode.tokens_per_s", _with(_LOADED, tokens=8), "a reply of 8 tokens is too short for a speed"),
        ("decode.tokens_per_s", _with(_LOADED, first_chunk_tokens=99), "101 tokens, 99 of them in its first piece, is"),
        ("decode.tokens_per_s", _with(_LOADED, decode_ms=0.0), "came within 0 ms: they were held back"),
        ("decode.tokens_per_s", _with(_LOADED, outcome="truncated"), "a request ended truncated: no reason given"),
        ("decode.tokens_per_s", _with(_LOADED, rep=-1), "1 of 1 requests were not sent"),
    ],
)
def test_what_was_not_seen_has_a_reason_and_no_value(name: str, reply: ProbeReply, reason: str) -> None:
    found = _one(name, reply)
    assert found.values == ()
    assert reason in (found.reason or "")
    assert "n/a" in measure_text(found)


def test_the_round_that_warms_up_never_counts() -> None:
    slow = _with(_LOADED, rep=-1, decode_ms=5000.0)
    assert _one("decode.tokens_per_s", slow, _LOADED).values == (200.0,)


def test_one_repetition_that_failed_leaves_the_others_and_is_counted() -> None:
    probe = Probe(kind="depth", depths=(1000,), n=3)
    replies = [_with(_LOADED, rep=0), _with(_LOADED, rep=1, outcome="stalled"), _with(_LOADED, rep=2, decode_ms=250.0)]
    found = _one("decode.tokens_per_s", *replies, probe=probe)
    assert found.values == (200.0, 400.0)
    assert "1 left out: a request ended stalled" in measure_text(found)


def _parallel(*spans: tuple[int, int], tokens: int = 100, streams: int = 0) -> list[ProbeReply]:
    count = streams or len(spans)
    return [
        _with(
            _LOADED,
            part="parallel",
            streams=count,
            wanted_tokens=None,
            tokens=tokens,
            ttft_ms=10.0,
            sent_us=sent,
            ended_us=ended,
        )
        for sent, ended in spans
    ]


def test_the_aggregate_is_all_tokens_over_the_whole_time_and_says_how_many_ran_beside_one_another() -> None:
    probe = Probe(kind="streams", streams=(2,), n=1)
    together = _parallel((0, 1_000_000), (0, 1_000_000))
    assert _one("aggregate.tokens_per_s", *together, probe=probe, streams=2, depth=0).values == (200.0,)
    assert _one("aggregate.admitted", *together, probe=probe, streams=2, depth=0).values == (2.0,)
    queued = _parallel((0, 500_000), (0, 1_000_000))
    queued[1] = _with(queued[1], ttft_ms=510.0)
    assert _one("aggregate.admitted", *queued, probe=probe, streams=2, depth=0).values == (1.0,)


def test_the_servers_counters_stand_in_where_its_usage_is_silent() -> None:
    cold, loaded = (_with(one, cached_tokens=None) for one in (_COLD, _LOADED))
    assert _one("ttft.cold_ms", _with(cold, counted_cached_tokens=0)).values == (100.0,)
    assert _one("ttft.cold_ms", _with(cold, counted_cached_tokens=16)).values == ()
    assert _one("ttft.repeat_hit_tokens", _with(loaded, counted_cached_tokens=992)).values == (992.0,)
    seen = Probes()
    seen.asked(ProbeAsked(req=1, probe=0, part="cold", rep=0, streams=1, wanted_tokens=None))
    seen.ended(5, RequestEnded(req=1, session=-1, turn=0, kind="probe", outcome="ok"), 0)
    assert seen.seen().replies[0].counted_cached_tokens is None
    seen.cached(ProbeCached(req=1, cached_tokens=7))
    seen.cached(ProbeCached(req=2, cached_tokens=9))
    assert [one.counted_cached_tokens for one in seen.seen().replies] == [7]


def test_a_speed_over_replies_that_ended_before_their_budget_never_stands_without_their_lengths() -> None:
    probe = Probe(kind="depth", depths=(1000,), n=2)
    early = [_with(_LOADED, rep=rep, tokens=tokens) for rep, tokens in enumerate((12, 40))]
    assert _one("decode.tokens_per_s", *early, probe=probe).note == "replies of 12 to 40 tokens, of 256 wanted"
    whole = [_with(_LOADED, rep=rep, tokens=256) for rep in (0, 1)]
    assert _one("decode.tokens_per_s", *whole, probe=probe).note is None
    assert _one("ttft.repeat_ms", *early, probe=probe).note is None


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tokens": 1}, "a reply of 1 tokens is too short"),
        ({"tokens": 0}, "a reply of 0 tokens is too short"),
        ({"first_chunk_tokens": 100}, "100 tokens, 100 of them in its first piece"),
        ({"decode_ms": 0.4}, "100 tokens came within 0.4 ms: they were held back"),
        ({"tokens": 40}, "replies of 40 to 100 tokens were not decoded beside one another"),
    ],
)
@pytest.mark.parametrize("name", ["aggregate.tokens_per_s", "aggregate.admitted"])
def test_the_aggregate_is_nothing_if_one_said_next_to_nothing_or_came_in_one_piece(
    name: str, fields: dict[str, object], why: str
) -> None:
    """Two at once of which one says nothing are one at once: half of the rate, and no fault of the lever."""
    probe = Probe(kind="streams", streams=(2,), n=1)
    replies = _parallel((0, 1_000_000), (0, 1_000_000))
    replies[1] = _with(replies[1], **fields)
    found = _one(name, *replies, probe=probe, streams=2, depth=0)
    assert found.values == ()
    assert why in (found.reason or "")


@pytest.mark.parametrize("fields", [{"outcome": "shed"}, {"tokens": None}])
def test_the_aggregate_is_nothing_if_one_of_them_failed(fields: dict[str, object]) -> None:
    probe = Probe(kind="streams", streams=(2,), n=1)
    replies = _parallel((0, 1_000_000), (0, 1_000_000))
    replies[1] = _with(replies[1], **fields)
    assert _one("aggregate.tokens_per_s", *replies, probe=probe, streams=2, depth=0).values == ()
    alone = _one("aggregate.tokens_per_s", replies[0], probe=probe, streams=2, depth=0)
    assert alone.reason == "1 of 2 requests were not sent"


def test_scaling_is_held_against_one_stream_of_the_same_run() -> None:
    probe = Probe(kind="streams", streams=(1, 4), n=1)
    replies = [*_parallel((0, 1_000_000)), *_parallel(*[(0, 2_000_000)] * 4)]
    assert _one("aggregate.scaling", *replies, probe=probe, streams=4, depth=0).values == (2.0,)
    without = probe_measures((Probe(kind="streams", streams=(4,), n=1),), _parallel(*[(0, 2_000_000)] * 4))
    assert find(without, ("aggregate.scaling", 0, 4)) is None


def test_scaling_takes_one_stream_of_its_own_probe_and_says_where_another_measured_that() -> None:
    both, four = (
        Probe(kind="streams", streams=(1, 4), n=1, max_tokens=100),
        Probe(kind="streams", streams=(4,), n=1, max_tokens=100),
    )
    mine = [*_parallel((0, 1_000_000)), *_parallel(*[(0, 2_000_000)] * 4)]
    slower = [_with(one, probe=1) for one in (*_parallel((0, 2_000_000)), *_parallel(*[(0, 2_000_000)] * 4))]
    found = probe_measures((both, both, four), (*mine, *slower, *(_with(one, probe=2) for one in mine[1:])))
    scaling = [(one.probe, one.values, one.note) for one in found if one.name == "aggregate.scaling"]
    apart = "one stream was measured by another probe, at another time"
    assert scaling == [(0, (2.0,), None), (1, (4.0,), None), (2, (2.0,), apart)]


def test_a_blind_client_gives_no_speed_and_still_what_is_none() -> None:
    found = probe_measures(
        (_DEPTH,), (_COLD, _LOADED), lambda time_ms, _lag_ms: ("it lagged",) if time_ms < 200 else ()
    )
    by_name = {one.name: one for one in found}
    assert by_name["ttft.cold_ms"].values == ()
    assert by_name["ttft.cold_ms"].reason == "it lagged"
    assert by_name["decode.tokens_per_s"].values == (200.0,)
    assert by_name["ttft.repeat_hit_tokens"].values == (992.0,)


def test_each_time_is_held_against_the_lag_while_it_lasted() -> None:
    """A first token against the lag before it, a speed against the lag to its end, an aggregate against all of them."""
    asked: list[tuple[float, float | None]] = []

    def note(time_ms: float, lag_ms: float | None) -> tuple[str, ...]:
        asked.append((time_ms, lag_ms))
        return ()

    loaded = _with(_LOADED, lag_first_ms=1.0, lag_max_ms=9.0)
    probe_measures((_DEPTH,), (_with(_COLD, lag_first_ms=2.0, lag_max_ms=3.0), loaded), note)
    assert asked == [(100.0, 2.0), (100.0, 2.0), (10.0, 1.0), (500.0, 9.0)]
    asked.clear()
    several = [_with(one, lag_max_ms=lag) for one, lag in zip(_parallel((0, 10), (0, 20)), (4.0, 7.0), strict=True)]
    two = Probe(kind="streams", streams=(2,), n=1)
    probe_measures((two,), several, note)
    probe_measures((two,), [several[0], _with(several[1], lag_max_ms=None)], note)
    assert [lag for _, lag in asked] == [7.0, None]


def test_forced_lengths_and_babble_are_said_beside_the_figure() -> None:
    probe = Probe(kind="depth", depths=(1000,), n=1, forced=True)
    note = _one("decode.tokens_per_s", _with(_LOADED, forced=True, degenerate="a cycle"), probe=probe).note or ""
    assert "lengths were forced" in note
    assert "some of its replies are babble" in note


def test_every_repetition_goes_through_all_parts_and_one_more_warms_up() -> None:
    played = list(rounds((Probe(kind="five", n=1),)))
    assert [(one.rep, one.part, one.tokens, one.streams) for one in played] == [
        (rep, *rest)
        for rep in (-1, 0)
        for rest in (("decode", None, 1), ("cold", 16384, 1), ("loaded", 16384, 1), ("parallel", None, 4))
    ]
    assert deepest((Probe(kind="five", n=1),)) == 16384 + 256
    assert deepest(()) == 0


@pytest.mark.parametrize(
    ("probe", "key"),
    [
        (Probe(kind="decode", n=0), "n"),
        (Probe(kind="decode", max_tokens=1), "max_tokens"),
        (Probe(kind="depth"), "depths"),
        (Probe(kind="streams"), "streams"),
        (Probe(kind="decode", depths=(100,)), "depths"),
        (Probe(kind="depth", depths=(100,), streams=(2,)), "streams"),
        (Probe(kind="depth", depths=(10,)), "depths"),
        (Probe(kind="streams", streams=(0,)), "streams"),
        (Probe(kind="identity"), "prompts"),
        (Probe(kind="identity", prompts=2, n=1), "n"),
        (Probe(kind="identity", prompts=65), "prompts"),
        (Probe(kind="decode", prompts=2), "prompts"),
    ],
)
def test_a_probe_that_makes_no_sense_is_refused(probe: Probe, key: str) -> None:
    wrong = wrong_with(probe)
    assert wrong is not None
    assert wrong[0] == key


def test_probes_that_make_sense_are_not() -> None:
    for probe in (
        Probe(kind="five"),
        Probe(kind="decode"),
        Probe(kind="depth", depths=(64,)),
        Probe(kind="streams", streams=(1, 8)),
        Probe(kind="identity", prompts=2),
    ):
        assert wrong_with(probe) is None


def _said(place: int, rep: int, text: str, **fields: object) -> ProbeReply:
    return _with(_LOADED, part="identity", wanted_tokens=None, place=place, rep=rep, text_sha256=text, **fields)


def test_a_prompt_that_gives_two_texts_is_not_reproduced_and_one_that_failed_is_not_counted() -> None:
    probe = Probe(kind="identity", prompts=3, n=2)
    replies = [
        _said(0, 0, "a"),
        _said(0, 1, "a"),
        _said(1, 0, "b"),
        _said(1, 1, "c"),
        _said(2, 0, "d"),
        _said(2, 1, "d", outcome="truncated"),
    ]
    found = _one("identity.reproduced", *replies, probe=probe, depth=0)
    assert found.values == (1.0, 0.0)
    assert found.reason == "a request ended truncated: no reason given"
    assert texts(replies) == {"0/0": ("a", "a"), "0/1": ("b", "c"), "0/2": ("d",)}


def test_replies_that_said_nothing_are_no_text_that_was_said_twice() -> None:
    probe = Probe(kind="identity", prompts=2, n=2)
    replies = [_said(0, rep, "a") for rep in (0, 1)]
    replies += [_with(_said(1, rep, ""), text_sha256=None) for rep in (0, 1)]
    found = _one("identity.reproduced", *replies, probe=probe, depth=0)
    assert (found.values, found.reason) == ((1.0,), "a reply said nothing, came torn, or was cut before its budget")
    assert texts(replies) == {"0/0": ("a", "a")}


def test_prompts_whose_replies_were_cut_are_named_once() -> None:
    cut = [_said(1, rep, "a", capped=True) for rep in (0, 1)]
    failed = _said(2, 0, "b", capped=True, outcome="truncated")
    assert texts_cut([_said(0, 0, "c"), *cut, failed, _with(_LOADED, capped=True)]) == ("0/1",)


@pytest.mark.parametrize(
    ("fields", "text", "capped"),
    [
        ({"finish_reason": "stop"}, "a", False),
        ({"finish_reason": "length"}, "a", True),
        ({"finish_reason": None}, "a", True),
        ({"finish_reason": "length", "completion_tokens": 256}, "a", True),
        ({"finish_reason": "length", "completion_tokens": 8}, None, True),
        ({"finish_reason": "stop", "completion_tokens": 8}, "a", False),
        ({"finish_reason": "stop", "anomalies": ("ids_usage_differ",)}, None, False),
    ],
)
def test_a_text_that_was_torn_is_not_the_servers(fields: dict[str, object], text: str | None, capped: bool) -> None:
    seen = Probes(planned=(Probe(kind="identity", prompts=1),))
    seen.asked(ProbeAsked(req=1, probe=0, part="identity", rep=0, streams=1, wanted_tokens=None))
    ended = RequestEnded(req=1, session=-1, turn=0, kind="probe", outcome="ok", text_sha256="a")
    seen.ended(5, msgspec.structs.replace(ended, **fields), 0)
    (reply,) = seen.seen().replies
    assert (reply.text_sha256, reply.capped) == (text, capped)
