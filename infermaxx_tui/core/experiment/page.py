"""An experiment as one HTML page or as Markdown, and many of them as a page of living results. Nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.experiment.answer import Answer
from infermaxx_tui.core.experiment.cells import Cell, Table, escaped, markdown_table
from infermaxx_tui.core.experiment.curves import charts
from infermaxx_tui.core.experiment.fleet import fleet_table, newest_of
from infermaxx_tui.core.experiment.holds import HOLDS_NOTE, counted_by, holds_lines, holds_table
from infermaxx_tui.core.experiment.lines import answer_lines, arm_lines, claim_text, regimes_lines, state_lines
from infermaxx_tui.core.experiment.matrix import matrix_table
from infermaxx_tui.core.experiment.svg import chart_svg
from infermaxx_tui.core.experiment.table import arms_table
from infermaxx_tui.core.export.charts import STYLE
from infermaxx_tui.core.export.page import PAGE_STYLE, plain, section

_SIMULATED = "SIMULATED: played on the embedded server; nothing here says anything about a real one"
_WIDE = (
    "body{max-width:1280px}.wide{overflow-x:auto}.wide td{overflow-wrap:normal;min-width:6em}.wide svg{min-width:720px}"
    ".wide td:last-child{min-width:12em}.wide td:first-child,.wide td:nth-child(2){min-width:12em;"
    "max-width:24em;overflow-wrap:anywhere}"
    ".wide th{white-space:normal;overflow-wrap:normal}.struck{text-decoration:line-through;color:var(--dim)}"
    ".badge{border:1px solid var(--warn);color:var(--warn);border-radius:3px;padding:0 4px;font-size:11px;"
    "white-space:nowrap}"
    "@media print{@page{size:landscape}.wide{overflow:visible}.wide table{font-size:10px}"
    ".wide td,.wide td:first-child,.wide td:nth-child(2),.wide td:last-child{min-width:0}.badge{font-size:8px}"
    ".wide td,.wide th{padding-right:6px;"
    "overflow-wrap:break-word}.wide svg{min-width:0;break-inside:avoid}tr{break-inside:avoid}}"
)


def html_text(found: Answer, name: str) -> str:
    """The page of one experiment; `name` is its folder's."""
    first = found.registered
    return _page(
        first.experiment,
        [
            *([f'<div class="banner">{_SIMULATED}</div>'] if found.simulated else []),
            f"<h1>{plain(first.experiment)}</h1><p>{plain(first.question)}</p>",
            f'<p class="dim">{plain(name)}, {plain(first.program)}{"" if found.finished else ", not finished"}</p>',
            *section("Arms", (*_table(arms_table(found)), *_regimes(found))),
            *section("Sessions that the pools hold", _holds(found)),
            *section("Two levers together", _matrix(found)),
            *section("Pictures", [f'<div class="wide">{chart_svg(chart)}</div>' for chart in charts(found)]),
            *section("Claims", [f"<p>{plain(claim_text(one))}</p>" for one in found.claims]),
            *section("Each arm in words", _lines(_words(found))),
            *section("Runs", _runs(found)),
            *section("The file as it was asked", [f"<pre>{plain(first.file)}</pre>"]),
        ],
    )


def fleet_html(named: Sequence[tuple[str, Answer]], runs: Table | None = None, since: Sequence[str] = ()) -> str:
    """The page of living results: the newest of each experiment, one row an arm, and every run beside it.

    `since` is what the newest sweeps came to.
    """
    table = fleet_table(named)
    simulated = [found.registered.experiment for _, found in newest_of(named) if found.simulated]
    return _page(
        "living results",
        [
            "<h1>Living results</h1>",
            "<p>The newest results of each experiment. A figure stands with its depth, its spread and how often it was"
            " taken; what is struck through failed a check of content, and has no speed.</p>",
            *([f'<div class="banner">SIMULATED: {plain(", ".join(simulated))}</div>'] if simulated else []),
            *section("Arms", _table(table)),
            *section("Since the last time", _lines(since)),
            *(section("Runs", _table(runs)) if runs is not None else []),
        ],
    )


def _page(title: str, body: Iterable[str]) -> str:
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{plain(title)}</title><style>{STYLE}{PAGE_STYLE}{_WIDE}</style></head><body>",
        *body,
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _table(table: Table) -> Iterator[str]:
    if not table.rows:
        return
    yield '<div class="wide"><table><thead><tr>'
    yield "".join(f"<th>{plain(name)}</th>" for name in table.head)
    yield "</tr></thead><tbody>"
    for row in table.rows:
        yield f"<tr>{''.join(map(_cell, row))}</tr>"
    yield "</tbody></table></div>"


def _cell(cell: Cell) -> str:
    text = f'<span class="struck">{plain(cell.text)}</span>' if cell.struck else plain(cell.text)
    text += f' <span class="badge">{plain(cell.badge)}</span>' if cell.badge else ""
    return f'<td>{text}<div class="dim">{plain(cell.below)}</div></td>' if cell.below else f"<td>{text}</td>"


def _regimes(found: Answer) -> Iterator[str]:
    """What the figures were taken on, once if it is the same for all arms."""
    yield f'<p class="dim">{"<br>".join(plain(text) for text in regimes_lines(found))}</p>'


def _holds(found: Answer) -> list[str]:
    table = holds_table(found)
    if table is None:
        return []
    said = f"Largest request of each session, counted by {counted_by(found.registered)}. {HOLDS_NOTE}"
    return [*_table(table), f'<p class="dim">{plain(said)}</p>']


def _matrix(found: Answer) -> list[str]:
    first = found.registered
    return [] if first.matrix is None or not found.matrix else list(_table(matrix_table(found.matrix, first.matrix)))


def _words(found: Answer) -> Iterator[str]:
    yield from state_lines(found)
    for arm in found.arms:
        yield ""
        yield from (*arm_lines(arm), *(f"  {text}" for text in holds_lines(arm, found.registered)))


def _lines(lines: Iterable[str]) -> list[str]:
    text = "\n".join(harmless(line) for line in lines)
    return [f"<pre>{plain(text)}</pre>"] if text else []


def _runs(found: Answer) -> list[str]:
    """Each start with the run that it came to; the rows beside this page hold the whole configuration."""
    rows = tuple(
        (Cell(arm.name), Cell(str(row.boot + 1)), Cell(row.run or "none"), Cell(row.verdict or row.outcome))
        for arm in found.arms
        for row in arm.rows
    )
    return list(_table(Table(("arm", "start", "run", "verdict"), rows)))


def markdown_text(found: Answer, name: str) -> str:
    """The same for a repository or an issue."""
    first = found.registered
    table, holds = markdown_table(arms_table(found)), holds_table(found)
    lines = [
        f"# {escaped(first.experiment)}",
        "",
        *([f"**{_SIMULATED}**", ""] if found.simulated else []),
        escaped(first.question),
        "",
        *table,
        "",
        *(escaped(line) + "  " for line in regimes_lines(found)),
        "",
        *(() if holds is None else (*markdown_table(holds), "", HOLDS_NOTE, "")),
        *(() if first.matrix is None else (*markdown_table(matrix_table(found.matrix, first.matrix)), "")),
        "```",
        *(harmless(line).replace("```", "'''") for line in answer_lines(found)),
        "```",
        "",
        f"{escaped(name)}, {escaped(first.program)}",
    ]
    return "\n".join(lines) + "\n"
