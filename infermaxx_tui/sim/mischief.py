"""Faults that lie in what is said: each takes the honest reply's place only where its description holds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from infermaxx_tui.sim.cards import THROTTLED_FROM_S
from infermaxx_tui.sim.config import SimConfig
from infermaxx_tui.sim.faults import DEGENERATE, DELIVERY
from infermaxx_tui.sim.memory import Family, Memory
from infermaxx_tui.sim.reading import Reading
from infermaxx_tui.sim.script import Script, Tokens
from infermaxx_tui.sim.solver import wrong
from infermaxx_tui.sim.speech import Dice, Spoken, declined, not_given, recalled, sentences
from infermaxx_tui.vocabulary import Vocabulary

_ALPHABET = "ACDEFGHJKMNPQRTUVWXY34679"
_LONGEST_BABBLE = 4096
_FAST = 8
"""Babble comes fast, eight tokens an event: that is what makes it dangerous."""
_EARLY_CAP = 8
"""The server's own cap on a reply that is no recall."""
_ECHO_CHARS = 240
_SICK_SHARE = 0.4
_HUGE_SHARE = 0.2
"""Smaller, since each costs its client megabytes."""
_SICK_TURN_SHARE = 0.25
_DULL_SHARE = 0.7
_DRIFT_PER_S = 0.08
_THROTTLED = 1.6
_SMALL_KV = 1.03
_DRAFTING = 1 / 1.45
_RUINED = 1 / 1.6
"""What the speeds of note A's isolation matrix come to."""
_TAKEN_BACK_AT = 8
_THINKING = "Wait, let me go over that once more.\n"


class Scene(msgspec.Struct, frozen=True):
    """All that a reply may depend on, besides the faults."""

    reading: Reading
    memory: Memory
    """Who else was served."""
    own: Family | None
    """The conversation that asks."""
    honest: Spoken
    dice: Dice
    max_tokens: int
    cached: float
    """Share of the prompt that came from the prefix cache."""
    salted: bool
    now_s: float
    beside: int = 0
    """Other requests that are being served."""

    @property
    def label(self) -> str | None:
        """The label that is asked for."""
        return self.reading.question

    @property
    def deep_label(self) -> str | None:
        """The label that is asked for, if its tag stands in the prompt and not at its very end."""
        label = self.label
        if label is None or label not in self.reading.told or self.reading.at_tail(label):
            return None
        return label


class Mischief:
    """The scripted faults of one server."""

    def __init__(self, faults: frozenset[str], config: SimConfig, vocabulary: Vocabulary, tokens: Tokens) -> None:
        self._faults = faults
        self.drafting = "drafting" in faults
        """Whether tokens are guessed ahead, several to an event."""
        self._ruined = faults >= {"small-kv", "drafting"}
        """Two levers that are harmless alone and not together, and fastest then: babble is easy to draft (note A)."""
        self._config = config
        self._vocabulary = vocabulary
        self._tokens = tokens
        self._chosen: dict[tuple[str, str], bool] = {}
        self._counts: dict[str, int] = {}
        self._bang = vocabulary.encode("!")[0]

    def reply(self, scene: Scene, late: bool) -> Script:
        """The reply that the faults leave of the honest one; `late` says that the healthy turns are over."""
        spoken = self._wrong(scene) or scene.honest
        script = self._degenerate(scene, spoken)
        if script is None:
            script = self._tokens.script(self._decorated(spoken), scene.max_tokens)
            script = replace(script, per_step=_FAST) if "burst" in self._faults else script
        return self._late(scene, spoken, script) if late else script

    def pace(self, age_s: float) -> float:
        """By what the time of a token is multiplied, so many seconds after the process began."""
        slow = 1.0 + _DRIFT_PER_S * age_s if "slow-drift" in self._faults else 1.0
        slow += max(0.0, 1.0 - age_s) if "slow-start" in self._faults else 0.0
        slow *= _SMALL_KV if "small-kv" in self._faults else 1.0
        slow *= _DRAFTING if self.drafting else 1.0
        slow *= _RUINED if self._ruined else 1.0
        return slow * (_THROTTLED if "throttle" in self._faults and age_s > THROTTLED_FROM_S else 1.0)

    def bangs(self, max_tokens: int) -> Script:
        """Exclamation marks until the cap."""
        return Script((self._bang,) * min(max_tokens, _LONGEST_BABBLE), "length", per_step=_FAST)

    def takes_back(self, tokens: int, late: bool) -> bool:
        """Whether a reply loses its KV after so many tokens."""
        return late and tokens == _TAKEN_BACK_AT and "preemption-storm" in self._faults

    # What is said instead

    def _wrong(self, scene: Scene) -> Spoken | None:
        """The first fault of content that applies, as what it says."""
        label = scene.label
        if label is None:
            return self._dull(scene)
        if "refuse" in self._faults:
            return Spoken(declined(label))
        if "echo" in self._faults:
            return Spoken(self._echo(scene.reading))
        if (tag := self._stolen(scene, label)) is not None:
            return Spoken(recalled(label, tag))
        deep = scene.deep_label
        if deep is None:
            return None
        if self._forgets(scene, deep):
            return Spoken(not_given(deep))
        tag = self._mistaken(scene, deep)
        return None if tag is None else Spoken(recalled(deep, tag))

    def _dull(self, scene: Scene) -> Spoken | None:
        """A wrong answer to a task while others are being served."""
        task = scene.reading.task
        if task is None or not scene.beside or "dull" not in self._faults or not self._count("dull", _DULL_SHARE):
            return None
        return Spoken(f"Answer: {wrong(task)}")

    def _stolen(self, scene: Scene, label: str) -> str | None:
        """A tag that is not this conversation's."""
        if scene.reading.at_tail(label) or scene.own is None:
            return None
        others = scene.memory.others(scene.own)
        if "leak-parallel" in self._faults and "leak" not in self._faults:
            others = [other for other in others if other.in_flight]
        elif "leak-retired" in self._faults and "leak" not in self._faults:
            latest = scene.now_s - self._config.retire_after_s
            others = [other for other in others if not other.in_flight and other.last_seen_s <= latest]
        elif "stale" in self._faults:
            tags = [tag for tag in scene.memory.first.values() if tag not in scene.own.tags.values()]
            return scene.dice.pick(tags) if tags and self._choose("stale", label, 0.5) else None
        elif "leak" not in self._faults:
            return None
        if not others or not self._choose("leak", label, 0.5):
            return None
        return scene.dice.pick(list(scene.dice.pick(others).tags.values()))

    def _forgets(self, scene: Scene, label: str) -> bool:
        if "forget-random" in self._faults and self._choose("forget-random", label, 1 / 3):
            return True
        if "forget-oldest" not in self._faults:
            return False
        deep = [other for other in scene.reading.told if not scene.reading.at_tail(other)]
        return label in deep[: -(-len(deep) // 3)]

    def _mistaken(self, scene: Scene, label: str) -> str | None:
        """A tag in place of the right one."""
        right = scene.reading.told[label].tag
        if "cache-rot" in self._faults and not scene.salted and scene.cached >= 0.5:
            return _misspelt(right, label, 2)
        if "wrong-question" in self._faults:
            own = [told.tag for other, told in scene.reading.told.items() if other != label]
            return scene.dice.pick(own) if own else None
        if "typo" in self._faults and self._choose("typo", label, 0.5):
            return _misspelt(right, label, 1)
        return None

    def _echo(self, reading: Reading) -> str:
        """The turns that told tags and the question, word for word."""
        told = sorted({told.turn for told in reading.told.values()})
        pieces = []
        for place in told:
            text = reading.turns[place].text
            at = max(0, text.find("lot tag for the") - _ECHO_CHARS // 2)
            pieces.append(text[at : at + _ECHO_CHARS])
        return "\n".join([*pieces, reading.last.text])

    def _decorated(self, spoken: Spoken) -> Spoken:
        """What hard characters a model may say, at the end of what it says."""
        content = spoken.content
        if "u2028" in self._faults:
            content = f"{content}\u2028That is all.\u2029\x85"
        if "escapes" in self._faults:
            content = f'{content} ("quoted", a/b, back\\slash, tab\t, 🙂)'
        if "split" in self._faults or "bad-utf8" in self._faults:
            content = f"{content} — naïve 🙂 …"
        return Spoken(content, spoken.reasoning, spoken.tool)

    # Degenerate replies

    def _degenerate(self, scene: Scene, spoken: Spoken) -> Script | None:
        present = sorted(self._faults & DEGENERATE) or (["babble"] if self._ruined else [])
        share = 1.0 if self._ruined else 0.5 if scene.label is not None else _SICK_TURN_SHARE
        if not present or not self._count("recall" if scene.label else "turn", share):
            return None
        room = min(scene.max_tokens, _LONGEST_BABBLE)
        return Script(self._babble(present[0], scene, spoken, room)[:room], "length", per_step=_FAST)

    def _babble(self, fault: str, scene: Scene, spoken: Spoken, room: int) -> tuple[int, ...]:
        """At least `room` ids of it."""
        encode = self._vocabulary.encode
        match fault:
            case "bang":
                return (self._bang,) * room
            case "babble":
                return _looped(encode(sentences(scene.dice, 1)), encode(" it is that"), room)
            case "needle-loop":
                tags = [told.tag for told in scene.reading.told.values()]
                needle = f" {scene.dice.pick(tags)}" if tags else f" {spoken.content[:12]}"
                return _looped(encode(spoken.content), encode(needle), room)
            case "special-tokens":
                text = "".join(
                    f"{sentences(scene.dice, 1)}</think> <tool_call>\n<|im_end|> " for _ in range(1 + room // 16)
                )
                return encode(text)
            case _:
                return (self._tokens.think, *_looped(encode("\n"), encode(_THINKING), room))

    # Faults of length, delivery and availability

    def _late(self, scene: Scene, spoken: Spoken, script: Script) -> Script:
        faults = self._faults
        if "hang" in faults:
            return replace(script, trouble="hang")
        if "dies" in faults:
            return replace(script, trouble="dies")
        if "restarts" in faults and self._once("restarts"):
            return replace(script, trouble="restarts")
        if "empty-length" in faults:
            return Script((), "length")
        if "no-finish" in faults:
            return replace(script, finish=None)
        if "capped" in faults:
            return self._cut_early(scene, spoken)
        if "suffix-cut" in faults and scene.label is not None:
            return self._cut_suffix(scene, spoken)
        present = sorted(faults & DELIVERY - {"html-200"})
        share = _HUGE_SHARE if "huge-event" in present else _SICK_SHARE
        if present and self._count("delivery", share):
            return self._undelivered(present, spoken, script, scene.max_tokens)
        return script

    def _cut_early(self, scene: Scene, spoken: Spoken) -> Script:
        ids = self._tokens.spell(spoken)
        cap = self._before_tag(spoken) if scene.label is not None else _EARLY_CAP
        return Script(ids[: min(cap, scene.max_tokens)], "length")

    def _cut_suffix(self, scene: Scene, spoken: Spoken) -> Script:
        """Fills the budget with talk, so that the answer's end falls behind it, and claims to have stopped."""
        answer = self._vocabulary.encode(f" {spoken.content}")[: self._before_tag(spoken)]
        talk: tuple[int, ...] = ()
        while len(talk) + len(answer) < scene.max_tokens:
            talk += self._vocabulary.encode(f" {sentences(scene.dice, 4)}")
        ids = (*talk[: max(0, scene.max_tokens - len(answer))], *answer)
        return Script(ids[: scene.max_tokens], "stop", per_step=_FAST)

    def _before_tag(self, spoken: Spoken) -> int:
        """Tokens of the answer before its tag; half of an answer without one."""
        before, found, _ = spoken.content.partition(" is ")
        size = len(self._vocabulary.encode(before + found.rstrip() if found else before))
        return size if found else max(1, size // 2)

    def _undelivered(self, present: Sequence[str], spoken: Spoken, script: Script, max_tokens: int) -> Script:
        match present[0]:
            case "null-stop":
                return Script((self._tokens.end,), "stop")
            case "reason-only":
                thought = Spoken("", spoken.reasoning or spoken.content)
                return self._tokens.script(thought, max_tokens)
            case "error-done" | "eof" | "reset" | "nan" | "huge-event" as trouble:
                return replace(script, trouble=trouble)
            case _:
                return script

    def page_instead(self) -> bool:
        """Whether this turn gets a page of HTML instead of a reply."""
        return "html-200" in self._faults and self._count("page", _SICK_SHARE)

    # Choosing

    def _choose(self, fault: str, label: str, share: float) -> bool:
        """Whether a label is hit: by its hash, the same each time, and at least one of the first two is."""
        key = (fault, label)
        if key not in self._chosen:
            known = [hit for (other, _), hit in self._chosen.items() if other == fault]
            self._chosen[key] = _fraction(f"{fault}/{label}") < share or (bool(known) and not any(known))
        return self._chosen[key]

    def _count(self, what: str, share: float) -> bool:
        """Whether the next turn of this kind is hit: by its number, and the second is in any case."""
        number = self._counts[what] = self._counts.get(what, 0) + 1
        return number == 2 or _fraction(f"{what}/{number}") < share

    def _once(self, what: str) -> bool:
        self._counts[what] = self._counts.get(what, 0) + 1
        return self._counts[what] == 1


def _looped(start: tuple[int, ...], cycle: tuple[int, ...], room: int) -> tuple[int, ...]:
    return start + cycle * (1 + room // len(cycle))


def _misspelt(tag: str, label: str, symbols: int) -> str:
    """The tag with so many symbols replaced, the same ones each time."""
    out = list(tag)
    places = [place for place, symbol in enumerate(tag) if symbol in _ALPHABET]
    first = int(_fraction(f"place/{label}") * len(places))
    for n in range(symbols):
        place = places[(first + 3 * n) % len(places)]
        out[place] = _ALPHABET[(_ALPHABET.index(tag[place]) + 7) % len(_ALPHABET)]
    return "".join(out)


def _fraction(text: str) -> float:
    """A number from 0 to 1 that follows from the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big") / 2**48
