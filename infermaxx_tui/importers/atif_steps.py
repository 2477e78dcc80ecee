"""Turn the steps of one ATIF trajectory into requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from infermaxx_tui.core.transcript import Message, Session, TokenIds, ToolCall, Usage, Window
from infermaxx_tui.importers.blocks import flatten, tool_call, without_images
from infermaxx_tui.importers.building import Builder, appended_ids, ledger
from infermaxx_tui.importers.chat_messages import tools_text
from infermaxx_tui.importers.values import (
    JsonObject,
    as_count,
    as_ids,
    as_list,
    as_object,
    as_text,
    dump_json,
    epoch_s,
    first,
)

FORMAT = "atif"


class Trajectory:
    """A session under construction, step by step, with the sessions that are interleaved with it and below it."""

    def __init__(self, stem: str, source: str, parent: str | None = None, spawned_after: int | None = None) -> None:
        self._source = source
        self._id = stem
        self._parent = parent
        self._spawned_after = spawned_after
        self._loss: Counter[str] = Counter()
        self._builder = Builder(self._loss, "start" if parent is None else "subagent")
        self._tools = ""
        self._model = ""
        self._ids: tuple[int, ...] = ()
        """Ids of the last prompt and reply."""
        self._side: dict[str, Trajectory] = {}
        self._children: list[JsonObject] = []
        self._spawned: dict[str, int] = {}
        self._total: int | None = None

    def describe(self, key: str, value: object) -> None:
        """Takes what the file says of the trajectory as a whole."""
        match key:
            case "session_id" | "trajectory_id" if as_text(value) and (key == "session_id" or self._parent is not None):
                self._id = as_text(value)
            case "agent":
                agent = as_object(value)
                self._tools = tools_text(agent.get("tool_definitions"), None)
                self._model = as_text(agent.get("model_name"))
            case "final_metrics":
                self._total = as_count(as_object(value).get("total_prompt_tokens"))
            case "continued_trajectory_ref" if value:
                self._loss["continued_elsewhere"] += 1
            case _:
                pass

    def subagent(self, value: JsonObject) -> None:
        """Takes a whole trajectory that a step of this one refers to by its id."""
        self._children.append(value)

    def step(self, step: JsonObject) -> None:
        """Takes a step."""
        extra = as_object(step.get("extra"))
        if first(extra, "is_sidechain", "isSidechain") is True and self._parent is None:
            self._sidechain(step, as_text(first(extra, "agent_id", "agentId")) or "sidechain")
            return
        self._builder.copying = step.get("is_copied_context") is True
        text = "\n".join(flatten(step.get("message"), self._loss).texts)
        match step.get("source"):
            case "system":
                self._builder.system(text)
            case "user":
                self._builder.say(text, epoch_s(step.get("timestamp")))
            case "agent":
                self._agent(step, text)
            case _:
                self._loss["unknown_record"] += 1
        self._observe(step, extra)

    def _sidechain(self, step: JsonObject, name: str) -> None:
        """A step of a subagent that a converter sorted in between by its time."""
        if name not in self._side:
            self._side[name] = Trajectory(f"{self._id}/{name}", self._source, self._id)
        extra = {key: value for key, value in as_object(step.get("extra")).items() if "sidechain" not in key.lower()}
        self._side[name].step({**step, "extra": extra})

    def _agent(self, step: JsonObject, text: str) -> None:
        calls: list[ToolCall] = []
        for entry in map(as_object, as_list(step.get("tool_calls"))):
            name, arguments = entry.get("function_name"), entry.get("arguments")
            calls.append(tool_call(entry.get("tool_call_id"), name, arguments, self._loss))
        message = Message("assistant", text, as_text(step.get("reasoning_content")), tuple(calls))
        if step.get("llm_call_count") == 0:
            self._loss["synthetic_kept"] += 1
            self._builder.carry(message)
            return
        self._model = self._model or as_text(step.get("model_name"))
        metrics = as_object(step.get("metrics"))
        usage, ids = self._usage(metrics), self._token_ids(metrics)
        if (as_count(step.get("llm_call_count")) or 1) > 1:
            self._loss["usage_aggregated"] += 1
            usage, ids = Usage(), None
        self._builder.reply(
            message, usage, epoch_s(step.get("timestamp")), dict.fromkeys((c.id for c in calls), None), ids
        )

    def _usage(self, metrics: JsonObject) -> Usage:
        cached = as_count(metrics.get("cached_tokens"))
        prompt = as_count(metrics.get("prompt_tokens")) or len(as_list(metrics.get("prompt_token_ids"))) or None
        if prompt is not None and cached is not None and cached > prompt:
            self._loss["usage_mended"] += 1
            prompt += cached
        output = as_count(metrics.get("completion_tokens")) or len(as_list(metrics.get("completion_token_ids"))) or None
        return Usage(prompt, cached, output)

    def _token_ids(self, metrics: JsonObject) -> TokenIds | None:
        """The recorded ids, as what they add to those of the request before."""
        prompt, reply = as_ids(metrics.get("prompt_token_ids")), as_ids(metrics.get("completion_token_ids"))
        if not prompt or not reply:
            return None
        before, self._ids = self._ids, prompt + reply
        return appended_ids(before, prompt, reply, self._loss)

    def _observe(self, step: JsonObject, extra: JsonObject) -> None:
        results = [as_object(entry) for entry in as_list(as_object(step.get("observation")).get("results"))]
        for result in results:
            for ref in map(as_object, as_list(result.get("subagent_trajectory_ref"))):
                name = as_text(first(ref, "trajectory_id", "session_id"))
                self._spawned.setdefault(name, self._builder.replies)
            raw = _raw_result(as_object(result.get("extra")), result) or (
                _raw_result(extra, result) if len(results) == 1 else None
            )
            self._loss["observation_undoubled"] += raw is not None
            content = result.get("content") if raw is None else raw
            text = "\n".join(flatten(content, self._loss).texts)
            call_id = as_text(result.get("source_call_id"))
            if call_id:
                self._builder.result(call_id, without_images(text, self._loss))
            else:
                self._builder.say(text, person=False)

    def finish(self) -> Iterator[Session]:
        """The sessions: this one, then those interleaved with it, then those below it."""
        self._loss["no_tool_timing"] += 1
        spawned, parent = self._spawned_after, self._parent
        session = self._builder.finish(
            self._id, FORMAT, self._source, self._tools, parent, self._model or None, spawned
        )
        if session is not None:
            yield self._each_counted(session)
        for side in self._side.values():
            yield from side.finish()
        for n, value in enumerate(self._children):
            name = as_text(value.get("trajectory_id")) or f"{self._id}/subagent-{n}"
            child = Trajectory(name, self._source, self._id, self._spawned.get(name))
            for key in value.keys() - {"steps", "subagent_trajectories", "session_id"}:
                child.describe(key, value[key])
            for step in as_list(value.get("steps")):
                child.step(as_object(step))
            for below in as_list(value.get("subagent_trajectories")):
                child.subagent(as_object(below))
            yield from child.finish()

    def _each_counted(self, session: Session) -> Session:
        """The session with counts of single requests, where the file's add up: its last is the total of the run."""
        usages = [request.usage for request in session.requests]
        prompts = [usage.prompt_tokens or 0 for usage in usages]
        outputs = [usage.output_tokens or 0 for usage in usages]
        rising = all(a < b for a, b in pairwise(prompts)) and all(a <= b for a, b in pairwise(outputs))
        if len(usages) < 2 or not rising or self._total != prompts[-1]:
            return session
        whole = iter([usages[0], *(_difference(a, b) for a, b in pairwise(usages))])
        windows = tuple(
            Window(w.reason, tuple(msgspec.structs.replace(r, usage=next(whole)) for r in w.requests))
            for w in session.windows
        )
        loss = Counter(dict(session.loss)) + Counter({"usage_cumulative": 1})
        return msgspec.structs.replace(session, windows=windows, loss=ledger(loss))


def _difference(before: Usage, after: Usage) -> Usage:
    def less(a: int | None, b: int | None) -> int | None:
        return b - a if a is not None and b is not None and b >= a else None

    return Usage(
        less(before.prompt_tokens, after.prompt_tokens),
        less(before.cached_tokens, after.cached_tokens),
        less(before.output_tokens, after.output_tokens),
    )


def _raw_result(extra: JsonObject, result: JsonObject) -> object:
    """What was really sent, where a converter joined it with its copy for the screen; None if the file has no such."""
    raw = as_object(as_object(extra.get("tool_result_metadata")).get("raw_tool_result"))
    if raw.get("tool_use_id") not in (None, result.get("source_call_id")):
        return None
    content = raw.get("content")
    return dump_json(content) if isinstance(content, dict) else content
