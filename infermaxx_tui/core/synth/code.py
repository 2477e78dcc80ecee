"""Program text: functions with bodies in three languages, changes to them, and data, line after line without end.

What matters of it is what a tokenizer and a prefix cache see: indentation, names that come back, punctuation, and no
page that is the same as another.
"""

from __future__ import annotations

from collections.abc import Iterator

from infermaxx_tui.core.synth.draw import Draw
from infermaxx_tui.core.synth.prose import clause
from infermaxx_tui.core.synth.words import ADJECTIVES, NOUNS, TYPES, VERBS, camel, function, hexes, path, snake, title


def python(draw: Draw) -> Iterator[str]:
    """A Python module."""
    yield f'"""{clause(draw).capitalize()}."""'
    yield ""
    yield from _imports(draw)
    while True:
        yield ""
        yield ""
        if draw.chance(0.35):
            yield f"class {title(draw)}:"
            yield f'    """{clause(draw).capitalize()}."""'
            for _ in range(draw.between(1, 4)):
                yield ""
                yield from _method(draw, "    ", "self, ")
        else:
            yield from _method(draw, "", "")


def _imports(draw: Draw) -> Iterator[str]:
    for _ in range(draw.between(2, 7)):
        package = ".".join(draw.some(NOUNS, draw.between(1, 3)))
        yield f"from {package} import {', '.join(sorted(draw.some(NOUNS, draw.between(1, 4))))}"


def _method(draw: Draw, indent: str, first: str) -> Iterator[str]:
    names = [snake(draw) for _ in range(draw.between(1, 4))]
    arguments = ", ".join(f"{name}: {draw.pick(TYPES)}" for name in names)
    yield f"{indent}def {function(draw)}({first}{arguments}) -> {draw.pick(TYPES)}:"
    if draw.chance(0.7):
        yield f'{indent}    """{clause(draw).capitalize()}."""'
    yield from _body(draw, indent + "    ", names, draw.between(2, 9))
    yield f"{indent}    return {_expression(draw, names)}"


def _body(draw: Draw, indent: str, names: list[str], count: int) -> Iterator[str]:
    for _ in range(count):
        match draw.below(9):
            case 0:
                item = draw.pick(NOUNS)
                yield f"{indent}for {item} in {draw.pick(names)}.{function(draw)}({draw.between(0, 99)}):"
                yield from _body(draw, indent + "    ", [*names, item], draw.between(1, 2))
            case 1:
                how = draw.pick((">", "<", "==", "!=", "in", "is not"))
                yield f"{indent}if {_expression(draw, names)} {how} {_expression(draw, names)}:"
                yield from _body(draw, indent + "    ", names, 1)
            case 2:
                yield f"{indent}# {clause(draw)}"
            case 3:
                yield f"{indent}with {function(draw)}({draw.pick(names)}) as {draw.pick(NOUNS)}:"
                yield from _body(draw, indent + "    ", names, draw.between(1, 3))
            case 4:
                what = f"{draw.pick(ADJECTIVES)} {draw.pick(NOUNS)}"
                error = draw.pick(("ValueError", "KeyError", "RuntimeError"))
                yield f'{indent}raise {error}(f"{what}: {{{draw.pick(names)}!r}}")'
            case 5:
                yield f"{indent}self.{snake(draw)} {draw.pick(('=', '+=', '-='))} {_expression(draw, names)}"
            case _:
                name = snake(draw)
                yield f"{indent}{name} = {_expression(draw, names)}"
                names.append(name)


def _expression(draw: Draw, names: list[str]) -> str:
    one = draw.pick(names)
    match draw.below(7):
        case 0:
            return f"{function(draw)}({one}, {draw.pick(names)})"
        case 1:
            return f"{one}.{draw.pick(NOUNS)}"
        case 2:
            return f"len({one}) {draw.pick('+-*%')} {draw.between(1, 4096)}"
        case 3:
            return f"[{draw.pick(VERBS)}({one}) for {one} in {snake(draw)} if {draw.pick(names)}]"
        case 4:
            return f'{one}["{draw.pick(NOUNS)}"]'
        case 5:
            return f"{one} or {draw.pick(('None', '()', '{}', '0.5', 'True'))}"
        case _:
            return one


def typescript(draw: Draw) -> Iterator[str]:
    """A TypeScript module."""
    while True:
        name, fields = title(draw), [camel(snake(draw)) for _ in range(draw.between(2, 6))]
        yield f"export interface {name} {{"
        yield from (f"  {field}: {draw.pick(('string', 'number', 'boolean', 'Date', 'string[]'))};" for field in fields)
        yield "}"
        yield ""
        yield f"// {clause(draw)}"
        yield f"export async function {camel(function(draw))}(input: {name}): Promise<{title(draw)}> {{"
        for _ in range(draw.between(2, 7)):
            if draw.chance(0.3):
                how = draw.pick(("===", "!==", "<", ">="))
                yield f"  if (input.{draw.pick(fields)} {how} {draw.between(0, 500)}) {{"
                yield f"    throw new Error(`{clause(draw)} ${{input.{draw.pick(fields)}}}`);"
                yield "  }"
            else:
                yield f"  const {camel(snake(draw))} = await this.{camel(function(draw))}(input.{draw.pick(fields)});"
        yield f"  return {{ {', '.join(camel(snake(draw)) for _ in range(draw.between(1, 4)))} }};"
        yield "}"
        yield ""


def go(draw: Draw) -> Iterator[str]:
    """A Go file."""
    yield f"package {draw.pick(NOUNS)}"
    while True:
        kind = title(draw)
        yield ""
        yield f"// {kind} {clause(draw)}."
        receiver, verb = kind[0].lower(), camel(function(draw))
        verb, wanted = verb[0].upper() + verb[1:], camel(snake(draw))
        yield f"func ({receiver} *{kind}) {verb}(ctx context.Context, {wanted} int64) error {{"
        for _ in range(draw.between(1, 5)):
            call = f"{kind[0].lower()}.{camel(function(draw))}(ctx, {draw.between(1, 900)})"
            if draw.chance(0.5):
                yield f"\tif err := {call}; err != nil {{"
                yield f'\t\treturn fmt.Errorf("{draw.pick(VERBS)} {draw.pick(NOUNS)}: %w", err)'
                yield "\t}"
            else:
                yield f"\t{camel(snake(draw))} := {call}"
        yield "\treturn nil"
        yield "}"


def diff(draw: Draw) -> Iterator[str]:
    """A change over several files."""
    while True:
        file = path(draw)
        yield f"diff --git a/{file} b/{file}"
        yield f"index {hexes(draw, 9)}..{hexes(draw, 9)} 100644"
        yield f"--- a/{file}"
        yield f"+++ b/{file}"
        lines = python(draw)
        for _ in range(draw.between(1, 3)):
            at = draw.between(1, 900)
            yield f"@@ -{at},{draw.between(5, 30)} +{at},{draw.between(5, 30)} @@ def {function(draw)}"
            for _ in range(draw.between(6, 24)):
                yield draw.pick((" ", " ", " ", "+", "+", "-")) + next(lines)


def data(draw: Draw) -> Iterator[str]:
    """Records of JSON, one a line."""
    keys = [snake(draw) for _ in range(draw.between(4, 9))]
    number = draw.between(1000, 90_000)
    while True:
        number += draw.between(1, 40)
        values = ", ".join(f'"{key}": {_value(draw)}' for key in draw.some(keys, draw.between(3, len(keys))))
        yield f'{{"id": {number}, {values}}}'


def _value(draw: Draw) -> str:
    match draw.below(5):
        case 0:
            return str(draw.between(0, 99_999))
        case 1:
            return f"{draw.between(0, 999)}.{draw.between(10, 99)}"
        case 2:
            return f'"{hexes(draw, 12)}"'
        case 3:
            return draw.pick(("true", "false", "null", "[]"))
        case _:
            return f'"{draw.pick(ADJECTIVES)} {draw.pick(NOUNS)}"'


def numbered(draw: Draw) -> Iterator[str]:
    """A file as a reading tool shows it, with line numbers."""
    first = draw.pick((1, 1, draw.between(20, 900)))
    for place, line in enumerate(draw.pick((python, typescript, go))(draw)):
        yield f"{first + place:6}\t{line}"
