"""What counts as the answer of a reply, and when it is the key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.quality.answer import final_answer, is_right, plain
from infermaxx_tui.core.quality.task import Form

REPLIES: dict[str, str | None] = {
    "Answer: 42": "42",
    "First 6 * 7.\nAnswer: 42": "42",
    "**Answer:** 42": "42",
    "**Answer**: 42": "42",
    "### Final Answer: 42": "42",
    "The answer is: 42": "42",
    "answer:42": "42",
    "Answer: 41\nWait, that is wrong.\nAnswer: 42": "42",
    "42": "42",
    "So it is\n42": "42",
    "Answer:\n42": "42",
    'Answer:\n```json\n{"a": 1}\n```': '```json\n{"a": 1}\n```',
    'Here it is.\n```json\n{"a": 1}\n```': '{"a": 1}',
    "<think>Answer: 41</think>Answer: 42": "42",
    "Answer: 41</think>\nAnswer: 42": "42",
    "<think>Answer: 41": None,
    "<think>so\n</think>": None,
    "": None,
    "Answer:": None,
    " \n ": None,
}


@pytest.mark.parametrize("reply", REPLIES)
def test_the_final_answer_of_a_reply(reply: str) -> None:
    assert final_answer(reply) == REPLIES[reply]


RIGHT: list[tuple[str, Form, str, float, tuple[str, ...]]] = [
    ("50", "number", "50", 0.0, ()),
    ("50.0", "number", "50", 0.0, ()),
    ("1,024", "number", "1024", 0.0, ()),
    ("+7", "number", "7", 0.0, ()),
    ("\u22129.4", "number", "-9.4", 0.0005, ()),
    ("5e1", "number", "50", 0.0, ()),
    ("`50`", "number", "50", 0.0, ()),
    ("**50.**", "number", "50", 0.0, ()),
    ("$\\boxed{50}$", "number", "50", 0.0, ()),
    ("85,200 metres", "number", "85200", 0.0005, ("m", "metres")),
    ("68 °F.", "number", "68", 0.0005, ("°F",)),
    ("68°F", "number", "68", 0.0005, ("°F",)),
    ("0.3334", "number", "0.333", 0.0005, ()),
    ('"birch"', "text", "birch", 0.0, ()),
    ("birch.", "text", "birch", 0.0, ()),
    ("[1, 2,3]", "list", "1, 2, 3", 0.0, ()),
    ("1.0, 2, 3", "list", "1, 2, 3", 0.0, ()),
    ("'anise', 'basil'", "list", "anise, basil", 0.0, ()),
    ('{"b": 2.0, "a": [true]}', "json", '{"a": [true], "b": 2}', 0.0, ()),
    ('```json\n{\n "a": 1\n}\n```', "json", '{"a": 1}', 0.0, ()),
    ('`{"a": 1}`', "json", '{"a": 1}', 0.0, ()),
]
WRONG: list[tuple[str, Form, str, float, tuple[str, ...]]] = [
    ("51", "number", "50", 0.0, ()),
    ("50 items", "number", "50", 0.0, ()),
    ("50 km", "number", "50", 0.0, ("m",)),
    ("50 or 51", "number", "50", 0.0, ()),
    ("10,24", "number", "1024", 0.0, ()),
    ("50.001", "number", "50", 0.0, ()),
    ("0.3336", "number", "0.333", 0.0005, ()),
    ("fifty", "number", "50", 0.0, ()),
    ("", "number", "50", 0.0, ()),
    ("nan", "number", "50", 0.0, ()),
    ("5" * 200, "number", "5", 0.0, ()),
    ("Birch", "text", "birch", 0.0, ()),
    ("birch or cedar", "text", "birch", 0.0, ()),
    ("2, 1, 3", "list", "1, 2, 3", 0.0, ()),
    ("1, 2", "list", "1, 2, 3", 0.0, ()),
    ('{"a": 1}', "json", '{"a": true}', 0.0, ()),
    ('{"a": 1, "b": 2}', "json", '{"a": 1}', 0.0, ()),
    ('{"a": 1', "json", '{"a": 1}', 0.0, ()),
    ("[" * 100_000, "json", '{"a": 1}', 0.0, ()),
]


@pytest.mark.parametrize(("answer", "form", "key", "tolerance", "units"), RIGHT)
def test_these_are_right(answer: str, form: Form, key: str, tolerance: float, units: tuple[str, ...]) -> None:
    assert is_right(answer, form, key, tolerance, units)


@pytest.mark.parametrize(("answer", "form", "key", "tolerance", "units"), WRONG)
def test_these_are_wrong(answer: str, form: Form, key: str, tolerance: float, units: tuple[str, ...]) -> None:
    assert not is_right(answer, form, key, tolerance, units)


@given(st.integers(-(10**12), 10**12))
def test_a_number_is_itself_however_it_is_written(number: int) -> None:
    for written in (f"{number}", f"{number:,}", f"{number}.0", f"**{number}**", f"{number}."):
        assert is_right(written, "number", str(number))
    assert not is_right(str(number + 1), "number", str(number))


@given(st.text(max_size=400))
def test_any_reply_can_be_looked_at(reply: str) -> None:
    answer = final_answer(reply)
    if answer is not None:
        plain(answer)
        for form in ("number", "text", "list", "json"):
            is_right(answer, form, '{"key": "that no text is"}' if form == "json" else "-77777.5")
