"""The catalogue of faults and what each must earn: the contract's table as data, so that the selftest is held to it."""

from __future__ import annotations

import difflib
from typing import Literal

import msgspec

Verdict = Literal["PASS", "FAIL", "INCONCLUSIVE"]


class Fault(msgspec.Struct, frozen=True):
    """One way in which the embedded server can be sick."""

    description: str
    verdict: Verdict
    """What a run against it must earn."""
    check: str | None = None
    """The check that must fail; None where none may."""
    late: bool = False
    """Begins after a few healthy turns, not at once."""
    overrides: tuple[str, ...] = ()
    """What the demo must demand so that anybody looks: keys of its scenario, as `--set` takes them."""
    finds: tuple[str, ...] = ()
    """What the controls must find: a control and its outcome each."""


def _pass(description: str) -> Fault:
    return Fault(description, "PASS")


def _fails(check: str, description: str, late: bool = False) -> Fault:
    return Fault(description, "FAIL", check, late)


def _blinds(description: str, late: bool = True) -> Fault:
    return Fault(description, "INCONCLUSIVE", None, late)


TIMED = ("limits.max_gap_p99_ms=60000", "limits.max_loop_lag_share=1.0", "limits.max_loop_lag_ms=10000")
"""A time is demanded, of which nothing is left to object to but how the stream travels."""
_SHORT = ("limits.min_drift_hours=0.0006", "limits.max_loop_lag_share=1.0")
_DRIFT = ("sessions.rounds=4", *_SHORT, "limits.max_drift_share_per_hour=72")
"""72 times itself in an hour is 2 % a second: what a run of seconds on a busy machine can tell from none."""
_FLIPS, _NOISY = ("repeat same", "cache differs"), ("repeat differs", "cache not_evaluable")
_TWICE = ("controls.repeat=3", "controls.cache=3")
_LIMIT = ("sessions.rounds=3", "gates.power_limit_w=700", "sensors.interval_s=0.5")
_VRAM = ("sessions.rounds=8", *_SHORT, "limits.max_vram_mib_per_hour=3600", "sensors.interval_s=0.5")

FAULTS: dict[str, Fault] = {
    "clean": _pass("nothing is wrong"),
    "no-usage": _pass("no usage, although it was asked for"),
    "usage-cumulative": _pass("a growing usage in every event, although it was not asked for"),
    "burst": _pass("eight tokens in one event"),
    "buffered": _pass("a proxy holds the stream back and hands it on in blocks of 16 KiB"),
    "clumps-8k": Fault("the same in blocks of 8 KiB where a time is demanded", "INCONCLUSIVE", None, False, TIMED),
    "clumps-4k": Fault("the same in blocks of 4 KiB where a time is demanded", "INCONCLUSIVE", None, False, TIMED),
    "batched": Fault("the same, eight whole events at a time", "INCONCLUSIVE", None, False, TIMED),
    "ping": _pass("comment lines between the events"),
    "crlf": _pass("lines end in CR LF"),
    "no-space": _pass("no space behind `data:`"),
    "split": _pass("writes end anywhere, inside a character too"),
    "u2028": _pass("replies hold U+2028, U+2029 and U+0085, which are no line ends here"),
    "escapes": _pass("JSON text escaped wherever it may be, surrogate pairs too"),
    "two-done": _pass("[DONE] comes twice"),
    "no-done": _pass("[DONE] never comes"),
    "bad-utf8": _pass("bytes that are not UTF-8 inside the text"),
    "leak": _fails("isolation", "some recalls are answered with another conversation's tag"),
    "leak-parallel": _fails("isolation", "the same, but only while the other conversation is being served"),
    "leak-retired": _fails("isolation", "the same, but only from a conversation that is over"),
    "stale": _fails("isolation", "some recalls are answered with a tag of the first conversation ever served"),
    "forget-oldest": _fails("recall", "the oldest third of a conversation's tags is gone"),
    "forget-random": _fails("recall", "about a third of the tags is gone"),
    "typo": _fails("recall", "about half of the tags come back with one symbol wrong"),
    "cache-rot": _fails("recall", "tags come back wrong when most of the prompt came from the prefix cache, unsalted"),
    "wrong-question": _fails("recall", "the tag of another of the conversation's labels comes back"),
    "babble": _fails("degeneration", "replies turn into the same three words until the cap"),
    "bang": _fails("degeneration", "replies are exclamation marks until the cap"),
    "needle-loop": _fails("degeneration", "replies repeat a tag until the cap"),
    "special-tokens": _fails("degeneration", "replies are full of spelled control tokens until the cap"),
    "reason-loop": _fails("degeneration", "thinking goes round in a circle until the cap and nothing is answered"),
    "null-stop": _fails("delivery", "replies stop at once with nothing in them", late=True),
    "reason-only": _fails("delivery", "replies think, and stop without an answer", late=True),
    "error-done": _fails("delivery", "an error event in mid-stream, then [DONE]", late=True),
    "eof": _fails("delivery", "the stream ends in the middle, without a finish", late=True),
    "reset": _fails("delivery", "the connection is reset in mid-stream", late=True),
    "nan": _fails("delivery", "an event holds NaN, which is not JSON", late=True),
    "html-200": _fails("delivery", "a proxy's page of HTML with status 200", late=True),
    "huge-event": _fails("delivery", "one event of more than 8 MiB", late=True),
    "hang": _fails("availability", "no more tokens, while /health answers", late=True),
    "dies": _fails("availability", "the process is gone in mid-stream", late=True),
    "restarts": _fails("availability", "the process starts anew in mid-stream, with cold caches", late=True),
    "suffix-cut": _blinds("recall replies run into max_tokens, lose their end and claim `stop`"),
    "capped": _blinds("the server's own cap ends replies early, before the tag, with `length`"),
    "empty-length": _blinds("replies are empty, with `length`"),
    "no-finish": _blinds("no event ever has a finish_reason"),
    "refuse": _blinds("recall questions are declined", late=False),
    "echo": _blinds("recall questions are answered with the prompt's own text", late=False),
    "too-long": _blinds("every prompt is refused as too long"),
    "busy-503": _blinds("every request is refused with 503"),
    "shed-429": _blinds("every request is refused with 429"),
    "dull": Fault(
        "tasks are answered wrongly while others are being served", "FAIL", "quality", False, ("quality.tasks=24",)
    ),
    "cache-flip": Fault("a prompt is answered differently from the prefix cache", "PASS", None, False, _TWICE, _FLIPS),
    "dither": Fault("a prompt is answered differently each time", "INCONCLUSIVE", None, False, _TWICE, _NOISY),
    "collapse": Fault(
        "once the load is over, replies are exclamation marks for good",
        "FAIL",
        "degeneration",
        False,
        ("controls.solo=true", "controls.after=5"),
        ("solo sick", "after sick"),
    ),
    "small-kv": _pass(
        "a quantised KV cache: 2.5 times as many tokens fit and take 3 % longer; beside drafting it ruins what is said"
    ),
    "drafting": _pass("speculation: tokens come in drafts, a third faster; beside small-kv it ruins what is said"),
    "slow-start": Fault(
        "the first second is slow, as that of a cold engine, and then no more", "PASS", None, False, _DRIFT
    ),
    "slow-drift": Fault("tokens take longer by 8 % of their first time each second", "FAIL", "drift", False, _DRIFT),
    "preemption-storm": Fault(
        "each reply loses its KV once on the way and must compute it again", "INCONCLUSIVE", None, True, _DRIFT
    ),
    "throttle": Fault(
        "the card slows itself down by heat, and the tokens with it", "INCONCLUSIVE", None, False, _DRIFT
    ),
    "limit-reset": Fault(
        "the card's power limit is another from the third second on", "INCONCLUSIVE", None, False, _LIMIT
    ),
    "vram-creep": Fault("the server's process takes 40 MiB of VRAM more each second", "FAIL", "drift", False, _VRAM),
}
"""Every fault of the contract by name, in its order."""

DELIVERY = frozenset({"null-stop", "reason-only", "error-done", "eof", "reset", "nan", "html-200", "huge-event"})
"""Those that hit a share of the turns."""
DEGENERATE = frozenset({"babble", "bang", "needle-loop", "special-tokens", "reason-loop"})


class UnknownFaultError(ValueError):
    """A fault that is not in the catalogue; the message names the nearest."""


def demanded(names: tuple[str, ...]) -> tuple[str, ...]:
    """The overrides that the demo needs to show these faults, each once."""
    return tuple(dict.fromkeys(key for name in names if name in FAULTS for key in FAULTS[name].overrides))


def check_faults(names: tuple[str, ...]) -> frozenset[str]:
    """The names as a set without `clean`. Raises UnknownFaultError."""
    for name in names:
        if name not in FAULTS:
            near = difflib.get_close_matches(name, FAULTS, n=1, cutoff=0.0)[0]
            raise UnknownFaultError(f"{name!r} is not a fault; the nearest is {near!r}, and --list-faults shows all")
    return frozenset(names) - {"clean"}
