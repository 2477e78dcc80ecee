"""What the pictures of an experiment show: curves over depth or streams, and each arm's speed beside its context and
answers.

A line joins what one probe took turn by turn; figures of two probes, taken at different times of a run, stand apart. A
speed that is withheld is no point: its arm stands struck through below the picture, and as a cross at its context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from infermaxx_tui.core.experiment.answer import Answer, ArmAnswer, counted, pool
from infermaxx_tui.core.experiment.beside import Key
from infermaxx_tui.core.measures import Measure, number_text


class Point(msgspec.Struct, frozen=True):
    """A middle with its spread."""

    x: float
    y: float
    low: float
    high: float
    n: int


class Curve(msgspec.Struct, frozen=True):
    """One arm's figures."""

    name: str
    lines: tuple[tuple[Point, ...], ...]
    """What one probe took each, from left to right; each point by itself where nobody knows which did."""
    known: bool = True
    """Whether it is known which probe took them."""

    @property
    def points(self) -> tuple[Point, ...]:
        """All of them."""
        return tuple(point for line in self.lines for point in line)


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One picture; `struck` stands below it instead of in it."""

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...] = ()
    joined: bool = True
    struck: tuple[str, ...] = ()
    crossed: tuple[tuple[str, float], ...] = ()
    """Arms whose speed is withheld, with their place on the x axis."""
    marks: tuple[tuple[str, float], ...] = ()
    """Places on the x axis that matter, e.g. what a session needs."""
    empty: str = "not measured"
    """What stands there without any point."""


def charts(found: Answer) -> tuple[Chart, ...]:
    """Those for which anything was asked."""
    struck = tuple(_struck(arm) for arm in found.arms if arm.withheld is not None)
    some = (
        _over(
            found, "decode.tokens_per_s", "decode of one stream against depth", "tokens before it", "tokens/s", struck
        ),
        _over(found, "ttft.cold_ms", "cold time to the first token against depth", "tokens of prompt", "ms", struck),
        _by_streams(found, struck),
        _worth(found, struck),
    )
    return tuple(chart for chart in some if chart is not None)


def _struck(arm: ArmAnswer) -> str:
    return f"{arm.name}: {arm.withheld}"


def _point(one: Measure, x: float) -> Point | None:
    if one.median is None or one.spread is None:
        return None
    return Point(x, one.median, *one.spread, len(one.values))


def _curves(found: Answer, name: str, by_streams: bool) -> tuple[Curve, ...]:
    curves = []
    for arm in found.arms:
        if arm.withheld is not None:
            continue
        measures = [one for row in counted(arm.rows) for one in row.measures if one.name == name and one.values]
        by_probe: dict[object, dict[Key, list[Measure]]] = {}
        for one in measures:
            group = by_probe.setdefault(one.key if one.probe is None else one.probe, {})
            group.setdefault(one.key, []).append(one)
        lines = [_line(map(pool, group.values()), by_streams) for group in by_probe.values()]
        if lines:
            lines.sort(key=lambda line: line[0].x)
            curves.append(Curve(arm.name, tuple(lines), all(one.probe is not None for one in measures)))
    return tuple(curves)


def _line(measures: Iterable[Measure], by_streams: bool) -> tuple[Point, ...]:
    points = (_point(one, float((one.streams if by_streams else one.depth_tokens) or 0)) for one in measures)
    return tuple(sorted((point for point in points if point is not None), key=lambda point: point.x))


def points_text(curve: Curve) -> str:
    """Its figures in words, with what other probes took said apart."""
    lines = (
        ", ".join(f"{number_text(one.y)} at {number_text(one.x)} (n {one.n})" for one in line) for line in curve.lines
    )
    return "; apart: ".join(lines)


def apart_text(chart: Chart) -> str | None:
    """Why some of its points are not joined; None if all of each arm are."""
    if not chart.joined or all(len(curve.lines) < 2 for curve in chart.curves):
        return None
    if not all(curve.known for curve in chart.curves):
        return "apart: an older version noted these, and not which of them one probe took turn by turn"
    return "apart: taken by another probe, at another time of the run; a line joins what one probe took turn by turn"


def apart_lines(found: Answer) -> Iterator[str]:
    """Figures against depth or streams that were not all taken together, arm by arm."""
    for chart in charts(found):
        said = apart_text(chart)
        if said is not None:
            yield f"{chart.title}, {chart.y} ({said}):"
            yield from (f"  {curve.name}: {points_text(curve)}" for curve in chart.curves)


def _over(found: Answer, name: str, title: str, x: str, y: str, struck: tuple[str, ...]) -> Chart | None:
    asked = {one.depth_tokens for arm in found.arms for one in arm.measures if one.name == name}
    if len(asked) < 2 and name == "decode.tokens_per_s":
        return None
    curves = _curves(found, name, by_streams=False)
    why = _why_none(found, name)
    return Chart(title=title, x=x, y=y, curves=curves, struck=struck, empty=why) if asked else None


def _why_none(found: Answer, name: str) -> str:
    """The first reason why a figure of that name is missing."""
    every = (one.reason for arm in found.arms for one in arm.measures if one.name == name and one.reason)
    return f"not measured: {next(every, 'nobody asked')}"


def _by_streams(found: Answer, struck: tuple[str, ...]) -> Chart | None:
    name = "aggregate.tokens_per_s"
    asked = {one.streams for arm in found.arms for one in arm.measures if one.name == name}
    if len(asked) < 2:
        return None
    title = "all streams together against how many"
    return Chart(
        title=title, x="streams at once", y="tokens/s", curves=_curves(found, name, by_streams=True), struck=struck
    )


def _worth(found: Answer, struck: tuple[str, ...]) -> Chart | None:
    """Speed beside the context that the pool holds, with the share of right answers in the name."""
    curves, crossed, depths = [], [], set[int]()
    for arm in found.arms:
        pool = next((one for one in arm.measures if one.name == "pool.tokens"), None)
        rates = [one for one in arm.measures if one.name == "decode.tokens_per_s"]
        rate = min(rates, key=lambda one: one.depth_tokens or 0, default=None)
        if pool is not None and pool.median is not None and arm.withheld is not None:
            crossed.append((f"{arm.name} ({right_text(arm)})", pool.median))
        if arm.withheld is not None or pool is None or rate is None or pool.median is None:
            continue
        point = _point(rate, pool.median)
        if point is not None:
            depths.add(rate.depth_tokens or 0)
            curves.append(Curve(f"{arm.name} ({right_text(arm)})", ((point,),)))
    if not curves and not crossed:
        return None
    return Chart(
        title="speed beside context, with the answers that were right",
        x="KV pool, tokens",
        y=f"tokens/s at {' or '.join(f'{depth:,}' for depth in sorted(depths)) or 'no'} tokens",
        curves=tuple(curves),
        joined=False,
        struck=struck,
        crossed=tuple(crossed),
        marks=_sessions(found),
    )


def _sessions(found: Answer) -> tuple[tuple[str, float], ...]:
    """What the median session and the largest one need, where sessions are held against the pools."""
    peaks = sorted(found.registered.peaks_tokens)
    if not peaks:
        return ()
    middle, most = float(peaks[len(peaks) // 2]), float(peaks[-1])
    return (("largest session", most),) if middle == most else (("median session", middle), ("largest session", most))


def right_text(arm: ArmAnswer) -> str:
    """Right answers of all tasks with one, over all phases and starts; `no tasks` where none were asked.

    What was cut at its budget is said beside it: that is no wrong answer.
    """
    phases = [phase for row in arm.rows for phase in row.quality]
    if not phases:
        return "no tasks"
    said = f"{sum(phase.right for phase in phases)} of {sum(phase.planned for phase in phases)} right"
    cut = sum(phase.capped for phase in phases)
    return f"{said}, {cut} cut" if cut else said
