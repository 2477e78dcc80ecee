"""Pictures of an experiment as SVG, whole by themselves.

Both axes begin at 0, so that no difference looks larger than it is. What is withheld stands struck through below, and
as a cross on the line of no speed.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.experiment.answer import Answer
from infermaxx_tui.core.experiment.curves import Chart, Curve, apart_text, charts
from infermaxx_tui.core.export.charts import COLOURS, LIGHT, STYLE
from infermaxx_tui.core.glyphs import fine_ceiling
from infermaxx_tui.core.measures import number_text

WIDTH: Final = 960
HEIGHT: Final = 300
_LEFT, _TOP, _BOTTOM = 72, 36, 44
_RIGHT_LEAST, _RIGHT_MOST, _CHAR = 120, 330, 7.0
"""Room for the names beside a picture, in pixels, and what a character of them takes."""
_LONGEST: Final = 150
"""Characters of a line below a picture."""
_STEP: Final = 16
_FONT: Final = 'class="text" font-family="system-ui,sans-serif" font-size="11" fill="#5d6670"'
_TITLE: Final = 'class="title" font-family="system-ui,sans-serif" font-size="13" font-weight="600" fill="#1a1d21"'


def chart_svg(chart: Chart, y: int = 0) -> str:
    """One chart as an `<svg>` of its own, `y` pixels down in another one."""
    height = chart_height(chart)
    label = escape(harmless(f"{chart.title}, {chart.y}"), quote=True)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [f'<svg y="{y}" {size} role="img" aria-label="{label}">']
    parts.append(f'<text {_TITLE} x="{_LEFT}" y="18">{_plain(f"{chart.title} ({chart.y})")}</text>')
    if chart.crossed or any(curve.points for curve in chart.curves):
        frame = _Frame(chart)
        parts += (*_axes(chart, frame), *_marked(chart, frame), *_crossed(chart, frame))
        for number, curve in enumerate(chart.curves):
            parts += _drawn(curve, number, frame, chart.joined)
    else:
        parts.append(f'<text {_FONT} x="{_LEFT}" y="{HEIGHT // 2}">{_plain(_cut(chart.empty))}</text>')
    for number, (text, struck) in enumerate(_below(chart)):
        top = HEIGHT + _STEP * number + 4
        line = ' text-decoration="line-through"' if struck else ""
        parts.append(f'<text {_FONT} x="{_LEFT}" y="{top}"{line}>{_plain(_cut(text))}</text>')
    return "".join((*parts, "</svg>"))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _below(chart: Chart) -> list[tuple[str, bool]]:
    """Lines below the picture, and whether they are struck through."""
    lines = [(text, True) for text in chart.struck]
    if any(point.n == 1 for curve in chart.curves for point in curve.points):
        lines.append(("pale: taken once (n 1), so nobody knows its spread", False))
    apart = apart_text(chart)
    if apart is not None:
        lines.append((apart, False))
    return lines


def chart_height(chart: Chart) -> int:
    """Pixels that it takes."""
    return HEIGHT + _STEP * len(_below(chart))


class _Frame:
    """From values to pixels."""

    def __init__(self, chart: Chart) -> None:
        points = [point for curve in chart.curves for point in curve.points]
        xs = [point.x for point in points] + [x for _, x in (*chart.crossed, *chart.marks)]
        self.most_x = fine_ceiling(max(xs, default=0.0)) or 1.0
        self.most_y = fine_ceiling(max((point.high for point in points), default=0.0)) or 1.0
        longest = max(
            len(name) for name in [curve.name for curve in chart.curves] + [name for name, _ in chart.crossed]
        )
        self.right = WIDTH - round(min(max(longest * _CHAR + 30, _RIGHT_LEAST), _RIGHT_MOST))

    def x(self, value: float) -> float:
        return _LEFT + (self.right - _LEFT) * value / self.most_x

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / self.most_y


def _axes(chart: Chart, frame: _Frame) -> Iterable[str]:
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y, x = frame.y(frame.most_y * share), frame.x(frame.most_x * share)
        line = f'x1="{_LEFT}" x2="{frame.right}" y1="{y:.1f}" y2="{y:.1f}"'
        yield f'<line class="grid" stroke="#d5d9de" {line}/>'
        yield f'<text {_FONT} x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(frame.most_y * share)}</text>'
        yield (
            f'<text {_FONT} x="{x:.1f}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">'
            f"{_number(frame.most_x * share)}</text>"
        )
    middle = (_LEFT + frame.right) / 2
    yield f'<text {_FONT} x="{middle:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{_plain(chart.x)}</text>'


def _marked(chart: Chart, frame: _Frame) -> Iterable[str]:
    """Dashed lines across the picture with their names, each a line lower, since they may stand close together."""
    for number, (name, value) in enumerate(chart.marks):
        x = frame.x(value)
        line = f'x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"'
        yield f'<line class="grid" stroke="#d5d9de" stroke-dasharray="4 3" {line}/>'
        said = _plain(f"{name} {value:,.0f}")
        yield f'<text {_FONT} x="{x + 4:.1f}" y="{HEIGHT - _BOTTOM - 8 - 14 * number}">{said}</text>'


def _crossed(chart: Chart, frame: _Frame) -> Iterable[str]:
    """A cross on the line of no speed, and the struck name below those of the curves."""
    for number, (name, value) in enumerate(chart.crossed):
        x, y = frame.x(value), frame.y(0.0)
        top = _TOP + _STEP * (len(chart.curves) + number)
        for cx, cy in ((x, y), (frame.right + 12.0, float(top))):
            path = f"M{cx - 5:.1f} {cy - 5:.1f}l10 10m0 -10l-10 10"
            yield f'<path class="mark" stroke="#b3261e" stroke-width="1.5" fill="none" d="{path}"/>'
        line = f'x="{frame.right + 22}" y="{top + 4}" text-decoration="line-through"'
        yield f"<text {_FONT} {line}>{_plain(_named(name))}</text>"


def _named(name: str) -> str:
    most = int((_RIGHT_MOST - 30) / _CHAR)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _drawn(curve: Curve, number: int, frame: _Frame, joined: bool) -> Iterable[str]:
    colour = number % COLOURS
    stroke = f'class="s{colour}" stroke="{LIGHT[colour]}"'
    fill = f'class="f{colour}" fill="{LIGHT[colour]}"'
    for place, line in enumerate(curve.lines if joined else ()):
        path = " ".join(f"{frame.x(point.x):.1f},{frame.y(point.y):.1f}" for point in line)
        dashed = ' stroke-dasharray="6 3"' if place else ""
        if len(line) > 1:
            yield f'<polyline {stroke}{dashed} stroke-width="1.5" fill="none" points="{path}"/>'
    for point in curve.points:
        x, y = frame.x(point.x), frame.y(point.y)
        said = f"{curve.name}: {number_text(point.y)} at {number_text(point.x)} (n {point.n})"
        bar = f'x1="{x:.1f}" x2="{x:.1f}" y1="{frame.y(point.low):.1f}" y2="{frame.y(point.high):.1f}"'
        yield f"<line {stroke} {bar}/>"
        hollow = ' fill-opacity="0.35"' if point.n == 1 else ""
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {fill}{hollow}><title>{_plain(said)}</title></circle>'
    top = _TOP + _STEP * number
    yield f'<circle cx="{frame.right + 12}" cy="{top}" r="4" {fill}/>'
    yield f'<text {_FONT} x="{frame.right + 22}" y="{top + 4}">{_plain(_named(curve.name))}</text>'


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
        f'<text {_FONT} x="16" y="42">{_plain(_cut(first.question))}</text>',
    ]
    if not some:
        parts.append(f'<text {_FONT} x="16" y="{head + 12}">nothing was measured that a picture could show</text>')
    top = head
    for chart in some:
        parts.append(chart_svg(chart, top))
        top += chart_height(chart)
    return "".join((*parts, "</svg>\n"))
