"""From what a user typed to what a runner needs, or one clear line and nothing started."""

from __future__ import annotations

import hashlib
import math
import secrets

import httpx
import msgspec

import infermaxx_tui
from infermaxx_tui import importers, shipped
from infermaxx_tui.core.plan import Lengths, Plan, check_transcripts, plan, resolve_limits
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.scenario import Scenario, ScenarioError, parse_duration, parse_scenario
from infermaxx_tui.core.segments import TokenisedTranscript
from infermaxx_tui.core.stats import needed_for
from infermaxx_tui.core.transcript import Session
from infermaxx_tui.idcache import tokenise_cached
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.context import Prepared
from infermaxx_tui.server.describe import ServerFacts, describe, normalise_url
from infermaxx_tui.tokenize import TokenizerError, agreement, resolve

_QUESTION_TOKENS = 160
"""Room for a recall question and a sentinel exchange beyond the target depth."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for; the runner process gets it as JSON. It never holds a key."""

    scenario: str
    overrides: tuple[str, ...] = ()
    url: str | None = None
    model: str | None = None
    runs_dir: str | None = None
    seed: int | None = None
    nonce: str | None = None
    duration: str | None = None
    exclude: str | None = None
    faults: tuple[str, ...] = ()
    """Faults of the embedded server, for `demo`."""
    api_key_env: str = "VLLM_API_KEY"
    on_verdict: str | None = None
    """A command that the runner starts once the verdict is written."""


class Loaded(msgspec.Struct, frozen=True):
    """A scenario with its transcripts, before any server is asked."""

    scenario: Scenario
    text: str
    source: str
    transcripts: tuple[Session, ...]


def load(wish: Wish) -> Loaded:
    """The scenario and its transcripts. Raises ScenarioError or TranscriptError."""
    path = shipped.find_scenario(wish.scenario)
    text = path.read_text(encoding="utf-8")
    scenario = _apply(parse_scenario(text, path.name, wish.overrides), wish)
    files = shipped.find_transcripts(scenario.transcripts.paths, path.parent, path.name)
    transcripts = tuple(session for file in files for session in importers.load(file))
    check_transcripts(transcripts, path.name)
    return Loaded(scenario, text, path.name, transcripts)


def _apply(scenario: Scenario, wish: Wish) -> Scenario:
    """The flags of the command line stand over the file."""
    replace = msgspec.structs.replace
    if wish.url is not None:
        server = replace(scenario.server, url=normalise_url(wish.url), launch=(), sim=())
        scenario = replace(scenario, server=server)
    if wish.faults:
        scenario = replace(scenario, server=replace(scenario.server, sim=wish.faults, url=None, launch=()))
    if wish.model is not None:
        scenario = replace(scenario, server=replace(scenario.server, model=wish.model))
    if wish.seed is not None:
        scenario = replace(scenario, seed=wish.seed)
    if wish.duration is not None:
        try:
            parse_duration(wish.duration)
        except ValueError as error:
            raise ScenarioError("--duration", "", str(error)) from None
        scenario = replace(scenario, stop=replace(scenario.stop, duration=wish.duration))
    if wish.exclude is not None:
        scenario = _enough_for(scenario, wish.exclude)
    return scenario


def _enough_for(scenario: Scenario, exclude: str) -> Scenario:
    """Rounds and min_recalls so that a clean run excludes a failure rate above `exclude` with 95 % confidence."""
    number = exclude.strip()
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
        needed = needed_for(share)
    except ValueError:
        raise ScenarioError("--exclude", "", f"{exclude!r} is not a share between 0 and 1: write 1% or 0.01") from None
    per_session = sum(
        1 for ask in scenario.canaries.ask_at for at in scenario.plant_fractions if at < ask
    ) + scenario.canaries.head * len(scenario.canaries.ask_at)
    if not per_session:
        raise ScenarioError("--exclude", "", "the scenario asks no recalls; set canaries.per_session")
    spare = math.ceil(needed / (1 - scenario.limits.max_excluded))
    rounds = math.ceil(spare / (per_session * scenario.sessions.count))
    replace = msgspec.structs.replace
    return replace(
        scenario,
        sessions=replace(scenario.sessions, rounds=max(rounds, scenario.sessions.rounds)),
        limits=replace(scenario.limits, min_recalls=needed),
    )


async def prepare(
    loaded: Loaded,
    wish: Wish,
    url: str,
    api_key: str | None,
    stale: tuple[tuple[str, tuple[str, ...]], ...] = (),
    transport: httpx.AsyncBaseTransport | None = None,
    renderer: Renderer | None = None,
) -> tuple[Prepared, tuple[str, ...]]:
    """What the runner needs, and remarks for people. Asks the server what it is, but for no token.

    Raises ScenarioError, TokenizerError or ServerUnusableError.
    """
    scenario = loaded.scenario
    async with make_client(url, api_key, transport) as client:
        facts = await describe(client, url, scenario.server.model)
    remark: str | None = None
    if renderer is None:
        renderer, remark = _renderer(scenario, facts, url, api_key)
    tokenised: tuple[TokenisedTranscript, ...] = ()
    if renderer is not None:
        tokenised = tuple(tokenise_cached(session, renderer) for session in loaded.transcripts)
    lengths = lengths_of(loaded.transcripts, tokenised)
    seed, nonce = scenario.seed, wish.nonce or secrets.token_hex(8)
    planned = plan(scenario, lengths, seed, nonce)
    resolve_limits(scenario, planned)
    notes = (*preflight(scenario, planned, facts), *((remark,) if remark is not None else ()))
    prepared = Prepared(
        scenario=scenario,
        scenario_text=loaded.text,
        plan=planned,
        transcripts=loaded.transcripts,
        tokenised=tokenised,
        renderer=renderer,
        regime=_regime(loaded, facts, renderer, planned),
        seed=seed,
        nonce=nonce,
        model=facts.model,
        stale=stale,
    )
    return prepared, notes


def _renderer(
    scenario: Scenario, facts: ServerFacts, url: str, api_key: str | None
) -> tuple[Renderer | None, str | None]:
    """The renderer and a remark about it; a run by ids without one that the server agrees with is refused.

    The client stays open, since a renderer that asks the server goes on asking it.
    """
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    http = httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60.0)
    try:
        renderer = resolve(scenario.transcripts.tokenizer, url, facts.model, facts.model_root, http)
    except TokenizerError:
        if scenario.sessions.prompt == "chat" and scenario.transcripts.tokenizer == "auto":
            return None, "no tokenizer: prompts are rendered by the server, depths follow from its usage"
        raise
    agreed = agreement(renderer, url, facts.model, http)
    match agreed.outcome:
        case "different":
            raise TokenizerError(f"transcripts.tokenizer: {renderer.name} and the server differ: {agreed.detail}")
        case "unknown":
            return renderer, f"{renderer.name}: {agreed.detail}"
        case "same":
            return renderer, None


def lengths_of(transcripts: tuple[Session, ...], tokenised: tuple[TokenisedTranscript, ...]) -> tuple[Lengths, ...]:
    """Token counts of the transcripts; without a tokenizer a quarter of the characters, for chaining alone."""
    if tokenised:
        return tuple(
            Lengths(tuple(len(r.delta_ids) for r in t.requests), tuple(len(r.reply_ids) for r in t.requests))
            for t in tokenised
        )
    return tuple(
        Lengths(
            tuple(sum(len(m.content) for m in r.delta) // 4 for r in t.requests),
            tuple(len(r.reply.content) // 4 for r in t.requests),
        )
        for t in transcripts
    )


def preflight(scenario: Scenario, planned: Plan, facts: ServerFacts) -> tuple[str, ...]:
    """Remarks for people. Raises ScenarioError where the window cannot hold what the scenario wants."""
    target, budget = scenario.sessions.target_depth, scenario.canaries.max_tokens
    window = facts.max_model_len
    if window is not None:
        need = target + scenario.reply.max_tokens + _QUESTION_TOKENS + budget
        if need > window:
            fits = window - scenario.reply.max_tokens - _QUESTION_TOKENS - budget
            if fits >= 64:
                advice = f"--set sessions.target_depth={fits}"
            else:
                advice = f"--set canaries.max_tokens={max(16, window // 8)}"
            raise ScenarioError(
                scenario.name,
                "sessions.target_depth",
                f"{target} tokens, the replies and the recall budget need {need}, and max_model_len is {window}: {advice}",
            )
    notes = []
    pool = facts.cache.pool_tokens if facts.cache is not None else None
    need_pool = planned.at_once * (target + max(scenario.reply.max_tokens, budget))
    if pool is not None and need_pool > pool:
        fit = pool // (target + max(scenario.reply.max_tokens, budget))
        advice = f"--set sessions.at_once={fit}" if fit else f"--set sessions.target_depth={pool // 2}"
        notes.append(
            f"{planned.at_once} sessions of {target} tokens need {need_pool} tokens and the KV pool has {pool}:"
            f" expect preemptions; to avoid them {advice}"
        )
    return tuple(notes)


def _regime(loaded: Loaded, facts: ServerFacts, renderer: Renderer | None, planned: Plan) -> Regime:
    scenario, cache, missing = loaded.scenario, facts.cache, dict(facts.missing)
    missing |= {"gpu": "no GPU sensors in this version", "power_limit_w": "no GPU sensors in this version"}
    if renderer is None:
        missing["tokenizer"] = "none: chat replay by the server's own template"
    chat_live = scenario.sessions.prompt == "chat" and scenario.sessions.replies == "live"
    texts = hashlib.sha256()
    for session in loaded.transcripts:
        texts.update(msgspec.json.encode(session))
    return Regime(
        simulated=facts.simulated,
        engine=facts.engine,
        model=facts.model,
        model_root=facts.model_root,
        max_model_len=facts.max_model_len,
        pool_tokens=cache.pool_tokens if cache else None,
        block_size=cache.block_size if cache else None,
        kv_cache_dtype=cache.cache_dtype if cache else None,
        prefix_caching=cache.prefix_caching if cache else None,
        gpu_memory_utilization=cache.gpu_memory_utilization if cache else None,
        prompt_mode=scenario.sessions.prompt,
        replies_mode=scenario.sessions.replies,
        tool_results="as_user" if chat_live else "template",
        tokenizer=renderer.name if renderer else None,
        tokenizer_sha256=renderer.sha256 if renderer else None,
        template_sha256=renderer.template_sha256 if renderer else None,
        transcripts_sha256=texts.hexdigest(),
        temperature=scenario.reply.temperature,
        reply_max_tokens=scenario.reply.max_tokens,
        recall_max_tokens=scenario.canaries.max_tokens,
        concurrency_requested=planned.at_once,
        target_depth=scenario.sessions.target_depth,
        client=f"infermaxx {infermaxx_tui.__version__}",
        missing=missing,
    )
