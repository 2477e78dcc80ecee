"""The tools of an imagined agent: their list as a server is sent it, calls of them, and what they answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from infermaxx_tui.core.synth import code, logs, prose
from infermaxx_tui.core.synth.draw import Draw
from infermaxx_tui.core.synth.fitting import Count, fitted
from infermaxx_tui.core.synth.words import NOUNS, VERBS, function, path, snake

ERRORS = 0.06
"""Share of results that tell of an error; ours, nobody has published one."""
_LONG = 60
"""From this many tokens on the arguments of a call hold a piece of a program."""

Source = Callable[[Draw], Iterator[str]]

_ANSWERS: dict[str, tuple[Source, ...]] = {
    "read_file": (code.numbered,),
    "search": (logs.search,),
    "bash": (logs.service, logs.tests, logs.listing, logs.history, code.data, code.diff, code.python),
    "edit_file": (code.diff, code.numbered),
    "write_file": (code.numbered,),
    "task": (prose.document,),
}
_SHORT = ("ok", "done", "(no output)", "no matches", "1 file changed", "exit code 0", "written", "unchanged")
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "read_file": ("path", "first_line", "last_line"),
    "search": ("pattern", "path"),
    "bash": ("command", "timeout_s"),
    "edit_file": ("path", "old_text", "new_text"),
    "write_file": ("path", "content"),
    "task": ("description", "prompt"),
}


def tool_list(draw: Draw, tokens: int, count: Count) -> str:
    """JSON text of a tool list of about that many tokens: the agent's own tools first, then others."""
    names = list(_ARGUMENTS)
    tools: list[object] = []
    have, text = 0, "[]"
    while have < tokens:
        name = names.pop(0) if names else f"{draw.pick(NOUNS)}_{function(draw)}"
        keys = _ARGUMENTS.get(name) or tuple(dict.fromkeys(snake(draw) for _ in range(draw.between(1, 5))))
        about = fitted(prose.sentences(draw), min(draw.between(40, 400), max(tokens - have - 60, 20)), count)
        tools.append({"type": "function", "function": _described(draw, name, keys, about)})
        text = json.dumps(tools, ensure_ascii=False)
        have = count(text)
    return text


def _described(draw: Draw, name: str, keys: tuple[str, ...], about: str) -> dict[str, object]:
    properties = {
        key: {"type": draw.pick(("string", "string", "integer", "boolean")), "description": prose.sentence(draw)}
        for key in keys
    }
    parameters = {"type": "object", "properties": properties, "required": list(keys[:1])}
    return {"name": name, "description": about, "parameters": parameters}


def call(draw: Draw, tokens: int, count: Count, spawn: bool) -> tuple[str, str]:
    """The name of a tool and the JSON text of arguments of about that many tokens."""
    if spawn:
        return "task", _filled(
            {"description": f"{draw.pick(VERBS)} {draw.pick(NOUNS)}"}, "prompt", prose.asking(draw), tokens, count
        )
    if tokens >= _LONG:
        match draw.below(3):
            case 0:
                old = fitted(code.python(draw), tokens // 3, count)
                return "edit_file", _filled(
                    {"path": path(draw), "old_text": old}, "new_text", code.python(draw), tokens, count
                )
            case 1:
                source = draw.pick((code.python, code.typescript, code.go))(draw)
                return "write_file", _filled({"path": path(draw)}, "content", source, tokens, count)
            case _:
                return "bash", _filled({}, "command", _script(draw), tokens, count)
    match draw.below(4):
        case 0:
            first = draw.between(1, 900)
            found = {"path": path(draw), "first_line": first, "last_line": first + draw.between(20, 400)}
            return "read_file", json.dumps(found)
        case 1:
            return "search", json.dumps({"pattern": snake(draw), "path": path(draw).rsplit("/", 1)[0]})
        case _:
            return "bash", _filled({}, "command", _commands(draw), tokens, count)


def _filled(first: dict[str, str], key: str, lines: Iterator[str], tokens: int, count: Count) -> str:
    """Arguments whose last value takes what is left of the tokens."""

    def escaped(text: str) -> int:
        return count(json.dumps(text, ensure_ascii=False)[1:-1])

    used = count(json.dumps(first | {key: ""}, ensure_ascii=False))
    return json.dumps(first | {key: fitted(lines, max(tokens - used, 4), escaped)}, ensure_ascii=False)


def _commands(draw: Draw) -> Iterator[str]:
    while True:
        match draw.below(6):
            case 0:
                yield f"git log --oneline -n {draw.between(2, 30)} -- {path(draw)}"
            case 1:
                yield f"python -m pytest -q {path(draw)} -k {snake(draw)} 2>&1 | tail -{draw.between(5, 60)}"
            case 2:
                yield f"grep -rn '{snake(draw)}' {path(draw)} | head -{draw.between(5, 90)}"
            case 3:
                yield f"sed -n '{draw.between(1, 400)},{draw.between(401, 900)}p' {path(draw)}"
            case 4:
                yield f"wc -l {path(draw)} {path(draw)}"
            case _:
                yield f"git diff --stat {path(draw)}"


def _script(draw: Draw) -> Iterator[str]:
    yield "python - <<'END'"
    yield from code.python(draw)


def answer(draw: Draw, tool: str, tokens: int, count: Count, odd: bool) -> str:
    """What a tool answers, in about that many tokens; some answers are errors, and few tokens are a short word."""
    if tokens <= 0:
        return ""
    if tokens < 8:
        return draw.pick(_SHORT)
    if odd and draw.chance(0.4):
        return fitted(logs.odd(draw), tokens, count)
    if draw.chance(ERRORS):
        return fitted(_error(draw), tokens, count)
    return fitted(draw.pick(_ANSWERS.get(tool, _ANSWERS["bash"]))(draw), tokens, count)


def _error(draw: Draw) -> Iterator[str]:
    yield f"error: exit code {draw.between(1, 130)}: {prose.clause(draw)}"
    while True:
        yield from logs.traceback(draw)
