"""Keys of quality tasks, each computed a second time in another way."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.quality.answer import is_right
from infermaxx_tui.core.quality.task import INSTRUCTION, Task
from infermaxx_tui.core.quality.tasks import FAMILIES, FULL_SET, tasks
from infermaxx_tui.sim.solver import solve, wrong

SEEDS = st.integers(0, 2**63 - 1)


def right(task: Task, answer: str) -> bool:
    return is_right(answer, task.form, task.expected, task.tolerance, task.units)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_reader_of_the_text_alone_comes_to_the_same_keys(seed: int) -> None:
    for task in tasks(seed, 48):
        answer = solve(task.question)
        assert answer is not None, task.question
        assert right(task, answer), (task.question, answer, task.expected)
        assert not right(task, wrong(answer)), task.question


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_programs_print_their_keys(seed: int) -> None:
    for task in tasks(seed):
        if task.family == "tracing":
            program = task.question.split("\n", 1)[1].rpartition("\n")[0]
            ast.parse(program)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(program, {})  # the test's own program, made from a seed
            assert out.getvalue().strip() == task.expected


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_terms_evaluate_to_their_keys(seed: int) -> None:
    for task in tasks(seed):
        if task.family == "arithmetic" and "remainder" not in task.question:
            term = task.question.split("?")[0].removeprefix("What is ")
            assert eval(term, {}) == int(task.expected)  # digits and operators that the test's own seed made
        elif task.family == "arithmetic":
            whole, by = (int(word.rstrip("?")) for word in task.question.split() if word.rstrip("?").isdigit())
            assert 0 <= int(task.expected) < by
            assert (whole - int(task.expected)) % by == 0


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_units_go_back_to_what_was_given(seed: int) -> None:
    back = {
        "metres": lambda key: key / 1000,
        "hours": lambda key: key * 60,
        "KiB": lambda key: key / 1024,
        "degrees Fahrenheit": lambda key: (key - 32) * 5 / 9,
    }
    for task in tasks(seed):
        if task.family == "units":
            amount, unit = task.question.removeprefix("How much is ").split(" ")[0], task.question.split(" in ")[1]
            assert back[unit.split("?")[0]](Fraction(task.expected)) == Fraction(amount)


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_sorted_lists_hold_the_same_items_in_order(seed: int) -> None:
    for task in tasks(seed):
        if task.form == "list":
            given_items = task.question.split(": ")[1].split(".")[0].split(", ")
            items = task.expected.split(", ")
            keys = [(int(item) if item.isdigit() else 0, item) for item in items]
            assert sorted(given_items) == sorted(items)
            assert all(one < other for one, other in pairwise(keys))


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_json_keys_hold_what_the_text_says(seed: int) -> None:
    for task in tasks(seed):
        if task.task == "json-3":
            made = json.loads(task.expected)
            assert f"There are {made['count']} {made['item']} " in task.question
            assert ("box is open" in task.question) is made["open"]
        if task.task == "json-4":
            turned, source = json.loads(task.expected), json.loads(task.question.split("\n")[0])
            assert {value: key for key, value in turned.items()} == source


def test_a_set_is_the_same_each_time_and_another_for_another_seed() -> None:
    assert tasks(7) == tasks(7)
    assert tasks(7)[:12] == tasks(7, 12)
    assert {task.question for task in tasks(7)}.isdisjoint({task.question for task in tasks(8)})


@given(SEEDS, st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_names_are_unique_and_families_equally_many(seed: int, count: int) -> None:
    made = tasks(seed, count)
    assert len({task.task for task in made}) == len(made) == count
    sizes = [sum(task.family == family for task in made) for family in FAMILIES]
    assert max(sizes) - min(sizes) <= 1


def test_a_full_set_has_four_of_each_family_and_short_questions() -> None:
    made = tasks(0)
    assert len(made) == FULL_SET == 24
    assert all(sum(task.family == family for task in made) == 4 for family in FAMILIES)
    assert max(len(task.question) for task in made) < 900


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_no_question_holds_an_answer_line_or_gives_its_key_away_as_one(seed: int) -> None:
    for task in tasks(seed):
        assert not any(line.lower().startswith("answer") for line in task.question.splitlines())
        assert task.question.endswith(INSTRUCTION.split("{")[1].split("}")[1])


def test_known_keys_of_one_seed_do_not_move() -> None:
    """Logs hold keys, but a plan that is made again must ask the same."""
    keys = {task.task: task.expected for task in tasks(3)}
    assert (keys["arithmetic-1"], keys["tracing-4"], keys["units-4"]) == ("325", "ROHC", "-9.4")


@pytest.mark.parametrize("text", ["", "What is 2 * 2?", "Answer: 4", "What is the lot tag for the copper kettle?"])
def test_the_solver_answers_no_other_text(text: str) -> None:
    assert solve(text) is None
