"""What the embedded server says where a tool, an image or a sum is asked for. It reads the question and shares no code
with whoever made it: two ways to the same key."""

from __future__ import annotations

import json
import re
from typing import Final

from infermaxx_tui.sim.reading import Reading
from infermaxx_tui.sim.speech import Dice, Spoken, sentences

_WEATHER: Final = re.compile(r"Use get_weather: what is the weather in (.+), in (celsius|fahrenheit)\?")
_SUM: Final = re.compile(r"What is (\d+) \* (\d+) \+ (\d+)\? End with a line")


def ability_reply(reading: Reading, dice: Dice) -> Spoken | None:
    """The calls or the sum that the last turn asks for; None for any other turn."""
    if reading.last.role != "user":
        return None
    weather = _WEATHER.search(reading.last.text)
    if weather is not None and reading.has_tools:
        cities = weather[1].split(" and in ")
        calls = [{"name": "get_weather", "arguments": {"city": city, "unit": weather[2]}} for city in cities]
        return Spoken("", tool="\n".join(json.dumps(call) for call in calls))
    asked = _SUM.search(reading.last.text)
    if asked is None:
        return None
    a, b, c = map(int, asked.groups())
    thinks = "</think>" not in reading.opened
    return Spoken(f"That is\n{a * b + c}", sentences(dice, 3) if thinks else "")
