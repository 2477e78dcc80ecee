"""Who sends what, when, with which tags: fixed before the first request, the same on each Python."""

from __future__ import annotations

import hashlib
import math

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

    @property
    def planned_recalls(self) -> int:
        """Recall questions, sentinels and absent labels left out."""
        return sum(q.kind == "recall" for ask in self.asks for q in ask.questions)


class Plan(msgspec.Struct, frozen=True):
    """A whole run."""

    conversations: tuple[ConversationPlan, ...]
    decoys: tuple[str, ...]
    at_once: int

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
    """Refuses transcripts that hold no text to send, or a tag-shaped string: a reply that repeats it is not judgeable.

    Raises ScenarioError.
    """
    for transcript in transcripts:
        if transcript.content_free:
            why = f"{transcript.source} holds lengths and no text to send; `transcripts stats` can measure it"
            raise ScenarioError(source, "transcripts.paths", why)
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
    at_once = 1 if scenario.sessions.control == "serial" else scenario.sessions.at_once or count
    total = count * scenario.sessions.rounds
    per_conversation = len(scenario.plant_fractions) + scenario.canaries.head + scenario.canaries.tail
    key = nonce if segment == 0 else f"{nonce}.{segment}"
    issued = per_conversation * total
    tags = make_tags(seed, key, issued * (1 + DECOYS_PER_TAG) or 1)
    labels = make_labels(seed, key, (per_conversation + scenario.canaries.absent) * total or 1)
    conversations = tuple(
        _conversation(scenario, lengths, seed, session, at_once, tags, labels) for session in range(total)
    )
    return Plan(conversations, tags[issued : issued * (1 + DECOYS_PER_TAG)], at_once)


def _conversation(
    scenario: Scenario,
    lengths: tuple[Lengths, ...],
    seed: int,
    session: int,
    at_once: int,
    tags: tuple[str, ...],
    labels: tuple[str, ...],
) -> ConversationPlan:
    canaries, target = scenario.canaries, scenario.sessions.target_depth
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
        wave=session // at_once,
        place=session % at_once,
        chain=_chain(scenario, lengths, seed, session),
        tags=tuple(planted),
        asks=_asks(scenario, seed, session, tuple(planted), tuple(extra)),
    )


def _asks(
    scenario: Scenario, seed: int, session: int, planted: tuple[TagPlan, ...], extra: tuple[Question, ...]
) -> tuple[AskPlan, ...]:
    target = scenario.sessions.target_depth
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
    order = sorted(range(len(lengths)), key=lambda i: draw(seed, "order", i))
    start = session % len(order)
    recorded = scenario.sessions.replies == "recorded"
    chain: list[int] = []
    depth = 0
    for index in order[start:] + order[:start]:
        chain.append(index)
        depth += sum(lengths[index].delta_tokens) + (sum(lengths[index].reply_tokens) if recorded else 0)
        if depth >= scenario.sessions.target_depth:
            return tuple(chain)
    raise ScenarioError(
        scenario.name,
        "sessions.target_depth",
        f"{scenario.sessions.target_depth} tokens cannot be reached: all transcripts chained give {depth};"
        f" add transcripts or --set sessions.target_depth={depth}",
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
