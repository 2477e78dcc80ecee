"""More honest texts that look repetitive, and more broken ones that look honest, in content and in reasoning alike."""

from __future__ import annotations

import base64
import hashlib

import pytest

from infermaxx_tui.core.degeneration import find_reply, find_text


def _noise(name: str, size: int) -> bytes:
    return hashlib.shake_128(name.encode()).digest(size)


_WORDS = ("loader", "parser", "writer", "index", "cache", "socket", "timer", "queue", "lock", "reader", "shard", "page")
_MIT = (
    "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated "
    "documentation files, to deal in the software without restriction, including without limitation the rights to "
    "use, copy, modify, merge, publish, distribute, sublicense and sell copies of it.\n"
)
_REPEATED_CODE = """def drain(queue):
    queue.get()
    queue.get()
    queue.get()
    queue.get()
    queue.get()
    queue.get()
    return queue.empty()
"""

HONEST: dict[str, str] = {
    "base64": "The key is\n```\n" + base64.encodebytes(_noise("key", 1200)).decode() + "```\n",
    "base64 of zeros": "An empty block is `" + base64.b64encode(bytes(60)).decode() + "` in base64.",
    "data url": '<img src="data:image/png;base64,' + base64.b64encode(_noise("png", 900)).decode() + '">',
    "css": "".join(
        f".{name}-{n} {{ margin: 0 auto; padding: {n}px; color: #{_noise(name, 3).hex()}; }}\n"
        for name in _WORDS
        for n in (1, 2, 4)
    ),
    "css reset": "html, body, div, span, h1, h2, p, a, ul, ol, li {\n  margin: 0;\n  padding: 0;\n  border: 0;\n}\n",
    "ascii art": "  /\\_/\\\n ( o.o )\n  > ^ <\n" + "~" * 40 + "\n" + "|" + "=" * 38 + "|\n" + "|" + " " * 38 + "|\n",
    "triangle": "\n".join("*" * n for n in range(1, 24)),
    "chess board": "\n".join(". # . # . # . #" if n % 2 else "# . # . # . # ." for n in range(8)),
    "numbers": ", ".join(str(n) for n in range(1, 260)),
    "even numbers in lines": "\n".join(str(2 * n) for n in range(200)),
    "primes": " ".join(str(n) for n in range(2, 700) if all(n % d for d in range(2, int(n**0.5) + 1))),
    "ones and zeros": " ".join(f"{octet:08b}" for octet in _noise("bits", 60)),
    "matrix": "\n".join(" ".join("1" if row == column else "0" for column in range(12)) for row in range(12)),
    "licence": _MIT + "\n" + "The same holds for the tests:\n\n" + _MIT,
    "licence headers": "".join(
        f"// {name}.go\n// Copyright the authors. All rights reserved.\n// Use of it is governed by a licence.\n\n"
        f"package {name}\n\nvar n{i} = {i}\n\n"
        for i, name in enumerate(_WORDS)
    ),
    "japanese": "まずローダーを調べました。スタックトレースがそこで終わっているからです。各ファイルを二回開き、一回目は"
    "行を数え、二回目は解析します。二回目には文字コードを忘れています。" * 2,
    "korean": "먼저 로더를 살펴보았습니다. 스택 추적이 그곳에서 끝나기 때문입니다. 각 파일을 두 번 엽니다. " * 2,
    "chinese list": "".join(f"{n}、检查第{n}个文件，然后运行测试。\n" for n in range(1, 40)),
    "emoji": "Done 🎉🎉🎉 all green ✅✅✅✅ — next: 🚀🚀 release!\n" + "".join(f"✅ {name}\n" for name in _WORDS),
    "star ratings": "".join(f"{name}: {'★' * (n % 5 + 1)}{'☆' * (4 - n % 5)}\n" for n, name in enumerate(_WORDS)),
    "repeated lines of code": _REPEATED_CODE,
    "assembly": "".join(f"    mov eax, [rbp-{8 * n}]\n    add eax, {n}\n    push eax\n" for n in range(50)),
    "nops": "entry:\n" + "    nop\n" * 6 + "    ret\n",
    "dots": "." * 100 + "\n" + "." * 100 + "\n" + "." * 37 + "\n" + "-" * 70 + "\nRan 237 tests in 4.1s\n\nOK\n",
    "dots with failures": "".join("F" if octet < 12 else "." for octet in _noise("tests", 300)) + "\n12 failed\n",
    "progress bar": "".join(f"{n:3d}% [{'#' * (n // 4):<25}] eta {100 - n}s\n" for n in range(0, 101, 4)),
    "progress in one line": "".join(f"\r{n}%|{'█' * (n // 5):<20}| {n}/100" for n in range(0, 101, 5)),
    "rulers": "\n".join(("=" * 60, "A", "=" * 60, "B", "=" * 60, "C", "=" * 60)),
    "log with repeated lines": "".join(
        f"12:00:{n:02d} WARN retry of connection to db-1 failed\n12:00:{n:02d} INFO waiting\n" for n in range(60)
    ),
    "repeated without times": "retrying...\n" * 5 + "connected after 5 tries\n",
    "diff": "".join(f"-    {name} = get('{name}')\n+    {name} = fetch('{name}')\n" for name in _WORDS * 2),
    "json array of objects": "["
    + ",\n".join(f'{{"name": "{name}", "count": 0, "tags": []}}' for name in _WORDS * 3)
    + "]",
    "json numbers": "[" + ", ".join("0.0" if n % 5 else f"{n / 3:.2f}" for n in range(150)) + "]",
    "two-column table": "| name | ok |\n|---|---|\n" + "".join(f"| {name} | yes |\n" for name in _WORDS * 4),
    "checklist with sub-items": "".join(
        f"- [ ] {name}\n  - [ ] write\n  - [ ] test\n  - [ ] review\n" for name in _WORDS
    ),
    "latex": "".join(f"x_{{{n}}} &= \\frac{{{n}}}{{2}} + \\alpha_{{{n}}} \\\\\n" for n in range(40)),
    "imports": "".join(f"from app.{name} import {name.title()}\n" for name in _WORDS * 2),
    "getters": "".join(
        f"    public int get{name.title()}() {{\n        return this.{name};\n    }}\n\n" for name in _WORDS * 2
    ),
    "makefile": "".join(f"{name}: {name}.o\n\t$(CC) $(CFLAGS) -o $@ $<\n\n" for name in _WORDS * 2),
    "svg path": "M 0 0 " + " ".join(f"L {n * 3} {n * n % 40}" for n in range(90)) + " Z",
    "ipv6 and macs": "\n".join(f"fe80::{n:x}:0:0:0:1  00:00:5e:00:53:{n:02x}" for n in range(60)),
    "counting aloud": "Let me count them: " + ", ".join(f"that is {n}" for n in range(1, 40)) + ". So there are 39.",
    "weighing": "".join(
        f"Option {n}: the {name} could be at fault. If it were, the {_WORDS[n - 3]} would be empty. It is not.\n"
        for n, name in enumerate(_WORDS)
    ),
}
"""Texts of kinds that a healthy model writes every day."""

_LEAD = (
    "I looked at the loader first, because the trace ends there. It opens each file twice and forgets the encoding. "
)
BROKEN: dict[str, str] = {
    "and and": _LEAD + "and " * 100,
    "same list item": "- check the loader\n" * 30,
    "numbered loop": _LEAD + "".join("1. Check the loader.\n" for _ in range(20)),
    "same table row": "| name | ok |\n|---|---|\n" + "| loader | yes |\n" * 40,
    "same json object": "[" + '{"name": "loader", "ok": true}, ' * 30,
    "same import": "import os\nimport sys\n" * 25,
    "same line of code": "def f():\n" + "    queue.get()\n" * 40,
    "same log line": "12:00:00 WARN retry of connection to db-1 failed\n" * 20,
    "same css rule": ".a { margin: 0; }\n" * 30,
    "wait loop": _LEAD + "Wait, no. Let me check that again. " * 12,
    "hmm loop": "Hmm, " * 60,
    "two sentences in turn": ("But if it is the loader, the cache is empty. So it is the parser, and it is full. " * 8),
    "chinese loop": "我先检查加载器。" * 40,
    "japanese loop": "はい、そうです。" * 40,
    "emoji loop": "🎉 " * 150,
    "one emoji": "🎉" * 200,
    "dots without end": "Loading" + "." * 400,
    "dashes without end": _LEAD + "-" * 400,
    "zeros without end": "pi is 3.14159" + "0" * 400,
    "nines without end": "0." + "9, 9, " * 100,
    "base64 loop": "AAAA" * 120,
    "hex loop": "00 ff " * 100,
    "brackets": "[" * 300,
    "closing tags": "</div>" * 60,
    "think and think": "<think>\n</think>\n" * 8,
    "end of turn as text": "Yes.<|im_end|><|im_end|><|im_end|><|im_end|>",
    "tool call storm": "<tool_call>" * 12,
    "bangs": _LEAD + "!" * 200,
    "broken bytes": "caf\ufffd\ufffd " * 20,
    "late loop in code": _REPEATED_CODE + "    x += 1\n    y += 1\n" * 30,
    "word salad": " ".join(("the", "of", "a", "it", "to", "in")[(n * n + n // 5) % 6] for n in range(300)),
    "url loop": "see https://a.example/b/c/d/ " * 20,
    "path loop": "/usr/lib" * 60,
    "markdown header loop": "## Step\n\n" * 40,
}
"""The same kinds, gone round in a circle."""


@pytest.mark.parametrize("name", HONEST)
def test_honest_texts_pass_in_either_channel(name: str) -> None:
    text = HONEST[name]
    assert find_text(text) is None
    assert find_reply((text, None), ()) is None
    assert find_reply(("It is done.", text), ()) is None


@pytest.mark.parametrize("name", BROKEN)
def test_broken_texts_trip_in_either_channel(name: str) -> None:
    text = BROKEN[name]
    assert find_text(text) is not None
    assert find_reply((text, None), ()) is not None
    assert find_reply(("It is done.", text), ()) is not None
    assert find_reply((None, text), ()) is not None


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_text_that_goes_round_in_a_circle_at_its_end_trips(name: str) -> None:
    assert find_text(f"{HONEST[name]} and so it is" + " and so it is" * 14) is not None


def test_there_are_enough_of_both() -> None:
    assert len(HONEST) >= 25
    assert len(BROKEN) >= 25
