"""All that an export shows, taken from a log once: the verdict, the series, the requests, and how it may be shared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeVar

import msgspec

from infermaxx_tui.core.export.requests import RequestRow, regime_columns, sha256
from infermaxx_tui.core.redact import identities
from infermaxx_tui.core.redact_machine import shareable
from infermaxx_tui.core.redact_rules import COMMON
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.timeline import TimelineView
from infermaxx_tui.core.verdict import Verdict, rounded

Format = Literal["json", "csv", "parquet", "html", "svg", "junit"]
FORMATS: Final[tuple[Format, ...]] = ("json", "csv", "parquet", "html", "svg", "junit")
Phase = Literal["running", "ended", "died"]
SIMULATED: Final = "SIMULATED"
_WHOSE: Final = ("host", "gpu_uuid", "model_root", "server_args")
"""Keys of the regime that name a machine or its folders."""
_T = TypeVar("_T", bound=msgspec.Struct)


class Sharing(msgspec.Struct, frozen=True):
    """How much of a run may be seen."""

    text: bool = False
    """Replies, errors and what evidence says; else their hashes and lengths."""
    redact: bool = False
    """Keys, people, hosts, folders and addresses are taken out of every string."""
    content_free: bool = False
    """No text, redacted, without tags and without the machine's names."""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it is exported."""

    program: str
    phase: Phase
    sharing: Sharing
    verdict: Verdict
    view: TimelineView
    requests: tuple[RequestRow, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        """What must stand beside everything that is shown."""
        said = (
            (SIMULATED, self.verdict.simulated),
            ("still running", self.phase == "running"),
            ("its runner died", self.phase == "died"),
            ("post hoc", self.verdict.post_hoc),
            ("speeds withheld", self.verdict.speed_withheld is not None),
            ("times void", self.verdict.timing_void is not None and self.verdict.speed_withheld is None),
        )
        return tuple(mark for mark, holds in said if holds)


def picture(
    state: RunState,
    verdict: Verdict,
    view: TimelineView,
    requests: tuple[RequestRow, ...],
    program: str,
    phase: Phase,
    sharing: Sharing,
    names: Iterable[str] = (),
) -> Picture:
    """The run as it may be seen. `names`: people and hosts that the machine knows of.

    The view must be without speeds already where they are withheld (core.panels.withheld.shown).
    """
    if not sharing.text:
        verdict = _without_text(verdict, sharing.content_free)
        view = msgspec.structs.replace(
            view, marks=tuple(msgspec.structs.replace(mark, text=mark.kind) for mark in view.marks)
        )
    if sharing.content_free:
        gone = dict.fromkeys(_WHOSE)
        missing = {**verdict.regime.missing, **dict.fromkeys(_WHOSE, "not shared")}
        regime = msgspec.structs.replace(verdict.regime, **gone, missing=missing)
        verdict = msgspec.structs.replace(verdict, regime=regime)
    if sharing.redact:
        scrub = _scrubber({*names, *_known(state)})
        verdict, view = _scrubbed(verdict, scrub), _scrubbed(view, scrub)
        requests = tuple(_row(row, scrub) for row in requests)
    return Picture(program=program, phase=phase, sharing=sharing, verdict=verdict, view=view, requests=requests)


def _known(state: RunState) -> set[str]:
    """Names that the log itself gives away."""
    names = set[str]()
    if state.meta is not None:
        names |= identities(state.meta.scenario_text) | {state.meta.host.name}
    regime = state.regime
    for text in () if regime is None else (regime.model_root, regime.server_args, regime.host):
        names |= identities(text) if text else set()
    return names


def _without_text(verdict: Verdict, bare: bool) -> Verdict:
    """Evidence without what was said: its hash instead. `bare`: without tags and labels too."""
    checks = []
    for check in verdict.checks:
        evidence = tuple(
            msgspec.structs.replace(
                one,
                said=None if one.said is None else f"sha256 {sha256(one.said)[:16]}, {len(one.said)} characters",
                note=None,
                **({"tag": None, "label": None, "question": None, "expected": None} if bare else {}),
            )
            for one in check.evidence
        )
        checks.append(msgspec.structs.replace(check, evidence=evidence))
    return msgspec.structs.replace(verdict, checks=tuple(checks))


def _scrubber(names: Iterable[str]) -> Callable[[str], str]:
    """Takes out of a string what must not be shared; a name of two letters would be found everywhere."""
    worth = sorted({name.lower() for name in names if len(name) > 2 and not name.isdigit()} - COMMON)
    done: dict[str, str] = {}

    def scrub(text: str) -> str:
        if text not in done:
            done[text] = shareable(text, worth)
        return done[text]

    return scrub


def _scrubbed(value: _T, scrub: Callable[[str], str]) -> _T:
    """A struct with all its strings scrubbed; keys of its tables too."""
    return msgspec.convert(_walked(msgspec.to_builtins(value), scrub), type(value))


def _walked(value: object, scrub: Callable[[str], str]) -> object:
    match value:
        case str():
            return scrub(value)
        case dict():
            return {_walked(key, scrub): _walked(inner, scrub) for key, inner in value.items()}
        case list() | tuple():
            return [_walked(inner, scrub) for inner in value]
        case _:
            return value


def _row(row: RequestRow, scrub: Callable[[str], str]) -> RequestRow:
    fields = msgspec.structs.asdict(row)
    texts = {name: scrub(value) for name, value in fields.items() if isinstance(value, str) and value}
    return msgspec.structs.replace(row, **texts)


def columns(shown: Picture) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Names of columns and the cells of each request, the run's own and the regime's among them.

    Times of single requests stay as evidence; where they are not to be quoted, each row says why.
    """
    verdict = shown.verdict
    run = {"run": verdict.run, "scenario": verdict.scenario, "simulated": verdict.simulated, "run_state": shown.phase}
    void = {"speed_withheld": verdict.speed_withheld, "timing_void": verdict.timing_void}
    after = {**void, **regime_columns(verdict.regime)}
    left_out = () if shown.sharing.text else ("content", "reasoning", "tool_args", "error")
    own = tuple(name for name in RequestRow.__struct_fields__ if name not in left_out)
    rows = [(*run.values(), *(getattr(row, name) for name in own), *after.values()) for row in shown.requests]
    return (*run, *own, *after), rows


def json_text(shown: Picture) -> str:
    """The verdict, and the series that its run went through; requests are counted, csv and parquet have them."""
    view, kinds = shown.view, dict[str, dict[str, int]]()
    for row in shown.requests:
        by = kinds.setdefault(row.kind, {})
        by[row.outcome or row.state] = by.get(row.outcome or row.state, 0) + 1
    whole = {
        "schema": 1,
        "program": shown.program,
        "run_state": shown.phase,
        "marked": list(shown.marks),
        "sharing": msgspec.to_builtins(shown.sharing),
        "verdict": msgspec.to_builtins(shown.verdict),
        "requests": kinds,
        "series": {
            "from_s": view.from_us / 1e6,
            "bucket_s": view.bucket_us / 1e6,
            "tokens_per_s": list(view.tokens_per_s),
            "streams": [
                {
                    "sessions": [{"from_s": at / 1e6, "session": session} for at, session in lane.stays],
                    "tokens_per_s": list(lane.series.tokens_per_s),
                    "depth_tokens": list(lane.series.depth_tokens),
                }
                for lane in view.lanes
            ],
            **{name: list(values) for name, values in view.series.items() if any(v is not None for v in values)},
        },
        "events": [
            {"at_s": mark.at_us / 1e6, "kind": mark.kind, "session": mark.session, "n": mark.count, "text": mark.text}
            for mark in view.marks
        ],
    }
    return json.dumps(rounded(whole), indent=1, allow_nan=False) + "\n"
