"""Plans and checks a run and says what it would do, without a token from the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from infermaxx_tui import rundir
from infermaxx_tui.core.controls import Controls
from infermaxx_tui.core.plan import Plan, plan, resolve_limits
from infermaxx_tui.core.prefix_truth import truth_lines
from infermaxx_tui.core.replaying import check_replay, is_trace, replay_notes, with_subagents
from infermaxx_tui.core.rows import tokens_text
from infermaxx_tui.pace import plan_lines
from infermaxx_tui.prepare import lengths_of, prepare_now, tokenised_by
from infermaxx_tui.server.check_args import check_args
from infermaxx_tui.server.describe import ServerUnreachableError, ServerUnusableError, normalise_url
from infermaxx_tui.tokenize import resolve
from infermaxx_tui.vocabulary import shipped
from infermaxx_tui.wish import Loaded, Wish, load

_OFFLINE = "depths below are by the shipped vocabulary, not exact"


def dry_run(wish: Wish, api_key: str | None) -> Iterator[str]:
    """Lines about the plan. Raises what a run would raise; a server that is not up yet is said, not an error."""
    loaded = load(wish)
    root = rundir.runs_dir(wish.runs_dir)
    url = loaded.scenario.server.url
    yield f"scenario {loaded.scenario.name}: {len(loaded.transcripts)} transcripts"
    try:
        if url is None:
            yield f"server not asked: {_no_server(loaded)}; {_OFFLINE}"
            yield from _arguments(loaded)
            yield from _offline(loaded, root)
            return
        prepared, notes = prepare_now(loaded, wish, normalise_url(url), api_key)
        yield f"server {url}: {prepared.regime.engine or 'unknown engine'}, model {prepared.model}"
        yield from notes
        yield from _describe(loaded, prepared.plan, root)
    except ServerUnreachableError as error:
        yield f"server not asked: {error}; {_OFFLINE}"
        yield from _offline(loaded, root)


def _arguments(loaded: Loaded) -> Iterator[str]:
    """What the server's own parser says of its arguments. Raises ServerUnusableError if it refuses them."""
    server = loaded.scenario.server
    if not server.launch or not server.check_args:
        return
    checked = check_args(server.launch, server.env)
    match checked.outcome:
        case "refused":
            raise ServerUnusableError(f"server.launch: {checked.said}")
        case "ok":
            yield "server.launch: its own parser takes its arguments"
        case "unknown":
            yield f"server.launch: its arguments were not checked: {checked.said}"
        case "not_vllm":
            return


def _no_server(loaded: Loaded) -> str:
    server = loaded.scenario.server
    return "the run starts it itself" if server.launch or server.sim else "none is named; give --url URL"


def _offline(loaded: Loaded, root: Path) -> Iterator[str]:
    """The plan, and what can be said of the way of playing without the server. Raises what a plan raises."""
    scenario, planned = loaded.scenario, _offline_plan(loaded)
    yield from replay_notes(scenario, loaded.transcripts, planned)
    named = scenario.transcripts.tokenizer
    if named not in ("auto", "server") and not is_trace(loaded.transcripts):
        yield from truth_lines(
            loaded.transcripts, resolve(named, None, "", None, None), scenario.sessions.prompt == "chat"
        )
    yield from _describe(loaded, planned, root)


def _offline_plan(loaded: Loaded) -> Plan:
    check_replay(loaded.scenario, loaded.transcripts, loaded.source)
    sessions = loaded.scenario.sessions
    lengths = lengths_of(loaded.transcripts, tokenised_by(shipped(), loaded.transcripts), sessions)
    planned = plan(loaded.scenario, lengths, loaded.scenario.seed, "0" * 16)
    planned = with_subagents(planned, loaded.transcripts, sessions)
    resolve_limits(loaded.scenario, planned)
    return planned


def _controls(wanted: Controls) -> Iterator[str]:
    """What is played with nothing beside, each of it at the target depth but for the trivial prompts."""
    parts = (
        (wanted.repeat, f"{wanted.repeat} prompts twice, uncached"),
        (wanted.cache, f"{wanted.cache} prompts uncached and from the cache"),
        (wanted.alike, f"{wanted.alike} identical prompts at once"),
        (wanted.salt, f"{wanted.salt} questions behind one prefix, shared and salted"),
        (wanted.solo, "one conversation alone, before the others and after them"),
        (wanted.after, f"{wanted.after} trivial prompts when all is over"),
    )
    said = [text for asked, text in parts if asked]
    if said:
        yield f"controls: {'; '.join(said)}"


def _describe(loaded: Loaded, planned: Plan, root: Path) -> Iterator[str]:
    count, target = len(planned.conversations), loaded.scenario.sessions.target_depth
    together = f"{planned.at_once} at once"
    if planned.interleaved is not None:
        together = f"{planned.interleaved} open together and taking turns, one request at a time"
    yield f"{count} conversations, {together}, to {tokens_text(target)} tokens each"
    yield from plan_lines(loaded.scenario, planned, root)
    yield from _controls(loaded.scenario.controls)
    for conversation in planned.conversations[: planned.wave_size]:
        names = " + ".join(loaded.transcripts[i].id for i in conversation.chain)
        depths = ", ".join(tokens_text(tag.depth_tokens) for tag in conversation.tags)
        yield f"  session {conversation.session}: {names}; tags at {depths}"
        for child in conversation.subagents:
            under, name = loaded.transcripts[child.parent].id, loaded.transcripts[child.transcript].id
            waits = "which waits for it" if child.waits else "which goes on"
            yield f"  session {child.session}: subagent {name}, after reply {child.after} of {under}, {waits}"
