"""Tasks that are read out of a small text: single facts of a listing, and values of a JSON document."""

from __future__ import annotations

import json
from typing import Final

from infermaxx_tui.core.quality.task import Draw, Form, Task, asking

_WORKERS: Final = ("amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heron")
_KEYS: Final = ("retry_limit", "batch_size", "queue_depth", "page_width", "cache_rows", "max_hops")
_GOODS: Final = ("bolts", "washers", "hinges", "brackets", "rivets", "springs", "clamps", "gaskets")
_LEVELS: Final = ("INFO", "WARN", "ERROR")
_NUMBER: Final = "the number alone"


def extraction(draw: Draw, kind: int, name: str) -> Task:
    """A worker of a log, a setting, a shelf, or a count of log levels."""
    text, key, what = (_worker, _setting, _shelf, _level)[kind](draw)
    form: Form = "number" if kind in (1, 3) else "text"
    return Task(task=name, family="extraction", question=asking(text, what), form=form, expected=key)


def _worker(draw: Draw) -> tuple[str, str, str]:
    jobs = draw.some(range(1000, 9999), 6)
    workers = draw.some(_WORKERS, 6)
    lines = [
        f"job {job} finished on {worker} after {draw.number(2, 90)} s"
        for job, worker in zip(jobs, workers, strict=True)
    ]
    asked = draw.number(0, 5)
    return "\n".join([*lines, f"On which worker did job {jobs[asked]} finish?"]), workers[asked], "its name alone"


def _setting(draw: Draw) -> tuple[str, str, str]:
    values = [draw.number(11, 4096) for _ in _KEYS]
    lines = [f"{key} = {value}" for key, value in zip(_KEYS, values, strict=True)]
    asked = draw.number(0, len(_KEYS) - 1)
    return "\n".join([*lines, f"What is the value of {_KEYS[asked]}?"]), str(values[asked]), _NUMBER


def _shelf(draw: Draw) -> tuple[str, str, str]:
    goods = draw.some(_GOODS, 5)
    shelves = [f"{draw.one('BCDEGHK')}{number}" for number in draw.some(range(2, 40), 5)]
    lines = [f"{one},{draw.number(5, 500)},{shelf}" for one, shelf in zip(goods, shelves, strict=True)]
    asked = draw.number(0, 4)
    text = "\n".join(["item,quantity,shelf", *lines, f"Which shelf holds the {goods[asked]}?"])
    return text, shelves[asked], "the shelf alone"


def _level(draw: Draw) -> tuple[str, str, str]:
    levels = [draw.one(_LEVELS) for _ in range(9)]
    lines = [f"{n + 10}:00 {level} part {draw.number(1, 9)}" for n, level in enumerate(levels)]
    asked = draw.one(_LEVELS)
    text = "\n".join([*lines, f"How many of these lines have the level {asked}?"])
    return text, str(levels.count(asked)), _NUMBER


def json_task(draw: Draw, kind: int, name: str) -> Task:
    """A value at a path, a count in an array, an object made of facts, or an object turned round."""
    match kind:
        case 0:
            return _at_path(draw, name)
        case 1:
            return _counted(draw, name)
        case 2:
            return _made(draw, name)
        case _:
            return _turned(draw, name)


def _at_path(draw: Draw, name: str) -> Task:
    outer, inner = draw.some(_WORKERS, 3), draw.some(_GOODS, 3)
    document = {key: {field: draw.number(10, 999) for field in inner} for key in outer}
    one, field = draw.one(outer), draw.one(inner)
    text = f"{json.dumps(document)}\nWhich number stands at {one}.{field} in this JSON?"
    return Task(
        task=name, family="json", question=asking(text, _NUMBER), form="number", expected=str(document[one][field])
    )


def _counted(draw: Draw, name: str) -> Task:
    rows = [{"id": n, "done": bool(draw.number(0, 1))} for n in draw.some(range(10, 99), 7)]
    text = f'{json.dumps(rows)}\nHow many objects of this JSON array have "done" set to true?'
    done = sum(row["done"] is True for row in rows)
    return Task(task=name, family="json", question=asking(text, _NUMBER), form="number", expected=str(done))


def _made(draw: Draw, name: str) -> Task:
    item, count, open_ = draw.one(_GOODS), draw.number(2, 99), bool(draw.number(0, 1))
    key = json.dumps({"item": item, "count": count, "open": open_})
    text = (
        f"There are {count} {item} and the box is {'open' if open_ else 'closed'}."
        ' Write that as a JSON object with the keys "item" (string), "count" (number) and "open" (true or false).'
    )
    return Task(task=name, family="json", question=asking(text, "that object"), form="json", expected=key)


def _turned(draw: Draw, name: str) -> Task:
    pairs = dict(zip(draw.some(_WORKERS, 3), draw.some(_GOODS, 3), strict=True))
    text = f"{json.dumps(pairs)}\nSwap keys and values of this JSON object."
    key = json.dumps({value: key for key, value in pairs.items()})
    return Task(task=name, family="json", question=asking(text, "the new object"), form="json", expected=key)
