"""An experiment in words: what was asked, what each arm was, what moved, and what became of the claims.

Everything here is plain text that came from files and servers; the console makes it harmless.
"""

from __future__ import annotations

from collections.abc import Iterator

from infermaxx_tui.core.experiment.answer import Answer, ArmAnswer
from infermaxx_tui.core.experiment.curves import apart_lines
from infermaxx_tui.core.experiment.flips import flips_text
from infermaxx_tui.core.experiment.forecast import pool_text
from infermaxx_tui.core.experiment.holds import holds_lines
from infermaxx_tui.core.experiment.identity import identity_text
from infermaxx_tui.core.experiment.matrix import matrix_lines
from infermaxx_tui.core.experiment.moved import ONE_START, Movement
from infermaxx_tui.core.experiment.rows import ArmRow
from infermaxx_tui.core.experiment.scored import ScoredClaim
from infermaxx_tui.core.measures import label_text, measure_text
from infermaxx_tui.core.probe_fit import SERVED
from infermaxx_tui.core.regime import Regime


def answer_lines(answer: Answer) -> Iterator[str]:
    """The whole of it."""
    first = answer.registered
    yield f"{first.experiment}: {first.question}"
    yield from state_lines(answer)
    for arm in answer.arms:
        yield ""
        yield from arm_lines(arm)
        yield from (f"  {text}" for text in holds_lines(arm, first))
        yield from (f"  {text}" for text in _expected_lines(arm))
        yield from _served_line(arm)
    apart = list(apart_lines(answer))
    yield from ("", *apart) if apart else ()
    if answer.matrix:
        yield ""
        yield from matrix_lines(answer.matrix)
    if answer.claims:
        yield ""
        yield f"claims, registered before the first start (sha256 {first.claims_sha256[:12]}):"
        yield from (f"  {claim_text(one)}" for one in answer.claims)


def state_lines(answer: Answer) -> Iterator[str]:
    """What must be known before any figure: whether it is played, and how much of it is there."""
    if answer.simulated:
        yield "SIMULATED: played on the embedded server; nothing here says anything about a real one"
    if not answer.finished:
        done = sum(len(arm.rows) for arm in answer.arms)
        yield f"not finished: {done} of {len(answer.registered.order)} starts have a row"


def arm_lines(arm: ArmAnswer) -> Iterator[str]:
    """One arm: its lever, its starts, its figures, and each beside the parent's."""
    one = arm.settings
    lever = "control" if one.parent is None else f"against {one.parent}: {lever_text(arm)}"
    words = [word_text(row) for row in arm.rows]
    yield f"{arm.name} ({lever}): {', '.join(words) if words else 'not started yet'}"
    yield f"  {regime_text(arm)}"
    if one.confounded and len(one.moved) > 1:
        yield f"  CONFOUNDED: {len(one.moved)} levers move; {one.confounded}"
    if arm.unlike:
        yield f"  CONFOUNDED: these differ too, beside the lever or from start to start: {', '.join(arm.unlike)}"
    yield from (f"  LEVER NOT SEEN: {text}" for text in arm.unmoved)
    yield from (f"  {text}" for text in (*arm.failed, *arm.over_roofline))
    if arm.withheld is not None:
        yield f"  speed withheld: {arm.withheld}"
    if any(pair.movement.reason == ONE_START for pair in arm.compared):
        yield f"  {ONE_START}"
    if arm.worthless:
        yield "  its content checks fail: a speed of this arm is the speed of nothing"
    yield from (f"  {text}" for text in _figure_lines(arm))
    if arm.flips is not None:
        yield f"  {flips_text(arm.flips)}"
    if arm.identity is not None:
        yield f"  {identity_text(arm.identity, alone=one.parent is None)}"


def _figure_lines(arm: ArmAnswer) -> Iterator[str]:
    """Each figure beside the parent's; those that are missing for one reason in one line, after the others."""
    compared = {pair.measure.key: pair for pair in arm.compared}
    missing: dict[str, list[str]] = {}
    for measure in arm.measures:
        if measure.is_speed and arm.withheld is not None:
            continue
        if not measure.values:
            missing.setdefault(measure.reason or "not measured", []).append(label_text(measure))
            continue
        pair = compared.get(measure.key)
        yield f"{measure_text(measure)}{'' if pair is None else f'; {movement_text(pair.movement)}'}"
    yield from (f"{', '.join(labels)}: n/a ({reason})" for reason, labels in missing.items())


def _expected_lines(arm: ArmAnswer) -> Iterator[str]:
    """The pool that was reckoned before each start beside the one that the server made, each text once."""
    said = [
        text
        for row in arm.rows
        if row.forecast is not None and row.regime is not None
        if (text := pool_text(row.forecast, row.regime.pool_tokens)) is not None
    ]
    yield from dict.fromkeys(said)


def _served_line(arm: ArmAnswer) -> Iterator[str]:
    """What the server says that it has, beside what it was seen to serve."""
    pools = [value for one in arm.measures if one.name == "pool.tokens" for value in one.values]
    served = [value for one in arm.measures if one.name in ("depth.reached_tokens", SERVED) for value in one.values]
    if pools and served:
        yield f"  start-up says {max(pools):,.0f} tokens; the longest request that was served is {max(served):,.0f}"


def word_text(row: ArmRow) -> str:
    """The verdict of a start with the checks that stand against it, or why it has none."""
    if row.verdict is None or row.outcome == "gated":
        return row.outcome.replace("_", " ")
    against = [name for name, outcome in row.checks.items() if outcome == "fail"]
    against += row.unjudged if row.verdict == "INCONCLUSIVE" else ()
    return f"{row.verdict} ({', '.join(against)})" if against else row.verdict


def lever_text(arm: ArmAnswer) -> str:
    """The levers that it moves, with their values."""
    one = arm.settings
    return ", ".join(f"{name} {one.lever(name)}" for name in one.moved)


def regime_text(arm: ArmAnswer) -> str:
    """What its figures were taken on, shortly; the rows hold the whole of it."""
    regime = next((row.regime for row in arm.rows if row.regime is not None), None)
    if regime is None:
        return "no start gave a regime"
    return _regime(regime)


def regimes_lines(answer: Answer) -> Iterator[str]:
    """What all figures were taken on: once if that is the same everywhere, else arm by arm."""
    said = {arm.name: regime_text(arm) for arm in answer.arms}
    if len(set(said.values())) == 1:
        yield f"measured on {next(iter(said.values()))}"
        return
    yield from (f"{name}: {text}" for name, text in said.items())


def _regime(regime: Regime) -> str:
    parts = [
        regime.engine or "engine n/a",
        regime.model_root or regime.model or "model n/a",
        f"KV {regime.kv_cache_stored or regime.kv_cache_dtype or 'n/a'}",
        f"window {regime.max_model_len or 'n/a'}",
        regime.gpu or "no card",
    ]
    if regime.power_limit_w is not None:
        parts.append(f"{regime.power_limit_w:g} W")
    return ", ".join(parts)


def movement_text(one: Movement) -> str:
    """In words: by how much, between which bounds, or why nobody can say."""
    bounds = ""
    if one.low is not None and one.high is not None:
        bounds = f" ({_change(one.low)} to {_change(one.high)} at 95 %)"
    change = "" if one.ratio is None else f" {_change(one.ratio)}"
    match one.outcome:
        case "up" | "down":
            said = f"moved{change}{bounds}"
        case "no_movement":
            said = f"no movement{bounds}"
        case "unresolved":
            said = f"not resolved{change}{bounds}"
        case "single":
            return f"{change.strip() or 'no ratio'} (one value a side)"
        case "missing":
            return f"not compared: {one.reason}"
    return said if one.reason in (None, ONE_START) else f"{said}; {one.reason}"


def _change(ratio: float) -> str:
    return f"x {ratio:.3g}" if ratio >= 2.5 or ratio <= 0.4 else f"{100 * (ratio - 1):+.1f} %"


def claim_text(one: ScoredClaim) -> str:
    """A claim, its band and line, and what became of it."""
    claim = one.claim
    value = "n/a" if one.movement is None or one.movement.ratio is None else f"{one.movement.ratio:.4g}"
    if one.movement is not None and one.movement.low is not None and one.movement.high is not None:
        value += f" ({one.movement.low:.3g} to {one.movement.high:.3g} at 95 %)"
    elif one.movement is not None and one.movement.outcome == "single":
        value += " (one value a side, so no spread)"
    said = f"{one.result}: {claim.claim} ({one.figure}, {claim.arm} / {claim.against} = {value}"
    said += f"; said {claim.band[0]:g} to {claim.band[1]:g}, refuted if {claim.refuted_if})"
    return said if one.why is None else f"{said}; {one.why}"
