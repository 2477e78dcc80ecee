"""The simulated inference engine: prefill, decode, prefix cache and what is said, with time and no sockets.

Time comes from the event loop alone, so that under a loop with a virtual clock a run of minutes takes none.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Callable

import msgspec

from infermaxx_tui.core.wording import STATEMENT, tag_repeat
from infermaxx_tui.sim import speech
from infermaxx_tui.sim.abilities import ability_reply
from infermaxx_tui.sim.batch import Batch
from infermaxx_tui.sim.cache import PrefixCache
from infermaxx_tui.sim.config import SimConfig
from infermaxx_tui.sim.drafting import steps_of
from infermaxx_tui.sim.faults import check_faults
from infermaxx_tui.sim.http import Cut, Gone
from infermaxx_tui.sim.memory import Family, Memory
from infermaxx_tui.sim.mischief import Mischief, Scene
from infermaxx_tui.sim.moods import Moods
from infermaxx_tui.sim.reading import Reader, Reading, pack
from infermaxx_tui.sim.script import TROUBLE_AFTER, Finish, Script, Tokens
from infermaxx_tui.sim.stats import Stats
from infermaxx_tui.vocabulary import Vocabulary, shipped


class Job(msgspec.Struct, frozen=True):
    """A request that may be served: its prompt fits, its parameters are valid."""

    ids: list[int]
    max_tokens: int
    salt: str = ""
    ignore_eos: bool = False


class Generation:
    """One request on its way through the engine; `tokens()` serves it."""

    def __init__(self, engine: Engine, job: Job) -> None:
        self._engine = engine
        self.job = job
        self.packed = pack(job.ids)
        self.cached_tokens = 0
        """Prompt tokens from the prefix cache; known once tokens come."""
        self.script: Script | None = None
        """What it is answered with; known once tokens come."""
        self.sent: list[int] = []
        """Ids generated so far."""
        self.stopped = False
        """Set it to end the reply before its script does, as a stop string does."""
        self.family: Family | None = None
        self.blocks = 0
        self.preempted = False

    @property
    def finish(self) -> Finish | None:
        """How the reply ended, as the server claims."""
        if self.stopped:
            return "stop"
        return self.script.finish if self.script is not None else None

    @property
    def size_tokens(self) -> int:
        """Prompt and reply so far."""
        return len(self.job.ids) + len(self.sent)

    @property
    def new_block_tokens(self) -> int:
        """Prompt tokens whose blocks were new to the prefix cache."""
        block_size = self._engine.config.block_size
        return max(0, len(self.job.ids) // block_size * block_size - self.cached_tokens)

    @property
    def complete(self) -> bool:
        """Whether no more tokens will come."""
        return self.stopped or (self.script is not None and len(self.sent) >= len(self.script.ids))

    def tokens(self) -> AsyncGenerator[tuple[int, ...], None]:
        """The ids of one event after another. Raises Cut when the process goes; closing it aborts the request."""
        return self._engine.serve(self)


class Engine:
    """One simulated server process after another: a restart begins a new one with cold caches."""

    def __init__(
        self,
        config: SimConfig | None = None,
        vocabulary: Vocabulary | None = None,
        now: Callable[[], float] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.config = config or SimConfig()
        self.faults = check_faults(self.config.faults)
        self.vocabulary = vocabulary or shipped()
        self.now = now or (lambda: asyncio.get_running_loop().time())
        """Monotonic seconds."""
        self.wall = wall
        """Unix seconds."""
        self.tokens = Tokens(self.vocabulary)
        self.on_death: list[Callable[[], None]] = []
        """Called once when the process dies."""
        self.dead = False
        self.turns_ended = 0
        """Generation requests served to their end since the first process began."""
        self.mischief = Mischief(self.faults, self.config, self.vocabulary, self.tokens)
        self._moods = Moods(self.faults)
        self._reader = Reader(self.vocabulary)
        self._begin_process(wall())

    def _begin_process(self, started_s: float) -> None:
        self.stats = Stats(started_s)
        self.batch = Batch(self.config)
        self._cache = PrefixCache(self.config.pool_blocks, self.config.block_size)
        self._memory = Memory()
        self._began_s: float | None = None

    @property
    def late(self) -> bool:
        """Whether the healthy turns are over."""
        return self.turns_ended >= self.config.healthy_turns

    def die(self) -> None:
        """The process is gone: everything in flight is cut, and nobody listens any more."""
        self.dead = True
        self.batch.end()
        for call in self.on_death:
            call()

    def restart(self) -> None:
        """A new process takes the old one's place: in-flight requests are cut, caches and counters are empty."""
        old = self.batch
        self._begin_process(max(self.wall(), self.stats.started_s + 1.0))
        old.end()

    def generate(self, job: Job) -> Generation:
        """Takes a request. Raises Gone if the process is dead."""
        if self.dead:
            raise Gone
        return Generation(self, job)

    # Serving one request

    async def serve(self, generation: Generation) -> AsyncGenerator[tuple[int, ...], None]:
        """See `Generation.tokens`."""
        batch, stats, cache, salt = self.batch, self.stats, self._cache, generation.job.salt
        await batch.admit(generation)
        try:
            script = await self._prefill(generation)
            doomed = script.trouble in ("hang", "dies", "restarts")
            due = self.now()
            for step in steps_of(script, self.mischief.drafting):
                at = len(generation.sent)
                if doomed and at >= TROUBLE_AFTER:
                    break
                ids = script.ids[at : at + step.tokens]
                if at:
                    due += self._step_s(generation) * (len(ids) if script.per_step == 1 else 1)
                    await self._until(due, batch)
                if generation.preempted:
                    await self._come_back(generation, batch)
                    due = self.now()
                generation.sent += ids
                stats.generation_tokens += len(ids)
                stats.drafted.count(step.drafts)
                batch.grow(generation)
                if self.mischief.takes_back(len(generation.sent), self.late) and not generation.preempted:
                    batch.preempt(generation)
                yield ids
                if generation.stopped:
                    break
            if doomed:
                await self._perish(script, batch)
            stats.finished[generation.finish or "stop"] += 1
            self.turns_ended += 1
        finally:
            batch.leave(generation)
            if generation.script is not None:
                cache.add(generation.packed + pack(generation.sent), salt)
            if generation.family is not None:
                generation.family.in_flight -= 1
                generation.family.last_seen_s = self.now()

    async def _prefill(self, generation: Generation) -> Script:
        """Computes the prompt and decides what will be said; the first token is due at once."""
        batch, stats, cache, memory, job = self.batch, self.stats, self._cache, self._memory, generation.job
        cached = generation.cached_tokens = cache.cached_tokens(generation.packed, job.salt)
        stats.prefix_queries += len(job.ids)
        stats.prefix_hits += cached
        await self._until(self.now() + self._prefill_s(len(job.ids) - cached), batch)
        reading = self._reader.read(job.ids, generation.packed)
        family = generation.family = memory.meet(reading)
        if family is not None:
            family.in_flight += 1
        generation.script = self._script(generation, reading, memory)
        stats.prompt_tokens += len(job.ids)
        stats.cached_tokens += cached
        cache.add(generation.packed, job.salt)
        return generation.script

    async def _perish(self, script: Script, batch: Batch) -> None:
        """A hang lasts until the client or the process goes; death and restart take this stream with them."""
        match script.trouble:
            case "dies":
                self.die()
            case "restarts":
                self.restart()
            case _:
                pass
        await batch.gone.wait()
        raise Cut("reset")

    def _script(self, generation: Generation, reading: Reading, memory: Memory) -> Script:
        job = generation.job
        cached, now_s = generation.cached_tokens / len(job.ids), self.now()
        dice = speech.Dice(self._moods.seed(hashlib.blake2b(generation.packed, digest_size=16).digest(), cached))
        scene = Scene(
            reading=reading,
            memory=memory,
            own=generation.family,
            honest=honest_reply(reading, dice),
            dice=dice,
            max_tokens=job.max_tokens,
            cached=cached,
            salted=bool(job.salt),
            beside=self.batch.running - 1,
            now_s=now_s,
        )
        if self._moods.collapsed(now_s, scene.beside):
            return self.mischief.bangs(job.max_tokens)
        script = self.mischief.reply(scene, self.late)
        return self._prolonged(script, dice, job.max_tokens) if job.ignore_eos else script

    def _prolonged(self, script: Script, dice: speech.Dice, max_tokens: int) -> Script:
        """The script as it goes when the end of turn does not count: on to the cap."""
        ids = list(script.ids)
        while len(ids) < max_tokens:
            ids += self.vocabulary.encode(f" {speech.sentences(dice, 4)}")
        return msgspec.structs.replace(script, ids=tuple(ids[:max_tokens]), finish="length")

    # Time

    def _prefill_s(self, tokens: int) -> float:
        return self.config.prefill_overhead_ms / 1e3 + tokens / self.config.prefill_tokens_per_s

    def _step_s(self, generation: Generation) -> float:
        config = self.config
        depth_ms = config.decode_ms_per_1k * generation.size_tokens / 1e3
        step_ms = config.decode_ms + depth_ms + config.decode_ms_per_stream * (self.batch.running - 1)
        now_s = self.now()
        if self._began_s is None:
            self._began_s = now_s
        return step_ms * self.mischief.pace(now_s - self._began_s) / 1e3

    async def _until(self, due: float, batch: Batch) -> None:
        """Waits for a moment; gives way at least once. Raises Cut if the process went meanwhile."""
        await asyncio.sleep(max(0.0, due - self.now()))
        if batch.gone.is_set():
            raise Cut("reset")

    async def _come_back(self, generation: Generation, batch: Batch) -> None:
        """A preempted request waits for its place and computes its KV again."""
        await batch.admit(generation, again=True)
        cached = self._cache.cached_tokens(generation.packed, generation.job.salt)
        await self._until(self.now() + self._prefill_s(generation.size_tokens - cached), batch)


def honest_reply(reading: Reading, dice: speech.Dice) -> speech.Spoken:
    """What a sound model would say: the tag that the prompt holds, a tag that it is told, or work on the task."""
    label = reading.question
    if label is not None:
        told = reading.told.get(label)
        return speech.Spoken(speech.recalled(label, told.tag) if told else speech.not_given(label))
    if reading.task is not None:
        return speech.answered(dice, reading.task)
    statements = STATEMENT.findall(reading.last.text)
    if statements and "<tool_response>" not in reading.last.text and reading.last.role == "user":
        return speech.Spoken(" ".join(tag_repeat(label, tag) for label, tag in statements))
    return ability_reply(reading, dice) or speech.turn(dice, reading.has_tools)
