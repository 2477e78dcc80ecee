"""What else a server must be able to do before agents are put on it: call tools, read an image, think or not think.

Each question has one right answer that is made from a seed, so that nobody has to judge by taste. What a speed
table does not tell: a model of a million downloads may lose its tool calls under load (note B; vllm#39056, #39598).
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

AbilityKind = Literal["tools", "vision", "thinking"]
Case = Literal["plain", "two", "streamed", "streamed_thinking", "concurrent", "after_turns", "image", "on", "off"]
"""Of tools: `plain`: one call, not streamed; `two`: two calls in one reply; `concurrent`: several at once, streamed;
`after_turns`: behind ten turns with calls and results. Of vision: `image`. Of thinking: `on` and `off`."""
Choice = Literal["auto", "required"]
CASES: Final[dict[AbilityKind, tuple[Case, ...]]] = {
    "tools": ("plain", "two", "streamed", "streamed_thinking", "concurrent", "after_turns"),
    "vision": ("image",),
    "thinking": ("on", "off"),
}
AT_ONCE: Final = 4
MAX_REPEATS: Final = 100
TOOLS: Final = (
    '[{"type":"function","function":{"name":"get_weather","description":"The weather in a city.","parameters":'
    '{"type":"object","properties":{"city":{"type":"string"},"unit":{"type":"string","enum":["celsius","fahrenheit"]}},'
    '"required":["city","unit"]}}},{"type":"function","function":{"name":"find_files","description":'
    '"Paths that match a pattern.","parameters":{"type":"object","properties":{"pattern":{"type":"string"}},'
    '"required":["pattern"]}}}]'
)


class Ability(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[abilities]]` of a scenario."""

    kind: AbilityKind
    n: int = 3
    """Questions of each case; of `concurrent` rounds of several."""
    max_tokens: int = 2048
    """Of each reply, thinking included."""
    choice: Choice = "auto"
    """Of tools, sent as `tool_choice`. `auto` is what agents send. `required` makes the server hold the model to a
    call: what is right with it and not without it is the model's own doing."""

    @property
    def name(self) -> str:
        """What its figures are called: the kind, and the choice where that is not `auto`."""
        return self.kind if self.choice == "auto" else f"{self.kind}_{self.choice}"


class Call(msgspec.Struct, frozen=True):
    """A function with its arguments, as JSON text."""

    name: str
    arguments: str


def wrong_with(ability: Ability) -> tuple[str, str] | None:
    """The first key that makes no sense, and what is wrong with it."""
    if not 1 <= ability.n <= MAX_REPEATS:
        return "n", f"must lie between 1 and {MAX_REPEATS}"
    if ability.max_tokens < 16:
        return "max_tokens", "must be 16 or more"
    return ("choice", "is for tools alone") if ability.choice != "auto" and ability.kind != "tools" else None
