"""Which tokenizer a run counts and replays with, and whether it is the server's.

Replay by ids is only as good as the ids: a tokenizer that is almost the server's makes prompts that are almost right,
and every miss would be blamed on the server. So both render the same probes, and a difference stops the run.
"""

from __future__ import annotations

from typing import Literal

import httpx
import msgspec

from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.transcript import Message, ToolCall
from infermaxx_tui.core.turns import TemplateRefused, TemplateUnfit, TokenizerError
from infermaxx_tui.renderers import TransformersRenderer, has_tokenizer
from infermaxx_tui.server_renderer import PROBE_TEXT, ServerRenderer, server_tokenizes

__all__ = [
    "Agreement",
    "ServerRenderer",
    "TemplateRefused",
    "TemplateUnfit",
    "TokenizerError",
    "TransformersRenderer",
    "agreement",
    "compare",
    "has_tokenizer",
    "resolve",
    "server_tokenizes",
]

_TOOLS = (
    '[{"type": "function", "function": {"name": "look_up", "description": "Looks a word up, e.g. ‘naïve’.",'
    ' "parameters": {"type": "object", "properties": {"word": {"type": "string"}, "most": {"type": "integer"}},'
    ' "required": ["word"]}}}]'
)
_CALL = ToolCall("call00001", "look_up", '{"word": "naïve <b>", "most": 3}')
_SYSTEM = Message("system", "You answer in one line.")
_ASK = Message("user", f"What is this?\n{PROBE_TEXT}")
_CALLING = Message("assistant", "I look it up.", tool_calls=(_CALL,))
_FOUND = Message("tool", '{"found": ["1", "2"]}\n\n', tool_call_id=_CALL.id, name=_CALL.name)
_REPLY = Message("assistant", "It is text.\n\n- with a list\n")
_PROBES: tuple[tuple[str, tuple[Message, ...], str], ...] = (
    ("a user's text", (_ASK,), ""),
    ("a system prompt", (_SYSTEM, _ASK), ""),
    ("a reply", (_ASK, _REPLY, _ASK), ""),
    ("a tool list", (_SYSTEM, _ASK), _TOOLS),
    ("a tool result", (_SYSTEM, _ASK, _CALLING, _FOUND), ""),
    ("all together", (_SYSTEM, _ASK, _CALLING, _FOUND, _REPLY, _ASK), _TOOLS),
)


class Agreement(msgspec.Struct, frozen=True):
    """Whether a renderer gives the server's ids: `unknown` if the server has no /tokenize; and why, in one line."""

    outcome: Literal["same", "different", "unknown"]
    detail: str


def resolve(choice: str, url: str | None, model: str, model_root: str | None, http: httpx.Client | None) -> Renderer:
    """The renderer that `transcripts.tokenizer` names.

    `auto` is the tokenizer in the server's model root if that is a directory here, else the server's /tokenize.
    `server` is the latter, `shipped` the package's own vocabulary; anything else is a directory or a hub name.
    `url` is the server's root, None without a server. Raises TokenizerError.
    """
    match choice:
        case "shipped":
            from infermaxx_tui.vocabulary import shipped

            return shipped()
        case "auto":
            return _auto(url, model, model_root, http)
        case "server":
            if url is None or http is None:
                raise TokenizerError('tokenizer "server": there is no server to ask; give a directory or "shipped"')
            if not server_tokenizes(http, model, url):
                raise TokenizerError(f"{url}: this server has no /tokenize; give the model's directory or a hub name")
            return ServerRenderer(http, model, url)
        case _:
            return TransformersRenderer(choice)


def _auto(url: str | None, model: str, model_root: str | None, http: httpx.Client | None) -> Renderer:
    tried = "there is no server to ask"
    if model_root and has_tokenizer(model_root):
        try:
            return TransformersRenderer(model_root)
        except TokenizerError as error:
            tried = str(error)
    if url is not None and http is not None:
        if server_tokenizes(http, model, url):
            return ServerRenderer(http, model, url)
        tried = f"{url} has no /tokenize, and its model root {model_root or '(not told)'} is no directory here"
    raise TokenizerError(
        f'tokenizer "auto": {tried}; set transcripts.tokenizer to a directory, a hub name or "shipped"'
    )


def agreement(renderer: Renderer, url: str, model: str, http: httpx.Client) -> Agreement:
    """Whether `renderer` gives the ids of the server at `url`. A run must not start on `different`.

    Raises TokenizerError if the server cannot be reached.
    """
    if isinstance(renderer, ServerRenderer):
        return Agreement("same", "the server's own /tokenize")
    if not server_tokenizes(http, model, url):
        return Agreement("unknown", "the server has no /tokenize, so its ids could not be compared")
    mismatch = compare(renderer, ServerRenderer(http, model, url))
    if mismatch is None:
        return Agreement("same", "equal to the server's /tokenize on all probes")
    return Agreement("different", mismatch)


def compare(local: Renderer, server: Renderer) -> str | None:
    """The first difference between two renderers on probe conversations, in one line; None if there is none.

    Probes that both templates refuse are left out; one that only one of them refuses is a difference.
    """
    compared = 0
    for what, messages, tools in _PROBES:
        for prompt in (False, True):
            ours, theirs = (_rendered(renderer, messages, tools, prompt) for renderer in (local, server))
            if isinstance(ours, str) and isinstance(theirs, str):
                continue
            if isinstance(ours, str) or isinstance(theirs, str):
                who, why = (local.name, ours) if isinstance(ours, str) else (server.name, theirs)
                return f"tokenizers differ on {what}: only {who} refuses it ({why}); {_ADVICE}"
            if ours != theirs:
                return f"tokenizers differ on {what}: {_difference(local, ours, server, theirs)}; {_ADVICE}"
            compared += 1
    plain = local.encode(PROBE_TEXT), server.encode(PROBE_TEXT)
    if plain[0] != plain[1]:
        return f"tokenizers differ on plain text: {_difference(local, plain[0], server, plain[1])}; {_ADVICE}"
    return None if compared else f"{local.name} and {server.name} refuse every probe conversation; {_ADVICE}"


_ADVICE = 'set transcripts.tokenizer to "server" or to the served model\'s directory'


def _rendered(renderer: Renderer, messages: tuple[Message, ...], tools: str, prompt: bool) -> tuple[int, ...] | str:
    """The ids, or why the template refuses."""
    try:
        return renderer.render(messages, tools, prompt)
    except ValueError as error:
        return str(error)


def _difference(local: Renderer, ours: tuple[int, ...], server: Renderer, theirs: tuple[int, ...]) -> str:
    pairs = enumerate(zip(ours, theirs, strict=False))
    place = next((n for n, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
    sides = ((local, ours), (server, theirs))
    told = (f"{who.name} has {_token(who, ids, place)} of {len(ids)}" for who, ids in sides)
    return f"at token {place} {', '.join(told)}"


def _token(renderer: Renderer, ids: tuple[int, ...], place: int) -> str:
    if place >= len(ids):
        return "no token"
    return f"{ids[place]} {renderer.decode(ids[place : place + 1])!r}"
