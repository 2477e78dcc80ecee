"""Redacts whole sessions by their structure: arguments are read as JSON and written as JSON, ids become numbers.

What a home path or a prompt gives away is a name, and names stand bare elsewhere: all texts are read for names first.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from infermaxx_tui.core.redact import Count, identities, redact
from infermaxx_tui.core.redact_rules import FIRST
from infermaxx_tui.core.transcript import Message, Request, Session, ToolCall

_KEYS = re.compile(
    r"(?i)^(?:.*[_-])?(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|auth|authorization|"
    r"cookie|set-cookie|credentials?|(?:access|auth|refresh|id|bearer|session)[_-]?token|signature|encrypted_content)$"
)
LENGTHS_CHANGED, TOKEN_IDS_DROPPED, REDACTED = "lengths_changed", "token_ids_dropped", "redacted"
"""Names in the ledger: texts with more or fewer tokens than before, requests without their ids, things taken out."""


class SessionRedactor:
    """Redacts one session after another. The same id and the same name become the same in all of them."""

    def __init__(self, count: Count | None) -> None:
        self.found: Counter[str] = Counter()
        """What was taken out so far, by kind."""
        self._count = count
        self._names: set[str] = set()
        self._sessions: dict[str, str] = {}
        self._calls: dict[str, str] = {}
        self._changed = 0

    def learn(self, session: Session) -> None:
        """Takes in the names that a session gives away, which may stand bare in sessions before it."""
        for text in _texts(session):
            self._names |= identities(text)

    def session(self, session: Session) -> Session:
        """The session as it may be shown to others."""
        before = self.found.total()
        self._changed = 0
        self._calls = {}
        self.learn(session)
        name = self.session_name(session.id)
        windows = tuple(
            msgspec.structs.replace(window, requests=tuple(map(self._request, window.requests)))
            for window in session.windows
        )
        loss = Counter(dict(session.loss))
        tools, model = self._json(session.tools), None if session.model is None else self._text(session.model)
        loss[REDACTED] += self.found.total() - before
        loss[LENGTHS_CHANGED] += self._changed
        loss[TOKEN_IDS_DROPPED] += sum(request.ids is not None for request in session.requests)
        return msgspec.structs.replace(
            session,
            id=name,
            source=f"{name}.jsonl",
            windows=windows,
            tools=tools,
            parent=None if session.parent is None else self.session_name(session.parent),
            model=model,
            loss=tuple(sorted((kind, count) for kind, count in loss.items() if count)),
        )

    def session_name(self, name: str) -> str:
        """What a session is called from now on: numbers in the order in which they are asked for."""
        return self._sessions.setdefault(name, f"session-{len(self._sessions) + 1}")

    def _request(self, request: Request) -> Request:
        delta = tuple(map(self._message, request.delta))
        return msgspec.structs.replace(request, delta=delta, reply=self._message(request.reply), ids=None)

    def _message(self, message: Message) -> Message:
        return Message(
            message.role,
            self._text(message.content),
            self._text(message.reasoning),
            tuple(ToolCall(self._call(c.id), self._text(c.name), self._json(c.arguments)) for c in message.tool_calls),
            self._call(message.tool_call_id),
            self._text(message.name),
        )

    def _call(self, name: str) -> str:
        return self._calls.setdefault(name, f"call_{len(self._calls) + 1:05}") if name else ""

    def _text(self, text: str) -> str:
        if not text:
            return text
        done = redact(text, self._names, self._count)
        self.found.update(dict(done.found))
        if done.text != text and not done.same_length:
            self._changed += 1
        return done.text

    def _json(self, text: str) -> str:
        """JSON text with its strings redacted; as it was where nothing had to go, plain text where it is no JSON."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return self._text(text)
        changed = self._changed
        new = self._value(value)
        if new == value:
            return self._text(text)
        self._changed = changed
        out = json.dumps(new, ensure_ascii=False)
        self._changed += self._count is None or self._count(out) != self._count(text)
        return self._text(out)

    def _value(self, value: object, key: str = "") -> object:
        match value:
            case str() if value and _KEYS.match(key) and not value.startswith(FIRST):
                return self._secret(value)
            case str():
                return self._text(value)
            case list():
                return [self._value(item, key) for item in value]
            case dict():
                return {self._text(str(name)): self._value(item, str(name)) for name, item in value.items()}
            case _:
                return value

    def _secret(self, value: str) -> str:
        """A placeholder for what stands under a name such as `password`."""
        self.found["named-secret"] += 1
        out = f"{FIRST}:named-secret]"
        if self._count is not None:
            short = self._count(value) - self._count(out)
            out = f"{FIRST}:named-secret{' x' * max(short, 0)}]"
        return out


def _texts(session: Session) -> Iterator[str]:
    yield session.tools
    for request in session.requests:
        for message in (*request.delta, request.reply):
            yield message.content
            yield message.reasoning
            for call in message.tool_calls:
                yield call.arguments
