"""No planted secret survives redaction in any encoding, nothing harmless is touched, a second time changes nothing."""

from __future__ import annotations

import base64
import json
import re
import string
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.redact import find, identities, redact
from infermaxx_tui.core.redact_lengths import BLOCK_TOKENS, rows
from infermaxx_tui.core.redact_session import LENGTHS_CHANGED, REDACTED, TOKEN_IDS_DROPPED, SessionRedactor
from infermaxx_tui.core.redact_views import View, joined, readings
from infermaxx_tui.core.segments import tokenise
from infermaxx_tui.core.transcript import Message, Request, Session, TokenIds, ToolCall, Window
from infermaxx_tui.importers import load_all
from infermaxx_tui.shipped import shipped_root
from infermaxx_tui.vocabulary import shipped

ALNUM = string.ascii_letters + string.digits
SHAPES = {
    "anthropic": ("sk-ant-api03-", ALNUM + "-_", 40),
    "openai": ("sk-proj-", ALNUM, 48),
    "openrouter": ("sk-or-v1-", "0123456789abcdef", 64),
    "hugging-face": ("hf_", ALNUM, 34),
    "github": ("ghp_", ALNUM, 36),
    "github-fine": ("github_pat_", ALNUM + "_", 60),
    "gitlab": ("glpat-", ALNUM, 20),
    "aws": ("AKIA", string.ascii_uppercase + string.digits, 16),
    "google": ("AIza", ALNUM + "-_", 35),
    "slack": ("xoxb-", ALNUM, 40),
    "npm": ("npm_", ALNUM, 36),
    "stripe": ("sk_live_", ALNUM, 24),
    "nvidia": ("nvapi-", ALNUM, 64),
    "jwt": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0Miwi", ALNUM, 30),
}
KEYS = st.one_of(
    [
        st.text(alphabet, min_size=size, max_size=size)
        .filter(lambda body: re.search("[0-9]", body) is not None and body[-1:].isalnum() and body[:1].isalnum())
        .map(lambda body, prefix=prefix: prefix + body)  # type: ignore[misc]  # a default binds the loop's value
        for prefix, alphabet, size in SHAPES.values()
    ]
)


def _hidden(key: str, at: int, between: str) -> str:
    cut = 1 + at % (len(key) - 2)
    return key[:cut] + between + key[cut:]


ENCODINGS: dict[str, Callable[[str, int], str]] = {
    "plain": lambda key, at: f"the key is {key}, keep it",
    "assigned": lambda key, at: f"export API_KEY={key}\nDEBUG=1",
    "json": lambda key, at: json.dumps({"out": f"line\n{key}\nline"}),
    "json twice": lambda key, at: json.dumps(json.dumps({"out": f"line\n{key}\nline"})),
    "unicode escapes": lambda key, at: "".join(f"\\u{ord(char):04x}" for char in key),
    "byte escapes": lambda key, at: "".join(f"\\x{ord(char):02x}" for char in key),
    "url": lambda key, at: f"https://api.example.com/?key={quote(key)}&x=1",
    "url, all of it": lambda key, at: "".join(f"%{ord(char):02X}" for char in key),
    "base64": lambda key, at: base64.b64encode(b"x" * (at % 7) + key.encode()).decode(),
    "base64, url-safe": lambda key, at: base64.urlsafe_b64encode(f'{{"user": "{key}"}}'.encode()).decode(),
    "base64 in lines": lambda key, at: base64.encodebytes(b"header " * 12 + key.encode()).decode(),
    "hex": lambda key, at: key.encode().hex(),
    "hex in pairs": lambda key, at: key.encode().hex(" "),
    "split by a colour": lambda key, at: _hidden(key, at, "\x1b[1;31m"),
    "split by a written colour": lambda key, at: json.dumps(_hidden(key, at, "\x1b[0m")),
    "split by a line": lambda key, at: _hidden(key, at, "\n"),
    "split by a line and spaces": lambda key, at: _hidden(key, at, "\r\n    "),
    "split by nothing visible": lambda key, at: _hidden(key, at, "\u200b"),
    "inside a path": lambda key, at: f"/srv/cache/{key}/file.txt",
}


def plain_reading(text: str) -> str:
    """What a determined reader gets out of a text: all that may hide a key taken away."""
    out = list(readings(text))[-1].text
    out = joined(View(out)).text
    decoded = []
    for run in re.findall(r"[A-Za-z0-9+/_-]{16,}", re.sub(r"\s", "", text)):
        plain = run.replace("-", "+").replace("_", "/")
        for skip in range(4):
            part = plain[skip:]
            part = part[: len(part) - (len(part) % 4 == 1)]
            decoded.append(base64.b64decode(part + "=" * (-len(part) % 4)).decode("latin-1"))
    for run in re.findall(r"[0-9a-f]{16,}", text.replace(" ", "")):
        decoded += [bytes.fromhex(run[skip : skip + (len(run) - skip) // 2 * 2]).decode("latin-1") for skip in (0, 1)]
    return "\n".join((text, out, *decoded))


@settings(max_examples=60)
@given(key=KEYS, at=st.integers(0, 1000), before=st.sampled_from(["", "see ", 'x = "', "(", "\n"]))
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_key_survives_in_any_encoding(encoding: str, key: str, at: int, before: str) -> None:
    text = f"{before}{ENCODINGS[encoding](key, at)}\nand then the usual words"
    # as much as a reader would need to find the rest: what is left of a cut key must be short
    piece = key[len(key) // 3 : len(key) // 3 + 14]
    assert piece in plain_reading(text)
    done = redact(text)
    assert piece not in plain_reading(done.text)
    assert done.found
    assert redact(done.text).text == done.text


def count(text: str) -> int:
    """Tokens of the shipped vocabulary."""
    return len(shipped().encode(text))


@settings(max_examples=60)
@given(key=KEYS, at=st.integers(0, 1000))
@pytest.mark.parametrize("encoding", ["plain", "json", "url", "base64", "hex", "split by a line"])
def test_the_length_is_kept_and_a_second_time_changes_nothing(encoding: str, key: str, at: int) -> None:
    text = f"before {ENCODINGS[encoding](key, at)} after"
    done = redact(text, (), count)
    assert done.same_length == (count(done.text) == count(text))
    assert done.same_length
    again = redact(done.text, (), count)
    assert again.text == done.text
    assert not again.found


@settings(max_examples=150)
@given(
    st.lists(
        st.sampled_from(["/home/", "alice", "@", ".corp", "=", "KEY", "sk-", "\n", " ", '"', "\\n", "ab12", "[", ":"])
    )
)
def test_whatever_is_redacted_stays_as_it_is_the_second_time(parts: list[str]) -> None:
    text = "".join(parts)
    names = identities(text)
    done = redact(text, names)
    assert redact(done.text, names).text == done.text


@pytest.mark.parametrize(
    ("text", "gone", "kind"),
    [
        ("cd /home/alice/proj", "alice", "home"),
        ("C:\\Users\\alice\\x", "alice", "home"),
        ('{"p": "C:\\\\Users\\\\alice"}', "alice", "home"),
        ("file:///Users/alice/x", "alice", "home"),
        ("/mnt/c/Users/alice/x", "alice", "home"),
        ("%2Fhome%2Falice%2Fx", "alice", "home"),
        (".claude/projects/-home-alice-demo/", "alice", "dashed-home"),
        ("ls ~alice/x", "alice", "tilde"),
        ("alice@build7:~/x$ ls", "alice", "prompt-user"),
        ("alice@build7:~/x$ ls", "build7", "prompt-host"),
        ("mail a.person@some-firm.io now", "a.person@some-firm.io", "e-mail"),
        ("ssh db1.prod.internal", "db1.prod", "host"),
        ("from 10.12.13.14 port 22", "10.12.13.14", "ip"),
        ("ether 3c:22:fb:01:02:03", "3c:22:fb:01:02:03", "mac"),
        ("git@host.example.com:firm/secret.git", "firm/secret", "remote"),
        ("postgres://bob:swordfish9@db/x", "swordfish9", "url-login"),
        ("DB_PASSWORD=swordfish9", "swordfish9", "variable"),
        ('"client_secret": "swordfish9"', "swordfish9", "password"),
        ("Authorization: Bearer abcdefgh.12345678", "abcdefgh.12345678", "authorization"),
        ("x-api-key: swordfish9", "swordfish9", "header"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabcd\n-----END RSA PRIVATE KEY-----", "MIIE", "private-key"),
        ("-----BEGIN PRIVATE KEY-----\\nMIIEabcd", "MIIE", "private-key"),
    ],
)
def test_what_tells_who_where_and_how_to_get_in_goes(text: str, gone: str, kind: str) -> None:
    done = redact(f"so {text} it is")
    assert gone not in done.text
    assert kind in dict(done.found)
    assert redact(done.text).text == done.text


@pytest.mark.parametrize(
    "text",
    [
        "from pathlib import Path\n\n@pytest.fixture\ndef key(token: str) -> None: ...",
        '{"code": "\\n@pytest.mark.parametrize\\n"}',
        "/home/user/x /Users/runner/y ~/z 127.0.0.1 0.0.0.0 192.0.2.7 user@example.com git@github.com",
        "skeleton-key sk-learn disk-0a1b2c3d4e5f6a7b8c9d0e1f task-runner-with-a-long-name",
        "ghp_ hf_hub AKIA pypi-publish-action-of-somebody",
        "max_tokens=512 next_token = tokens[0] TOKEN_COUNT = 5 key: value password: str",
        "d41d8cd98f00b204e9800998ecf8427e 2026-03-01T06:24:56 react@18.2.0 1.2.3",
        "a_very_long_identifier_of_many_words AnotherCamelCaseIdentifierThatIsLong",
        "\x1b[31mred\x1b[0m %20 \\u0041 \\x41 na\u0308ive",
    ],
)
def test_nothing_harmless_is_touched(text: str) -> None:
    assert find(text) == []
    assert redact(text, (), count).text == text
    assert redact(text, (), count).same_length


def test_the_shipped_transcripts_hold_nothing_that_must_go() -> None:
    redactor = SessionRedactor(None)
    for session in load_all(sorted((shipped_root() / "transcripts").glob("*.jsonl"))[:4]):
        assert redactor.session(session).windows[0].requests[0].reply.content == session.requests[0].reply.content
    assert not redactor.found


def test_a_key_at_the_end_of_a_line_takes_no_word_of_the_next_along() -> None:
    assert redact("ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8\nNext").text.endswith("]\nNext")
    assert redact("K sk-proj-abcdefghij1234567890XYZabc\nDEBUG=1").text.endswith("]\nDEBUG=1")


@given(st.text("ab%41\\un/\x1b[m\n", max_size=40))
def test_a_reading_knows_where_its_characters_stand(text: str) -> None:
    for view in (*readings(text), joined(list(readings(text))[-1])):
        last = 0
        for place in range(len(view.text)):
            start, end = view.source(place, place + 1)
            assert last <= start < end <= len(text)
            last = start if end - start > 1 else end
            if end - start == 1:
                assert text[start] == view.text[place]


KEY = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def sample() -> Session:
    """A session with something to hide in each of its parts."""
    call = ToolCall("toolu_01", "bash", json.dumps({"command": f"TOKEN={KEY} ./run", "password": "horse"}))
    first = Request(
        (Message("system", "You work in /home/alice/x."), Message("user", f"use {KEY}")),
        Message("assistant", "Alice, I do.", f"the key {KEY}", (call,)),
        ids=TokenIds(0, (1, 2), (3,)),
    )
    second = Request(
        (Message("tool", f"ok\n{KEY[:9]}\n{KEY[9:]}", tool_call_id="toolu_01", name="bash"),),
        Message("assistant", "done, ALICE"),
        tool_delay_s=2.0,
    )
    tools = json.dumps([{"type": "function", "function": {"name": "bash", "description": "runs as alice@corp.io"}}])
    return Session("alice-1", "openai-chat", "x.jsonl", (Window("start", (first, second)),), tools, "alice-0", "m")


def everything(session: Session) -> str:
    """All strings of a session."""
    return repr(session)


def test_nothing_private_is_left_in_any_part_of_a_session() -> None:
    redactor = SessionRedactor(count)
    done = redactor.session(sample())
    text = everything(done).lower()
    for word in ("alice", KEY.lower(), KEY[10:25].lower(), "horse", "corp.io", "toolu"):
        assert word not in text
    assert (done.id, done.parent) == ("session-1", "session-2")
    loss = dict(done.loss)
    assert loss[TOKEN_IDS_DROPPED] == 1
    assert loss[REDACTED] == redactor.found.total() >= 8
    arguments = json.loads(done.requests[0].reply.tool_calls[0].arguments)
    assert set(arguments) == {"command", "password"}
    assert done.requests[0].reply.tool_calls[0].id == done.requests[1].delta[0].tool_call_id
    assert done.requests[1].tool_delay_s == 2.0


def test_redacting_a_session_again_changes_nothing() -> None:
    once = SessionRedactor(count).session(sample())
    again = SessionRedactor(count).session(once)
    assert again == once


def test_texts_whose_length_changed_are_counted() -> None:
    assert dict(SessionRedactor(None).session(sample()).loss)[LENGTHS_CHANGED] >= 5
    assert dict(SessionRedactor(count).session(sample()).loss).get(LENGTHS_CHANGED, 0) <= 2


def test_a_name_that_a_later_session_gives_away_goes_from_an_earlier_one() -> None:
    earlier = Session(
        "a", "x", "x", (Window("start", (Request((Message("user", "ask carol"),), Message("assistant", "x")),)),)
    )
    later = Session(
        "b", "x", "x", (Window("start", (Request((Message("user", "/home/carol/"),), Message("assistant", "x")),)),)
    )
    redactor = SessionRedactor(None)
    for session in (earlier, later):
        redactor.learn(session)
    assert "carol" not in everything(redactor.session(earlier))


def test_arguments_that_are_no_json_are_redacted_as_text() -> None:
    broken = Message("assistant", "", "", (ToolCall("c", "bash", f'{{"command": "{KEY}'),))
    session = Session("a", "x", "x", (Window("start", (Request((Message("user", "x"),), broken),)),))
    assert KEY not in everything(SessionRedactor(count).session(session))


def test_lengths_hold_no_text_and_say_what_is_shared() -> None:
    session = sample()
    tokens = tokenise(session, shipped(), "none")
    lines = [json.loads(line) for line in rows(session, tokens, "s-1", None, b"salt", count)]
    assert [line["input_length"] for line in lines] == [one.prompt_tokens for one in tokens.requests]
    assert [line["output_length"] for line in lines] == [len(one.reply_ids) for one in tokens.requests]
    assert [len(line["hash_ids"]) for line in lines] == [line["input_length"] // BLOCK_TOKENS for line in lines]
    assert lines[1]["hash_ids"][: len(lines[0]["hash_ids"])] == lines[0]["hash_ids"]
    assert lines[1]["tool_wait_ms"] == 2000
    assert [role for role, _ in lines[0]["roles"]] == ["system", "user"]
    other = [json.loads(line) for line in rows(session, tokens, "s-1", None, b"other", count)]
    assert not set(other[1]["hash_ids"]) & set(lines[1]["hash_ids"])
    words = {word for line in lines for word in re.findall("[a-z_]+", json.dumps(line))}
    known = {"session_id", "s", "input_length", "output_length", "hash_ids", "roles", "reply", "tool_wait_ms"}
    assert words <= known | {"system", "user", "tool", "assistant", "reasoning", "text", "call", "delay"}


def test_the_same_prompt_has_the_same_blocks_in_two_sessions_of_one_export() -> None:
    session = sample()
    tokens = tokenise(session, shipped(), "none")
    one, two = (json.loads(next(rows(session, tokens, name, None, b"salt", count))) for name in ("a", "b"))
    assert one["hash_ids"] == two["hash_ids"] != []


def test_a_window_that_opens_resets_the_blocks() -> None:
    request = Request((Message("user", "word " * 300),), Message("assistant", "x"))
    session = Session("a", "x", "x", (Window("start", (request,)), Window("compaction", (request,))))
    tokens = tokenise(session, shipped(), "none")
    first, second = (json.loads(line) for line in rows(session, tokens, "a", None, b"salt", count))
    assert first["hash_ids"] == second["hash_ids"]
    assert "prefix_reset" not in first
    assert second["prefix_reset"] is True
