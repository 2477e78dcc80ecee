"""What the tests of the runner share: small transcripts, a tap on the wire, a log that may break, and whole runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from importlib import resources
from typing import Any, TypeVar

import anyio
import httpx
import msgspec

from infermaxx_tui.core.events import AnyEvent, Event, Record, RequestEnded, TagAsked, decode, encode
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.plan import Plan
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.scenario import Scenario, parse_scenario
from infermaxx_tui.core.standing import Standing
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.transcript import Message, Request, Session, ToolCall, Window
from infermaxx_tui.core.verdict import Verdict, judge_run
from infermaxx_tui.log import EvidenceLostError
from infermaxx_tui.prepare import prepare
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.clock import Clock
from infermaxx_tui.runner.context import Prepared, RunContext, Stopper, StopReason
from infermaxx_tui.runner.exchange import Order
from infermaxx_tui.runner.gpu_watch import GpuFeed
from infermaxx_tui.runner.lines import Prompt
from infermaxx_tui.runner.play import play
from infermaxx_tui.runner.recorder import Recorder
from infermaxx_tui.runner.sampling import watch_stalls
from infermaxx_tui.runner.stream import Streams
from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.config import SimConfig
from infermaxx_tui.sim.engine import Engine
from infermaxx_tui.sim.transport import SimTransport
from infermaxx_tui.virtual import VirtualClock, run_virtual
from infermaxx_tui.vocabulary import Vocabulary, shipped
from infermaxx_tui.wish import Loaded, Wish

URL = "http://127.0.0.1:1"
NONCE = "c0ffee00"
E = TypeVar("E", bound=Event)

SCENARIO = """
name = "small"
seed = 5
[server]
sim = ["clean"]
[transcripts]
tokenizer = "shipped"
[sessions]
count = 2
target_depth = 900
[reply]
max_tokens = 24
[canaries]
per_session = 2
plant_at = [0.3, 0.6]
ask_at = [0.7, 1.0]
max_tokens = 96
[limits]
min_recalls = 6
stall_s = 3.0
"""
"""Two conversations of 900 tokens with two tags each: six recalls, in a fifth of a second."""

TOOLS = '[{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object", "properties": {}}}}]'
_WORDS = ("amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "juniper", "kelp", "lagoon")


def transcript(number: int, turns: int = 12) -> Session:
    """One agent's session: a system prompt, tool calls, and tool results of some ten lines each."""
    requests = []
    for turn in range(turns):
        call = ToolCall(f"call{number:02}{turn:02}", "read_file", f'{{"path": "src/{_word(number, turn)}.py"}}')
        reply = Message("assistant", f"I look at the {_word(turn, number)} part.", tool_calls=(call,))
        if turn == 0:
            system = Message("system", f"You keep repository {number} in order. Answer in one line.")
            delta: tuple[Message, ...] = (
                system,
                Message("user", f"Please tidy the {_word(number, 3)} module of repository {number}."),
            )
        else:
            lines = (f"{n:3}  {_word(number, turn + n)} = {_word(n, number)}({turn}, {n})" for n in range(7))
            delta = (Message("tool", "\n".join(lines), tool_call_id=f"call{number:02}{turn - 1:02}", name="read_file"),)
        requests.append(Request(delta, reply, think_s=0.5 * (turn > 0), tool_delay_s=0.25 * (turn > 1)))
    return Session(f"t{number}", "test", f"t{number}.jsonl", (Window("start", tuple(requests)),), tools=TOOLS)


def _word(a: int, b: int) -> str:
    return _WORDS[(7 * a + 3 * b) % len(_WORDS)]


class Body(msgspec.Struct):
    """What a request for tokens carries, as far as the tests look at it."""

    max_tokens: int
    min_tokens: int | None = None
    ignore_eos: bool = False
    prompt: list[int] | None = None
    messages: list[msgspec.Raw] | None = None
    tools: msgspec.Raw = msgspec.Raw()
    cache_salt: str | None = None
    chat_template_kwargs: dict[str, bool] = {}
    temperature: float | None = None

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Role and content of the messages."""
        spoken = [msgspec.json.decode(raw, type=_Spoken) for raw in self.messages or ()]
        return [(message.role, message.content) for message in spoken]


class _Spoken(msgspec.Struct):
    role: str
    content: str = ""


class Call(msgspec.Struct, frozen=True):
    """One request as the server received it."""

    at_s: float
    path: str
    server_id: str
    body: Body | None
    after_loss: bool = False
    """The log could not be written any more."""

    @property
    def sent(self) -> Body:
        """The body of a request for tokens."""
        assert self.body is not None
        return self.body

    @property
    def ids(self) -> tuple[int, ...]:
        """The prompt of a request by ids."""
        assert self.sent.prompt is not None
        return tuple(self.sent.prompt)


class Tap(httpx.AsyncBaseTransport):
    """Writes down what reaches the server."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.calls: list[Call] = []
        self.lost: Callable[[], bool] = lambda: False
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        content = await request.aread()
        path = request.url.path
        wants_tokens = path.endswith("completions")
        body = msgspec.json.decode(content, type=Body) if wants_tokens else None
        server_id = request.headers.get("x-request-id", "")
        self.calls.append(Call(anyio.current_time(), path, server_id, body, self.lost()))
        return await self._inner.handle_async_request(request)


class MemorySink:
    """A log in memory that may break after so many lines."""

    def __init__(self, breaks_after: int | None = None, part: int = 0) -> None:
        self.lines: list[bytes] = []
        self.broken = False
        self._breaks_after = breaks_after
        self._part = part

    @property
    def written(self) -> int:
        """Lines written so far."""
        return len(self.lines)

    def append(self, event: AnyEvent, wall_ms: int, mono_us: int) -> Record:
        """The record as written."""
        if self._breaks_after is not None and len(self.lines) >= self._breaks_after:
            self.broken = True
            raise EvidenceLostError("No space left on device")
        record = Record(self._part, len(self.lines), wall_ms, mono_us, event)
        self.lines.append(encode(record))
        return record


class Played(msgspec.Struct, frozen=True):
    """A whole run: its log, what the server received, and what it earned."""

    records: tuple[Record, ...]
    calls: tuple[Call, ...]
    over_s: float
    """Seconds from the first to the last line."""
    fault: Exception | None = None

    def of(self, kind: type[E]) -> tuple[E, ...]:
        """The events of one type."""
        return tuple(record.event for record in self.records if isinstance(record.event, kind))

    @property
    def ended(self) -> dict[int, RequestEnded]:
        """How the requests ended, by number."""
        return {event.req: event for event in self.of(RequestEnded)}

    @property
    def asked(self) -> dict[int, TagAsked]:
        """The questions, by request."""
        return {event.req: event for event in self.of(TagAsked)}

    @property
    def asks_for_tokens(self) -> tuple[Call, ...]:
        """The calls that ask for tokens, in order."""
        return tuple(call for call in self.calls if call.body is not None)

    def by_req(self) -> dict[int, Call]:
        """What the server received, by request number; without what was tried before the run."""
        numbered = ((call.server_id.rpartition("-")[2], call) for call in self.asks_for_tokens)
        return {int(number): call for number, call in numbered if number != "probe"}

    def main_line(self, session: int) -> list[tuple[RequestEnded, Call]]:
        """A conversation's turns: how each ended, and what was sent."""
        calls = self.by_req()
        return [(e, calls[r]) for r, e in self.ended.items() if e.kind == "turn" and e.session == session]

    def pairs(self) -> list[tuple[RequestEnded, Call]]:
        """All requests of the log: how each ended, and what was sent."""
        calls = self.by_req()
        return [(ended, calls[req]) for req, ended in self.ended.items()]

    @property
    def state(self) -> RunState:
        """What a fold says of the log."""
        fold = Fold()
        for record in self.records:
            fold.add(record)
        return fold.snapshot()

    @property
    def verdict(self) -> Verdict:
        """What the log earns."""
        return judge_run(self.state)

    def outcome(self, check: str) -> str:
        """The answer of one check."""
        return next(one.outcome for one in self.verdict.checks if one.name == check)


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is played with."""

    overrides: tuple[str, ...] = ()
    nonce: str = NONCE
    faults: tuple[str, ...] = ()
    healthy_turns: int = 6
    transcripts: tuple[Session, ...] = tuple(transcript(number) for number in range(4))
    vocabulary: Vocabulary | None = None
    """The server's and the client's."""
    without_renderer: bool = False
    stop: tuple[tuple[float, StopReason], ...] = ()
    """Wishes to stop, and when."""
    breaks_after: int | None = None
    """Lines after which the log takes no more."""
    spare: bool = True
    """Whether there is room for the last lines then."""
    wrap: Callable[[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport] = lambda inner: inner
    """Puts something between the tap and the server."""
    sabotage: Callable[[Prepared], Prepared] = lambda prepared: prepared
    server_alive: Callable[[], bool] | None = None
    standing: Standing = Standing(None)
    """What this machine sees of the server's processes."""
    cards: Callable[[VirtualClock], GpuFeed] | None = None
    """Makes the sensors that are read."""


def scenario_of(overrides: tuple[str, ...] = ()) -> Scenario:
    """The small scenario with some keys changed."""
    return parse_scenario(SCENARIO, "small.toml", overrides)


def play_small(setting: Setting | None = None) -> Played:
    """Plays the small scenario in memory on virtual time."""
    return run_virtual(_play, setting or Setting())


async def _play(setting: Setting) -> Played:
    clock = VirtualClock()
    vocabulary = setting.vocabulary or shipped()
    config = SimConfig(faults=setting.faults, healthy_turns=setting.healthy_turns)
    engine = Engine(config, vocabulary, wall=lambda: clock.wall_ms() / 1000)
    tap = Tap(setting.wrap(SimTransport(App(engine))))
    loaded = Loaded(scenario_of(setting.overrides), SCENARIO, "small.toml", setting.transcripts)
    prepared, _ = await prepare(loaded, Wish(scenario="small", nonce=setting.nonce), URL, None, (), tap, vocabulary)
    if setting.without_renderer:
        prepared = msgspec.structs.replace(prepared, renderer=None, tokenised=())
    tap.calls.clear()
    return await play_prepared(setting.sabotage(prepared), tap, clock, setting)


async def play_prepared(prepared: Prepared, tap: Tap, clock: VirtualClock, setting: Setting) -> Played:
    """Plays what was prepared, with the wishes to stop at their times."""
    sink, spare, stopper = MemorySink(setting.breaks_after), MemorySink(part=1), Stopper()
    tap.lost = lambda: sink.broken
    fault: Exception | None = None
    started_s = anyio.current_time()
    async with make_client(URL, None, tap) as client, anyio.create_task_group() as group:
        for at_s, by in setting.stop:
            group.start_soon(_later, at_s, stopper, by)
        try:
            await play(
                prepared,
                "run",
                client,
                sink,
                clock,
                stopper,
                lambda: spare if setting.spare else None,
                setting.server_alive,
                None if setting.cards is None else setting.cards(clock),
                lambda: setting.standing,
            )
        except Exception as error:  # a run that ends by a fault of its own raises it, whatever it is
            fault = error
        over_s = anyio.current_time() - started_s
        group.cancel_scope.cancel()
    records = tuple(decoded(line) for line in (*sink.lines, *spare.lines))
    return Played(records, tuple(tap.calls), over_s, fault)


async def _later(at_s: float, stopper: Stopper, by: StopReason) -> None:
    await anyio.sleep(at_s)
    stopper.ask(by)


Piece = float | bytes | Exception
"""What a scripted server does next: waits so many seconds, writes, or breaks."""


class Scripted(httpx.AsyncBaseTransport):
    """Answers every request for tokens with the same script; anything else with an empty 200 after `aside_s`."""

    def __init__(self, *pieces: Piece, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.asides: list[str] = []
        self.aside_s = 0.0
        self.sent = 0
        self._pieces = pieces
        self._status = status
        self._headers = list(headers)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("completions"):
            self.asides.append(request.url.path)
            await anyio.sleep(self.aside_s)
            return httpx.Response(200, request=request)
        self.sent += 1
        stream = _Script(self._pieces)
        return httpx.Response(self._status, headers=self._headers, stream=stream, request=request)


class _Script(httpx.AsyncByteStream):
    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            match piece:
                case bytes():
                    yield piece
                case Exception():
                    raise piece
                case seconds:
                    await anyio.sleep(seconds)

    async def aclose(self) -> None:
        """Nothing is held."""


def said(text: str, *ids: int, finish: str | None = None) -> bytes:
    """An event of a completion."""
    choice = {"index": 0, "text": text, "token_ids": list(ids), "finish_reason": finish}
    return b"data: " + msgspec.json.encode({"id": "cmpl-1", "choices": [choice]}) + b"\n\n"


def delta(finish: str | None = None, **fields: object) -> bytes:
    """An event of a chat reply."""
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return b"data: " + msgspec.json.encode({"id": "chatcmpl-1", "choices": [choice]}) + b"\n\n"


def counted(prompt_tokens: int, completion_tokens: int) -> bytes:
    """The usage event."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return b"data: " + msgspec.json.encode({"id": "cmpl-1", "choices": [], "usage": usage}) + b"\n\n"


DONE = b"data: [DONE]\n\n"


class Bench(msgspec.Struct, frozen=True):
    """A run without conversations, to send single requests with."""

    run: RunContext
    streams: Streams
    sink: MemorySink

    @property
    def events(self) -> tuple[AnyEvent, ...]:
        """What was logged."""
        return tuple(decoded(line).event for line in self.sink.lines)


def bench(
    client: httpx.AsyncClient, clock: Clock, overrides: tuple[str, ...] = (), sink: MemorySink | None = None
) -> Bench:
    """A run context over `client`."""
    scenario = scenario_of(overrides)
    prepared = Prepared(
        scenario=scenario,
        scenario_text=SCENARIO,
        plan=Plan((), (), 1),
        transcripts=(),
        tokenised=(),
        renderer=shipped(),
        regime=Regime(),
        seed=1,
        nonce=NONCE,
        model="m",
    )
    sink = sink or MemorySink()
    run = RunContext(prepared, client, Recorder(sink, clock, lambda: None), Stopper())
    return Bench(run, Streams(run), sink)


def order(ids: tuple[int, ...] = (5, 6, 7), **changes: Any) -> Order:
    """A turn of a prompt of three ids."""
    plain = Order(prompt=Prompt(ids=ids, known_tokens=len(ids)), session=0, turn=1, kind="turn", max_tokens=64)
    return msgspec.structs.replace(plain, **changes)


def send_scripted(
    transport: Scripted, overrides: tuple[str, ...] = (), **changes: object
) -> tuple[RequestEnded, Bench]:
    """Sends one request on virtual time, with the watch for stalls beside it."""
    return run_virtual(_send_scripted, transport, overrides, changes)


async def _send_scripted(
    transport: Scripted, overrides: tuple[str, ...], changes: dict[str, Any]
) -> tuple[RequestEnded, Bench]:
    async with make_client(URL, None, transport) as client, anyio.create_task_group() as group:
        made = bench(client, VirtualClock(), overrides)
        group.start_soon(watch_stalls, made.run)
        exchange = await made.streams.send(order(**changes))
        group.cancel_scope.cancel()
    return exchange.ended, made


def decoded(line: bytes) -> Record:
    """A line of a log."""
    record = decode(line)
    assert isinstance(record, Record)
    return record


class Delegate:
    """A renderer of the shipped vocabulary whose methods may be replaced."""

    name = "delegate"

    @property
    def sha256(self) -> str:
        """As the shipped one's."""
        return shipped().sha256

    @property
    def template_sha256(self) -> str:
        """As the shipped one's."""
        return shipped().template_sha256

    def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
        """As the shipped one's."""
        return shipped().render(messages, tools, add_generation_prompt)

    def encode(self, text: str) -> tuple[int, ...]:
        """As the shipped one's."""
        return shipped().encode(text)

    def decode(self, ids: tuple[int, ...]) -> str:
        """As the shipped one's."""
        return shipped().decode(ids)

    def special_id(self, token: str) -> int | None:
        """As the shipped one's."""
        return shipped().special_id(token)


def renderer() -> Renderer:
    """The shipped vocabulary."""
    return shipped()


def thinking_vocabulary() -> Vocabulary:
    """The shipped vocabulary with a template that opens a think block in the generation prompt."""
    data = resources.files("infermaxx_tui") / "data"
    template = (data / "chat_template.jinja").read_text(encoding="utf-8")
    opening = "{{- '<|im_start|>assistant\\n' }}\n{%- endif %}"
    assert template.rstrip().endswith(opening)
    template = template.rstrip().removesuffix(opening) + "{{- '<|im_start|>assistant\\n<think>\\n' }}\n{%- endif %}"
    return Vocabulary("thinking", (data / "tokenizer.json").read_text(encoding="utf-8"), template)
