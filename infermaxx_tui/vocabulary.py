"""The package's own vocabulary, because the demo, the tests and the embedded server must count tokens exactly without
a model on disk and without importing transformers, which takes seconds.

A chat template mixes control tokens with what people said, and what people said may spell a control token. So every
text of a conversation goes through the template as an opaque mark, and only the template's own text can become a
control token.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from infermaxx_tui.core.transcript import Message

HIDDEN_TOKENS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
"""Special tokens that a server leaves out of a completion's text; the others are spelled there."""
SPECIAL_TOKENS = (
    *HIDDEN_TOKENS,
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
"""Special tokens of the shipped vocabulary, in the order of their ids."""

_MARK = re.compile("\ufdd0([0-9]+)\ufdd1")  # two noncharacters, which no template holds


class VocabularyError(ValueError):
    """The conversation or the tool list cannot be rendered: what the template or the JSON parser said."""


class _Shield:
    """Texts of one conversation, each behind a mark."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def hide(self, text: str) -> str:
        """A mark that stands for `text`; the empty text stands for itself, so that templates can test for it."""
        if not text:
            return ""
        self._texts.append(text)
        return f"\ufdd0{len(self._texts) - 1}\ufdd1"

    def hide_all(self, value: object) -> object:
        """The same JSON value with every string behind a mark, keys left alone."""
        match value:
            case str():
                return self.hide(value)
            case list():
                return [self.hide_all(item) for item in value]
            case dict():
                return {key: self.hide_all(item) for key, item in value.items()}
            case _:
                return value

    def reveal(self, value: object) -> object:
        """The value that `hide_all` was given."""
        match value:
            case str():
                return "".join(text for text, _ in self.parts(value))
            case list() | tuple():
                return [self.reveal(item) for item in value]
            case dict():
                return {key: self.reveal(item) for key, item in value.items()}
            case _:
                return value

    def dump(self, value: object, indent: int | None = None) -> str:
        """The `tojson` of chat templates: no HTML escaping, and the result is data, not template."""
        return self.hide(json.dumps(self.reveal(value), ensure_ascii=False, indent=indent))

    def parts(self, rendered: str) -> Iterable[tuple[str, bool]]:
        """The rendered text in pieces, each with whether the template wrote it."""
        for place, piece in enumerate(_MARK.split(rendered)):
            yield (self._texts[int(piece)], False) if place % 2 else (piece, True)


class Vocabulary:
    """A tokenizer and a chat template as a `core.render.Renderer`. Ids and text round-trip for all valid Unicode."""

    def __init__(self, name: str, tokenizer_json: str, template: str) -> None:
        self._name = name
        self._tokenizer = Tokenizer.from_str(tokenizer_json)
        self._tokenizer.encode_special_tokens = True
        added = self._tokenizer.get_added_tokens_decoder()
        self._special_ids = {token.content: token_id for token_id, token in added.items()}
        names = sorted(self._special_ids, key=len, reverse=True)
        self._special = re.compile("(" + "|".join(map(re.escape, names)) + ")") if names else None
        self._sha256 = hashlib.sha256(tokenizer_json.encode()).hexdigest()
        self._template_sha256 = hashlib.sha256(template.encode()).hexdigest()
        self._template = _environment().from_string(template)

    @property
    def name(self) -> str:
        """What the regime calls it."""
        return self._name

    @property
    def sha256(self) -> str:
        """Hash of the tokenizer's file."""
        return self._sha256

    @property
    def template_sha256(self) -> str:
        """Hash of the chat template's file."""
        return self._template_sha256

    @property
    def size(self) -> int:
        """Ids run from 0 to one less."""
        return self._tokenizer.get_vocab_size()

    def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
        """Ids of the rendered conversation; `tools` is JSON text or empty. Raises VocabularyError."""
        shield = _Shield()
        rendered = self._rendered(shield, messages, tools, add_generation_prompt)
        ids: list[int] = []
        plain: list[str] = []
        for text, from_template in shield.parts(rendered):
            if not from_template or self._special is None:
                plain.append(text)
                continue
            for place, piece in enumerate(self._special.split(text)):
                if place % 2 == 0:
                    plain.append(piece)
                    continue
                ids += self.encode("".join(plain))
                plain.clear()
                ids.append(self._special_ids[piece])
        ids += self.encode("".join(plain))
        return tuple(ids)

    def render_text(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> str:
        """The rendered conversation as a reader would see it. Raises VocabularyError."""
        shield = _Shield()
        rendered = self._rendered(shield, messages, tools, add_generation_prompt)
        return "".join(text for text, _ in shield.parts(rendered))

    def _rendered(self, shield: _Shield, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> str:
        try:
            return self._template.render(
                messages=[_as_openai(message, shield) for message in messages],
                tools=shield.hide_all(json.loads(tools)) if tools else None,
                add_generation_prompt=add_generation_prompt,
                shield=shield,
            )
        except json.JSONDecodeError as error:
            raise VocabularyError(f"the tool list is not JSON: {error}") from None
        except jinja2.TemplateError as error:
            raise VocabularyError(f"the chat template refuses this conversation: {error}") from None

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of plain text; control-token strings inside it stay plain text."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids) if text else ()

    def encode_prompt(self, text: str) -> tuple[int, ...]:
        """Ids of a prompt that is text, as a server reads it: control-token strings become control tokens."""
        ids: list[int] = []
        for place, piece in enumerate(self._special.split(text) if self._special else (text,)):
            ids += (self._special_ids[piece],) if place % 2 else self.encode(piece)
        return tuple(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens included; ids that the vocabulary has not are left out."""
        table = self.token_bytes
        try:
            return b"".join(map(table.__getitem__, ids)).decode("utf-8", "replace")
        except IndexError:
            return b"".join(table[i] for i in ids if 0 <= i < len(table)).decode("utf-8", "replace")

    def special_id(self, token: str) -> int | None:
        """Id of a special token such as `<think>`, None if the vocabulary has no such token."""
        return self._special_ids.get(token)

    def token(self, token_id: int) -> str:
        """How the vocabulary's file spells an id, e.g. `Ġworld`; empty for an id that it has not."""
        return self._tokenizer.id_to_token(token_id) or ""

    @functools.cached_property
    def token_bytes(self) -> tuple[bytes, ...]:
        """What each id adds to a text, by id."""
        table = [b""] * self.size
        alphabet = _byte_alphabet()
        for token, token_id in self._tokenizer.get_vocab(with_added_tokens=True).items():
            if token in self._special_ids:
                table[token_id] = token.encode()
            else:
                table[token_id] = bytes(alphabet[char] for char in token)
        return tuple(table)


def shipped() -> Vocabulary:
    """The package's own vocabulary and chat template; loaded once."""
    return _shipped()


@functools.lru_cache(maxsize=1)
def _shipped() -> Vocabulary:
    data = resources.files("infermaxx_tui") / "data"
    tokenizer_json = (data / "tokenizer.json").read_text("utf-8")
    return Vocabulary("shipped", tokenizer_json, (data / "chat_template.jinja").read_text("utf-8"))


def _as_openai(message: Message, shield: _Shield) -> dict[str, object]:
    """The message in the shape that chat templates expect, its texts hidden."""
    out: dict[str, object] = {"role": message.role, "content": shield.hide(message.content)}
    if message.reasoning:
        out["reasoning"] = shield.hide(message.reasoning)
    if message.tool_calls:
        out["tool_calls"] = [
            {
                "id": shield.hide(call.id),
                "type": "function",
                "function": {"name": shield.hide(call.name), "arguments": shield.hide(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return out


def _environment() -> ImmutableSandboxedEnvironment:
    """Jinja as transformers sets it up for chat templates."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])

    @jinja2.pass_context
    def tojson(context: jinja2.runtime.Context, value: object, indent: int | None = None) -> str:
        shield = context["shield"]
        if not isinstance(shield, _Shield):
            raise TypeError("the template was rendered without a shield")
        return shield.dump(value, indent)

    def raise_exception(message: str) -> NoReturn:
        raise jinja2.TemplateError(message)

    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    return environment


@functools.lru_cache(maxsize=1)
def _byte_alphabet() -> dict[str, int]:
    """Which byte each character of a byte-level vocabulary stands for (the table of GPT-2's tokenizer).

    The printable characters of Latin-1 stand for themselves; the other bytes take the characters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}
