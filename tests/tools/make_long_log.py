"""Writes the log of a long soak without playing it: as many streams and hours as asked for, a few of them sick.

python tests/tools/make_long_log.py RUN_FOLDER [--hours 8] [--streams 32] [--seed 1] [--mib N]

The same arguments give the same bytes. The shape is that of a real run: a beat, a scrape and an instrument reading each
second, a request per stream about each eight seconds, conversations that grow to 36,000 tokens and are followed by the
next one, tags planted and asked for; now and then a miss that is asked again, a broken stream, a silence, one leak.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

from infermaxx_tui.core import events as ev
from infermaxx_tui.core.canary import make_labels, make_tags
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.regime import Regime

_NONCE = "10a610a6"
_EPOCH_MS = 1_780_000_000_000
_TURNS = 60
_TARGET = 36_000
_TAGS = 5
_REQUEST_S = 8.0
_SHARED_LABELS = 600

Timed = tuple[int, int, ev.AnyEvent]
"""(µs, tie breaker, event)."""
Emitting = Generator[tuple[int, ev.AnyEvent], None, int]
"""Timed events, and the time at which they are over."""


class _Stream:
    """One stream's conversations, one after another; tells the beats how many tokens came when."""

    def __init__(self, slot: int, options: Options, plan: _Plan) -> None:
        self.slot = slot
        self.options = options
        self.plan = plan
        self.random = random.Random(f"{options.seed}/{slot}")
        self.session: int | None = None
        self.depth = 0
        self.decoding: tuple[int, int, int] | None = None

    def events(self) -> Generator[tuple[int, ev.AnyEvent], None, None]:
        """Everything that happens on this stream, with its time in µs."""
        at = int(self.random.uniform(0.1, 2.0) * 1e6)
        for wave in count():
            if at >= self.options.end_us:
                return
            session = wave * self.options.streams + self.slot
            at = yield from self._conversation(session, wave, at)

    def _conversation(self, session: int, wave: int, at: int) -> Emitting:
        self.session, self.depth = session, 0
        tags = self.plan.tags(session)
        yield at, ev.SessionStarted(session=session, wave=wave, transcripts=("soak",), planned_recalls=_TAGS + 3)
        planted: list[tuple[str, str, int]] = []
        for turn in range(_TURNS):
            if at >= self.options.end_us:
                break
            at = yield from self._request(at, "turn", turn, None)
            if turn in (10, 20, 30, 40, 50):
                label, tag = tags[len(planted)]
                planted.append((label, tag, self.depth))
                yield (
                    at,
                    ev.TagPlanted(
                        session=session, label=label, tag=tag, how="exchange", depth_tokens=self.depth, turn=turn
                    ),
                )
            due = planted[:3] if turn == 35 else planted if turn == _TURNS - 1 else []
            for asked in due:
                at = yield from self._request(at, "recall", turn, asked)
        reason = "finished" if at < self.options.end_us else "duration"
        yield (
            at,
            ev.SessionEnded(
                session=session,
                reason="finished" if reason == "finished" else "duration",
                depth_tokens=self.depth,
                turns=_TURNS,
            ),
        )
        self.session = None
        return at

    def _request(
        self, at: int, kind: ev.RequestKind, turn: int, asked: tuple[str, str, int] | None, again: int | None = None
    ) -> Emitting:
        """One request; hands back the time at which it is over."""
        rng, session, req = self.random, self.session or 0, self.plan.next_req()
        prompt = self.depth + rng.randint(200, 560)
        yield (
            at,
            ev.RequestStarted(req=req, session=session, turn=turn, kind=kind, prompt_tokens=prompt, max_tokens=400),
        )
        if asked is not None:
            yield (
                at,
                ev.TagAsked(
                    req=req,
                    session=session,
                    label=asked[0],
                    tag=asked[1],
                    kind=kind,
                    asked_at=1.0 if turn == _TURNS - 1 else 0.5,
                    planted_depth_tokens=asked[2],
                    depth_tokens=self.depth,
                    again_of=again,
                ),
            )
        ttft_ms = 60.0 + prompt / 90.0 + rng.uniform(0, 40)
        whole_s = rng.uniform(0.6, 1.4) * _REQUEST_S if kind == "turn" else rng.uniform(1.0, 2.0)
        first, end = at + int(ttft_ms * 1000), at + int(ttft_ms * 1000) + int(whole_s * 1e6)
        tokens = max(int(whole_s * rng.uniform(28, 36)), 4)
        yield first, ev.FirstToken(req=req, session=session, ttft_ms=round(ttft_ms, 3))
        self.decoding = (first, end, tokens)
        if rng.random() < 0.002:
            gap_ms = rng.uniform(2000, 9000)
            middle = first + (end - first) // 2
            yield middle, ev.GapNoted(req=req, session=session, gap_ms=round(gap_ms, 3), at_token=tokens // 2)
        ended = self._ended(req, kind, turn, prompt, tokens, ttft_ms, end - at, asked)
        yield end, ended
        self.decoding = None
        if kind == "turn" and ended.outcome == "ok":
            self.depth = min(prompt + tokens, _TARGET)
        missed = asked is not None and ended.content is not None and asked[1] not in ended.content
        if missed and again is None and ended.outcome == "ok":
            end = yield from self._request(end, "reask_alone", turn, asked, req)
        return end + int(rng.uniform(0.01, 0.05) * 1e6)

    def _ended(
        self,
        req: int,
        kind: ev.RequestKind,
        turn: int,
        prompt: int,
        tokens: int,
        ttft_ms: float,
        total_us: int,
        asked: tuple[str, str, int] | None,
    ) -> ev.RequestEnded:
        rng, content, hits = self.random, None, tuple[ev.Hit, ...]()
        if asked is not None:
            content = f"The lot tag for the {asked[0]} is {asked[1]}."
            if kind == "recall" and rng.random() < 0.003:
                content = f"I do not remember a lot tag for the {asked[0]}; nothing in our notes says so."
            if kind == "recall" and self.slot == 3 and not self.plan.leaked and turn == _TURNS - 1:
                self.plan.leaked = True
                tag = self.plan.tags((self.session or 0) + 1)[0][1]
                content = f"The lot tag for the {asked[0]} is {tag}."
                hits = (ev.Hit(tag, "foreign", (self.session or 0) + 1, "content"),)
        broken = kind == "turn" and rng.random() < 0.0005
        return ev.RequestEnded(
            req=req,
            session=self.session or 0,
            turn=turn,
            kind=kind,
            outcome="truncated" if broken else "ok",
            finish_reason=None if broken else "stop",
            status=200,
            error="connection reset before a finish_reason" if broken else None,
            max_tokens=400,
            prompt_tokens=None if broken else prompt,
            completion_tokens=None if broken else tokens,
            ids_received=tokens,
            cached_tokens=None if broken else self.depth // 16 * 16,
            reasoning_tokens=0,
            chunks=tokens,
            ttft_ms=round(ttft_ms, 3),
            first_visible_ms=round(ttft_ms, 3),
            decode_ms=round((total_us - ttft_ms * 1000) / 1000, 3),
            first_chunk_tokens=1,
            total_ms=total_us / 1000,
            content_chars=len(content) if content is not None else tokens * 4,
            text_sha256=f"{rng.getrandbits(256):064x}",
            content=content,
            hits=hits,
            server_id=f"cmpl-{rng.getrandbits(128):032x}",
            prefix_shared=1.0 if turn else None,
        )


class Options:
    """What was asked for."""

    def __init__(self, hours: float = 8.0, streams: int = 32, seed: int = 1) -> None:
        self.streams = streams
        self.seed = seed
        self.end_us = int(hours * 3600e6)


class _Plan:
    """Tags, labels and request numbers of all conversations."""

    def __init__(self, options: Options) -> None:
        waves = int(options.end_us / 1e6 / (_TURNS * _REQUEST_S * 0.9)) + 2
        self.sessions = waves * options.streams
        self._tags = make_tags(options.seed, _NONCE, self.sessions * _TAGS)
        self._labels = make_labels(options.seed, _NONCE, _SHARED_LABELS)
        self._req = count(1)
        self.leaked = False

    def next_req(self) -> int:
        """A number for a request."""
        return next(self._req)

    def tags(self, session: int) -> list[tuple[str, str]]:
        """Labels and tags of a conversation."""
        first = session * _TAGS
        places = range(first, first + _TAGS)
        return [(self._labels[n % _SHARED_LABELS], self._tags[n % len(self._tags)]) for n in places]


def long_log(options: Options) -> Iterator[ev.Record]:
    """The records of the soak, in order."""
    plan = _Plan(options)
    streams = [_Stream(slot, options, plan) for slot in range(options.streams)]
    timed = heapq.merge(
        *(((at, slot, event) for at, event in stream.events()) for slot, stream in enumerate(streams)),
        _seconds(options, streams),
        key=lambda item: item[:2],
    )
    events = ((at, event) for at, _, event in timed)
    for seq, (at, event) in enumerate(_framed(options, plan, events)):
        yield ev.Record(0, seq, _EPOCH_MS + at // 1000, 5_000_000 + at, event)


def _framed(
    options: Options, plan: _Plan, events: Iterator[tuple[int, ev.AnyEvent]]
) -> Iterator[tuple[int, ev.AnyEvent]]:
    yield (
        0,
        ev.RunStarted(
            schema=ev.SCHEMA,
            program="infermaxx 0.1.0",
            run="long",
            scenario="soak-long",
            scenario_text='name = "soak-long"\n',
            scenario_sha256="0" * 64,
            seed=options.seed,
            nonce=_NONCE,
            host=ev.Host(name="bench", system="Linux", python="3.11", cpus=2),
            limits=Limits(),
            sessions=plan.sessions,
            at_once=options.streams,
            planned_recalls=plan.sessions * (_TAGS + 3),
        ),
    )
    yield 0, ev.RegimeNoted(regime=_regime(options))
    for session in range(plan.sessions):
        for label, tag in plan.tags(session):
            yield 0, ev.TagIssued(kind="own", session=session, label=label, tag=tag)
    n, at = 0, 0
    for n, (at, event) in enumerate(events, 2 + plan.sessions * _TAGS):  # noqa: B007 -- the last one is wanted below
        yield at, event
    yield at, ev.StopAsked(by="duration")
    yield at, ev.RunEnded(reason="duration", events=n + 3)


def _regime(options: Options) -> Regime:
    return Regime(
        engine="vllm 0.32.0",
        model="a-model",
        max_model_len=65_536,
        pool_tokens=1_200_000,
        prompt_mode="tokens",
        replies_mode="live",
        concurrency_requested=options.streams,
        target_depth=_TARGET,
        client="infermaxx 0.1.0",
        missing={"gpu": "no sensor is read in this version", "power_limit_w": "no sensor is read in this version"},
    )


def _seconds(options: Options, streams: list[_Stream]) -> Iterator[Timed]:
    """What each second brings, whatever the streams do."""
    rng, generated, queries = random.Random(f"{options.seed}/seconds"), 0.0, 0.0
    for second in range(1, options.end_us // 1_000_000):
        now = second * 1_000_000
        live = [stream for stream in streams if stream.session is not None]
        tokens = tuple(_tokens(stream.decoding, now) for stream in live)
        generated, queries = generated + sum(tokens), queries + 400.0 * len(live)
        yield (
            now,
            1000,
            ev.Beat(
                window_ms=1000.0,
                sessions=tuple(stream.session or 0 for stream in live),
                tokens=tokens,
                depths=tuple(stream.depth for stream in live),
                gap_buckets=tuple((bucket, rng.randint(20, 60)) for bucket in range(162, 170)),
            ),
        )
        yield (
            now,
            1001,
            ev.MetricsRead(
                running=float(sum(t > 0 for t in tokens)),
                waiting=float(rng.randint(0, 2)),
                kv_usage=round(sum(s.depth for s in live) / 1_200_000, 6),
                preemptions=float(second // 1800),
                prefix_queries=queries,
                prefix_hits=round(queries * 0.9),
                prompt_tokens=queries,
                generation_tokens=generated,
                process_start_s=1.0,
                scrape_ms=round(rng.uniform(2, 6), 3),
            ),
        )
        yield (
            now,
            1002,
            ev.InstrumentRead(
                window_ms=1000.0,
                loop_lag_p50_ms=0.1,
                loop_lag_p99_ms=round(rng.uniform(0.5, 2.0), 3),
                loop_lag_max_ms=round(rng.uniform(2.0, 4.0), 3),
                cpu_share=0.2,
                rss_mib=round(90 + second / 1000, 2),
                events_parsed=sum(tokens),
            ),
        )


def _tokens(decoding: tuple[int, int, int] | None, now: int) -> int:
    """Tokens that a stream got in the second before `now`."""
    if decoding is None:
        return 0
    first, end, tokens = decoding
    overlap = min(now, end) - max(now - 1_000_000, first)
    return max(int(tokens * overlap / max(end - first, 1)), 0)


def write_log(path: Path, options: Options, mib: float | None = None) -> int:
    """Writes the log to a file and hands back its lines; with `mib`, it is cut off at that size, in a line."""
    lines, room = 0, None if mib is None else int(mib * (1 << 20))
    with path.open("wb") as file:
        for record in long_log(options):
            line = ev.encode(record)
            if room is not None:
                line, room = line[:room], room - len(line)
            file.write(line)
            lines += 1
            if room is not None and room <= 0:
                break
    return lines


def main() -> None:
    """Writes what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mib", type=float)
    asked = parser.parse_args()
    asked.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_log(asked.folder / "events.jsonl", Options(asked.hours, asked.streams, asked.seed), asked.mib)


if __name__ == "__main__":
    main()
