"""Charts as SVG: one time axis for all of them, drawn so that they can be read on a light and on a dark page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import msgspec

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.export.picture import Picture
from infermaxx_tui.core.glyphs import nice_ceiling
from infermaxx_tui.core.marks import FAILURES

WIDTH: Final = 960
HEIGHT: Final = 132
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 24, 20
COLOURS: Final = 8
"""Lines of different colours; with more streams than these all lines are alike."""

_RULES: Final = """
@media (prefers-color-scheme:dark){
svg .text{fill:#9aa4af}svg .title{fill:#e8eaed}svg .grid{stroke:#394049}svg .mark{stroke:#ff7b72}
svg .paper{fill:#14171a}
svg .ok{fill:#4cc38a}svg .bad{fill:#ff7b72}svg .warn{fill:#e3b341}
@LINES@}
"""
"""Colours on a dark ground. On a light one the attributes stand, which programs that know no CSS draw too."""
LIGHT: Final = ("#1f6feb", "#c2410c", "#0f766e", "#9333ea", "#a16207", "#be185d", "#4d7c0f", "#475569")
_DARK: Final = ("#6cb0ff", "#ff9b63", "#4fd1c5", "#c99bff", "#e0b84c", "#ff8ac0", "#a5d86b", "#a9b6c6")
STYLE: Final = _RULES.replace(
    "@LINES@", "".join(f"svg .s{at}{{stroke:{colour}}}svg .f{at}{{fill:{colour}}}" for at, colour in enumerate(_DARK))
)
"""Of pictures by themselves, and of those in pages."""
_WORDS: Final = {"PASS": ("ok", "#0b7a3e"), "FAIL": ("bad", "#b3261e")}
_FONT: Final = 'class="text" font-family="system-ui,sans-serif" font-size="11" fill="#5d6670"'
_TITLE: Final = 'class="title" font-family="system-ui,sans-serif" font-size="12" font-weight="600" fill="#1a1d21"'


class Line(msgspec.Struct, frozen=True):
    """One series: values of equal steps, None where nothing was measured."""

    name: str
    values: tuple[float | None, ...]


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One chart."""

    title: str
    unit: str
    lines: tuple[Line, ...] = ()
    points: tuple[tuple[float, float, int], ...] = ()
    """(seconds, value, colour)"""
    empty: str = "not measured"
    """What stands there without any value."""


def charts(shown: Picture) -> tuple[Chart, ...]:
    """Throughput of all streams and of each, depth, time to the first token, and power."""
    view, withheld = shown.view, shown.verdict.speed_withheld
    why = f"withheld: {withheld}" if withheld is not None else "not measured"
    streams = [(f"stream {number}", lane.series) for number, lane in enumerate(view.lanes, 1)]
    sessions = {session: lane for lane, one in enumerate(view.lanes) for _, session in one.stays}
    firsts = [
        (row.first_token_s, row.ttft_ms / 1000, sessions.get(row.session, 0))
        for row in shown.requests
        if withheld is None and row.first_token_s is not None and row.ttft_ms is not None
    ]
    power = view.series.get("gpu_power_w", ())
    return (
        Chart(title="throughput, all streams", unit="tokens/s", lines=(Line("all", view.tokens_per_s),), empty=why),
        Chart(
            title="throughput by stream",
            unit="tokens/s",
            lines=tuple(Line(name, one.tokens_per_s) for name, one in streams),
            empty=why,
        ),
        Chart(
            title="depth by stream", unit="tokens", lines=tuple(Line(name, one.depth_tokens) for name, one in streams)
        ),
        Chart(title="time to first token, each request", unit="s", points=tuple(firsts), empty=why),
        Chart(title="power of the server's hungriest card", unit="W", lines=(Line("power", tuple(power)),)),
    )


def chart_svg(chart: Chart, shown: Picture, y: int = 0) -> str:
    """One chart as an `<svg>` of its own, `y` pixels down in another one."""
    start, end = shown.view.from_us / 1e6, shown.view.to_us / 1e6
    values = [v for line in chart.lines for v in line.values if v is not None] + [v for _, v, _ in chart.points]
    label = escape(harmless(f"{chart.title}, {chart.unit}"), quote=True)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    parts = [f'<svg y="{y}" {size} role="img" aria-label="{label}">']
    title = f"{chart.title} ({chart.unit})"
    if not values:
        parts.append(f'<text {_TITLE} x="{_LEFT}" y="15">{escape(harmless(title))}</text>')
        parts.append(f'<text {_FONT} x="{_LEFT}" y="{HEIGHT // 2}">{escape(harmless(chart.empty))}</text></svg>')
        return "".join(parts)
    hi = nice_ceiling(max(values)) or 1.0
    parts.append(f'<text {_TITLE} x="{_LEFT}" y="15">{escape(harmless(title))}</text>')
    parts += _axes(start, end, hi)
    parts += _marks(shown, start, end)
    many = len(chart.lines) > COLOURS
    for number, line in enumerate(chart.lines):
        colour = 0 if many else number % COLOURS
        look = f'{_stroke(colour)} stroke-width="1.5" stroke-opacity="{0.5 if many else 1}" fill="none"'
        parts += [f'<polyline {look} points="{points}"/>' for points in _stretches(line.values, hi)]
    for at, value, colour in chart.points:
        x, top = _x(at, start, end), _y(value, hi)
        parts.append(f'<circle cx="{x:.1f}" cy="{top:.1f}" r="2" {fill(colour)}/>')
    return "".join((*parts, "</svg>"))


def _stroke(colour: int) -> str:
    return f'class="s{colour % COLOURS}" stroke="{LIGHT[colour % COLOURS]}"'


def fill(colour: int) -> str:
    """Attributes that fill in a stream's colour."""
    return f'class="f{colour % COLOURS}" fill="{LIGHT[colour % COLOURS]}"'


def _axes(start: float, end: float, hi: float) -> list[str]:
    out = []
    for share in (0.0, 0.5, 1.0):
        y = _y(hi * share, hi)
        out.append(
            f'<line class="grid" stroke="#d5d9de" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        out.append(f'<text {_FONT} x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(hi * share)}</text>')
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, at = _LEFT + share * (WIDTH - _LEFT - _RIGHT), start + share * (end - start)
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        out.append(f'<text {_FONT} x="{x:.1f}" y="{HEIGHT - 5}" text-anchor="{anchor}">{_time(at, end - start)}</text>')
    return out


def _marks(shown: Picture, start: float, end: float) -> list[str]:
    """Failures, as lines over the whole height; each says what it is when it is pointed at."""
    out = []
    for mark in shown.view.marks:
        if mark.kind in FAILURES:
            x = _x(mark.at_us / 1e6, start, end)
            said = escape(harmless(f"{mark.kind}: {mark.text}" if mark.text != mark.kind else mark.kind))
            line = f'x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"'
            out.append(f'<line class="mark" stroke="#b3261e" stroke-opacity="0.5" {line}><title>{said}</title></line>')
    return out


def _stretches(values: Sequence[float | None], hi: float) -> list[str]:
    """Points of each stretch without a gap; one value alone is a dash."""
    out, points = list[str](), list[str]()
    step = (WIDTH - _LEFT - _RIGHT) / max(len(values), 1)
    for place, value in enumerate((*values, None)):
        if value is not None:
            x, y = _LEFT + (place + 0.5) * step, _y(value, hi)
            points.append(f"{x:.1f},{y:.1f}")
        elif points:
            if len(points) == 1:
                points.append(f"{_LEFT + place * step:.1f},{points[0].partition(',')[2]}")
            out.append(" ".join(points))
            points = []
    return out


def _x(at: float, start: float, end: float) -> float:
    share = (at - start) / (end - start) if end > start else 0.0
    return _LEFT + min(max(share, 0.0), 1.0) * (WIDTH - _LEFT - _RIGHT)


def _y(value: float, hi: float) -> float:
    room = HEIGHT - _TOP - _BOTTOM
    return HEIGHT - _BOTTOM - min(max(value / hi, 0.0), 1.0) * room


def _short(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.3g}"


def _time(at_s: float, span_s: float) -> str:
    if span_s < 180:
        return f"{at_s:.0f} s" if span_s >= 10 else f"{at_s:.1f} s"
    return f"{at_s / 60:.0f} min" if span_s < 3 * 3600 else f"{at_s / 3600:.1f} h"


def legend(shown: Picture) -> tuple[tuple[int, str], ...]:
    """Colour and name of each stream; empty for more than there are colours."""
    lanes = len(shown.view.lanes)
    return tuple((number, f"stream {number + 1}") for number in range(lanes)) if lanes <= COLOURS else ()


def svg_text(shown: Picture) -> str:
    """The time axis as one picture."""
    some = charts(shown)
    head = 64
    height = head + len(some) * HEIGHT + 8
    verdict = shown.verdict
    marks = f" ({', '.join(shown.marks)})" if shown.marks else ""
    word = escape(harmless(f"{verdict.verdict}{marks}"))
    name = escape(harmless(f"{verdict.scenario or 'unknown scenario'}  {verdict.run or ''}"))
    look, colour = _WORDS.get(verdict.verdict, ("warn", "#8a5a00"))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" class="paper" fill="#ffffff"/>',
        f'<text class="{look}" fill="{colour}" font-family="system-ui,sans-serif" font-size="17" font-weight="600"'
        f' x="{_LEFT}" y="22">{word}</text>',
        f'<text {_FONT} x="{_LEFT}" y="39">{name}</text>',
        *(
            f'<text font-family="system-ui,sans-serif" font-size="11" x="{_LEFT + number * 84}" y="55" {fill(number)}>'
            f"{said}</text>"
            for number, said in legend(shown)
        ),
        *(chart_svg(chart, shown, head + number * HEIGHT) for number, chart in enumerate(some)),
        "</svg>\n",
    ]
    return "".join(parts)
