"""From a scenario and a server to what a runner needs, or one clear line and nothing started."""

from __future__ import annotations

import secrets

import anyio
import httpx
import msgspec

from infermaxx_tui.core.blocks import Stretch, Words, stretches
from infermaxx_tui.core.events import StartupRead
from infermaxx_tui.core.gpu_regime import with_gpus
from infermaxx_tui.core.plan import Lengths, Plan, plan, resolve_limits
from infermaxx_tui.core.prefix_truth import RENDERED_AT_MOST, truth_lines
from infermaxx_tui.core.probes import deepest
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.replaying import (
    check_replay,
    is_trace,
    opens_of,
    replay_notes,
    spawns,
    trace_lengths,
    with_subagents,
)
from infermaxx_tui.core.scenario import Scenario, ScenarioError, Sessions
from infermaxx_tui.core.segments import TokenisedTranscript, end_of_turn
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
    check_replay(scenario, loaded.transcripts, loaded.source)
    tokenised = tokenised_by(renderer, loaded.transcripts)
    lengths = lengths_of(loaded.transcripts, tokenised, scenario.sessions)
    seed, nonce = scenario.seed, wish.nonce or secrets.token_hex(8)
    planned = with_subagents(plan(scenario, lengths, seed, nonce, wish.segment), loaded.transcripts, scenario.sessions)
    resolve_limits(scenario, planned)
    notes = (*damage(loaded.transcripts), *preflight(scenario, planned, facts))
    remarks = replay_notes(scenario, loaded.transcripts, planned)
    if renderer is not None and not is_trace(loaded.transcripts):
        most = 0 if isinstance(renderer, ServerRenderer) else RENDERED_AT_MOST
        remarks += truth_lines(loaded.transcripts, renderer, scenario.sessions.prompt == "chat", most)
    notes += remarks
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
        remarks=remarks,
        traces=made_text(renderer, loaded.transcripts, nonce),
        end_tokens=0 if renderer is None else len(end_of_turn(renderer)),
    )
    return prepared, notes


def tokenised_by(renderer: Renderer | None, transcripts: tuple[Session, ...]) -> tuple[TokenisedTranscript, ...]:
    """The transcripts as ids; none without a tokenizer, and of traces without text."""
    if renderer is None or is_trace(transcripts):
        return ()
    return tuple(tokenise_cached(session, renderer) for session in transcripts)


def made_text(
    renderer: Renderer | None, transcripts: tuple[Session, ...], nonce: str
) -> tuple[tuple[Stretch, ...], ...]:
    """What stands for the text of traces without any, another one in each run; none for other transcripts."""
    if renderer is None or not is_trace(transcripts):
        return ()
    return stretches(transcripts, Words(renderer, nonce))


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


def lengths_of(
    transcripts: tuple[Session, ...], tokenised: tuple[TokenisedTranscript, ...], sessions: Sessions | None = None
) -> tuple[Lengths, ...]:
    """Token counts of the transcripts; without a tokenizer a quarter of the characters, for chaining alone."""
    if is_trace(transcripts):
        lengths = [trace_lengths(session) for session in transcripts]
    elif tokenised:
        lengths = [
            Lengths(
                tuple(len(r.delta_ids) for r in t.requests), tuple(len(r.reply_ids) for r in t.requests), opens_of(s)
            )
            for s, t in zip(transcripts, tokenised, strict=True)
        ]
    else:
        lengths = [
            Lengths(
                tuple(sum(len(m.content) for m in r.delta) // 4 for r in t.requests),
                tuple(len(r.reply.content) // 4 for r in t.requests),
                opens_of(t),
            )
            for t in transcripts
        ]
    beside = (sessions or Sessions()).subagents == "parallel"
    children = {spawn.transcript for spawn in spawns(transcripts)} if beside else set()
    return tuple(
        msgspec.structs.replace(one, child=number in children) if children else one
        for number, one in enumerate(lengths)
    )


def preflight(scenario: Scenario, planned: Plan, facts: ServerFacts) -> tuple[str, ...]:
    """Remarks for people. Raises ScenarioError where the window cannot hold what the scenario wants."""
    target, reply = scenario.sessions.target_depth, scenario.reply.max_tokens
    asks = any(one.asks for one in planned.conversations)
    question, budget = (_QUESTION_TOKENS, scenario.canaries.max_tokens) if asks else (0, 0)
    window = facts.max_model_len
    if window is not None:
        need = target + reply + question + budget
        if need > window:
            asked = f", a reply of {reply}, the recall question and its budget of {budget}" if asks else ""
            raise ScenarioError(
                scenario.name,
                "sessions.target_depth",
                f"{target} tokens{asked or f' and a reply of {reply}'} need {need},"
                f" and max_model_len is {window}: {_fitting(target, reply, budget, window)}",
            )
        if (most := deepest(scenario.probes)) > window:
            raise ScenarioError(
                scenario.name,
                "probes",
                f"the deepest prompt and its reply need {most} tokens, and max_model_len is {window}:"
                " set smaller depths",
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
