"""A verdict as a test report that CI systems show: one test case for each check.

A check that fails is a failure with its witnesses. One that could not say is an error where it is required, since a run
that proves nothing must not look green, and skipped where it is not.
"""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.export.page import witness
from infermaxx_tui.core.export.picture import Picture
from infermaxx_tui.core.export.requests import regime_columns
from infermaxx_tui.core.judges.check import Check

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML 1.0 document may hold."""


def junit_text(shown: Picture) -> str:
    """The report."""
    verdict = shown.verdict
    marks = "".join(f" [{mark}]" for mark in shown.marks)
    name = f"infermaxx.{verdict.scenario or 'unknown'}{marks}"
    cases = [_case(check, name) for check in verdict.checks]
    failures = sum(check.outcome == "fail" for check in verdict.checks)
    unsaid = [check for check in verdict.checks if check.outcome == "not_evaluable"]
    errors = sum(check.required for check in unsaid)
    counts = (
        f'tests="{len(cases)}" failures="{failures}" errors="{errors}" skipped="{len(unsaid) - errors}"'
        f' time="{verdict.regime.duration_s:.3f}"'
    )
    known = {
        "run": verdict.run,
        "verdict": verdict.verdict,
        "simulated": verdict.simulated,
        "run_state": shown.phase,
        "speed_withheld": verdict.speed_withheld,
        "timing_void": verdict.timing_void,
        "scope": verdict.scope,
        **regime_columns(verdict.regime),
    }
    properties = "".join(
        f"<property name={_attr(key)} value={_attr(value)}/>" for key, value in known.items() if value is not None
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<testsuites name={_attr(name)} {counts}>\n<testsuite name={_attr(name)} {counts}>\n"
        f"<properties>{properties}</properties>\n{''.join(cases)}</testsuite>\n</testsuites>\n"
    )


def _clean(value: object) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", harmless(str(value)))


def _attr(value: object) -> str:
    return quoteattr(_clean(value))


def _case(check: Check, suite: str) -> str:
    head = f"<testcase classname={_attr(suite)} name={_attr(check.name)}"
    message = check.advice or check.outcome
    match check.outcome:
        case "fail":
            lines = escape("\n".join(_clean(witness(one)) for one in check.evidence))
            kind = check.cause or "fail"
            return f"{head}><failure message={_attr(message)} type={_attr(kind)}>{lines}</failure></testcase>\n"
        case "not_evaluable" if check.required:
            return f'{head}><error message={_attr(message)} type="not_evaluable"/></testcase>\n'
        case "not_evaluable":
            return f"{head}><skipped message={_attr(message)}/></testcase>\n"
        case _:
            said = _clean(f"n = {check.n_evaluated}" + (f"; {check.advice}" if check.advice else ""))
            return f"{head}><system-out>{escape(said)}</system-out></testcase>\n"
