"""Solves the short tasks that the embedded server is asked, from the text of the question alone.

It reads what the prompt says and shares no code with whoever made the tasks: two ways to the same key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Final

_ANSWER_LINE: Final = 'begins with "Answer:"'
_ORDINALS: Final = {"second": 2, "third": 3, "fourth": 4}


def solve(question: str) -> str | None:
    """The answer to a question that asks for an answer line, None for any other text or a task of another kind."""
    task, asked, _ = question.rpartition("\n")
    if not asked or _ANSWER_LINE not in question.rpartition("\n")[2]:
        return None
    for pattern, answer in _SOLVERS:
        found = pattern.search(task)
        if found is not None:
            return answer(task, found)
    return None


def wrong(answer: str) -> str:
    """An answer of the same kind that is not the right one."""
    if re.fullmatch(r"-?\d+(\.\d+)?", answer):
        return f"{float(answer) + 3:g}" if "." in answer else str(int(answer) + 3)
    if answer.startswith("{"):
        return json.dumps({**json.loads(answer), "extra": 1})
    if ", " in answer:
        return ", ".join(reversed(answer.split(", ")))
    return f"{answer}x"


def _ints(text: str) -> list[int]:
    return [int(one) for one in re.findall(r"-?\d+", text)]


def _number(value: float) -> str:
    return f"{round(value, 6):g}" if abs(value) < 1e5 else str(round(value))


def _loop(task: str, found: re.Match[str]) -> str:
    start, turns, by = map(int, found.groups())
    return str(start + by * (turns - 1) * turns // 2)


def _countdown(task: str, found: re.Match[str]) -> str:
    left, by = map(int, found.groups())
    steps = -(-left // by)
    return str(steps + steps * by - left)


def _slice(task: str, found: re.Match[str]) -> str:
    values, first, last = _ints(found[1]), int(found[2]), int(found[3])
    return str(sum(value for place, value in enumerate(values) if first <= place < last))


def _backwards(task: str, found: re.Match[str]) -> str:
    word, count = found[1], int(found[2])
    return "".join(reversed(word[-count:])).upper()


def _fact(line: str, group: int = 1) -> Callable[[str, re.Match[str]], str]:
    """What stands in the line of the listing that holds what was asked for."""

    def answer(task: str, found: re.Match[str]) -> str:
        wanted = re.search(line.replace("@", re.escape(found[1])), task, re.MULTILINE)
        return wanted[group] if wanted else "unknown"

    return answer


def _level(task: str, found: re.Match[str]) -> str:
    return str(len(re.findall(rf"^\d+:\d\d {found[1]} ", task, re.MULTILINE)))


def _at_path(task: str, found: re.Match[str]) -> str:
    inner = re.search(rf'"{found[1]}": {{([^}}]*)}}', task)
    value = re.search(rf'"{found[2]}": (-?\d+)', inner[1]) if inner else None
    return value[1] if value else "unknown"


def _made(task: str, found: re.Match[str]) -> str:
    return f'{{"item": "{found[2]}", "count": {found[1]}, "open": {"true" if found[3] == "open" else "false"}}}'


def _turned(task: str, found: re.Match[str]) -> str:
    pairs = re.findall(r'"(\w+)": "(\w+)"', task.partition("\n")[0])
    return "{" + ", ".join(f'"{value}": "{key}"' for key, value in pairs) + "}"


def _sorted_numbers(task: str, found: re.Match[str]) -> str:
    return ", ".join(map(str, sorted(_ints(found[1]))))


def _sorted_words(task: str, found: re.Match[str]) -> str:
    return ", ".join(sorted(re.findall(r"\w+", found[1])))


def _rank(task: str, found: re.Match[str]) -> str:
    left = _ints(found[2])
    for _ in range(_ORDINALS[found[1]] - 1):
        left.remove(max(left))
    return str(max(left))


def _arrivals(task: str, found: re.Match[str]) -> str:
    after = dict(re.findall(r"(\w+) arrived just before (\w+)\.", task))
    who = next((name for name in after if name not in after.values()), "")
    for _ in range(_ORDINALS[found[1]] - 1):
        who = after.get(who, "nobody")
    return who


def _reckoned(rule: Callable[[Sequence[int]], int]) -> Callable[[str, re.Match[str]], str]:
    return lambda task, found: str(rule([int(number) for number in found.groups()]))


def _measured(rule: Callable[[float], float]) -> Callable[[str, re.Match[str]], str]:
    return lambda task, found: _number(rule(float(found[1])))


_SOLVERS: Final[tuple[tuple[re.Pattern[str], Callable[[str, re.Match[str]], str]], ...]] = tuple(
    (re.compile(pattern), answer)
    for pattern, answer in (
        (r"remainder when (\d+) is divided by (\d+)", _reckoned(lambda n: n[0] - n[0] // n[1] * n[1])),
        (r"What is (\d+) \* (\d+)\?", _reckoned(lambda n: sum(n[0] for _ in range(n[1])))),
        (r"What is (\d+) \+ (\d+) - (\d+)\?", _reckoned(lambda n: n[0] - n[2] + n[1])),
        (r"What is \((\d+) \+ (\d+)\) \* (\d+) - (\d+)\?", _reckoned(lambda n: n[0] * n[2] + n[1] * n[2] - n[3])),
        (r"total = (\d+)\nfor i in range\((\d+)\):\n    total \+= i \* (\d+)\nprint", _loop),
        (r"left = (\d+)\nsteps = 0\nwhile left > 0:\n    left -= (\d+)\n", _countdown),
        (r"values = \[([^\]]*)\]\nprint\(sum\(values\[(\d+):(\d+)\]\)\)", _slice),
        (r'word = "(\w+)"\nprint\(word\[::-1\]\[:(\d+)\]\.upper\(\)\)', _backwards),
        (r"How much is ([\d.]+) kilometres in metres", _measured(lambda n: n * 1000)),
        (r"How much is ([\d.]+) minutes in hours", _measured(lambda n: n / 60)),
        (r"How much is ([\d.]+) MiB in KiB", _measured(lambda n: n * 1024)),
        (r"How much is (-?[\d.]+) degrees Celsius in degrees Fahrenheit", _measured(lambda n: n * 1.8 + 32)),
        (r"On which worker did job (\d+) finish", _fact(r"^job @ finished on (\w+)")),
        (r"What is the value of (\w+)\?", _fact(r"^@ = (\d+)$")),
        (r"Which shelf holds the (\w+)\?", _fact(r"^@,\d+,(\w+)$")),
        (r"How many of these lines have the level (\w+)\?", _level),
        (r"Which number stands at (\w+)\.(\w+) in this JSON", _at_path),
        (r'objects of this JSON array have "done" set to true', lambda task, found: str(task.count('"done": true'))),
        (r"There are (\d+) (\w+) and the box is (\w+)\.", _made),
        (r"Swap keys and values of this JSON object", _turned),
        (r"Sort these numbers from the smallest to the largest: ([\d, ]+)\.", _sorted_numbers),
        (r"Sort these words alphabetically: ([\w, ]+)\.", _sorted_words),
        (r"is the (\w+) largest: ([\d, ]+)\?", _rank),
        (r"Who arrived (\w+)\?", _arrivals),
    )
)
"""What a task looks like, and how it is done."""
