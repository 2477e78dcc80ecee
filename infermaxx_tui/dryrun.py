"""Plans and checks a run and says what it would do, without a token from the model."""

from __future__ import annotations

from collections.abc import Iterator

import anyio

from infermaxx_tui.core.plan import Plan
from infermaxx_tui.core.rows import tokens_text
from infermaxx_tui.core.stats import bound95
from infermaxx_tui.core.transcript import Session
from infermaxx_tui.prepare import Wish, load, prepare
from infermaxx_tui.server.describe import ServerUnusableError, normalise_url
from infermaxx_tui.vocabulary import shipped


def dry_run(wish: Wish, api_key: str | None) -> Iterator[str]:
    """Lines about the plan. Raises what a run would raise; a server that is not up yet is said, not an error."""
    loaded = load(wish)
    url = loaded.scenario.server.url
    yield f"scenario {loaded.scenario.name}: {len(loaded.transcripts)} transcripts"
    try:
        if url is None:
            raise ServerUnusableError("the server is started by the run itself")
        prepared, notes = anyio.run(prepare, loaded, wish, normalise_url(url), api_key)
        yield f"server {url}: {prepared.regime.engine or 'unknown engine'}, model {prepared.model}"
        yield from notes
        yield from _describe(prepared.plan, prepared.transcripts, loaded.scenario.sessions.target_depth)
    except ServerUnusableError as error:
        yield f"server not asked: {error}; depths below are by the shipped vocabulary, not exact"
        yield from _describe(_offline_plan(wish), loaded.transcripts, loaded.scenario.sessions.target_depth)


def _offline_plan(wish: Wish) -> Plan:
    from infermaxx_tui.core.plan import plan, resolve_limits
    from infermaxx_tui.idcache import tokenise_cached
    from infermaxx_tui.prepare import lengths_of

    loaded = load(wish)
    tokenised = tuple(tokenise_cached(session, shipped()) for session in loaded.transcripts)
    planned = plan(loaded.scenario, lengths_of(loaded.transcripts, tokenised), loaded.scenario.seed, "0" * 16)
    resolve_limits(loaded.scenario, planned)
    return planned


def _describe(planned: Plan, transcripts: tuple[Session, ...], target: int) -> Iterator[str]:
    count, recalls = len(planned.conversations), planned.planned_recalls
    yield f"{count} conversations, {planned.at_once} at once, to {tokens_text(target)} tokens each"
    bound = bound95(0, recalls)
    if bound is not None:
        yield f"{recalls} recalls planned: if all come back, a miss rate above {bound:.1%} is excluded with 95 % confidence"
    for conversation in planned.conversations[: planned.at_once]:
        names = " + ".join(transcripts[i].id for i in conversation.chain)
        depths = ", ".join(tokens_text(tag.depth_tokens) for tag in conversation.tags)
        yield f"  session {conversation.session}: {names}; tags at {depths}"
