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


CONFIG = "retry_limit = 5\nmax_hops = 77\nWhat is the value of max_hops?\nThink as long as you need."
METRES = ("m", "metres")
CHATTY: list[tuple[str, Form, str, tuple[str, ...], str]] = [
    ("The answer is 50.", "number", "50", (), ""),
    ("The value of cache_rows is 2619.", "number", "2619", (), ""),
    ("So, the final answer is **50**.\n\nLet me know if you need anything else!", "number", "50", (), ""),
    ("1831 + 2033 = 3864\n3864 - 2272 = 1592", "number", "1592", (), ""),
    ("628 * 72 = 45,216", "number", "45216", (), ""),
    ("Answer: 628 * 72 = 45216", "number", "45216", (), ""),
    ("Answer: The remainder is 181.", "number", "181", (), ""),
    ("**50**", "number", "50", (), ""),
    ("Therefore the result is:\n**50**", "number", "50", (), ""),
    ("Answer: $50$", "number", "50", (), ""),
    ("Answer: \\(50\\)", "number", "50", (), ""),
    ("Answer: $\\boxed{50}$", "number", "50", (), ""),
    ("We find\n\\[\n\\boxed{50}\n\\]", "number", "50", (), ""),
    ("Thus it is \\boxed{85{,}200}.", "number", "85200", (), ""),
    ("\\boxed{\\text{flint}}", "text", "flint", (), ""),
    ("Answer: 85200 m", "number", "85200", METRES, ""),
    ("85.2 kilometres is equal to 85,200 metres.", "number", "85200", METRES, ""),
    ("Answer: 50\n\nLet me know if you have other questions.", "number", "50", (), ""),
    ("Answer: 50 (that is all of them)", "number", "50", (), ""),
    ("Answer: 50. I hope that helps!", "number", "50", (), ""),
    ("### Answer\n\n50", "number", "50", (), ""),
    ("**Answer**\n**50**\n", "number", "50", (), ""),
    ("The worker is `flint`.", "text", "flint", (), ""),
    ("Answer: The program prints ROHCN.", "text", "ROHCN", (), ""),
    ("The sorted numbers are: 36, 118, 169.", "list", "36, 118, 169", (), ""),
    ("Answer: cumin, ginger, and walnut", "list", "cumin, ginger, walnut", (), ""),
    ("Answer: cumin, ginger and walnut.", "list", "cumin, ginger, walnut", (), ""),
    ("Answer:\n- cumin\n- ginger", "list", "cumin, ginger", (), ""),
    ("Answer:\n1. 36\n2. 118", "list", "36, 118", (), ""),
    ('{\n  "item": "clamps",\n  "count": 46\n}', "json", '{"count": 46, "item": "clamps"}', (), ""),
    ('{"a": 1}\n\nThis is the object that you asked for.', "json", '{"a": 1}', (), ""),
    ('From {"b": 1} comes:\n```json\n{"a": 1}\n```\nIt has one key.', "json", '{"a": 1}', (), ""),
    ('Answer: the object is {"a": 1}.', "json", '{"a": 1}', (), ""),
    ("The value is 77.", "number", "77", (), CONFIG),
]
"""Whole replies that hold the key, with the form, the units and the question."""
STILL_WRONG: list[tuple[str, Form, str, tuple[str, ...], str]] = [
    ("The answer is 51.", "number", "50", (), ""),
    ("The answer is not 50.", "number", "50", (), ""),
    ("The answer isn't 50.", "number", "50", (), ""),
    ("The answer is 50.\nWait, it is 51.", "number", "50", (), ""),
    ("Answer: 50\nWait, that is wrong.", "number", "50", (), ""),
    ("The answer is 50 or 51.", "number", "50", (), ""),
    ("It is either 49 or it is 50.", "number", "50", (), ""),
    ("The answer is about 50.", "number", "50", (), ""),
    ("The answer is less than 50.", "number", "50", (), ""),
    ("Is it 50?", "number", "50", (), ""),
    ("Maybe it is 50.", "number", "50", (), ""),
    ("If it is odd, the answer is 50.", "number", "50", (), ""),
    ("The ratio is 1:50", "number", "50", (), ""),
    ("Answer: .5", "number", "5", (), ""),
    ("Answer: 50. Or fifty-one.", "number", "50", (), ""),
    ("Answer: 50 (or 51)", "number", "50", (), ""),
    ("Answer: 50, 51", "number", "50", (), ""),
    ("Answer: 50 = 25 * 2 + 1", "number", "50", (), ""),
    ("Answer: 50 apples", "number", "50", (), ""),
    ("Answer: 85.2 km", "number", "85200", METRES, ""),
    ("85200 kilometres is 85.2 m", "number", "85200", METRES, ""),
    ("50 is what I had before, now it is 51.", "number", "50", (), ""),
    ("\\boxed{50}\nThen one more: 51", "number", "50", (), ""),
    ("\\boxed{51}", "number", "50", (), ""),
    ("retry_limit = 5\nmax_hops = 77", "number", "77", (), CONFIG),
    ("The worker is not flint.", "text", "flint", (), ""),
    ("The worker is flint or cedar.", "text", "flint", (), ""),
    ("The worker flint finished something.", "text", "flint", (), ""),
    ("The worker is Flint.", "text", "flint", (), ""),
    ("Answer: cumin, walnut, and ginger", "list", "cumin, ginger, walnut", (), ""),
    ("Answer:\n- cumin\n- ginger\nand walnut", "list", "cumin, ginger", (), ""),
    ("Answer:\n1. 118\n2. 36", "list", "36, 118", (), ""),
    ('{"a": 1}\nOr is it {"a": 2}?', "json", '{"a": 1}', (), ""),
    ('{"a": 2}\n{"b": 1}', "json", '{"a": 2}', (), ""),
    ('{\n  "item": "item",\n  "count": 46\n}', "json", '{"count": 46, "item": "clamps"}', (), ""),
    ('{"a": 1', "json", '{"a": 1}', (), ""),
    ("The answer is {'a': 1}", "json", '{"a": 1}', (), ""),
]
"""Whole replies that look like the key and are none."""


def marked_right(reply: str, form: Form, key: str, units: tuple[str, ...], question: str) -> bool:
    answer = final_answer(reply, form)
    return answer is not None and is_right(answer, form, key, 0.0005 if units else 0.0, units, question)


@pytest.mark.parametrize(("reply", "form", "key", "units", "question"), CHATTY)
def test_a_right_answer_in_many_words_is_right(
    reply: str, form: Form, key: str, units: tuple[str, ...], question: str
) -> None:
    assert marked_right(reply, form, key, units, question)


@pytest.mark.parametrize(("reply", "form", "key", "units", "question"), STILL_WRONG)
def test_no_wording_makes_a_wrong_answer_right(
    reply: str, form: Form, key: str, units: tuple[str, ...], question: str
) -> None:
    assert not marked_right(reply, form, key, units, question)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from([one for one in CHATTY if one[1] == "number"]))
def test_another_number_in_the_same_words_is_wrong(
    number: int, other: int, wording: tuple[str, Form, str, tuple[str, ...], str]
) -> None:
    reply, form, key, units, question = wording
    written = next((one for one in (f"{int(key):,}".replace(",", "{,}"), f"{int(key):,}", key) if one in reply), key)
    said = reply[::-1].replace(written[::-1], str(number)[::-1], 1)[::-1]
    assert marked_right(said, form, str(number), units, question)
    assert marked_right(said, form, str(other), units, question) is (number == other)


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
