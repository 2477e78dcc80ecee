"""What two runs of the same conversations say together: does a failure need concurrency, and can a speed be true?

One arm alone cannot tell what conversations do to one another from what the server does to each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from infermaxx_tui.core.arms import OF_CONVERSATIONS
from infermaxx_tui.core.comparison import difference
from infermaxx_tui.core.inflation import inflation
from infermaxx_tui.core.verdict import Verdict

_CONCURRENCY = frozenset({"concurrency_requested", "at_once", "interleaved"})


def is_serial(verdict: Verdict) -> bool:
    """Whether several conversations were played with one request at a time."""
    return verdict.regime.at_once == 1 and (verdict.regime.sessions or 0) > 1


def pairs_said(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Sentences for people: of the first run beside each of the others as far as one is a control of the other."""
    first, *others = verdicts
    said = [line for other in others for line in concurrency_said(first, other)]
    return (*said, *suspicions(verdicts).values())


def concurrency_said(left: Verdict, right: Verdict) -> tuple[str, ...]:
    """Which failures need concurrency; nothing if not exactly one of the two ran one request at a time."""
    if is_serial(left) == is_serial(right) or None in (left.regime.at_once, right.regime.at_once):
        return ()
    loaded, serial = (right, left) if is_serial(left) else (left, right)
    levers = [key for key in difference(loaded, serial).keys if key not in _CONCURRENCY]
    if levers:
        return (f"serial arm: {', '.join(levers)} differ too, so this pair does not say what concurrency does",)
    outcomes = [
        (name, _outcome(loaded, name), _outcome(serial, name), f"{name} fails with {loaded.regime.at_once} at once")
        for name in OF_CONVERSATIONS
    ]
    said = []
    for name, beside, alone, head in outcomes:
        if beside == "fail" and alone == "fail":
            said.append(f"{head} and with one request at a time: it needs no concurrency")
        elif beside == "fail" and serial.verdict == "PASS":
            said.append(f"{head} and passes with one request at a time: it needs concurrency")
        elif beside == "fail":
            said.append(f"{head}, and the serial arm is no PASS ({serial.verdict}): whether it needs them is open")
        elif alone == "fail":
            said.append(
                f"{name} fails with one request at a time and does not with {loaded.regime.at_once} at once: it is not"
                " concurrency; look at what the order of the requests leaves in the cache"
            )
    return tuple(f"serial arm: {line}" for line in said or [_nothing(loaded, serial)])


def _outcome(verdict: Verdict, name: str) -> str | None:
    return next((check.outcome for check in verdict.checks if check.name == name), None)


def _nothing(loaded: Verdict, serial: Verdict) -> str:
    if (loaded.verdict, serial.verdict) == ("PASS", "PASS"):
        return "both pass, so there is no failure that concurrency would have to explain"
    return (
        f"nothing that conversations share failed in either, and they are not both PASS"
        f" ({loaded.verdict}, {serial.verdict}): the pair shows nothing"
    )


def suspicions(verdicts: Sequence[Verdict]) -> dict[int, str]:
    """By place, runs that are too fast to be true beside another one at equal depth (core.inflation), and why."""
    found: dict[int, str] = {}
    for now, control in permutations(range(len(verdicts)), 2):
        pace, before = verdicts[now].pace, verdicts[control].pace
        if pace is None or before is None or now in found:
            continue
        said = inflation(pace, before, verdicts[control].run or f"run {control + 1}").said
        if said is not None:
            found[now] = f"{verdicts[now].run or f'run {now + 1}'} is {said}"
    return found
