"""Who sends what, when, with which tags: fixed before the first request, the same on each Python."""

from __future__ import annotations

import hashlib
import math
from typing import Final

import msgspec

from infermaxx_tui.core.canary import make_labels, make_tags, tag_shaped
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.scenario import Scenario, ScenarioError
from infermaxx_tui.core.transcript import Session

_REACHED = 0.97
"""Share of the target depth from which a conversation has reached it: the rest may be too small to fill."""
DECOYS_PER_TAG = 1
"""As many tags are made and never sent as are sent (gpu-and-verdicts §2.2)."""


class Lengths(msgspec.Struct, frozen=True):
    """Token counts of one transcript, request by request."""

    delta_tokens: tuple[int, ...]
    reply_tokens: tuple[int, ...]
    opens: tuple[int, ...] = ()
    """Requests at which the prompt begins anew, after the first: a depth that was reached is given up there."""
    whole: bool = False
    """Played by itself from its first prompt to its last, never chained: a trace of lengths."""
    child: bool = False
    """A subagent's, which starts with its parent and never by itself."""

    def depths(self, start: int, with_replies: bool) -> tuple[int, int]:
        """The deepest prompt and the last one when a conversation of `start` tokens goes on with it."""
        depth = deepest = start
        for number, delta in enumerate(self.delta_tokens):
            depth = delta if number in self.opens else depth + delta
            depth += self.reply_tokens[number] if with_replies else 0
            deepest = max(deepest, depth)
        return deepest, depth


class TagPlan(msgspec.Struct, frozen=True):
    """One tag of a conversation and the depth at which it is planted."""

    label: str
    tag: str
    fraction: float
    depth_tokens: int
    how: str
    """`exchange`, `inline` or `head`."""


class Question(msgspec.Struct, frozen=True):
    """One label to ask; an absent label has an empty tag."""

    kind: str
    """`recall`, `tail` or `absent`."""
    label: str
    tag: str


class AskPlan(msgspec.Struct, frozen=True):
    """A place where a conversation is asked, and the questions in the order in which they go out."""

    fraction: float
    depth_tokens: int
    questions: tuple[Question, ...]
    meet: bool
    """Whether the conversations of a wave wait for one another here."""


class SubagentPlan(msgspec.Struct, frozen=True):
    """A subagent of a conversation."""

    session: int
    transcript: int
    parent: int
    """The transcript whose reply starts it."""
    after: int
    """How many replies of that transcript there are then."""
    waits: bool
    """Whether the next request of that transcript waits for its end."""


class ConversationPlan(msgspec.Struct, frozen=True):
    """One conversation from its first prompt to its last question."""

    session: int
    wave: int
    place: int
    """Which of the wave's conversations this is, from 0."""
    chain: tuple[int, ...]
    """Indices of the transcripts that are played one after another."""
    tags: tuple[TagPlan, ...]
    asks: tuple[AskPlan, ...]
    solo: bool = False
    """Played by itself, as a control: its questions are none of the run's planned ones."""
    target_tokens: int | None = None
    """The depth at which it ends; None: that of the scenario."""
    subagents: tuple[SubagentPlan, ...] = ()
    """What runs beside it, started by its replies or by those of another one of them."""
    parent: int | None = None
    """The conversation that it runs under, if it is a subagent's."""

    @property
    def planned_recalls(self) -> int:
        """Recall questions, sentinels and absent labels left out; none of a control."""
        return 0 if self.solo else sum(q.kind == "recall" for ask in self.asks for q in ask.questions)


class ControlsPlan(msgspec.Struct, frozen=True):
    """What `[controls]` adds to a run; the tags of it are no conversation's, and nothing is planted for the others."""

    prompts: tuple[ConversationPlan, ...] = ()
    """Whose transcripts the prompts are made of that are compared with themselves."""
    shared: ConversationPlan | None = None
    """The long prefix that questions share, with one tag each."""
    solo: ConversationPlan | None = None
    """Played alone before the waves and again after them."""

    @property
    def owners(self) -> tuple[ConversationPlan, ...]:
        """Those that have tags of their own."""
        return tuple(one for one in (self.shared, self.solo) if one is not None)


class Plan(msgspec.Struct, frozen=True):
    """A whole run."""

    conversations: tuple[ConversationPlan, ...]
    decoys: tuple[str, ...]
    at_once: int
    """Requests in flight at most; 1 in the serial control, however many conversations are open."""
    wave_size: int = 0
    """Conversations that are open together; 0: as many as `at_once`."""
    controls: ControlsPlan = ControlsPlan()

    @property
    def interleaved(self) -> int | None:
        """Conversations that take turns with one request in flight; None where they do not."""
        return self.wave_size if self.at_once == 1 and self.wave_size > 1 else None

    @property
    def planned_recalls(self) -> int:
        """Recall questions of all conversations."""
        return sum(c.planned_recalls for c in self.conversations)

    @property
    def waves(self) -> tuple[tuple[ConversationPlan, ...], ...]:
        """Conversations that run together, wave after wave."""
        last = max((c.wave for c in self.conversations), default=-1)
        return tuple(tuple(c for c in self.conversations if c.wave == wave) for wave in range(last + 1))


def draw(seed: int, *key: int | str) -> int:
    """A number of 64 bits that depends on the seed and the key alone."""
    text = "\x1f".join(map(str, (seed, *key)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def reached(depth_tokens: int, target_depth: int) -> bool:
    """Whether a conversation of this depth has come to its end."""
    return depth_tokens >= _REACHED * target_depth


def check_transcripts(transcripts: tuple[Session, ...], source: str) -> None:
    """Refuses transcripts that hold a tag-shaped string, since a reply that repeats it is not judgeable, and traces of
    lengths beside transcripts with text, since the two are not played in the same way.

    Raises ScenarioError.
    """
    traces = [transcript.source for transcript in transcripts if transcript.content_free]
    if traces and len(traces) < len(transcripts):
        why = f"{traces[0]} holds lengths and no text, and others hold text: give one sort or the other"
        raise ScenarioError(source, "transcripts.paths", why)
    for transcript in transcripts:
        for number, request in enumerate(transcript.requests):
            for message in (*request.delta, request.reply):
                text = "\n".join((message.content, message.reasoning, *(call.arguments for call in message.tool_calls)))
                if (found := tag_shaped(text)) is not None:
                    raise ScenarioError(
                        source,
                        "transcripts.paths",
                        f"{transcript.source}: request {number} ({message.role}) holds {found!r},"
                        " which looks like a tag;"
                        " take it out or leave the transcript out",
                    )


def plan(scenario: Scenario, lengths: tuple[Lengths, ...], seed: int, nonce: str, segment: int = 0) -> Plan:
    """The run's conversations. `lengths` belong to the transcripts, in order. Raises ScenarioError."""
    count = scenario.sessions.count
    wave_size = scenario.sessions.at_once or count
    at_once = 1 if scenario.sessions.control == "serial" else wave_size
    total = count * scenario.sessions.rounds
    per_conversation = len(scenario.plant_fractions) + scenario.canaries.head + scenario.canaries.tail
    key = nonce if segment == 0 else f"{nonce}.{segment}"
    issued, named = per_conversation * total, (per_conversation + scenario.canaries.absent) * total
    wanted = scenario.controls
    more = per_conversation * wanted.solo + wanted.salt
    tags = make_tags(seed, key, issued * (1 + DECOYS_PER_TAG) + more or 1)
    labels = make_labels(seed, key, named + more + wanted.solo * scenario.canaries.absent or 1)
    conversations = tuple(
        _conversation(scenario, lengths, seed, session, wave_size, tags, labels) for session in range(total)
    )
    decoys = tags[issued : issued * (1 + DECOYS_PER_TAG)]
    controls = _controls(scenario, lengths, seed, tags[issued * (1 + DECOYS_PER_TAG) :], labels[named:])
    return Plan(conversations, decoys, at_once, wave_size, controls)


CONTROL_SESSION: Final = -2
"""Whose the tags of a shared prefix are: no conversation's of the run."""
_NOBODY: Final = -1


def _controls(
    scenario: Scenario, lengths: tuple[Lengths, ...], seed: int, tags: tuple[str, ...], labels: tuple[str, ...]
) -> ControlsPlan:
    """The controls, with the tags and labels that the conversations left over."""
    wanted, total = scenario.controls, scenario.sessions.count * scenario.sessions.rounds
    solo = shared = None
    if wanted.solo:
        made = _conversation(scenario, lengths, seed, 0, 1, tags, labels)
        solo = msgspec.structs.replace(made, session=total, wave=-1, place=0, solo=True)
    if wanted.salt:
        own = zip(labels[-wanted.salt :], tags[-wanted.salt :], strict=True)
        depths = ((n + 1) / (wanted.salt + 1) for n in range(wanted.salt))
        target = scenario.sessions.target_depth
        planted = tuple(
            TagPlan(label, tag, fraction, math.ceil(fraction * target), "exchange")
            for (label, tag), fraction in zip(own, depths, strict=True)
        )
        shared = ConversationPlan(CONTROL_SESSION, -1, 0, _chain(scenario, lengths, seed, 0), planted, ())
    prompts = tuple(
        ConversationPlan(_NOBODY, -1, number, _chain(scenario, lengths, seed, number), (), ())
        for number in range(max(wanted.repeat, wanted.cache, wanted.alike > 0))
    )
    return ControlsPlan(prompts, shared, solo)


def _conversation(
    scenario: Scenario,
    lengths: tuple[Lengths, ...],
    seed: int,
    session: int,
    wave_size: int,
    tags: tuple[str, ...],
    labels: tuple[str, ...],
) -> ConversationPlan:
    canaries, chain = scenario.canaries, _chain(scenario, lengths, seed, session)
    target = _target(scenario, lengths, chain)
    n = len(scenario.plant_fractions) + canaries.head + canaries.tail
    own_tags = list(tags[session * n : session * n + n])
    step = n + canaries.absent
    own_labels = list(labels[session * step : session * step + step])
    planted = []
    if canaries.head:
        planted.append(TagPlan(own_labels.pop(), own_tags.pop(), 0.0, 0, "head"))
    extra = []
    if canaries.tail:
        extra.append(Question("tail", own_labels.pop(), own_tags.pop()))
    if canaries.absent:
        extra.append(Question("absent", own_labels.pop(), ""))
    planted += [
        TagPlan(own_labels.pop(), own_tags.pop(), fraction, math.ceil(fraction * target), canaries.plant)
        for fraction in scenario.plant_fractions
    ]
    return ConversationPlan(
        session=session,
        wave=session // wave_size,
        place=session % wave_size,
        chain=chain,
        tags=tuple(planted),
        asks=_asks(scenario, seed, session, tuple(planted), tuple(extra), target),
        target_tokens=target if target < scenario.sessions.target_depth else None,
    )


def _target(scenario: Scenario, lengths: tuple[Lengths, ...], chain: tuple[int, ...]) -> int:
    """Where a conversation ends: a trace that is played as it is may end before the depth that is aimed at."""
    (*_, last) = chain
    if not lengths[last].whole:
        return scenario.sessions.target_depth
    return min(scenario.sessions.target_depth, lengths[last].depths(0, with_replies=True)[0])


def _asks(
    scenario: Scenario, seed: int, session: int, planted: tuple[TagPlan, ...], extra: tuple[Question, ...], target: int
) -> tuple[AskPlan, ...]:
    asks = []
    fractions = sorted(scenario.canaries.ask_at)
    for place, fraction in enumerate(fractions):
        deepest = place == len(fractions) - 1
        questions = [Question("recall", tag.label, tag.tag) for tag in planted if tag.fraction < fraction]
        questions += extra if deepest else ()
        asks.append(
            AskPlan(fraction, math.ceil(fraction * target), _shuffled(questions, seed, session, place), meet=deepest)
        )
    return tuple(asks)


def _shuffled(questions: list[Question], seed: int, session: int, place: int) -> tuple[Question, ...]:
    return tuple(sorted(questions, key=lambda question: draw(seed, "ask", session, place, question.label)))


def _chain(scenario: Scenario, lengths: tuple[Lengths, ...], seed: int, session: int) -> tuple[int, ...]:
    """Transcripts in a rotation of a shuffled order, as many as the target depth needs at the least."""
    order = sorted((i for i, one in enumerate(lengths) if not one.child), key=lambda i: draw(seed, "order", i))
    start = session % len(order)
    recorded = scenario.sessions.replies == "recorded"
    chain: list[int] = []
    depth = deepest = 0
    for index in order[start:] + order[:start]:
        chain.append(index)
        reached_there, depth = lengths[index].depths(depth, recorded)
        deepest = max(deepest, reached_there)
        if deepest >= scenario.sessions.target_depth or lengths[index].whole:
            return tuple(chain)
    raise ScenarioError(
        scenario.name,
        "sessions.target_depth",
        f"{scenario.sessions.target_depth} tokens cannot be reached: all transcripts chained give {deepest};"
        f" add transcripts or --set sessions.target_depth={deepest}",
    )


def resolve_limits(scenario: Scenario, planned: Plan) -> Limits:
    """The limits of the scenario, refused where the plan cannot meet them. Raises ScenarioError."""
    limits = scenario.limits
    if planned.planned_recalls < limits.min_recalls:
        raise ScenarioError(
            scenario.name,
            "limits.min_recalls",
            f"the plan asks {planned.planned_recalls} recalls and the verdict needs {limits.min_recalls}:"
            f" --set sessions.rounds={_rounds(scenario, planned, limits.min_recalls)}"
            f" or --set limits.min_recalls={planned.planned_recalls}",
        )
    return limits


def _rounds(scenario: Scenario, planned: Plan, recalls: int) -> int:
    a_round = planned.planned_recalls / scenario.sessions.rounds
    return math.ceil(recalls / a_round) if a_round else scenario.sessions.rounds
