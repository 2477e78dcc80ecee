"""`transcripts stats` says where the user's own prompts part, and with `--prefix` what a template loses of each one."""

from __future__ import annotations

import json
from pathlib import Path

from infermaxx_tui.core.prefix_report import PrefixAsked
from infermaxx_tui.transcripts_cli import stats_output

_RULES = "\n".join(f"Rule {n}: leave part {n} as it is unless you are asked to change it." for n in range(12))


def _talk(folder: Path, name: str, head: str) -> None:
    messages = [
        {"role": "system", "content": f"{head}\n{_RULES}"},
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "Gone."},
        {"role": "user", "content": "And back."},
        {"role": "assistant", "content": "Back."},
    ]
    (folder / f"{name}.jsonl").write_text(json.dumps({"messages": messages}) + "\n", encoding="utf-8")


def test_a_date_at_the_head_of_the_users_own_prompts_is_told_with_its_cost(tmp_path: Path) -> None:
    for day in (1, 2, 3):
        _talk(tmp_path, f"day{day}", f"Today is 2026-05-0{day}.")
    said = stats_output((str(tmp_path),), "shipped", None, as_json=False)
    (line,) = [one for one in said if one.startswith("system prompts part")]
    assert "at a date from session to session, 2 times" in line
    assert '"2026-05-0' in line
    raw = json.loads(stats_output((str(tmp_path),), "shipped", None, as_json=True)[0])
    assert [one["kind"] for one in raw["prefix"]["prompts_part"]] == ["a date", "a date"]
    assert all(one["lost_tokens"] > 150 for one in raw["prefix"]["prompts_part"])
    assert raw["prefix"]["costs"] is None


def test_nothing_is_said_of_prompts_that_are_the_same(tmp_path: Path) -> None:
    for name in ("a", "b"):
        _talk(tmp_path, name, "You work here.")
    assert not [one for one in stats_output((str(tmp_path),), "shipped", None, as_json=False) if "part" in one]


def test_the_prefix_table_has_each_session_and_its_worst_miss(tmp_path: Path) -> None:
    _talk(tmp_path, "a", "You work here.")
    asked = PrefixAsked(truth=True, tokens_per_s=900.0)
    said = stats_output((str(tmp_path),), "shipped", None, as_json=False, prefix=asked)
    assert any("leaves earlier turns as they are" in one for one in said)
    (line,) = [one for one in said if one.startswith("a ") and "100.00%" in one]
    assert line.endswith("none")
    raw = json.loads(stats_output((str(tmp_path),), "shipped", None, as_json=True, prefix=asked)[0])
    (cost,) = raw["prefix"]["costs"]
    assert [turn["missed_tokens"] for turn in cost["turns"]] == [0]
    assert raw["prefix"]["prefill_tokens_per_s"] == 900.0
