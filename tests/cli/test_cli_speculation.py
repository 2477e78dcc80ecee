"""Speculation on the embedded server from end to end: identity, acceptance with its coverage, and answers that flip."""

from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path

import pytest
from clitools import Place

from infermaxx_tui.core.events import Record, RequestEnded
from infermaxx_tui.core.experiment.answer import Answer, answer
from infermaxx_tui.core.experiment.rows import ArmRow, decode_rows
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.log import read_log

_TEXT = """
name = "spec"
question = "Does drafting change what is said?"
scenario = "{scenario}"
set = [
  'probes=[{{kind="identity", prompts=3, n=2, max_tokens=48}}, {{kind="decode", n=2, max_tokens=64}}]',
  'quality.tasks=24',
  'quality.when=["during"]',
  "limits.min_quality=0.5",
]
boots = {boots}
[server]
sim = ["clean"]
[[arms]]
name = "off"
"""
_ROUND = ((3,), (2,), (), (0,), (1,))
"""What of the drafts of one step after another is accepted (infermaxx_tui/sim/drafting.py), written down once more."""


def _arm(name: str, *faults: str) -> str:
    why = 'confounded = "two faults, as a matrix has them"\n' if len(faults) > 1 else ""
    return f'[[arms]]\nname = "{name}"\nparent = "off"\nsim = {json.dumps(faults)}\n{why}'


def _play(place: Place, small: Path, arms: str, boots: int) -> tuple[Path, Answer, str]:
    file = place.root / "spec.toml"
    file.write_text(_TEXT.format(scenario=small, boots=boots) + arms, encoding="utf-8")
    done = place.run("experiment", str(file), "--no-gpu")
    (folder,) = (place.runs / "experiments").iterdir()
    with (folder / "rows.jsonl").open("rb") as lines:
        return folder, answer(decode_rows(lines)), done.out


def _reckoned(place: Place, row: ArmRow) -> tuple[list[int], int, int]:
    """Accepted at each place, drafts and tokens of all replies of a run, by what its log says of their lengths."""
    at, drafts, tokens = [0, 0, 0], 0, 0
    for record in read_log(place.runs / str(row.run)):
        event = record.event if isinstance(record, Record) else None
        if not isinstance(event, RequestEnded):
            continue
        assert event.completion_tokens is not None
        tokens += event.completion_tokens
        came, steps = 1, cycle(_ROUND)
        while came < event.completion_tokens:
            step = next(steps)
            came += 1 + sum(step)
            drafts += len(step)
            for accepted in step:
                at = [count + (place < accepted) for place, count in enumerate(at)]
    return at, drafts, tokens


def _measures(row: ArmRow) -> dict[str, Measure]:
    return {one.name: one for one in row.measures}


def test_drafting_that_changes_nothing_is_measured_and_changes_nothing(place: Place, small: Path) -> None:
    folder, found, out = _play(place, small, _arm("on", "drafting"), 2)
    off, on = found.arms
    assert [row.verdict for row in (*off.rows, *on.rows)] == ["PASS"] * 4
    assert off.identity is not None
    assert on.identity is not None
    assert (off.identity.control_same, off.identity.starts) == (3, (2, 2))
    assert (on.identity.prompts, on.identity.arm_same, on.identity.same, on.identity.different) == (3, 3, 3, 0)
    assert on.flips is not None
    assert (on.flips.pairs, on.flips.tasks, on.flips.flipped, on.flips.noise_flipped) == (48, 24, 0, 0)
    parts: list[tuple[int, int]] = []
    for row in on.rows:
        at, drafts, tokens = _reckoned(place, row)
        measures = _measures(row)
        one = measures["draft.acceptance"]
        assert list(one.values) == pytest.approx([sum(at) / (3 * drafts)])
        assert one.coverage == pytest.approx((drafts + sum(at)) / tokens)
        assert [measures[f"draft.acceptance_at_{n}"].values[0] * drafts for n in (1, 2, 3)] == pytest.approx(at)
        assert row.mean_length == pytest.approx(1 + sum(at) / drafts, rel=1e-5)
        parts.append((sum(at), 3 * drafts))
    pooled = next(one for one in on.measures if one.name == "draft.acceptance")
    assert pooled.median == sum(part for part, _ in parts) / sum(whole for _, whole in parts)
    for row in off.rows:
        none = _measures(row)["draft.acceptance"]
        assert (none.values, none.planned, none.reason) == ((), 0, "this server does not draft")
    assert "draft.acceptance: n/a (this server does not draft)" in out
    covered = f"from {100 * (pooled.coverage or 0):.3g} % of the output tokens"
    pages = [(folder / name).read_text(encoding="utf-8") for name in ("report.html", "report.md")]
    assert all(covered in text for text in (out, *pages))


def test_a_sick_arm_is_found_and_one_that_repeats_nothing_is_not_judged(place: Place, small: Path) -> None:
    arms = _arm("ruined", "drafting", "small-kv") + _arm("dull", "dull") + _arm("loose", "dither")
    _, found, out = _play(place, small, arms, 1)
    ruined, dull, loose = found.arms[1:]
    assert ruined.identity is not None
    assert (ruined.identity.same, ruined.identity.different, ruined.identity.cut) == (0, 3, 3)
    accepted = next(one for one in ruined.measures if one.name == "draft.acceptance")
    assert accepted.values == (1.0,)
    assert ruined.withheld is not None
    assert ruined.flips is not None
    assert (ruined.flips.interval, ruined.flips.left_out) == (None, 24), "babble is no answer"
    assert dull.flips is not None
    assert dull.flips.pairs == 24
    assert dull.flips.flipped == dull.flips.to_wrong >= 12
    assert dull.flips.interval is not None
    assert dull.flips.interval[0] > 0.25
    assert loose.identity is not None
    assert (loose.identity.arm_same, loose.identity.same, loose.identity.different) == (0, 0, 0)
    assert "what another start changes is not known" in out
