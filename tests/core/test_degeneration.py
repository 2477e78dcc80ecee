"""Broken replies trip a rule, honest ones do not however repetitive they look, and long ones take linear time."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core import degeneration
from infermaxx_tui.core.degeneration import find, find_text

_PROSE = (
    "I looked at the loader first, because the stack trace ends there. It opens each file twice: once to count the "
    "lines and once to parse them, and the second time it forgets the encoding. The fix is small, but two callers "
    "depend on the count being wrong by one, so I changed those as well and added a test for an empty file. After "
    "that the suite passes on my machine; the slow test about time zones still needs a look tomorrow. "
)
_STEPS = ("write a test", "run the suite", "check the types", "read the log", "ask the owner", "close the issue")


def _hexdump(rows: int, zeros: bool) -> str:
    lines = []
    for row in range(rows):
        octets = [0 if zeros else (row * 37 + column * 101 + column * column) % 256 for column in range(16)]
        pairs = " ".join(f"{a:02x}{b:02x}" for a, b in zip(octets[::2], octets[1::2], strict=True))
        shown = "".join(chr(octet) if 32 <= octet < 127 else "." for octet in octets)
        lines.append(f"{row * 16:08x}: {pairs}  {shown}")
    return "\n".join(lines)


HONEST: dict[str, str] = {
    "empty": "",
    "one tag": "The lot tag for the copper kettle is KX7Q-M4TR.",
    "prose": _PROSE,
    "markdown table": "| run | p50 | p99 | ok |\n|---|---:|---:|:-:|\n"
    + "".join(f"| {i} | {i * 1.37:.2f} | {i * 3.1:.2f} | yes |\n" for i in range(80)),
    "table of zeros": "| step | loss | grad | rate |\n|---|---|---|---|\n"
    + "".join(f"| {i} | 0.00 | 0.00 | 0.00 |\n" for i in range(80)),
    "wide empty table": "| " + " | ".join("abcdefgh") + " |\n" + "|---" * 8 + "|\n" + ("|   " * 8 + "|\n") * 5,
    "grid": ("+" + "--------+" * 8 + "\n| " + "12 ok  | " * 8 + "\n") * 5 + "+" + "--------+" * 8,
    "box": "┌" + "─" * 70 + "┐\n│" + " " * 70 + "│\n└" + "─" * 70 + "┘\n",
    "rules": "Title\n"
    + "-" * 100
    + "\ntext\n"
    + "=" * 120
    + "\nmore\n"
    + "*" * 78
    + "\n\n"
    + "_" * 78
    + "\nend\n-----\n",
    "dotted leaders": "".join(f"{name}{'.' * (70 - len(name))}{i * 7}\n" for i, name in enumerate(_STEPS)),
    "banner": "//" * 60 + "\n// Parser\n" + "//" * 60 + "\nint main(void) { return 0; }\n",
    "hash banner": "#" * 79 + "\n# settings\n" + "#" * 79 + "\n",
    "checklist": "".join(f"- [ ] {step} for {area}\n" for area in ("core", "log", "tui", "sim") for step in _STEPS),
    "same boxes": "".join(f"- [x] {i}\n" for i in range(60)),
    "code": "".join(
        f"def test_case_{i}() -> None:\n    assert parse({i!r}) == {i}\n    assert parse('{i}') is not None\n\n\n"
        for i in range(40)
    ),
    "switch": "".join(f"        case {i}:\n            return NAMES[{i}];\n            break;\n" for i in range(60)),
    "closing braces": "}" + "\n}" * 12 + ")" * 12,
    "json": "["
    + ", ".join(f'{{"id": {i}, "ok": true, "score": {i / 7:.3f}, "name": "item-{i}"}}' for i in range(90))
    + "]",
    "json lines": "".join(f'{{"op": "add", "path": "/items/{i}", "value": {i % 3}}}\n' for i in range(90)),
    "zeros": "weights = [" + ", ".join("0" for _ in range(40)) + "]\nbias = 0\n",
    "booleans": '{"flags": [' + ", ".join("true" for _ in range(24)) + '], "done": false}',
    "mixed booleans": ", ".join(
        "true" if octet & 64 else "false" for octet in hashlib.shake_128(b"booleans").digest(200)
    ),
    "hex dump": _hexdump(40, zeros=False),
    "header dump": "7f45 4c46 0201 0100 0000 0000 0000 0000\n0200 3e00 0100 0000 4010 4000 0000 0000\n"
    "4000 0000 0000 0000 7836 0000 0000 0000\n0000 0000 4000 3800 0d00 4000 1f00 1e00\n",
    "csv": "date,open,close\n" + "".join(f"2024-03-{i % 28 + 1:02d},{100 + i},{101 + i}\n" for i in range(120)),
    "sums": "\n".join(f"{i} + {i} = {2 * i}" for i in range(120)),
    "tree": "".join("│   " * (i % 4) + f"├── module_{i}.py\n" for i in range(80)),
    "test log": "".join(f"tests/test_{i}.py::test_reads PASSED [{i:3d}%]\n" for i in range(100)),
    "progress": "." * 72 + " [ 60%]\n" + "." * 48 + " [100%]\n120 passed in 3.2s\n",
    "laughter": "Ha ha ha ha! No, no, no. It works!!! Really!!!",
    "song": "Row, row, row your boat, gently down the stream. Merrily, merrily, merrily, merrily, life is but a dream.",
    "about special tokens": "Qwen ends a turn with `<|im_end|>` and opens one with `<|im_start|>`; `<think>` and "
    "`</think>` stand around thought, `<tool_call>` before a call.\n"
    "```\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n```\n",
    "code with special tokens": 'STOP = ["<|im_end|>", \'<|endoftext|>\', "</s>", \'<|eot_id|>\', "<end_of_turn>"]\n',
    "raw tool calls": "I will look.\n"
    + "".join(f'<tool_call>\n{{"name": "read", "arguments": {{"path": "a{i}.py"}}}}\n</tool_call>\n' for i in range(4)),
    "raw thinking": "<think>\nFirst the loader.\n</think>\n\nThe loader is wrong.",
    "one broken character": "The file is na\ufffdve \ufffd\ufffd.",
    "chinese": "我先检查了加载器，因为堆栈跟踪在那里结束。它两次打开每个文件：一次计算行数，一次解析它们。" * 2,
    "xml": "".join(f"  <item id='{i}'><name>part {i}</name><count>0</count></item>\n" for i in range(60)),
    "poem": "".join(
        f"The {name} goes by, the {name} goes by,\n  and I, and I,\n  under the {sky} sky, sigh.\n\n"
        for name, sky in zip(
            ("wind", "rain", "cloud", "crow", "train"), ("low", "old", "wide", "grey", "red"), strict=True
        )
    ),
    "refrain": "".join(
        f"{n} green bottles hanging on the wall,\n{n} green bottles hanging on the wall,\n"
        f"And if one green bottle should accidentally fall,\nThere'll be {n - 1} green bottles hanging on the wall.\n\n"
        for n in range(10, 0, -1)
    ),
    "server log": "".join(
        f"2024-03-0{i % 9 + 1}T12:0{i % 6}:{i % 60:02d}Z INFO worker={i % 4} handled in {i * 7 % 90} ms status=200\n"
        for i in range(120)
    ),
    "stack trace": "".join(
        f'  File "app/views_{i}.py", line {40 + i * 3}, in handle\n    return self.next(request)\n' for i in range(30)
    ),
    "results": "".join("PASS\n" if octet > 60 else "FAIL\n" for octet in hashlib.shake_128(b"results").digest(150)),
    "html": "<table>" + "".join(f"<tr><td>{i}</td><td>a{i}</td><td>ok</td></tr>\n" for i in range(60)) + "</table>",
    "yaml": "".join(f"- name: step-{i}\n  run: make target{i}\n  retry: {i % 3}\n" for i in range(50)),
    "nulls": '{"row": [' + ", ".join("null" if i * i % 11 else f"{i}" for i in range(140)) + "]}",
    "long prose": " ".join(f"{word} {_PROSE}" for word in ("First.", "Then.", "Later.", "Last.")).replace(
        "loader", "reader", 2
    )[: 4 * len(_PROSE) // 3],
    "sql": "INSERT INTO t VALUES\n" + ",\n".join(f"({i}, 'a', NULL, NULL, NULL)" for i in range(60)) + ";",
}

BROKEN: dict[str, str] = {
    "of": " of" * 300,
    "late of": _PROSE + " of" * 120,
    "late and short": _PROSE + " of" * 40,
    "left a loop": _PROSE + " and then the" * 40 + " " + _PROSE,
    "s": "'s" * 300,
    "sentence": _PROSE + "The lot tag is KX7Q-M4TR. " * 12,
    "needle": "The lot tag for the copper kettle is KX7Q-M4TR." + " KX7Q-M4TR" * 40,
    "paragraph": _PROSE * 8,
    "wait": "<think>\n" + "Wait, let me reconsider that once more.\n" * 30,
    "json loop": '{"items": [' + '{"id": 1, "ok": true}, ' * 60,
    "bang": "The answer is " + "!" * 60,
    "slash": "/" * 400,
    "newlines": _PROSE + "\n" * 600,
    "blanks": _PROSE + " " * 600,
    "chinese": "的" * 200,
    "closing think": "</think>" * 40,
    "special": "Let me see.</think> <tool_call>\n<|im_end|> Then it holds.</think> <tool_call>\n<|im_end|> ",
    "turn ends": "Good.<|im_end|>\n<|im_end|>\nFine.<|im_end|>\nYes.<|im_end|>",
    "special in a fence": "```\n" + "<|im_start|>user\nhi<|im_end|>\n" * 40 + "```\n",
    "empty calls": "<tool_call></tool_call>" * 3,
    "unreadable": "caf\ufffd " * 30,
    "few words": " ".join(("of", "the", "and", "it", "that")[i * i % 11 % 5] for i in range(260)),
    "one word": " ".join("the" if i * i % 17 < 9 else f"x{chr(97 + i % 26)}{chr(97 + i * 7 % 26)}" for i in range(200)),
    "one word late": _PROSE + " ".join("of" if i % 5 or i % 3 else f"thing{chr(97 + i * i % 26)}" for i in range(180)),
    "replacements": "\ufffd\ufffd caf\ufffd na\ufffdve \ufffd\ufffd\ufffd " * 2 + _PROSE,
    "few words late": _PROSE + " ".join(("so", "the", "it")[(i * i + i // 7) % 3] for i in range(400)),
}


def as_ids(text: str, digits: int) -> list[int]:
    """Ids as two families of tokenizers would give them: words with their blank, runs of punctuation cut at 16, and
    numbers cut at `digits`."""
    pieces = re.findall(rf" ?[^\W\d_]{{1,12}}|\d{{1,{digits}}}| ?[^\w\s]{{1,16}}|_|\s+(?!\S)|\s", text)
    vocabulary: dict[str, int] = {}
    return [vocabulary.setdefault(piece, len(vocabulary)) for piece in pieces]


TEXT_ALONE = {
    *("slash", "special", "turn ends", "empty calls", "unreadable", "few words", "few words late"),
    *("one word", "one word late", "replacements"),
    *("paragraph", "bang", "left a loop", "special in a fence", "newlines", "blanks"),
}
"""Broken texts that are few ids, or loop with a period beyond the reach of the rule for ids."""


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST.keys())
def test_honest_texts_pass(text: str) -> None:
    assert find_text(text) is None
    for digits in (1, 3):
        assert find(as_ids(text, digits)) is None


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_broken_texts_trip(text: str) -> None:
    rule = find_text(text)
    assert rule is not None
    assert "\n" not in rule


@pytest.mark.parametrize("name", sorted(set(BROKEN) - TEXT_ALONE))
def test_loops_trip_by_their_ids_alone(name: str) -> None:
    text = "".join(f"{word} " for word in BROKEN[name]) if name == "chinese" else BROKEN[name]
    assert find(as_ids(text, 1)) is not None


@pytest.mark.parametrize("honest", HONEST.values(), ids=HONEST.keys())
def test_any_honest_text_that_ends_in_babble_trips(honest: str) -> None:
    assert find_text(f"{honest} it is that" + " it is that" * 14) is not None
    assert find([*as_ids(honest, 1), *[9001, 9002, 9003] * 14]) is not None


def test_the_rule_names_its_figures() -> None:
    assert find([1, 2, 3] + [7, 8] * 20) == "cycle: 2 tokens 20 times from token 3"
    assert find_text("x" + "!" * 40) == "run: ! 40 times from character 1"
    assert find_text("</think> " * 6) == "special tokens: 6 as text, </think> 6 times"
    assert find_text("ab\ufffd" * 8) == "replacement characters: 8 of 24"
    rule = find_text("Once. " + "again and " * 30)
    assert rule == "cycle: 10 characters 30 times from character 5"


cycles = st.integers(1, degeneration.MAX_PERIOD_TOKENS).flatmap(
    lambda p: st.lists(st.integers(0, 200_000), min_size=p, max_size=p)
)


def distinct(count: int, first: int = 300_000) -> list[int]:
    """Ids that never repeat."""
    return list(range(first, first + count))


@given(cycles, st.integers(0, 200), st.integers(0, 1))
def test_any_cycle_at_the_end_trips(unit: list[int], before: int, end_of_turn: int) -> None:
    repeats = max(degeneration.MIN_REPEATS, -(-degeneration.TAIL_TOKENS // len(unit)))
    ids = distinct(before) + unit * repeats + distinct(end_of_turn, 500_000)
    assert find(ids) is not None


@given(cycles, st.integers(0, 200), st.integers(1, 200), st.integers(0, 63))
def test_any_long_cycle_inside_trips(unit: list[int], before: int, after: int, cut: int) -> None:
    repeats = max(degeneration.INNER_REPEATS, -(-degeneration.INNER_TOKENS // len(unit)))
    ids = distinct(before) + unit * repeats + unit[: cut % len(unit)] + distinct(after, 500_000)
    assert find(ids) is not None


@given(cycles, st.integers(0, 100))
def test_five_repeats_of_distinct_tokens_are_no_cycle(unit: list[int], before: int) -> None:
    ids = distinct(before) + list(dict.fromkeys(unit)) * (degeneration.MIN_REPEATS - 1)
    assert find(ids) is None


@given(st.integers(0, 5000))
def test_ids_that_never_repeat_pass(count: int) -> None:
    assert find(distinct(count)) is None


@given(st.lists(st.integers(0, 3), max_size=31))
def test_short_replies_are_never_degenerate_by_ids(ids: list[int]) -> None:
    assert find(ids) is None


def test_one_token_that_fills_a_window_trips_without_a_cycle() -> None:
    mixed = [token for i in range(128) for token in ([5, 5, 5, 5, 1000 + i] if i % 3 else [5, 5, 2000 + i])]
    rule = find(distinct(300) + mixed + distinct(300, 400_000))
    assert rule is not None
    assert rule.startswith("one token: id 5 ")
    half = [token for i in range(400) for token in (5, 1000 + i)]
    assert find(half) is None


@given(st.integers(0, 127), st.integers(65, 100), st.integers(0, 400))
def test_a_word_that_is_more_than_half_of_a_stretch_trips_and_half_does_not(shift: int, many: int, before: int) -> None:
    def word(number: int) -> str:
        return "".join(chr(97 + number // 26**power % 26) for power in range(4))

    lead = [word(number) for number in range(before)]
    for count, trips in ((many, True), (64, False)):
        places = {(shift + 37 * n) % 128 for n in range(count)}
        stretch = ["again" if place in places else word(5000 + place) for place in range(128)]
        rule = find_text(" ".join([*lead, *stretch, *(word(9000 + number) for number in range(200))]))
        assert (rule is not None) is trips, rule


def test_lists_and_tables_of_one_word_are_no_running_text() -> None:
    cells = ["ok" if i * i % 7 else f"bad{chr(97 + i % 26)}" for i in range(300)]
    for between in ("\n", ", ", " | ", "</td><td>", "; "):
        assert find_text(between.join(cells)) is None, between


@given(st.text(min_size=1, max_size=60), st.integers(0, 400))
def test_any_looped_text_at_the_end_trips(unit: str, before: int) -> None:
    repeats = max(degeneration.MIN_REPEATS, -(-degeneration.TAIL_CHARS[1] // len(unit))) + 1
    lead = "".join(chr(0x4E00 + i) for i in range(before))
    assert find_text(lead + unit * repeats) is not None or not unit.strip(" \r\n\t`")


@given(st.text(max_size=200))
def test_any_short_text_can_be_read(text: str) -> None:
    rule = find_text(text)
    assert rule is None or ":" in rule


@given(st.lists(st.integers(-5, 2**40), max_size=200))
def test_any_ids_can_be_read(ids: list[int]) -> None:
    assert find(ids) is None or len(ids) >= degeneration.TAIL_TOKENS


@pytest.mark.parametrize(
    "text",
    [
        "a" * 95 + "b",
        "-" * 1000 + "x",
        "ab " * 70 + ".",
        " " * 900 + "y",
        "<tool_call> ",
        "```` ` ``` ",
        "/" * 199 + " ",
        "'\" ",
        "<think>",
        "A " * 8,
    ],
)
def test_hostile_texts_of_a_megabyte_are_read_to_the_end(text: str) -> None:
    """Under the suite's own timeout: a rule that is not linear would not come back."""
    size = 1_000_000 // len(text)
    varied = "".join(f"{text}{chr(0x4E00 + i % 20_000)}" for i in range(size))
    assert (find_text(varied) is None) == (text not in ("ab " * 70 + ".", "<tool_call> ", "<think>", "A " * 8))
    find([ord(char) for char in varied[:200_000]])
