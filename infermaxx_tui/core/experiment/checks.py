"""What an experiment may not do.

One variable an arm: with two, nobody knows which of them moved the figure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from infermaxx_tui.core.experiment.commandline import FLAG_NAME, Setting
from infermaxx_tui.core.experiment.levers import line_of, one_flag, settings
from infermaxx_tui.core.predictions import wrong_with

if TYPE_CHECKING:
    from infermaxx_tui.core.experiment.file import Arm, Base, Experiment

Complaint = tuple[str, str]
"""A key path, and what is wrong with its value."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
MAX_BOOTS: Final = 20
_TAKES_WORDS: Final = re.compile(r"\$[@*]|\$\{[@*]")


def complaints(experiment: Experiment) -> Iterator[Complaint]:
    """All that is wrong, in the order of the file; what comes after a wrong parent is not looked at."""
    if not _NAME.fullmatch(experiment.name):
        yield (
            "name",
            "use letters, digits, dot, dash, plus and underscore, at most 64, and begin with a letter or digit",
        )
    if not experiment.question.strip():
        yield "question", "is empty: say in one sentence what the experiment answers"
    server = experiment.server
    if (bool(server.launch) + bool(server.url) + bool(server.sim)) > 1:
        yield "server", "names more than one server: launch, url or sim"
    if not 1 <= experiment.boots <= MAX_BOOTS:
        yield "boots", f"must lie between 1 and {MAX_BOOTS}"
    if not (math.isfinite(experiment.margin) and 0 < experiment.margin < 1):
        yield "margin", "is a share between 0 and 1, e.g. 0.03"
    yield from (("set", why) for why in _sets(experiment.set))
    yield from (("server.flags", why) for why in _flags(server.flags))
    yield from (("server.env", why) for why in _env(server.env))
    for key in ("idle_s", "quiet_s", "start_s"):
        if not getattr(server, key) > 0:
            yield f"server.{key}", "must be more than 0 seconds"
    if not experiment.arms:
        yield "arms", "is empty: an experiment needs a control arm and one that differs from it in one lever"
        return
    wrong = list(_family(experiment))
    yield from wrong
    if wrong:
        return
    yield from _servers(experiment)
    yield from _one_lever(experiment)
    yield from _claims(experiment)
    yield from _matrix(experiment)


def _family(experiment: Experiment) -> Iterator[Complaint]:
    names = [arm.name for arm in experiment.arms]
    by_name = {arm.name: arm for arm in experiment.arms}
    for place, arm in enumerate(experiment.arms):
        key = f"arms[{place}]"
        if not _NAME.fullmatch(arm.name):
            yield f"{key}.name", "use letters, digits, dot, dash, plus and underscore, at most 64"
        if names.index(arm.name) < place:
            yield f"{key}.name", f"{arm.name!r} is there twice"
        if arm.parent is not None and arm.parent not in by_name:
            yield f"{key}.parent", f"{arm.parent!r} is no arm; arms are {', '.join(names)}"
        elif arm.parent is not None and _circles(arm, by_name):
            yield f"{key}.parent", "leads back to the arm itself"
        yield from ((f"{key}.set", why) for why in _sets(arm.set))
        yield from ((f"{key}.flags", why) for why in _flags(arm.flags))
        yield from ((f"{key}.env", why) for why in _env(arm.env))
        if arm.start_s is not None and not arm.start_s > 0:
            yield f"{key}.start_s", "must be more than 0 seconds"
        if arm.flags and not experiment.server.launch:
            yield f"{key}.flags", "need server.launch: a server that is not started here keeps its flags"
    if not any(arm.parent is None for arm in experiment.arms):
        yield "arms", "has no control: one arm must have no parent"


def _sets(words: Sequence[str]) -> Iterator[str]:
    """What is wrong with words that set keys of the scenario."""
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            yield f"{word!r}: write KEY=VALUE"
        elif key.strip().partition(".")[0] == "server":
            yield f"{word!r} reaches nothing: the server of an arm is what [server] and the arm itself say"
        elif value.strip().startswith("{"):
            yield f"{word!r} sets a whole table, which moves all of its keys: set them one by one"


def _flags(flags: Mapping[str, Setting]) -> Iterator[str]:
    """What is wrong with the names of flags."""
    spelled: dict[str, str] = {}
    for name in flags:
        if not FLAG_NAME.fullmatch(name):
            yield f'{name!r} is no name of a flag: write "kv-cache-dtype" = "fp8"'
        elif (other := spelled.setdefault(one_flag(name), name)) != name:
            yield f"{other!r} and {name!r} are one flag"


def _env(env: Mapping[str, str]) -> Iterator[str]:
    """What no program can be given."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            yield f"{name!r} is no variable that a program can have"


def _circles(arm: Arm, by_name: Mapping[str, Arm]) -> bool:
    seen = {arm.name}
    parent = arm.parent
    while parent is not None and parent in by_name:
        if parent in seen:
            return True
        seen.add(parent)
        parent = by_name[parent].parent
    return False


def _servers(experiment: Experiment) -> Iterator[Complaint]:
    server = experiment.server
    by_name = {arm.name: arm for arm in experiment.arms}
    for place, arm in enumerate(experiment.arms):
        yield from ((f"arms[{place}].{key}", why) for key, why in _without_effect(server, arm, line_of(arm, by_name)))
    if server.launch or server.url or server.sim:
        return
    for place, arm in enumerate(experiment.arms):
        if not any(one.url is not None or one.sim is not None for one in line_of(arm, by_name)):
            yield f"arms[{place}]", "has no server: set server.launch, server.url or server.sim, or the arm's url"


def _without_effect(server: Base, arm: Arm, line: Sequence[Arm]) -> Iterator[Complaint]:
    """Levers of an arm that nothing would come of, so that it would be called a lever that does not matter."""
    asked = server.url is not None or any(one.url is not None for one in line)
    for key in ("flags", "env", "sim"):
        if asked and getattr(arm, key):
            yield key, "has no effect: this arm is asked at a URL, and its server is not started here"
    if arm.env and not asked and not server.launch:
        yield "env", "has no effect: the embedded server looks at no variable of an arm"
    if server.launch and not asked and arm.sim is not None:
        yield "sim", "has no effect: server.launch starts the server of this arm"
    script = server.launch[2] if server.launch[1:2] == ("-c",) and len(server.launch) > 2 else None
    if arm.flags and not asked and script is not None and not _TAKES_WORDS.search(script):
        yield "flags", 'have no effect: server.launch is a shell script that passes no "$@" on; use env, or no shell'


def _one_lever(experiment: Experiment) -> Iterator[Complaint]:
    places = {arm.name: place for place, arm in enumerate(experiment.arms)}
    for one in settings(experiment):
        key = f"arms[{places[one.arm]}]"
        if one.parent is None:
            continue
        if not one.moved:
            yield key, f"{one.arm} is the same as its parent {one.parent}: change one lever"
        elif len(one.moved) > 1 and not one.confounded:
            yield (
                key,
                f"{one.arm} moves {len(one.moved)} levers against {one.parent} ({', '.join(one.moved)}): nobody could"
                " say which of them did it; put an arm between, or say why in `confounded`",
            )


def _matrix(experiment: Experiment) -> Iterator[Complaint]:
    matrix = experiment.matrix
    if matrix is None:
        return
    names = {arm.name for arm in experiment.arms}
    corners = {"none": matrix.none, "a": matrix.a, "b": matrix.b, "both": matrix.both}
    for key, name in corners.items():
        if name not in names:
            yield f"matrix.{key}", f"{name!r} is no arm; arms are {', '.join(sorted(names))}"
    if len(set(corners.values())) < len(corners):
        yield "matrix", "needs four different arms"


def _claims(experiment: Experiment) -> Iterator[Complaint]:
    names = {arm.name for arm in experiment.arms}
    for place, claim in enumerate(experiment.predictions):
        key = f"predictions[{place}]"
        for which, name in (("arm", claim.arm), ("against", claim.against)):
            if name not in names:
                yield f"{key}.{which}", f"{name!r} is no arm; arms are {', '.join(sorted(names))}"
        if claim.arm == claim.against:
            yield f"{key}.against", "is the arm itself"
        wrong = wrong_with(claim, any_measure=True)
        if wrong is not None:
            yield f"{key}.{wrong[0]}", wrong[1]
