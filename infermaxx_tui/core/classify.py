"""What a reply to a recall question is, in the one order that keeps a broken instrument from looking like amnesia."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from infermaxx_tui.core import degeneration
from infermaxx_tui.core.canary import Registry, find_known, find_tags, near_misses, nearest
from infermaxx_tui.core.echo import find_echo
from infermaxx_tui.core.events import Hit, RequestEnded
from infermaxx_tui.core.refusal import refuses
from infermaxx_tui.core.torn import torn

EarlyClass = Literal[
    "leaked", "stale", "harness_fault", "prompt_echo", "degenerate", "truncated", "empty", "capped", "refused"
]
"""Classes that every question may end in."""
ReplyClass = EarlyClass | Literal["recalled", "reasoning_only", "mislabelled", "corrupted", "invented", "forgotten"]
AbsentClass = EarlyClass | Literal["none", "own_tag", "invented"]

RECALLED: Final[frozenset[ReplyClass]] = frozenset({"recalled", "reasoning_only"})
"""The tag came back."""
MISSES: Final[frozenset[ReplyClass]] = frozenset({"mislabelled", "corrupted", "invented", "forgotten"})
"""A complete reply without the tag: a miss, asked again alone."""
COMPLETE: Final[frozenset[ReplyClass]] = RECALLED | MISSES
"""The replies that enter recall's n."""
FOREIGN: Final[frozenset[ReplyClass]] = frozenset({"leaked", "stale"})
"""Evidence for isolation, whether or not the reply was complete."""

NEAR: Final = 2
"""Wrong symbols up to which a tag is taken for a damaged one: at a minimum distance of 4 its origin is unambiguous for
one, and still seen to be no tag for two."""


class Classified(msgspec.Struct, frozen=True):
    """What a reply to a recall question is."""

    cls: ReplyClass
    tag_found: str = ""
    """The tag that decided, as XXXX-XXXX (for corrupted: as the reply had it); empty if none did."""
    distance: int | None = None
    """Symbols between the reply's tag and the nearest own tag, where the class is corrupted or invented."""
    note: str = ""
    """One line for people; empty if the class says it all."""


class ClassifiedAbsent(msgspec.Struct, frozen=True):
    """What a reply to a question for a label that was never planted is."""

    cls: AbsentClass
    tag_found: str = ""
    note: str = ""


class _Early(msgspec.Struct, frozen=True):
    cls: EarlyClass
    tag_found: str = ""
    note: str = ""


class _Text(msgspec.Struct, frozen=True):
    """What a reply says, by where a person would see it."""

    shown: str
    """Content without an inline think block."""
    tool: str
    thought: str

    @property
    def visible(self) -> str:
        return f"{self.shown}\n{self.tool}" if self.tool else self.shown

    @property
    def weighed(self) -> str:
        """What the reply is held to: what it delivered, else what it thought."""
        return self.visible if self.visible.strip() else self.thought


def is_capped(
    finish_reason: str | None,
    completion_tokens: int | None,
    max_tokens: int | None,
    prompt_tokens: int | None,
    max_model_len: int | None,
) -> bool:
    """Whether a reply hit a limit on its length, or may have: no finish_reason came.

    A count that is not known cannot say so. `max_tokens` of None or 0 is not known.
    """
    if finish_reason is None or finish_reason == "length":
        return True
    if completion_tokens is None:
        return False
    if max_tokens and completion_tokens >= max_tokens - 1:
        return True
    if not max_model_len or prompt_tokens is None:
        return False
    return prompt_tokens + completion_tokens >= max_model_len - 1


def classify(
    asked_tag: str,
    session: int,
    reply: RequestEnded,
    registry: Registry,
    question: str,
    max_model_len: int | None,
    prompt_hits: frozenset[str] = frozenset(),
) -> Classified:
    """The class of `reply` to the question for `asked_tag`.

    `prompt_hits` are known tags that stood in the reply's own prompt and so cannot be a leak. Raises ValueError for an
    empty `asked_tag`: that is a question for `classify_absent`.
    """
    if not asked_tag:
        raise ValueError("a label without a tag was asked: classify_absent reads such replies")
    text = _read(reply)
    own = {**registry.own(session)}
    own.setdefault(asked_tag, "")
    early = _early(session, reply, text, registry, own, question, max_model_len, prompt_hits)
    if early is not None:
        return Classified(early.cls, early.tag_found, None, early.note)
    return _exact(asked_tag, text, own) or _damaged(asked_tag, text, own) or _none_of_own(session, text, registry, own)


def classify_absent(
    session: int,
    reply: RequestEnded,
    registry: Registry,
    question: str,
    max_model_len: int | None,
    prompt_hits: frozenset[str] = frozenset(),
) -> ClassifiedAbsent:
    """The class of `reply` to a question for a label that no session was ever told: right is `none`."""
    text, own = _read(reply), registry.own(session)
    early = _early(session, reply, text, registry, own, question, max_model_len, prompt_hits)
    if early is not None:
        return ClassifiedAbsent(early.cls, early.tag_found, early.note)
    named = find_known(text.weighed, own)
    if named:
        return ClassifiedAbsent("own_tag", named[0], f"the tag of {own[named[0]]}")
    damaged = near_misses(text.weighed, own, NEAR)
    if damaged:
        said, tag, far = damaged[0]
        return ClassifiedAbsent("invented", said, f"distance {far} from the tag of {own[tag]}")
    candidates = find_tags(text.weighed)
    if candidates:
        return ClassifiedAbsent("invented", candidates[0])
    return ClassifiedAbsent("refused" if refuses(text.weighed) else "none")


def _read(reply: RequestEnded) -> _Text:
    """A reply's channels; a think block that the server left in the content is thought, not answer."""
    content, thought = reply.content or "", reply.reasoning or ""
    before, closed, after = content.rpartition("</think>")
    if not closed:
        after, _, before = content.partition("<think>")
    return _Text(after, reply.tool_args or "", f"{thought}\n{before}" if before else thought)


def _early(
    session: int,
    reply: RequestEnded,
    text: _Text,
    registry: Registry,
    own: Mapping[str, str],
    question: str,
    max_model_len: int | None,
    prompt_hits: frozenset[str],
) -> _Early | None:
    """What is settled before the asked tag is looked for."""
    return (
        _alien(session, reply, registry, own, prompt_hits)
        or _echo(text, own, question)
        or _degenerate(reply)
        or _broken(reply, max_model_len)
        or _cut(reply, max_model_len)
    )


def _alien(
    session: int, reply: RequestEnded, registry: Registry, own: Mapping[str, str], prompt_hits: frozenset[str]
) -> _Early | None:
    """A tag that the session cannot know: seen by the runner in the text as received, or found here."""
    found = registry.hits(session, reply.content or "", reply.reasoning or "", reply.tool_args or "")
    hits = [hit for hit in (*found, *reply.hits) if hit.tag not in prompt_hits and hit.tag not in own]
    classes: tuple[tuple[str, EarlyClass], ...] = ("foreign", "leaked"), ("stale", "stale"), ("decoy", "harness_fault")
    for kind, cls in classes:
        for hit in hits:
            if hit.kind == kind:
                return _Early(cls, hit.tag, _origin(hit, registry))
    return None


def _origin(hit: Hit, registry: Registry) -> str:
    where = {"content": "content", "reasoning": "reasoning", "tool": "tool arguments"}[hit.channel]
    match hit.kind:
        case "foreign":
            return f"a tag of session {hit.owner}, in {where}"
        case "stale":
            return f"a tag of run {registry.stale.get(hit.tag, 'unknown')}, in {where}"
        case "decoy":
            return f"a decoy that was never sent, in {where}"


def _echo(text: _Text, own: Mapping[str, str], question: str) -> _Early | None:
    for channel in (text.shown, text.tool):
        why = find_echo(channel, question, own) if channel else None
        if why is not None:
            return _Early("prompt_echo", note=why)
    return None


def _degenerate(reply: RequestEnded) -> _Early | None:
    if reply.degenerate is not None:
        return _Early("degenerate", note=reply.degenerate)
    if reply.finish_reason == "repetition":
        return _Early("degenerate", note="the server stopped it for repetition")
    rule = degeneration.find_reply((reply.content, reply.reasoning, reply.tool_args), reply.anomalies)
    return None if rule is None else _Early("degenerate", note=rule)


def _broken(reply: RequestEnded, max_model_len: int | None) -> _Early | None:
    """A stream that did not end as it should, or that brought no text."""
    texts = reply.content, reply.reasoning, reply.tool_args
    silent = not _withheld(reply) and not any(text and text.strip() for text in texts)
    why = torn(reply)
    if reply.finish_reason in ("abort", "error"):
        why = f"finish_reason {reply.finish_reason}"
    if reply.outcome != "ok":
        why = reply.outcome
    if why is not None:
        return _Early("empty" if silent else "truncated", note=why)
    if silent:
        return _Early("empty", note="capped too" if _is_capped(reply, max_model_len) else "")
    return None


def _withheld(reply: RequestEnded) -> bool:
    """Whether the reply had text that its record does not hold."""
    return (
        (reply.content is None and reply.content_chars > 0)
        or (reply.reasoning is None and reply.reasoning_chars > 0)
        or (reply.tool_args is None and reply.tool_chars > 0)
    )


def _is_capped(of: RequestEnded, max_model_len: int | None) -> bool:
    return is_capped(of.finish_reason, of.completion_tokens, of.max_tokens, of.prompt_tokens, max_model_len)


def _cut(reply: RequestEnded, max_model_len: int | None) -> _Early | None:
    if _is_capped(reply, max_model_len):
        why = "no finish_reason" if reply.finish_reason is None else f"finish_reason {reply.finish_reason}"
        return _Early("capped", note=f"{reply.completion_tokens} of {reply.max_tokens} tokens, {why}")
    if reply.finish_reason == "content_filter":
        return _Early("refused", note="finish_reason content_filter")
    if _withheld(reply):
        return _Early("truncated", note="the log does not hold the reply's text")
    return None


def _exact(asked: str, text: _Text, own: Mapping[str, str]) -> Classified | None:
    """An own tag, symbol for symbol."""
    visible, thought = find_known(text.visible, own), find_known(text.thought, own)
    others = [own[tag] for tag in visible if tag != asked]
    beside = f"names the tag of {', '.join(others)} too" if others else ""
    if asked in visible:
        in_tool = "in tool arguments only" if text.tool and not find_known(text.shown, (asked,)) else ""
        return Classified("recalled", asked, None, "; ".join(filter(None, (beside, in_tool))))
    if asked in thought:
        return Classified("reasoning_only", asked, None, f"the answer {beside}" if others else "")
    instead = visible or (thought if text.weighed == text.thought else ())
    return Classified("mislabelled", instead[0], None, f"the tag of {own[instead[0]]}") if instead else None


def _damaged(asked: str, text: _Text, own: Mapping[str, str]) -> Classified | None:
    """An own tag with up to NEAR wrong symbols, the asked one rather than another."""
    for channel in (text.visible, text.thought):
        found = sorted(near_misses(channel, own, NEAR), key=lambda miss: miss[1] != asked)
        for said, tag, far in found:
            return Classified("corrupted", said, far, "" if tag == asked else f"nearest is the tag of {own[tag]}")
    return None


def _none_of_own(session: int, text: _Text, registry: Registry, own: Mapping[str, str]) -> Classified:
    """No own tag in any form: a made-up one, a refusal, or nothing."""
    candidates = find_tags(text.weighed)
    if candidates:
        said = candidates[0]
        closest = nearest(said, own)
        others = (tag for tag, owner in registry.owners.items() if owner.session != session)
        alien = nearest(said, others)
        note = ""
        if alien is not None and alien[1] <= NEAR:
            note = f"distance {alien[1]} from {alien[0]} of session {registry.owners[alien[0]].session}: leak suspect"
        return Classified("invented", said, None if closest is None else closest[1], note)
    if refuses(text.weighed):
        return Classified("refused")
    return Classified("forgotten", note="" if text.visible.strip() else "nothing but reasoning")
