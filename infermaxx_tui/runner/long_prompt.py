"""Long prompts of recorded text, of about so many tokens, with a question at their end."""

from __future__ import annotations

from typing import Final

from infermaxx_tui.core.transcript import Message
from infermaxx_tui.runner.lines import Line, Prompt

_CHARS_A_TOKEN: Final = 4
_ROOM_TOKENS: Final = 64
"""For the question behind a long text, and the template around both."""
_QUESTION: Final = "Explain what happens in the text above, step by step and in full sentences, at some length."


def long_prompt(line: Line, own: str, text: str, tokens: int) -> Prompt:
    """A prompt of about so many tokens that begins with `own`: the text as often as it takes, and a question."""
    chars = tokens * _CHARS_A_TOKEN
    known = line.measure((Message("user", text[:chars]),))
    if known:
        chars = max(chars, round(1.2 * chars * tokens / known))
    body = (text * (1 + chars // max(len(text), 1)))[:chars]
    told = (Message("user", f"{own}\n{body}"),)
    fitted, _ = line.fit(told, tokens - _ROOM_TOKENS)
    line.begin(fitted, "")
    line.close_with(Message("assistant", "I have read it."))
    prompt = line.branch(_QUESTION)
    if prompt.ids is None:
        return prompt
    more = tokens - len(prompt.ids)
    fitted, _ = line.fit(told, tokens - _ROOM_TOKENS + more)
    line.begin(fitted, "")
    line.close_with(Message("assistant", "I have read it."))
    return line.branch(_QUESTION)
