"""What is known of real agent sessions, as numbers to draw from and as numbers to be held against.

Sources: WEKA's 739 public Claude Code traces (kv-cache-tester, Apache-2.0; 710 measured), TraceLab (arXiv 2606.30560),
the Exgentic traces in inference-perf's catalog, the vLLM and Mooncake blog of 2026-05-06 on SWE-bench Pro, and the
field note of the 15 eval runs that this program was written for. What nobody published is ours and is marked so.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Fit(msgspec.Struct, frozen=True):
    """A lognormal distribution, some of whose draws are nothing at all."""

    mu: float
    sigma: float
    zeros: float = 0.0


class Target(msgspec.Struct, frozen=True):
    """One published figure: which quantity (a name in `check.MEASURES`), how large, and who says so."""

    measure: str
    value: float
    source: str


class Preset(msgspec.Struct, frozen=True):
    """How sessions of one kind look. Lengths are in tokens of the source; `scale` takes them to ours."""

    name: str
    about: str
    window_tokens: int
    """No request grows beyond this, in tokens of ours."""
    start: Fit
    """The first prompt of a fresh session, tools and system prompt included."""
    tools_tokens: int
    system_tokens: int
    turns: Fit
    """Requests of a session."""
    reply: Fit
    new_tool: Fit
    """What is new in a prompt after tool calls, beyond the reply before it."""
    new_user: Fit
    tool_delay_s: Fit
    think_s: Fit
    steps: Fit
    """Requests until a reply calls no tool."""
    targets: tuple[Target, ...]
    scale: float = 1.0
    most_turns: int = 520
    compacts_at: float | None = 1.0
    """The share of the window at which the context is summarised; None: the session ends there."""
    spread: float = 0.0
    """Sigma of a factor by which all that is new in one session is larger or smaller: long tasks read long files."""
    resumed: float = 0.0
    """Share of sessions whose first request brings a history of more than 40,000 tokens along."""
    peaks: tuple[tuple[float, float], ...] = ()
    """Quantiles of the peak to choose sessions by; empty: as they are drawn."""
    nasty: bool = False


WEKA: Final = "WEKA traces"
TRACELAB: Final = "TraceLab"
NOTE: Final = "field note"
EXGENTIC: Final = "Exgentic"
CODEX: Final = "SWE-bench Pro blog"

_WEKA_STEP: Final = (
    Target("output p50", 216, WEKA),
    Target("output p90", 899, WEKA),
    Target("new after tool p50", 293, WEKA),
    Target("new after tool p90", 2947, WEKA),
    Target("new after user p50", 194, WEKA),
    Target("tool delay s p50", 9, WEKA),
    Target("tool delay s p90", 71, WEKA),
    Target("think s p50", 132, WEKA),
    Target("think s p90", 1931, WEKA),
    Target("ends in a call %", 85.5, WEKA),
    Target("prefix hit %", 97.4, WEKA),
    Target("calls per step mean", 1.2, TRACELAB),
    Target("calls per step p99", 4, TRACELAB),
)
_START, _REPLY = Fit(9.827, 0.248), Fit(5.525, 0.871)
_TOOL, _USER = Fit(5.816, 1.85, 0.12), Fit(5.328, 1.76, 0.10)
_DELAY, _THINK, _STEPS = Fit(2.47, 1.25), Fit(4.88, 1.96), Fit(0.95, 1.2)

_SCALE: Final = 0.8
"""Tuned so that the peaks are the field note's; it is no measured ratio of two vocabularies."""


def _scaled(targets: tuple[Target, ...], factor: float) -> tuple[Target, ...]:
    """The same figures in tokens of ours."""
    lengths = ("output", "new after")
    return tuple(
        msgspec.structs.replace(target, value=target.value * factor, source=f"{target.source} × {factor}")
        if target.measure.startswith(lengths)
        else target
        for target in targets
    )


PRESETS: Final[dict[str, Preset]] = {
    preset.name: preset
    for preset in (
        Preset(
            name="field-note",
            about="the 15 eval runs of the field note: peaks 49,867 / 105,794 / 106,767",
            window_tokens=107_000,
            scale=_SCALE,
            start=_START,
            tools_tokens=9_300,
            system_tokens=2_800,
            turns=Fit(3.4, 1.045),
            reply=_REPLY,
            new_tool=_TOOL,
            new_user=_USER,
            tool_delay_s=_DELAY,
            think_s=_THINK,
            steps=_STEPS,
            targets=(
                Target("peak p50", 49_867, NOTE),
                Target("peak p90", 105_794, NOTE),
                Target("peak max", 106_767, NOTE),
                Target("exceed 65,536 %", 46.7, NOTE),
                *_scaled(_WEKA_STEP, _SCALE),
            ),
        ),
        Preset(
            name="claude-code-local",
            about="Claude Code sessions that fit a window of 131,072, almost half of them resumed",
            window_tokens=131_072,
            start=_START,
            tools_tokens=9_300,
            system_tokens=2_800,
            turns=Fit(3.20, 0.99),
            reply=_REPLY,
            new_tool=_TOOL,
            new_user=_USER,
            tool_delay_s=_DELAY,
            think_s=_THINK,
            steps=_STEPS,
            spread=0.5,
            resumed=0.45,
            peaks=((0.0, 26e3), (0.1, 40e3), (0.5, 92.8e3), (0.9, 126e3), (0.95, 129e3), (1.0, 131e3)),
            targets=(
                Target("peak p10", 40_000, WEKA),
                Target("peak p50", 92_800, WEKA),
                Target("peak p90", 126_000, WEKA),
                Target("peak mean", 86_900, WEKA),
                Target("requests p50", 24.5, WEKA),
                Target("peak / mean p50", 1.4, WEKA),
                *_WEKA_STEP,
            ),
        ),
        Preset(
            name="swe-eval",
            about="benchmark runs of one task each (Exgentic): 22 requests, one user message",
            window_tokens=262_144,
            start=Fit(8.7, 0.4),
            tools_tokens=1_800,
            system_tokens=900,
            turns=Fit(2.62, 0.96),
            most_turns=300,
            reply=Fit(6.086, 0.9),
            new_tool=Fit(6.0, 1.5),
            new_user=Fit(5.3, 1.2),
            tool_delay_s=Fit(1.6, 1.4),
            think_s=_THINK,
            steps=Fit(9.0, 0.1),
            compacts_at=None,
            spread=0.9,
            # the lognormal through the two published points, 28k at 56 % and 120k at 91 %
            peaks=((0, 4e3), (0.25, 10.2e3), (0.56, 28e3), (0.75, 53e3), (0.91, 120e3), (0.97, 230e3), (1, 262e3)),
            targets=(
                Target("requests mean", 21.9, EXGENTIC),
                Target("input mean", 49_100, EXGENTIC),
                Target("output mean", 659, EXGENTIC),
                Target("tool delay s mean", 13.0, EXGENTIC),
                Target("calls mean", 20.5, EXGENTIC),
                Target("peak p56", 28_000, EXGENTIC),
                Target("peak p91", 120_000, EXGENTIC),
                Target("input : output", 74.5, EXGENTIC),
            ),
        ),
        Preset(
            name="codex-pro",
            about="Codex on SWE-bench Pro: 33 requests, about 80,000 tokens by the thirtieth",
            window_tokens=200_000,
            start=Fit(9.2, 0.2),
            tools_tokens=4_500,
            system_tokens=3_000,
            turns=Fit(3.497, 0.5),
            reply=Fit(5.56, 0.87),
            new_tool=Fit(6.38, 1.6, 0.05),
            new_user=_USER,
            tool_delay_s=Fit(1.6, 1.4),
            think_s=_THINK,
            steps=Fit(9.0, 0.1),
            compacts_at=None,
            spread=0.3,
            targets=(
                Target("requests p50", 33, CODEX),
                Target("context at 30 p50", 80_000, CODEX),
                Target("peak max", 180_000, CODEX),
                Target("input : output", 131, CODEX),
                Target("prefix hit %", 94.2, CODEX),
            ),
        ),
        Preset(
            name="nasty",
            about="five subagents at once, one result of 25,000 tokens, an idle hour, compaction at 95 %, odd bytes",
            window_tokens=65_536,
            scale=_SCALE,
            start=_START,
            tools_tokens=9_300,
            system_tokens=1_400,
            turns=Fit(4.1, 0.35),
            reply=_REPLY,
            new_tool=_TOOL,
            new_user=_USER,
            tool_delay_s=_DELAY,
            think_s=Fit(4.0, 1.1),
            steps=_STEPS,
            compacts_at=0.95,
            nasty=True,
            targets=(
                Target("subagents at once max", 5, "AgentX"),
                Target("new after tool max", 25_000, "transcripts.md §7.2"),
                Target("think s max", 3_600, "ours"),
                Target("calls per step max", 5, "AgentX"),
                Target("sessions compacted %", 100, "ours"),
            ),
        ),
    )
}
"""By name. Starts, tools, spreads and sigmas that no source gives (all but WEKA's) are ours."""
