"""What is fuzzed: each target takes any bytes and holds its part of the program to its promises.

An exception that is not the part's own, a text that nobody sent, or a difference that only a cut made is a fault.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "tests" / "importers"):
    sys.path.insert(0, str(folder))

LOGS = ROOT / "tests" / "logs"
EVIL: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**53, 2**63 - 1, -(2**63), 10**30, 0.0, -0.0, 1e308, -1e308, 5e-324, 0.5),
    *("", "x", "\x00", "\ud83d", "\u202e\x1b[2J", "9" * 400, "x" * 5000, "2026-13-45T99:99:99Z", "1970-01-01", "nan"),
    *([], {}, [[]], [None], [{}], {"type": "text", "text": "x"}, {"content": [{"type": "image"}]}, [1, "2", {"3": 4}]),
)
"""What may stand where something else is expected."""


def cuts(data: bytes) -> tuple[list[bytes], bytes]:
    """The data but for its first bytes, in pieces that these choose; and as a whole."""
    if len(data) < 4:
        return [data], data
    body = data[4:]
    places = sorted({0, len(body), *(number * (len(body) + 1) // 256 for number in data[:4])})
    return [body[a:b] for a, b in itertools.pairwise(places)], body


def changed(value: Any, data: bytes) -> Any:
    """A copy of a JSON value in which some values, chosen by the data, are other ones."""
    holder = [json.loads(json.dumps(value))]
    for at in range(0, len(data) - 2, 3):
        spots = list(_spots(holder))
        if len(spots) > 1:
            place, key = spots[(data[at] * 7 + data[at + 1]) % len(spots)]
            if data[at + 2] % 16 == 15:
                del place[key]
            else:
                place[key] = json.loads(json.dumps(EVIL[data[at + 2] % len(EVIL)]))
        if not holder:
            return None
    return holder[0]


def _spots(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value that holds something."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in list(inside):
        yield value, key
        if depth < 12:
            yield from _spots(one, depth + 1)


def sse(data: bytes) -> None:
    """Parser, wire and reply: the same under any cut, and no more text than came."""
    from infermaxx_tui.core.reply import Reply
    from infermaxx_tui.core.sse import SseParser
    from infermaxx_tui.core.wire import parse

    pieces, body = cuts(data)
    outcomes = []
    for chunks, fast in (
        (pieces, True),
        ([body], False),
        ([body[at : at + 1] for at in range(len(body))][:4000], True),
    ):
        parser, reply = SseParser(65536), Reply()
        for at, chunk in enumerate(chunks):
            for payload in parser.feed(chunk):
                if fast:
                    reply.take(payload, at)
                else:
                    reply.add(parse(payload), at)
        reply.finish(parser, len(chunks))
        texts = (reply.content, reply.reasoning, reply.tools.text)
        assert sum(map(len, texts)) <= 2 * len(body) + 64
        counts = (reply.finish_reason, reply.error, reply.usage, tuple(reply.ids), reply.tokens, reply.done)
        outcomes.append((texts, counts, parser.junk_line, parser.cut, reply.outcome()))
        msgspec.json.encode([text.encode("utf-8", "surrogatepass").decode("utf-8") for text in texts])
    assert outcomes[0] == outcomes[1]
    if len(body) <= 4000:
        assert outcomes[0] == outcomes[2]


def http(data: bytes) -> None:
    """Head and body of an answer: the same under any cut."""
    import httpx

    from infermaxx_tui.runner.http.connection import Connection

    pieces, body = cuts(data)
    seen = []
    for reads in (pieces, [body]):
        connection = Connection("POST", bytearray(1 << 16), itertools.count().__next__)
        for read in reads:
            if read:
                connection.get_buffer(-1)[: len(read)] = read
                connection.buffer_updated(len(read))
        connection.eof_received()
        taken: list[bytes] = []
        ended = "well"
        try:
            connection.push_to(lambda piece, at_us, taken=taken: not taken.append(piece)).send(None)  # type: ignore[misc]  # binds this round's list; append gives None, and not None is True
        except StopIteration:
            pass
        except httpx.TransportError as error:
            ended = type(error).__name__
        came = b"".join(taken)
        assert len(came) <= len(body)
        seen.append((connection.head, came, ended))
    assert seen[0] == seen[1]


def log(data: bytes) -> None:
    """Lines of a log, as they are and with other values in them: decoded, folded, judged and shown."""
    from infermaxx_tui.core.events import decode
    from infermaxx_tui.core.fold import Fold
    from infermaxx_tui.core.rows import status_line
    from infermaxx_tui.core.verdict import judge_run, verdict_bytes

    fold = Fold()
    if data[:1] < b"\x40":
        lines = data[1:].split(b"\n")
    else:
        recorded = _recorded()
        lines = recorded[: 1 + data[0] % 60]
        for at in range(1, len(data) - 8, 9):
            line = recorded[(data[at] * 256 + data[at + 1]) % len(recorded)]
            lines.append(json.dumps(changed(json.loads(line), data[at + 2 : at + 9])).encode())
    for line in lines:
        fold.add(decode(line))
    state = fold.snapshot()
    verdict_bytes(judge_run(state))
    status_line(state, 80)


_LINES: list[bytes] = []


def _recorded() -> list[bytes]:
    if not _LINES:
        _LINES.extend((LOGS / "leak.jsonl").read_bytes().splitlines())
    return _LINES


def importers(data: bytes) -> None:
    """A recording of any of the formats, with other values in it or with other bytes."""
    from formats import SAMPLES, write_sample

    from infermaxx_tui.core.transcript import TranscriptError
    from infermaxx_tui.importers import load

    if len(data) < 2:
        return
    names = sorted(SAMPLES)
    name = names[data[0] % len(names)]
    content = SAMPLES[name][1]
    path = write_sample(Path(_PLACE.name) / str(names.index(name)), name, changed(content, data[2:]))
    if data[1] < 0x40 and path.is_file():
        raw = path.read_bytes()
        at = data[1] * len(raw) // 0x40
        path.write_bytes(raw[:at] + data[2:] + raw[at + len(data) // 3 :])
    with suppress(TranscriptError):
        for session in load(path):
            msgspec.json.encode(session)
            assert session.windows


_PLACE = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


def scenario(data: bytes) -> None:
    """TOML of a scenario: one of its own errors, or one that can be written down and read back."""
    from infermaxx_tui.core.scenario import ScenarioError, check_scenario, parse_scenario
    from infermaxx_tui.core.scenario_toml import to_toml

    text = data.decode("utf-8", "replace")
    try:
        parsed = parse_scenario(text, "x.toml")
    except ScenarioError:
        return
    again = parse_scenario(to_toml(parsed), "x.toml")
    assert again == parsed or "nan" in text.lower()
    with suppress(ScenarioError):
        check_scenario(parsed, "x.toml")


def metrics(data: bytes) -> None:
    """Pages of /metrics, exporters' pages, and lines of sensors."""
    from infermaxx_tui.core.gpu_text import parse_exporter, parse_pairs, parse_smi
    from infermaxx_tui.core.readings import parse_cache_config, parse_metrics

    msgspec.json.encode(parse_metrics(data))
    parse_cache_config(data)
    with suppress(ValueError):
        parse_exporter(data)
    text = data.decode("utf-8", "replace")
    parse_pairs(text)
    for line in text.splitlines()[:50]:
        parse_smi(line)


def startup(data: bytes) -> None:
    """A start-up log."""
    from infermaxx_tui.core.startup_log import parse_startup

    msgspec.json.encode(parse_startup(data.decode("utf-8", "replace")))


def redact(data: bytes) -> None:
    """The redactor: doing it again changes nothing, and no text grows out of bounds."""
    from infermaxx_tui.core.redact import redact as redacted

    text = data.decode("utf-8", "replace")
    once = redacted(text)
    assert redacted(once.text).text == once.text
    assert len(once.text) <= 40 * len(text) + 100


def mask(data: bytes) -> None:
    """The key's mask: JSON stays JSON, and the key is gone."""
    from infermaxx_tui.secret import Mask

    key = 'sk-a"b\\c/d%e+0123456789'
    whole = Mask(key)
    pieces = [key[:number] if number < 200 else chr(number) for number in data[:200]]
    value = {"a": "".join(pieces) + data[200:].decode("utf-8", "replace"), "b": [pieces]}
    for line in (json.dumps(value).encode(), json.dumps(value, ensure_ascii=False).encode()):
        shown = whole.raw(line)
        json.loads(shown)
        assert key not in json.dumps(json.loads(shown))
        assert whole.raw(shown) == shown or b"[key]" in shown


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one for one in (sse, http, log, importers, scenario, metrics, startup, redact, mask)
}


def seeds(target: str) -> list[bytes]:
    """Some inputs to begin with, from what the repository holds."""
    match target:
        case "sse" | "http":
            event = b'data: {"id":"c","choices":[{"index":0,"text":"a","token_ids":[5],"finish_reason":null}]}\n\n'
            chat = b'data:{"choices":[{"delta":{"reasoning":"b","tool_calls":[{"index":0,"id":"x"}]}}]}\r\n\r\n'
            error = b'event: error\ndata: {"error":{"message":"x","code":500}}\n\n'
            usage = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\ndata: [DONE]\n\n'
            bodies = [
                event * 2 + usage,
                chat + usage,
                b"\xef\xbb\xbf: ping\n\n" + event,
                error,
                b"<html>\n",
                event[:40],
            ]
            if target == "sse":
                return [b"\x20\x60\xa0\xf0" + body for body in bodies]
            ok = b"\x20\x60\xa0\xf0HTTP/1.1 200 OK\r\n"
            chunked = [b"%x\r\n%b\r\n0\r\nx: y\r\n\r\n" % (len(body), body) for body in bodies]
            return [
                *(ok + b"transfer-encoding: chunked\r\n\r\n" + body for body in chunked),
                *(ok + b"content-length: %d\r\n\r\n" % len(body) + body for body in bodies),
                b"\x01\x02\x03\x04HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 x\r\nretry-after: 1\r\n folded\r\n\r\nbusy",
            ]
        case "log":
            recorded = _recorded()
            return [
                b"\x00" + b"\n".join(recorded[:40]),
                *(bytes([0x40 + n]) + bytes(range(n, n + 90)) for n in range(0, 160, 20)),
            ]
        case "importers":
            return [bytes([n, 0x50 + m, *range(3 * m, 3 * m + 30)]) for n in range(24) for m in (0, 40)]
        case "scenario":
            return [path.read_bytes() for path in sorted((ROOT / "scenarios").glob("*.toml"))]
        case "metrics":
            return [path.read_bytes()[:6000] for path in sorted((LOGS / "metrics").iterdir())]
        case "startup":
            return [path.read_bytes()[:6000] for path in sorted((LOGS / "startup").iterdir())]
        case "redact":
            texts = (
                "password = hunter22",
                "alice@corp.example",
                "/home/alice/x",
                "ghp_" + "a" * 36,
                "10.1.2.3 sk-proj-",
            )
            return [text.encode() for text in texts]
        case _:
            return [bytes([200, 65, 5, 23, 9, 8]), bytes(range(24))]
