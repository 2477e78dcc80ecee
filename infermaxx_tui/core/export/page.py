"""A run as one HTML page: nothing is fetched, no script runs, everything that a server said is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

import msgspec

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.export.charts import STYLE, chart_svg, charts, fill, legend
from infermaxx_tui.core.export.picture import SIMULATED, Picture
from infermaxx_tui.core.gpu_verdict import sensor_lines
from infermaxx_tui.core.judges.check import Check, Evidence, by_reason, count_text
from infermaxx_tui.core.verdict import rounded

PAGE_STYLE = """
:root{color-scheme:light dark;--ink:#1a1d21;--dim:#5d6670;--line:#d5d9de;--paper:#fff;--soft:#f3f5f7;
--ok:#0b7a3e;--bad:#b3261e;--warn:#8a5a00}
@media (prefers-color-scheme:dark){:root{--ink:#e8eaed;--dim:#9aa4af;--line:#394049;--paper:#14171a;--soft:#1d2126;
--ok:#4cc38a;--bad:#ff7b72;--warn:#e3b341}}
svg{display:block;width:100%;height:auto}*{box-sizing:border-box}
body{margin:0 auto;padding:24px;max-width:1040px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:22px;margin:0}h2{font-size:16px;margin:32px 0 8px;border-bottom:1px solid var(--line)}
.dim{color:var(--dim)}.ok{color:var(--ok)}.bad{color:var(--bad)}.warn{color:var(--warn)}
.word{font-size:30px;font-weight:700;letter-spacing:.02em}
.banner{background:var(--warn);color:var(--paper);font-weight:700;padding:6px 12px;border-radius:4px;margin:12px 0}
table{border-collapse:collapse;width:100%;font-size:14px}
td,th{text-align:left;vertical-align:top;padding:4px 12px 4px 0;
border-bottom:1px solid var(--line);overflow-wrap:anywhere}th{font-weight:600;white-space:nowrap}
td.n{text-align:right;white-space:nowrap;
font-variant-numeric:tabular-nums}td.k{white-space:nowrap;color:var(--dim)}
details{background:var(--soft);border-radius:4px;padding:4px 10px;margin:4px 0}summary{cursor:pointer}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:4px 0;font-size:13px}
@media print{body{max-width:none}details{break-inside:avoid}}
"""
_WORDS = {"pass": ("pass", "ok"), "fail": ("FAIL", "bad"), "not_evaluable": ("cannot say", "warn")}
_VERDICTS = {"PASS": "ok", "FAIL": "bad", "INCONCLUSIVE": "warn"}


def html_text(shown: Picture) -> str:
    """The page."""
    verdict = shown.verdict
    title = f"{verdict.verdict} {verdict.scenario or ''}" + (f" ({SIMULATED})" if verdict.simulated else "")
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{plain(title)}</title><style>{STYLE}{PAGE_STYLE}</style></head><body>",
        *_head(shown),
        *section("Checks", _checks(verdict.checks)),
        *section("Over time", _pictures(shown)),
        *section("Requests", _requests(shown)),
        *section("Gates", _gates(shown)),
        *section("Predictions", _predictions(shown)),
        *section("Sensors", [f"<p>{plain(line)}</p>" for line in sensor_lines(verdict.sensors)]),
        *section("Regime", _table(_plain(verdict.regime), verdict.regime.missing)),
        *section("Limits", _table(_plain(verdict.limits), {})),
        *section("Instrument", _table(_plain(verdict.instrument), {})),
        f'<p class="dim">{plain(shown.program)}; {plain(_shared(shown))}</p></body></html>\n',
    ]
    return "\n".join(parts)


def plain(value: object) -> str:
    """As text of a page: harmless to a terminal, and no markup."""
    return escape(harmless(str(value)), quote=True)


def section(name: str, body: Iterable[str]) -> list[str]:
    """A part of a page under its name; nothing if it holds nothing."""
    some = list(body)
    return [f"<section><h2>{name}</h2>", *some, "</section>"] if some else []


def _shared(shown: Picture) -> str:
    how = shown.sharing
    text = "with the text of replies" if how.text else "without any text of replies"
    return f"exported {text}" + (", names and keys redacted" if how.redact else "")


def _head(shown: Picture) -> list[str]:
    verdict = shown.verdict
    said = [f'<div class="banner">{plain(mark)}</div>' for mark in shown.marks]
    hidden, void = verdict.speed_withheld, verdict.timing_void
    note = f"Speeds are withheld: {hidden}" if hidden else f"Times are void: {void}" if void else None
    return [
        *said,
        f'<div class="word {_VERDICTS[verdict.verdict]}">{verdict.verdict}</div>',
        f"<h1>{plain(verdict.scenario or 'unknown scenario')}</h1>",
        f'<p class="dim">{plain(verdict.run or "")}, ended: {plain(verdict.ended or "the log does not say")}</p>',
        f"<p>{plain(verdict.scope)}</p>",
        *([f'<p class="bad">{plain(note)}</p>'] if note else []),
    ]


def _checks(checks: Iterable[Check]) -> list[str]:
    rows = [
        "<table><thead><tr><th>check</th><th>outcome</th><th>n</th><th>95 % bound</th><th>what it rests on</th></tr>"
        "</thead><tbody>"
    ]
    for check in checks:
        word, style = _WORDS[check.outcome]
        required = "" if check.required else ' <span class="dim">not required</span>'
        count, bound = count_text(check), "" if check.bound95 is None else f"{check.bound95:.2%}"
        said = [plain(check.advice)] if check.advice else []
        if check.cause:
            said.append(f"cause: {plain(check.cause)}")
        if check.excluded:
            said.append(f'<span class="dim">left out: {plain(by_reason(check.excluded))}</span>')
        rows.append(
            f'<tr><th>{plain(check.name)}</th><td class="{style}">{word}{required}</td><td class="n">{count}</td>'
            f'<td class="n">{bound}</td><td>{"<br>".join(said)}{_witnesses(check.evidence)}</td></tr>'
        )
    return [*rows, "</tbody></table>"]


def _witnesses(evidence: tuple[Evidence, ...]) -> str:
    if not evidence:
        return ""
    lines = "".join(f"<pre>{plain(witness(one))}</pre>" for one in evidence)
    word = "witness" if len(evidence) == 1 else "witnesses"
    return f"<details><summary>{len(evidence)} {word}</summary>{lines}</details>"


def witness(one: Evidence) -> str:
    """One piece of evidence in a line: where it stands, whose it is, what it is, what was said."""
    place = f"event {one.event[0]}:{one.event[1]}"
    who = "" if one.session is None else f", session {one.session} turn {'?' if one.turn is None else one.turn}"
    about = "".join(f", {name} {value}" for name, value in (("label", one.label), ("tag", one.tag)) if value)
    owner = "" if one.owner is None else f", of session {one.owner}"
    deep = "" if one.depth_tokens is None else f", at {one.depth_tokens:,} tokens"
    expected = f", expected: {one.expected}" if one.expected else ""
    return f"{place}{who}: {one.what}{about}{owner}{deep}{expected}" + (f", said: {one.said}" if one.said else "")


def _pictures(shown: Picture) -> list[str]:
    square = (
        '<svg style="display:inline;width:10px;height:10px" viewBox="0 0 10 10"><rect {} width="10" height="10"/></svg>'
    )
    names = " ".join(f"{square.format(fill(colour))} {name}" for colour, name in legend(shown))
    red = '<span class="bad">| failure</span>'
    return [f"<p>{names} {red}</p>", *(chart_svg(chart, shown) for chart in charts(shown))]


def _requests(shown: Picture) -> list[str]:
    counts: dict[tuple[str, str, str], int] = {}
    for row in shown.requests:
        key = (row.kind, row.outcome or "not ended", row.reply_class or "")
        counts[key] = counts.get(key, 0) + 1
    if not counts:
        return []
    rows = [
        f'<tr><td>{plain(kind)}</td><td>{plain(outcome)}</td><td>{plain(cls)}</td><td class="n">{count}</td></tr>'
        for (kind, outcome, cls), count in sorted(counts.items())
    ]
    head = "<table><thead><tr><th>kind</th><th>outcome</th><th>reply</th><th>requests</th></tr></thead><tbody>"
    return [head, *rows, "</tbody></table>"]


def _gates(shown: Picture) -> list[str]:
    rows = [
        f"<tr><th>{plain(gate.name)}</th><td>{plain(gate.when)}</td><td>{plain(gate.outcome)}</td>"
        f"<td>{plain(gate.said)}{'<br>' + plain(gate.advice) if gate.advice else ''}</td></tr>"
        for gate in shown.verdict.gates
    ]
    return ["<table><tbody>", *rows, "</tbody></table>"] if rows else []


def _predictions(shown: Picture) -> list[str]:
    some = [rounded(msgspec.to_builtins(one)) for one in shown.verdict.predictions]
    return [f"<pre>{plain(one)}</pre>" for one in some]


def _plain(value: msgspec.Struct) -> dict[str, object]:
    plain = rounded(msgspec.to_builtins(value))
    assert isinstance(plain, dict)
    return plain


def _table(values: Mapping[str, object], missing: Mapping[str, str]) -> list[str]:
    """Keys and values; where there is none, why."""
    rows = []
    for key, value in values.items():
        if key == "missing":
            continue
        said = plain(value) if value is not None else f'<span class="dim">{plain(missing.get(key, "not known"))}</span>'
        rows.append(f'<tr><td class="k">{plain(key)}</td><td>{said}</td></tr>')
    return ["<table><tbody>", *rows, "</tbody></table>"]
