"""Shapes with text in them: sessions that any tokenizer weighs as the shapes say."""

from __future__ import annotations

from typing import Literal

from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.synth import code, logs, prose
from infermaxx_tui.core.synth.draw import Draw
from infermaxx_tui.core.synth.fitting import fitted, overhead_of
from infermaxx_tui.core.synth.presets import Preset
from infermaxx_tui.core.synth.shapes import Shape, Step
from infermaxx_tui.core.synth.tools import answer, call, tool_list
from infermaxx_tui.core.synth.words import hexes
from infermaxx_tui.core.transcript import Message, Request, Session, ToolCall, Window

_THINKS, _SAYS = 0.45, 0.4
"""Shares of replies that think, and of calling replies that say something first; ours, so that thinking is about a
sixth of what agents write (wherewasi#62: 9 of 53 parts)."""
_IDENTITY = "You are a coding agent in a terminal. These are the rules of the project that you work on."
_SUBAGENT = "You are a helper of another agent. Do the one thing that you are asked and report it."
_SUMMARY = "The conversation was summarised to go on. What was done so far, and the files that matter:"

Reason = Literal["start", "compaction", "subagent"]


class Composer:
    """Makes the sessions of one set. All of them have the same tools and system prompt, as sessions of one agent do."""

    def __init__(self, preset: Preset, seed: int, renderer: Renderer) -> None:
        self._preset = preset
        self._seed = seed
        self._renderer = renderer
        self._over = overhead_of(renderer)
        self._agent = self._prompts("agent", _IDENTITY, preset.tools_tokens, preset.system_tokens)
        self._helper = (
            self._prompts("helper", _SUBAGENT, preset.tools_tokens // 2, 900) if preset.nasty else self._agent
        )

    def _prompts(self, who: str, identity: str, tools: int, system: int) -> tuple[str, Message]:
        draw = Draw(self._preset.name, self._seed, who)
        text = tool_list(draw, int(tools * self._preset.scale), self.count)
        left = int(system * self._preset.scale) - self.count(identity)
        return text, Message("system", f"{identity}\n\n{fitted(prose.document(draw), left, self.count)}")

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._renderer.encode(text))

    def sessions(self, shape: Shape, number: int) -> tuple[Session, ...]:
        """A session and its subagents, the parent first."""
        name = f"{self._preset.name}-{self._seed}-{number + 1:03}"
        draw = Draw(name, "text")
        parent = _Composing(self, draw, *self._agent).session(shape, name, None, None)
        after = next((n + 1 for n, step in enumerate(_asked(shape)) if step.spawns), None)
        children = [
            _Composing(self, Draw(name, "child", place), *self._helper).session(
                child, f"{name}/agent-{place + 1}", name, after
            )
            for place, child in enumerate(shape.children)
        ]
        return (parent, *children)

    def prompt_tokens(self, tools: str, system: Message) -> int:
        """Tokens of what stands before the first question."""
        ask = Message("user", "a")
        try:
            return len(self._renderer.render((system, ask), tools, True)) - 1
        except ValueError:
            return self.count(tools) + self.count(system.content)

    def text(self, draw: Draw, tokens: int) -> str:
        """What an agent says."""
        return fitted(prose.saying(draw), tokens, self.count)

    def reply(self, draw: Draw, step: Step) -> Message:
        """A reply: thoughts, words, calls."""
        left = max(step.reply_tokens - self._over.message, 4)
        reasoning = content = ""
        if draw.chance(_THINKS) and left > 24:
            reasoning = fitted(prose.sentences(draw), left * draw.between(20, 50) // 100, self.count)
            left -= self.count(reasoning)
        if not step.calls:
            return Message("assistant", self.text(draw, max(left, 4)), reasoning)
        if draw.chance(_SAYS) and left > 40:
            content = fitted(prose.sentences(draw), min(left // 4, 60), self.count)
            left -= self.count(content)
        calls = []
        for place in range(step.calls):
            part = left // (step.calls - place) - self._over.call
            tool, arguments = call(draw, part, self.count, place < step.spawns)
            calls.append(ToolCall(f"call_{hexes(draw, 12)}", tool, arguments))
            left -= self.count(arguments) + self._over.call
        return Message("assistant", content, reasoning, tuple(calls))

    def results(self, draw: Draw, step: Step, calls: tuple[ToolCall, ...]) -> list[Message]:
        """What the tools answered, in the order of the calls."""
        left = step.new_tokens - self._over.message
        out = []
        for place, made in enumerate(calls):
            rest = len(calls) - place
            part = left if rest == 1 else left * draw.between(10, 190) // (100 * rest)
            text = answer(draw, made.name, part - self._over.result, self.count, self._preset.nasty)
            out.append(Message("tool", text, tool_call_id=made.id, name=made.name))
            left -= self.count(text) + self._over.result
        return out

    def question(self, draw: Draw, tokens: int) -> Message:
        """What a person asks; long ones bring a log, a file or a document along."""
        left = tokens - 2 * self._over.message
        if left < 120:
            return Message("user", fitted(prose.asking(draw), max(left, 6), self.count))
        asked = fitted(prose.asking(draw), 60, self.count)
        source = draw.pick((logs.service, code.python, prose.document, logs.tests, code.data))
        return Message("user", f"{asked}\n\n{fitted(source(draw), left - 60, self.count)}")

    def summary(self, draw: Draw, tokens: int) -> Message:
        """What is left after compaction: a summary, then the files last read."""
        told = fitted(prose.document(draw), tokens // 3, self.count)
        files = fitted(code.numbered(draw), tokens - tokens // 3 - 40, self.count)
        return Message("user", f"{_SUMMARY}\n\n{told}\n\n{files}")


def _asked(shape: Shape) -> list[Step]:
    """The steps that are requests of their own."""
    return [step for step in shape.steps if not step.history]


class _Composing:
    """One session under construction."""

    def __init__(self, composer: Composer, draw: Draw, tools: str, system: Message) -> None:
        self._composer = composer
        self._draw = draw
        self._tools = tools
        self._system = system
        self._fixed = composer.prompt_tokens(tools, system)
        self._delta: list[Message] = []
        self._windows: list[Window] = []
        self._requests: list[Request] = []
        self._reason: Reason = "start"

    def session(self, shape: Shape, name: str, parent: str | None, after: int | None) -> Session:
        """The whole session."""
        self._reason = "start" if parent is None else "subagent"
        calls: tuple[ToolCall, ...] = ()
        for step in shape.steps:
            self._open(step, calls)
            reply = self._composer.reply(self._draw, step)
            calls = reply.tool_calls
            if step.history:
                self._delta.append(reply)
                continue
            delta = tuple(self._delta)
            self._requests.append(Request(delta, reply, think_s=step.think_s, tool_delay_s=step.tool_delay_s))
            self._delta = []
        self._close()
        return Session(
            id=name,
            format="openai-chat",
            source=f"{name}.jsonl",
            windows=tuple(self._windows),
            tools=self._tools,
            parent=parent,
            spawned_after=after,
        )

    def _open(self, step: Step, calls: tuple[ToolCall, ...]) -> None:
        """What the step's prompt adds."""
        match step.before:
            case "start":
                self._delta += [self._system, self._composer.question(self._draw, step.new_tokens - self._fixed)]
            case "compaction":
                if self._requests:
                    self._close()
                    self._reason = "compaction"
                kept = self._composer.summary(self._draw, max(step.new_tokens - self._fixed, 60))
                self._delta = [self._system, kept]
            case "tool" if calls:
                self._delta += self._composer.results(self._draw, step, calls)
            case "tool" | "user":
                self._delta.append(self._composer.question(self._draw, step.new_tokens))

    def _close(self) -> None:
        if self._requests:
            self._windows.append(Window(self._reason, tuple(self._requests)))
        self._requests = []
