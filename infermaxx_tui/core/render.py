"""What a tokenizer must be able to do, so that core needs none of the libraries that do it."""

from __future__ import annotations

from typing import Protocol

from infermaxx_tui.core.transcript import Message


class Renderer(Protocol):
    """Turns messages into the token ids that a server would see, and ids into text."""

    @property
    def name(self) -> str:
        """What the regime calls it."""

    @property
    def sha256(self) -> str:
        """Hash of vocabulary and merges."""

    @property
    def template_sha256(self) -> str:
        """Hash of the chat template."""

    def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
        """Ids of the rendered conversation; `tools` is JSON text or empty. Only the template makes special tokens."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of plain text; control-token strings inside it stay plain text."""

    def decode(self, ids: tuple[int, ...]) -> str:
        """Text of ids, special tokens included."""

    def special_id(self, token: str) -> int | None:
        """Id of a special token such as `<think>`, None if the vocabulary has no such token."""
