"""How faithfully transcripts are played again: what begins anew, what runs beside what, what is forced, what is added.

All of it is fixed before the first request and named in the regime, since each choice changes what a server has to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from infermaxx_tui.core.plan import ConversationPlan, Lengths, Plan, SubagentPlan
from infermaxx_tui.core.scenario import Scenario, ScenarioError, Sessions
from infermaxx_tui.core.transcript import Session

FULL_DEPTH = 2**31
"""The depth at which a subagent ends: it never does before its transcript."""


def opens_of(session: Session) -> tuple[int, ...]:
    """Which requests begin a new prompt, the first one left out."""
    starts: list[int] = []
    before = 0
    for window in session.windows:
        starts.append(before)
        before += len(window.requests)
    return tuple(starts[1:])


def trace_lengths(session: Session) -> Lengths:
    """Of a trace without text. A prompt may be shorter than the last prompt and reply together."""
    opens, deltas, replies = opens_of(session), [], []
    depth = 0
    for number, request in enumerate(session.requests):
        prompt, reply = request.usage.prompt_tokens or 0, request.usage.output_tokens or 0
        deltas.append(prompt if number in opens else prompt - depth)
        replies.append(reply)
        depth = prompt + reply
    return Lengths(tuple(deltas), tuple(replies), opens, whole=True)


class Spawn(msgspec.Struct, frozen=True):
    """A subagent's transcript, and the reply of another one that started it."""

    transcript: int
    parent: int
    after: int
    waits: bool


def spawns(transcripts: Sequence[Session]) -> tuple[Spawn, ...]:
    """All subagents whose parents are among the transcripts and whose start is known by an id or by nesting."""
    by_name: dict[tuple[str, str], int] = {}
    for index, session in enumerate(transcripts):
        by_name.setdefault((session.format, session.id), index)
    found = []
    for index, child in enumerate(transcripts):
        parent = None if child.parent is None else by_name.get((child.format, child.parent))
        if parent is None or parent == index or child.spawned_after is None:
            continue
        if 0 < child.spawned_after <= len(transcripts[parent].requests):
            waits = _waits(transcripts[parent], child, child.spawned_after)
            found.append(Spawn(index, parent, child.spawned_after, waits))
    return tuple(found)


def _waits(parent: Session, child: Session, after: int) -> bool:
    """Whether the parent's next request came after the child's end: by the times of a trace, else by the results that
    the request carries, of which the child's answer is one."""
    requests = parent.requests
    if after >= len(requests):
        return False
    following, last = requests[after], child.requests[-1]
    if following.at_s is not None and last.at_s is not None:
        return last.at_s < following.at_s
    return any(message.role == "tool" for message in following.delta)


def with_subagents(planned: Plan, transcripts: Sequence[Session], sessions: Sessions) -> Plan:
    """The plan with what runs beside each conversation; subagents have numbers of their own behind all others."""
    if sessions.subagents == "alone":
        return planned
    children: dict[int, list[Spawn]] = {}
    for spawn in spawns(transcripts):
        children.setdefault(spawn.parent, []).append(spawn)
    if not children:
        return planned
    number = len(planned.conversations) + (planned.controls.solo is not None)
    conversations = []
    for conversation in planned.conversations:
        below = _descendants(conversation.chain, children)
        made = tuple(SubagentPlan(number + n, s.transcript, s.parent, s.after, s.waits) for n, s in enumerate(below))
        number += len(made)
        conversations.append(msgspec.structs.replace(conversation, subagents=made))
    return msgspec.structs.replace(planned, conversations=tuple(conversations))


def _descendants(chain: Sequence[int], children: dict[int, list[Spawn]]) -> list[Spawn]:
    found: list[Spawn] = []
    seen = set(chain)
    waiting = list(chain)
    while waiting:
        for spawn in children.get(waiting.pop(0), []):
            if spawn.transcript not in seen:
                seen.add(spawn.transcript)
                found.append(spawn)
                waiting.append(spawn.transcript)
    return found


def subagent_conversation(under: ConversationPlan, subagent: SubagentPlan) -> ConversationPlan:
    """What a subagent plays: its transcript from its own cold prefix to its end, without tags and questions."""
    return ConversationPlan(
        session=subagent.session,
        wave=under.wave,
        place=under.place,
        chain=(subagent.transcript,),
        tags=(),
        asks=(),
        target_tokens=FULL_DEPTH,
        subagents=under.subagents,
        parent=under.session,
    )


def shared_at_once(planned: Plan) -> int:
    """The most conversations of one wave that begin with the same transcript."""
    counts = (Counter(one.chain[0] for one in wave) for wave in planned.waves)
    return max((max(count.values(), default=0) for count in counts), default=0)


def salted(sessions: Sessions, planned: Plan) -> bool:
    """Whether each conversation gets a salt of its own."""
    return sessions.cache_salt == "session" or (sessions.cache_salt == "auto" and shared_at_once(planned) > 1)


def forced(sessions: Sessions, transcripts: Sequence[Session]) -> bool:
    """Whether the lengths of main-line replies are forced."""
    return sessions.output == "recorded" or is_trace(transcripts)


def is_trace(transcripts: Sequence[Session]) -> bool:
    """Whether they hold lengths and no text."""
    return any(session.content_free for session in transcripts)


class Replayed(msgspec.Struct, frozen=True):
    """The keys of the regime that say how the transcripts are played, by their names there."""

    replies_mode: str
    output_lengths: str
    compaction: str
    subagents: str
    think_time: str
    request_nonce: bool
    timestamp: str
    cache_salt: str


def replayed(scenario: Scenario, transcripts: Sequence[Session], planned: Plan) -> Replayed:
    """What the regime says."""
    sessions = scenario.sessions
    mode: str = sessions.replies
    if is_trace(transcripts):
        mode = "length_matched" if sessions.replies == "live" else "length_matched_recorded"
    first = planned.waves[0] if planned.waves else ()
    beside = sum(len(one.subagents) for one in first)
    salt: str = sessions.cache_salt
    if salt == "auto":
        salt = f"auto: {'session' if salted(sessions, planned) else 'none'}"
    any_child = any(session.parent is not None for session in transcripts)
    return Replayed(
        replies_mode=mode,
        output_lengths="forced" if forced(sessions, transcripts) else "natural",
        compaction="replayed",
        subagents=f"{beside} in parallel" if beside else "alone" if any_child else "none",
        think_time=_pauses(sessions),
        request_nonce=sessions.request_nonce,
        timestamp=sessions.timestamp,
        cache_salt=salt,
    )


def _pauses(sessions: Sessions) -> str:
    match sessions.think_time:
        case "none":
            return "none"
        case "recorded":
            tools = sessions.max_think_s if sessions.max_tool_s is None else sessions.max_tool_s
            return f"recorded, people at most {sessions.max_think_s:g} s, tools at most {tools:g} s"
        case seconds:
            return f"{seconds:g} s"


def check_replay(scenario: Scenario, transcripts: Sequence[Session], source: str) -> None:
    """Refuses what cannot be played in the way that the scenario wants. Raises ScenarioError."""
    if is_trace(transcripts) and scenario.sessions.prompt == "chat":
        why = "traces without text are played by token ids, since text would come out longer or shorter: use tokens"
        raise ScenarioError(source, "sessions.prompt", why)


def _shorter(traces: Sequence[Session]) -> tuple[int, int]:
    """How many prompts have no room for the last prompt and reply, of how many."""
    deltas = [delta for session in traces for delta in trace_lengths(session).delta_tokens]
    return sum(delta < 0 for delta in deltas), len(deltas)


def replay_notes(scenario: Scenario, transcripts: Sequence[Session], planned: Plan) -> tuple[str, ...]:
    """Remarks for people: what the chosen ways of playing hide or cost."""
    sessions, notes = scenario.sessions, []
    if forced(sessions, transcripts):
        notes.append(
            "main-line replies are forced to their recorded lengths: blind to degeneration, and their speed is no"
            " headline; questions are answered freely"
        )
    if is_trace(transcripts) and sessions.replies == "live":
        notes.append(
            "live replies stand in later prompts, so traces share blocks only before their first replies:"
            " --set sessions.replies=recorded keeps all that they share"
        )
        short, of = _shorter(transcripts)
        if short:
            notes.append(
                f"{short} of {of} recorded prompts are shorter than the last prompt and reply together: with live"
                " replies in them they come out longer than recorded"
            )
    at_once = shared_at_once(planned)
    if at_once > 1 and not salted(sessions, planned):
        notes.append(
            f"up to {at_once} conversations at once play the same transcript and share its prefix in the server's"
            " cache: --set sessions.cache_salt=auto keeps them apart"
        )
    if sessions.request_nonce:
        notes.append("each request has a random line in its system prompt: nothing behind it comes from the cache")
    if sessions.timestamp != "none":
        notes.append(f"system prompts hold the time: every new {sessions.timestamp} nothing comes from the cache")
    beside = sum(len(one.subagents) for one in planned.conversations)
    if beside:
        notes.append(f"{beside} subagents run beside their parents, more requests at once than the scenario says")
    return tuple(notes)
