"""From a scenario and a server to what a runner needs, or one clear line and nothing started."""

from __future__ import annotations

import secrets

import anyio
import httpx

from infermaxx_tui.core.events import StartupRead
from infermaxx_tui.core.gpu_regime import with_gpus
from infermaxx_tui.core.plan import Lengths, Plan, plan, resolve_limits
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.scenario import Scenario, ScenarioError
from infermaxx_tui.core.segments import TokenisedTranscript
from infermaxx_tui.core.transcript import Session
from infermaxx_tui.idcache import tokenise_cached
from infermaxx_tui.regimes import Sent, regime_of
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.context import Prepared
from infermaxx_tui.server.describe import ServerFacts, describe
from infermaxx_tui.tokenize import ServerRenderer, TokenizerError, agreement, resolve
from infermaxx_tui.wish import Loaded, Wish

_QUESTION_TOKENS = 160
"""Room for a recall question and a sentinel exchange beyond the target depth."""
_DAMAGE = ("malformed_line", "line_too_long", "torn_tail")
"""Losses of whole lines, by their names in the loss ledger."""
_LEAST_DEPTH = 64
_LEAST_WINDOW = 512
"""A window in which `_fitting` always finds room."""


async def prepare(
    loaded: Loaded,
    wish: Wish,
    url: str,
    api_key: str | None,
    stale: tuple[tuple[str, tuple[str, ...]], ...] = (),
    transport: httpx.AsyncBaseTransport | None = None,
    renderer: Renderer | None = None,
    startup: StartupRead | None = None,
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
    notes = (*damage(loaded.transcripts), *preflight(scenario, planned, facts))
    notes += tuple(line for line in (remark, retokenised(scenario, facts)) if line is not None)
    prepared = Prepared(
        scenario=scenario,
        scenario_text=loaded.text,
        plan=planned,
        transcripts=loaded.transcripts,
        tokenised=tokenised,
        renderer=renderer,
        regime=with_gpus(
            regime_of(loaded, facts, Sent(renderer, planned, remark, retokenised(scenario, facts)), startup), ()
        ),
        seed=seed,
        nonce=nonce,
        model=facts.model,
        stale=stale,
        startup=startup,
    )
    return prepared, notes


def prepare_now(
    loaded: Loaded,
    wish: Wish,
    url: str,
    api_key: str | None,
    stale: tuple[tuple[str, tuple[str, ...]], ...] = (),
    startup: StartupRead | None = None,
) -> tuple[Prepared, tuple[str, ...]]:
    """As `prepare`, outside a loop. The result is handed over beside the loop, which may print whatever it returns."""
    made: list[tuple[Prepared, tuple[str, ...]]] = []

    async def make() -> None:
        made.append(await prepare(loaded, wish, url, api_key, stale, startup=startup))

    anyio.run(make)
    return made[0]


def _renderer(
    scenario: Scenario, facts: ServerFacts, url: str, api_key: str | None
) -> tuple[Renderer | None, str | None]:
    """The renderer and a remark about it; a run by ids without one that the server agrees with is refused.

    The client stays open only for a renderer that goes on asking the server.
    """
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    # loading the trust store takes longer than all questions to a server near by
    verify = not url.startswith("http://")
    http = httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60.0, verify=verify)
    renderer: Renderer | None = None
    try:
        renderer = resolve(scenario.transcripts.tokenizer, url, facts.model, facts.model_root, http)
        agreed = agreement(renderer, url, facts.model, http)
    except TokenizerError:
        if scenario.sessions.prompt == "chat" and scenario.transcripts.tokenizer == "auto":
            return None, "no tokenizer: prompts are rendered by the server, depths follow from its usage"
        raise
    finally:
        if not isinstance(renderer, ServerRenderer):
            http.close()
    match agreed.outcome:
        case "different":
            raise TokenizerError(f"transcripts.tokenizer: {renderer.name} and the server differ: {agreed.detail}")
        case "unknown":
            return renderer, f"{renderer.name}: {agreed.detail}"
        case "same":
            return renderer, None


def retokenised(scenario: Scenario, facts: ServerFacts) -> str | None:
    """A remark where the model's own ids may not come back, though the next prompt is to be made of them."""
    if facts.engine is not None or scenario.sessions.prompt != "tokens" or scenario.sessions.replies != "live":
        return None
    return (
        "not known to send token ids: replies without them are tokenised again here, maybe not as the server has them"
    )


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
    target, reply, budget = scenario.sessions.target_depth, scenario.reply.max_tokens, scenario.canaries.max_tokens
    window = facts.max_model_len
    if window is not None:
        need = target + reply + _QUESTION_TOKENS + budget
        if need > window:
            raise ScenarioError(
                scenario.name,
                "sessions.target_depth",
                f"{target} tokens, a reply of {reply}, the recall question and its budget of {budget} need {need},"
                f" and max_model_len is {window}: {_fitting(target, reply, budget, window)}",
            )
    pool = facts.cache.pool_tokens if facts.cache is not None else None
    each = target + max(reply, budget)
    need_pool = planned.at_once * each
    if pool is None or need_pool <= pool:
        return ()
    fit = pool // each
    advice = f"--set sessions.at_once={fit}" if fit else f"--set sessions.target_depth={max(64, pool // 2)}"
    return (
        f"{planned.at_once} sessions of {target} tokens need {need_pool} tokens and the KV pool has {pool}:"
        f" expect preemptions; to avoid them {advice}",
    )


def damage(transcripts: tuple[Session, ...]) -> tuple[str, ...]:
    """A remark for each file of which lines were left out because they could not be read."""
    lost: dict[str, dict[str, int]] = {}
    for session in transcripts:
        for name, count in session.loss:
            if name in _DAMAGE:
                lost.setdefault(session.source, {})[name] = count
    advice = "`infermaxx transcripts stats` shows all that is lost"
    return tuple(
        f"{source}: lines left out: {', '.join(f'{count} {name}' for name, count in counts.items())}; {advice}"
        for source, counts in lost.items()
    )


def _fitting(target: int, reply: int, budget: int, window: int) -> str:
    """What to type so that the window suffices: less depth, and smaller budgets only where depth alone does not do."""
    changed = []
    if window - reply - budget - _QUESTION_TOKENS < min(target, window // 2):
        if reply > window // 8:
            reply = window // 8
            changed.append(f"--set reply.max_tokens={reply}")
        if budget > window // 4:
            budget = window // 4
            changed.append(f"--set canaries.max_tokens={budget}")
    fits = min(target, window - reply - budget - _QUESTION_TOKENS)
    if fits < _LEAST_DEPTH:
        return f"that is too small for any run; serve the model with a max_model_len of {_LEAST_WINDOW} or more"
    if fits < target:
        changed.append(f"--set sessions.target_depth={fits}")
    return " ".join(changed)
