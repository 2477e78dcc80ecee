"""Plans and checks a run and says what it would do, without a token from the model."""

from __future__ import annotations

from collections.abc import Iterator

from infermaxx_tui.core.plan import Plan, plan, resolve_limits
from infermaxx_tui.core.rows import tokens_text
from infermaxx_tui.core.stats import bound95
from infermaxx_tui.core.transcript import Session
from infermaxx_tui.idcache import tokenise_cached
from infermaxx_tui.prepare import lengths_of, prepare_now
from infermaxx_tui.server.describe import ServerUnreachableError, normalise_url
from infermaxx_tui.vocabulary import shipped
from infermaxx_tui.wish import Loaded, Wish, load

_OFFLINE = "depths below are by the shipped vocabulary, not exact"


def dry_run(wish: Wish, api_key: str | None) -> Iterator[str]:
    """Lines about the plan. Raises what a run would raise; a server that is not up yet is said, not an error."""
    loaded = load(wish)
    target = loaded.scenario.sessions.target_depth
    url = loaded.scenario.server.url
    yield f"scenario {loaded.scenario.name}: {len(loaded.transcripts)} transcripts"
    try:
        if url is None:
            yield f"server not asked: {_no_server(loaded)}; {_OFFLINE}"
            yield from _describe(_offline_plan(loaded), loaded.transcripts, target)
            return
        prepared, notes = prepare_now(loaded, wish, normalise_url(url), api_key)
        yield f"server {url}: {prepared.regime.engine or 'unknown engine'}, model {prepared.model}"
        yield from notes
        yield from _describe(prepared.plan, prepared.transcripts, target)
    except ServerUnreachableError as error:
        yield f"server not asked: {error}; {_OFFLINE}"
        yield from _describe(_offline_plan(loaded), loaded.transcripts, target)


def _no_server(loaded: Loaded) -> str:
    server = loaded.scenario.server
    return "the run starts it itself" if server.launch or server.sim else "none is named; give --url URL"


def _offline_plan(loaded: Loaded) -> Plan:
    tokenised = tuple(tokenise_cached(session, shipped()) for session in loaded.transcripts)
    planned = plan(loaded.scenario, lengths_of(loaded.transcripts, tokenised), loaded.scenario.seed, "0" * 16)
    resolve_limits(loaded.scenario, planned)
    return planned


def _describe(planned: Plan, transcripts: tuple[Session, ...], target: int) -> Iterator[str]:
    count, recalls = len(planned.conversations), planned.planned_recalls
    yield f"{count} conversations, {planned.at_once} at once, to {tokens_text(target)} tokens each"
    bound = bound95(0, recalls)
    if bound is not None:
        excluded = f"a miss rate above {100 * bound:.3g} % is excluded with 95 % confidence"
        yield f"{recalls} recalls planned: if all come back, {excluded}"
    for conversation in planned.conversations[: planned.at_once]:
        names = " + ".join(transcripts[i].id for i in conversation.chain)
        depths = ", ".join(tokens_text(tag.depth_tokens) for tag in conversation.tags)
        yield f"  session {conversation.session}: {names}; tags at {depths}"
