"""The judges see every change that they must see, and no other: the mutation list over made-up runs."""

from __future__ import annotations

import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.histories.bases import BASES
from infermaxx_tui.core.histories.edits import Lines, differences, known
from infermaxx_tui.core.judges import JUDGES
from infermaxx_tui.core.mutation_table import HARMLESS, MUTATIONS
from infermaxx_tui.core.mutations import EARNED, Base, Mutation, is_killed, judged, mutated
from infermaxx_tui.core.pass_rules import PASS_RULES

_MADE: dict[Base, Lines] = {}


def base(name: Base) -> Lines:
    if name not in _MADE:
        _MADE[name] = BASES[name]()
    return _MADE[name]


@pytest.mark.parametrize("name", BASES)
def test_each_base_earns_its_verdict(name: Base) -> None:
    assert judged(base(name)).word == EARNED[name]


def test_every_base_is_used_and_known() -> None:
    assert set(BASES) == set(EARNED)
    assert {one.base for one in (*MUTATIONS.values(), *PASS_RULES.values())} == set(BASES)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_flips_the_verdict(name: str) -> None:
    mutation = MUTATIONS[name]
    got = judged(mutation.edit(base(mutation.base)))
    assert got.word != EARNED[mutation.base] or mutation.check not in judged(base(mutation.base)).failed
    assert is_killed(mutation, got), got


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_change_leaves_a_pass_a_pass(name: str) -> None:
    changed = HARMLESS[name].edit(base("healthy"))
    assert changed != base("healthy")
    assert judged(changed).word == "PASS"


@pytest.mark.parametrize("name", PASS_RULES)
def test_one_event_is_enough_to_lose_a_pass(name: str) -> None:
    rule = PASS_RULES[name]
    assert EARNED[rule.base] == "PASS"
    changed = rule.edit(base(rule.base))
    assert differences(base(rule.base), changed) == 1
    got = judged(changed)
    assert is_killed(rule, got), got
    assert name.partition(":")[0] == rule.check


def test_every_judge_has_a_rule_and_a_mutation() -> None:
    assert {rule.check for rule in PASS_RULES.values()} == set(JUDGES)
    assert {one.check for one in MUTATIONS.values() if one.check is not None} == set(JUDGES)


def test_a_mutation_that_changes_nothing_survives() -> None:
    mutation = Mutation("healthy", "FAIL", "recall", lambda lines: lines)
    (row,) = mutated({"nothing": mutation}, "healthy", base("healthy"))
    assert (row.got, row.killed) == ("PASS", False)


def test_the_right_verdict_by_the_wrong_check_is_no_kill() -> None:
    edit = MUTATIONS["another session's tag"].edit
    (row,) = mutated({"leak": Mutation("healthy", "FAIL", "delivery", edit)}, "healthy", base("healthy"))
    assert (row.got, row.failed, row.killed) == ("FAIL", ("isolation",), False)


def test_nothing_is_killed_on_a_base_that_is_not_sound() -> None:
    rows = list(mutated(MUTATIONS, "healthy", base("leak")))
    assert rows
    assert not any(row.killed for row in rows)


def test_a_repair_of_one_sickness_does_not_hide_another() -> None:
    both_sick = MUTATIONS["kill the server"].edit(base("forgets"))
    assert judged(MUTATIONS["give the tag back"].edit(both_sick)).failed == ("availability",)


def test_a_log_knows_its_tags() -> None:
    found = known(base("healthy"))
    assert sorted(found.own) == [0, 1, 2, 3]
    assert found.foreign(0) in found.own[1]
    assert found.foreign(3) in found.own[0]
    assert not set(found.decoys) & {tag for tags in found.own.values() for tag in tags}


def test_differences_count_events() -> None:
    lines = base("single")
    assert differences(lines, lines) == 0
    assert differences(lines, lines[:-1]) == 1
    assert differences(lines, (*lines[:3], *lines[5:])) == 2
    assert differences((), lines) == len(lines)


def test_edited_logs_are_numbered_without_a_gap() -> None:
    for rule in (PASS_RULES["recall: every question answered"], MUTATIONS["ask nothing"]):
        lines = rule.edit(base(rule.base))
        assert [line.seq for line in lines if isinstance(line, e.Record)] == list(range(len(lines)))
