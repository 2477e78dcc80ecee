"""Experiment files and rows for tests."""

from __future__ import annotations

import msgspec

from infermaxx_tui.core.experiment.file import Experiment, parse_experiment
from infermaxx_tui.core.experiment.levers import settings
from infermaxx_tui.core.experiment.order import steps
from infermaxx_tui.core.experiment.rows import ArmRow, Registered, text_sha256
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.predictions import sha256_of

LADDER = """
name = "ladder"
question = "Does fp8 double the pool?"
[vars]
MODEL = "/models/small"
[server]
launch = ["vllm", "serve", "${MODEL}", "--port", "8000", "--kv-cache-dtype=auto"]
flags = { "max-model-len" = 8192, "enforce-eager" = true }
[[arms]]
name = "auto"
flags = { "kv-cache-dtype" = "auto" }
[[arms]]
name = "fp8"
parent = "auto"
flags = { "kv-cache-dtype" = "fp8_e4m3" }
"""


def parsed(text: str = LADDER, *overrides: str, **variables: str) -> Experiment:
    """The experiment of this text."""
    return parse_experiment(text, "ladder.toml", variables, overrides)


def first_row(experiment: Experiment, text: str = LADDER) -> Registered:
    """The row that stands before all others."""
    return Registered(
        at_ms=1,
        experiment=experiment.name,
        program="infermaxx 0",
        question=experiment.question,
        file=text,
        file_sha256=text_sha256(text),
        arms=settings(experiment),
        order=tuple((step.arm, step.boot) for step in steps(experiment)),
        margin=experiment.margin,
        matrix=experiment.matrix,
        claims=experiment.predictions,
        claims_sha256=sha256_of(experiment.predictions),
    )


def speed(*values: float, name: str = "decode.tokens_per_s", depth_tokens: int | None = 0) -> Measure:
    """A speed with these repetitions."""
    return Measure(name=name, unit="tokens/s", values=values, depth_tokens=depth_tokens, better="more", is_speed=True)


def arm_row(experiment: Experiment, arm: str, boot: int, *measures: Measure, **more: object) -> ArmRow:
    """A judged start; `more` are other fields of the row."""
    one = next(each for each in settings(experiment) if each.arm == arm)
    row = ArmRow(
        at_ms=10,
        experiment=experiment.name,
        arm=arm,
        boot=boot,
        place=0,
        began_ms=5,
        outcome="judged",
        verdict="PASS",
        run=f"run-{arm}-{boot}",
        settings=one,
        measures=measures,
    )
    return msgspec.structs.replace(row, **more)
