"""A model's own tokenizer and chat template, through transformers, as a `core.render.Renderer`.

The ids are those that a server makes of the same conversation, except that control-token strings in what people said
stay plain text. transformers is imported when the first renderer is made, since that takes seconds.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer

from infermaxx_tui.core.chatform import (
    any_of,
    chat_messages,
    chat_tools,
    found_in,
    hide,
    hide_all,
    plain_pieces,
    stand_ins,
)
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.core.turns import THINK_PAIRS, TemplateRefused, TokenizerError

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "tekken.json", "vocab.json")
"""A directory with one of these holds a tokenizer."""

_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


class _AddedToken(Protocol):
    content: str
    special: bool


class _Tokenizer(Protocol):
    """What is used of a transformers tokenizer, which publishes no types."""

    chat_template: str | dict[str, str] | None
    added_tokens_decoder: dict[int, _AddedToken]

    def get_vocab(self) -> dict[str, int]: ...
    def apply_chat_template(
        self, conversation: object, *, tools: object, add_generation_prompt: bool, tokenize: bool
    ) -> str: ...
    def encode(self, text: str, *, add_special_tokens: bool, verbose: bool) -> list[int]: ...
    def decode(self, ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str: ...
    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]: ...


def one_line(error: BaseException | str, limit: int = 200) -> str:
    """The first line of an error that says something, cut to `limit` characters."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


class TransformersRenderer:
    """The tokenizer of a directory or a hub name. Raises TokenizerError if there is none, or no chat template."""

    def __init__(self, source: str) -> None:
        self._tokenizer = _load(source)
        template = self._tokenizer.chat_template
        if not template:
            raise TokenizerError(
                f"{source}: the tokenizer has no chat template; add chat_template.jinja to it,"
                " or set transcripts.tokenizer to another directory"
            )
        folder = Path(source).expanduser()
        self._name = folder.resolve().name if folder.is_dir() else source
        written = template if isinstance(template, str) else json.dumps(template, sort_keys=True)
        self._template_sha256 = hashlib.sha256(written.encode()).hexdigest()
        added = self._tokenizer.added_tokens_decoder
        self._added = {token.content: token_id for token_id, token in added.items()}
        self._control = any_of(token.content for token in added.values() if _is_control(token, written))
        self._sha256 = _vocabulary_sha256(self._tokenizer)
        self._fast = _fast(self._tokenizer)

    @property
    def name(self) -> str:
        """The directory's own name, or the hub name."""
        return self._name

    @property
    def sha256(self) -> str:
        """Hash of the fast tokenizer's whole state, or of the sorted vocabulary where there is no fast one."""
        return self._sha256

    @property
    def template_sha256(self) -> str:
        """Hash of the chat template; of all of them as JSON where there are several."""
        return self._template_sha256

    def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
        """Ids of the rendered conversation; `tools` is JSON text or empty. Raises TemplateRefused."""
        try:
            asked, listed = chat_messages(messages), chat_tools(tools)
        except ValueError as error:
            raise TemplateRefused(f"{self.name}: {error}") from None
        said = [asked, listed]
        hidden = stand_ins(found_in(said, self._control), said)
        text = self._rendered(hide_all(asked, hidden), listed and hide_all(listed, hidden), add_generation_prompt)
        return self._encode_pieces(plain_pieces(text, hidden))

    def _rendered(self, asked: list[object], tools: list[object] | None, add_generation_prompt: bool) -> str:
        import jinja2

        try:
            return self._tokenizer.apply_chat_template(
                asked, tools=tools, add_generation_prompt=add_generation_prompt, tokenize=False
            )
        except (jinja2.TemplateError, TypeError, ValueError, KeyError) as error:
            why = one_line(error)
            raise TemplateRefused(f"{self.name}: the chat template refuses this conversation: {why}") from None

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of plain text; control-token strings inside it stay plain text."""
        hidden = stand_ins(found_in(text, self._control), text)
        return self._encode_pieces(plain_pieces(hide(text, hidden), hidden))

    def _encode_pieces(self, pieces: tuple[str, ...]) -> tuple[int, ...]:
        ids: list[int] = []
        for place, piece in enumerate(pieces):
            ids += self._encode_native(piece) if place == 0 or not self._puts_space_first else self._inner(piece)
        return tuple(ids)

    def _encode_native(self, text: str) -> list[int]:
        if self._fast is not None:
            return self._fast.encode(text, add_special_tokens=False).ids
        return self._tokenizer.encode(text, add_special_tokens=False, verbose=False)

    @functools.cached_property
    def _puts_space_first(self) -> bool:
        """Whether the tokenizer puts a space before a text, as SentencePiece does: no inner piece must get one."""
        first = self._tokenizer.convert_ids_to_tokens(self._encode_native("a")[:1])
        return bool(first) and first[0].startswith("▁")

    def _inner(self, piece: str) -> list[int]:
        """Ids of a piece that is not the first one: encoded behind a line feed, which is cut off again."""
        lead = self._encode_native("\n")
        ids = self._encode_native(f"\n{piece}")
        return ids[len(lead) :] if ids[: len(lead)] == lead else self._encode_native(piece)

    def decode(self, ids: tuple[int, ...]) -> str:
        """Text of ids, special tokens included."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def special_id(self, token: str) -> int | None:
        """Id of an added token such as `<think>`, None if the vocabulary has no such token."""
        return self._added.get(token)


def _is_control(token: _AddedToken, template: str) -> bool:
    """Whether the string of an added token, met in what people said, must not become that token.

    Special tokens always are; others if the template writes them, such as `<tool_call>`. Blanks never are: some
    vocabularies have line feeds among the added tokens, and ordinary text must be tokenised as a server does.
    """
    if token.content.isspace() or len(token.content) < 2:
        return False
    thinks = any(token.content in pair for pair in THINK_PAIRS)
    return token.special or thinks or token.content in template


def _fast(tokenizer: _Tokenizer) -> Tokenizer | None:
    """The Rust tokenizer inside, which gives the same ids without the wrapper's cost; None where there is none."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        return None
    backend.no_padding()
    backend.no_truncation()
    return backend


def _vocabulary_sha256(tokenizer: _Tokenizer) -> str:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    state = json.dumps(tokenizer.get_vocab(), sort_keys=True) if backend is None else backend.to_str()
    return hashlib.sha256(str(state).encode()).hexdigest()


def has_tokenizer(directory: str) -> bool:
    """Whether this is a directory on this machine that holds a tokenizer."""
    folder = Path(directory).expanduser()
    return bool(directory) and folder.is_dir() and any((folder / name).is_file() for name in TOKENIZER_FILES)


def _load(source: str) -> _Tokenizer:
    """The tokenizer of a directory or a hub name; code that a repository brings along is never run."""
    if not source:
        raise TokenizerError("the tokenizer's name is empty; give the directory of a tokenizer or a hub name")
    folder = Path(source).expanduser()
    local = folder.is_dir()
    if local and not has_tokenizer(source):
        raise TokenizerError(f"{source}: no tokenizer here; a tokenizer's directory holds tokenizer.json")
    if not local and (folder.exists() or not _HUB_NAME.fullmatch(source)):
        raise TokenizerError(f"{source}: no such directory; give the directory of a tokenizer or a hub name")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    where = str(folder) if local else source
    try:
        return _from_pretrained(where, local)
    except (OSError, ValueError, KeyError, TypeError, ImportError, AttributeError) as error:
        advice = "the files are damaged or of another kind" if local else _hub_advice()
        raise TokenizerError(f"{source}: no tokenizer could be loaded: {one_line(error)}; {advice}") from None
    except Exception as error:
        if type(error) is not Exception:
            raise
        # The Rust parser of tokenizer.json raises nothing more specific.
        raise TokenizerError(f"{source}: tokenizer.json cannot be read: {one_line(error)}") from None


def _from_pretrained(where: str, local: bool) -> _Tokenizer:
    from transformers import AutoTokenizer
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        loaded: _Tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=False, local_files_only=local)
    finally:
        logging.set_verbosity(before)
    return loaded


def _hub_advice() -> str:
    offline = any(os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE") for name in _OFFLINE)
    return f"{_OFFLINE[0]} forbids the hub here: give a directory" if offline else "check the name, or give a directory"
