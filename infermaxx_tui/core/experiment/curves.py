"""Pictures of an experiment as SVG: curves over depth or streams, and each arm's speed beside its context and answers.

A speed that is withheld is not drawn: its arm stands struck through below the picture, with what its tasks came to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

import msgspec

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.experiment.answer import Answer, ArmAnswer
from infermaxx_tui.core.export.charts import COLOURS, LIGHT, STYLE
from infermaxx_tui.core.glyphs import nice_ceiling
from infermaxx_tui.core.measures import Measure, number_text

WIDTH: Final = 960
HEIGHT: Final = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 168, 36, 44
_FONT: Final = 'class="text" font-family="system-ui,sans-serif" font-size="11" fill="#5d6670"'
_TITLE: Final = 'class="title" font-family="system-ui,sans-serif" font-size="13" font-weight="600" fill="#1a1d21"'


class Point(msgspec.Struct, frozen=True):
    """A middle with its spread."""

    x: float
    y: float
    low: float
    high: float
    n: int


class Curve(msgspec.Struct, frozen=True):
    """One arm's line."""

    name: str
    points: tuple[Point, ...]


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One picture; `struck` stands below it instead of in it."""

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...] = ()
    joined: bool = True
    struck: tuple[str, ...] = ()
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
        points = [
            point
            for one in arm.measures
            if one.name == name
            and (point := _point(one, float((one.streams if by_streams else one.depth_tokens) or 0))) is not None
        ]
        if points:
            curves.append(Curve(arm.name, tuple(sorted(points, key=lambda point: point.x))))
    return tuple(curves)


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
    curves = []
    for arm in found.arms:
        pool = next((one for one in arm.measures if one.name == "pool.tokens"), None)
        rate = next((one for one in arm.measures if one.name == "decode.tokens_per_s"), None)
        if arm.withheld is not None or pool is None or rate is None or pool.median is None:
            continue
        point = _point(rate, pool.median)
        if point is not None:
            curves.append(Curve(f"{arm.name} ({right_text(arm)})", (point,)))
    if not curves:
        return None
    title = "speed beside context, with the answers that were right"
    return Chart(title=title, x="KV pool, tokens", y="tokens/s", curves=tuple(curves), joined=False, struck=struck)


def right_text(arm: ArmAnswer) -> str:
    """Right answers of all tasks with one, over all phases and starts; `no tasks` where none were asked."""
    phases = [phase for row in arm.rows for phase in row.quality]
    if not phases:
        return "no tasks"
    return f"{sum(phase.right for phase in phases)} of {sum(phase.planned for phase in phases)} right"


def chart_svg(chart: Chart, y: int = 0) -> str:
    """One chart as an `<svg>` of its own, `y` pixels down in another one."""
    struck = list(enumerate(chart.struck))
    height = HEIGHT + 16 * len(struck)
    label = escape(harmless(f"{chart.title}, {chart.y}"), quote=True)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [f'<svg y="{y}" {size} role="img" aria-label="{label}">']
    parts.append(f'<text {_TITLE} x="{_LEFT}" y="18">{_plain(f"{chart.title} ({chart.y})")}</text>')
    points = [point for curve in chart.curves for point in curve.points]
    if points:
        frame = _Frame(points)
        parts += _axes(chart, frame)
        for number, curve in enumerate(chart.curves):
            parts += _drawn(curve, number, frame, chart.joined)
    else:
        parts.append(f'<text {_FONT} x="{_LEFT}" y="{HEIGHT // 2}">{_plain(chart.empty[:160])}</text>')
    for number, text in struck:
        top = HEIGHT + 16 * number
        parts.append(f'<text {_FONT} x="{_LEFT}" y="{top}" text-decoration="line-through">{_plain(text)}</text>')
    return "".join((*parts, "</svg>"))


def chart_height(chart: Chart) -> int:
    """Pixels that it takes."""
    return HEIGHT + 16 * len(chart.struck)


class _Frame:
    """From values to pixels; both axes begin at 0, so that no difference looks larger than it is."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.right = nice_ceiling(max(point.x for point in points)) or 1.0
        self.top = nice_ceiling(max(point.high for point in points)) or 1.0

    def x(self, value: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * value / self.right

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / self.top


def _axes(chart: Chart, frame: _Frame) -> Iterable[str]:
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y, x = frame.y(frame.top * share), frame.x(frame.right * share)
        line = f'x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
        yield f'<line class="grid" stroke="#d5d9de" {line}/>'
        yield f'<text {_FONT} x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(frame.top * share)}</text>'
        yield (
            f'<text {_FONT} x="{x:.1f}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">'
            f"{_number(frame.right * share)}</text>"
        )
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    yield f'<text {_FONT} x="{middle:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{_plain(chart.x)}</text>'


def _drawn(curve: Curve, number: int, frame: _Frame, joined: bool) -> Iterable[str]:
    colour = number % COLOURS
    stroke = f'class="s{colour}" stroke="{LIGHT[colour]}"'
    fill = f'class="f{colour}" fill="{LIGHT[colour]}"'
    if joined and len(curve.points) > 1:
        path = " ".join(f"{frame.x(point.x):.1f},{frame.y(point.y):.1f}" for point in curve.points)
        yield f'<polyline {stroke} stroke-width="1.5" fill="none" points="{path}"/>'
    for point in curve.points:
        x, y = frame.x(point.x), frame.y(point.y)
        said = f"{curve.name}: {number_text(point.y)} at {number_text(point.x)} (n {point.n})"
        bar = f'x1="{x:.1f}" x2="{x:.1f}" y1="{frame.y(point.low):.1f}" y2="{frame.y(point.high):.1f}"'
        yield f"<line {stroke} {bar}/>"
        hollow = ' fill-opacity="0.35"' if point.n == 1 else ""
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {fill}{hollow}><title>{_plain(said)}</title></circle>'
    top = _TOP + 16 * number
    yield f'<circle cx="{WIDTH - _RIGHT + 12}" cy="{top}" r="4" {fill}/>'
    yield f'<text {_FONT} x="{WIDTH - _RIGHT + 22}" y="{top + 4}">{_plain(curve.name)}</text>'


def _plain(text: str) -> str:
    return escape(harmless(text), quote=True)


def _number(value: float) -> str:
    return f"{value / 1000:,.10g}k" if value >= 10_000 else f"{value:,.4g}"


def svg_text(found: Answer) -> str:
    """All charts as one picture; an experiment without any says so."""
    some = charts(found)
    first = found.registered
    head = 56
    height = head + sum(map(chart_height, some)) + (24 if not some else 0)
    mark = "SIMULATED: " if found.simulated else ""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f'<style>{STYLE}</style><rect class="paper" width="100%" height="100%" fill="#fff"/>',
        f'<text {_TITLE} x="16" y="24">{_plain(mark + first.experiment)}</text>',
        f'<text {_FONT} x="16" y="42">{_plain(first.question)}</text>',
    ]
    if not some:
        parts.append(f'<text {_FONT} x="16" y="{head + 12}">nothing was measured that a picture could show</text>')
    top = head
    for chart in some:
        parts.append(chart_svg(chart, top))
        top += chart_height(chart)
    return "".join((*parts, "</svg>\n"))
