"""A runner that takes a run up again: it plays what is left, numbers go on, and what was known before is known."""

from __future__ import annotations

import msgspec
from runnertools import NONCE, Setting, play_small

from infermaxx_tui.core.canary import RegistryBuilder, make_tags
from infermaxx_tui.core.continuing import remaining
from infermaxx_tui.core.events import (
    QualityAsked,
    RequestStarted,
    Resumed,
    RunEnded,
    RunStarted,
    SessionStarted,
    TagIssued,
    TagsKnown,
)
from infermaxx_tui.runner.context import Prepared
from infermaxx_tui.runner.continued import Continued

OWN, DROPPED, DECOY, ANOTHER = make_tags(1, "before", 4)


def going_on(elapsed_s: float = 1.0, baseline_asked: bool = False) -> Continued:
    return Continued(
        event=Resumed(how="killed", gap_ms=5.0, last=(0, 99), finished=1, again=1),
        segment=3,
        sessions=2,
        planned_recalls=6,
        last_req=700,
        elapsed_s=elapsed_s,
        baseline_asked=baseline_asked,
        issued=(
            TagIssued(kind="own", session=0, label="copper kettle", tag=OWN),
            TagIssued(kind="decoy", session=None, label="", tag=DECOY),
        ),
        retired=TagsKnown(run="run", tags=(DROPPED,)),
    )


def setting(continued: Continued, *overrides: str) -> Setting:
    """The second of two conversations is left."""

    def left(prepared: Prepared) -> Prepared:
        return msgspec.structs.replace(prepared, plan=remaining(prepared.plan, frozenset({1})), continued=continued)

    return Setting(overrides=overrides, sabotage=left)


def test_what_is_left_is_played_and_numbered_on() -> None:
    played = play_small(setting(going_on()))
    first, second = (record.event for record in played.records[:2])
    assert isinstance(first, RunStarted)
    assert (first.segment, first.sessions, first.planned_recalls, first.nonce) == (3, 2, 6, NONCE)
    assert second == going_on().event
    assert [event.session for event in played.of(SessionStarted)] == [1]
    assert min(event.req for event in played.of(RequestStarted)) == 701
    assert {event.session for event in played.of(TagIssued)} == {1, None}
    assert played.of(RunEnded)[0].reason == "finished"


def test_a_duration_that_is_used_up_is_over_at_once() -> None:
    played = play_small(setting(going_on(elapsed_s=60.0), "stop.duration=60s"))
    assert not played.of(SessionStarted)
    assert played.of(RunEnded)[0].reason == "duration"
    some = play_small(setting(going_on(elapsed_s=59.0), "stop.duration=60s", "sessions.think_time=recorded"))
    assert some.of(SessionStarted)
    assert some.of(RunEnded)[0].reason == "duration"


def test_tasks_that_were_asked_before_the_first_conversation_are_not_asked_again() -> None:
    quality = "quality.tasks=6"
    asked = play_small(setting(going_on(), quality)).of(QualityAsked)
    again = play_small(setting(going_on(baseline_asked=True), quality)).of(QualityAsked)
    assert {event.phase for event in asked} == {"before", "during", "after"}
    assert {event.phase for event in again} == {"during", "after"}
    assert sum(event.phase == "during" for event in again) == 6, "the wave's one conversation asks the whole set"


def test_tags_of_the_segments_before_are_known() -> None:
    registry = RegistryBuilder()
    going_on().tell(registry)
    registry.add_issued(TagIssued(kind="own", session=1, label="iron nail", tag=ANOTHER))
    hits = {hit.tag: hit.kind for hit in registry.hits(1, f"{OWN} {DROPPED} {DECOY}", "", "")}
    assert hits == {OWN: "foreign", DROPPED: "stale", DECOY: "decoy"}
