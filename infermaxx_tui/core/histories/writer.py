"""Writes the log of a made-up run, line for line as a runner would."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from infermaxx_tui.core import events as e
from infermaxx_tui.core.canary import make_labels, make_tags
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.histories.shape import ASK_AT, Ask, Reply, Shape
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stats import LogHistogram

STEP_US = 20_000
"""Log time between two events."""
START_MS = 1_700_000_000_000
_GAP = LogHistogram.bucket(20.0)


def records(events: Iterable[e.AnyEvent], part: int = 0) -> Iterator[e.Record]:
    """The events as lines of a log."""
    for seq, event in enumerate(events):
        yield e.Record(part, seq, START_MS + seq * STEP_US // 1000, seq * STEP_US, event)


def state_of(events: Iterable[e.AnyEvent]) -> RunState:
    """What a history says."""
    fold = Fold()
    for record in records(events):
        fold.add(record)
    return fold.snapshot()


class Writer:
    """Writes one history down."""

    def __init__(self, shape: Shape, answer: Callable[[Ask], Reply], turn: Callable[[int, int], Reply]) -> None:
        self.events: list[e.AnyEvent] = []
        self.shape = shape
        self._answer = answer
        self._turn = turn
        self._requests = 0
        self._wave = range(min(shape.at_once, shape.sessions))
        self._asked: dict[str, int] = {}
        self._turns = [0] * shape.sessions
        self._depths = [0] * shape.sessions
        per_session = shape.tags + 1
        count = shape.sessions * per_session
        tags = make_tags(shape.seed, shape.nonce, 2 * count)
        labels = make_labels(shape.seed, shape.nonce, count + shape.sessions)
        self._tags = [tags[i * per_session : (i + 1) * per_session] for i in range(shape.sessions)]
        self._labels = [labels[i * per_session : (i + 1) * per_session] for i in range(shape.sessions)]
        self._absent = labels[count:]
        self._decoys = tags[count:]

    def start(self) -> None:
        """First line, regime and tags."""
        shape = self.shape
        self.events += [
            e.RunStarted(
                schema=e.SCHEMA,
                program="infermaxx-tui 0",
                run="20231114-221320-made-up-0000",
                scenario="made-up",
                scenario_text='name = "made-up"\n',
                scenario_sha256="0" * 64,
                seed=shape.seed,
                nonce=shape.nonce,
                host=e.Host(name="host", system="Linux", python="3.11", cpus=2),
                limits=shape.limits,
                sessions=shape.sessions,
                at_once=shape.at_once,
                planned_recalls=shape.planned_recalls,
            ),
            e.RegimeNoted(regime=shape.regime),
        ]
        for session, (labels, tags) in enumerate(zip(self._labels, self._tags, strict=True)):
            self.events += [
                e.TagIssued(kind="own" if place < shape.tags else "tail", session=session, label=label, tag=tag)
                for place, (label, tag) in enumerate(zip(labels, tags, strict=True))
            ]
            self.events.append(e.TagIssued(kind="absent", session=session, label=self._absent[session], tag=""))
        self.events += [e.TagIssued(kind="decoy", session=None, label="", tag=tag) for tag in self._decoys]

    def wave(self, sessions: range) -> None:
        """The conversations of one wave, from their first prompt to their last question."""
        shape = self.shape
        each = shape.planned_recalls // shape.sessions
        self._wave = sessions
        self.events += [
            e.SessionStarted(session=s, wave=s // shape.at_once, transcripts=("a",), planned_recalls=each)
            for s in sessions
        ]
        planted = 0
        for fraction in ASK_AT:
            while planted < len(shape.due(fraction)):
                self._main_line(sessions, planted, round(shape.target_depth * fraction))
                planted += 1
            self._main_line(sessions, None, round(shape.target_depth * fraction))
            self._ask_all(sessions, fraction)
        self.events += [
            e.SessionEnded(session=s, reason="finished", depth_tokens=self._depths[s], turns=self._turns[s])
            for s in sessions
        ]

    def _main_line(self, sessions: range, plant: int | None, depth: int) -> None:
        for number in range(self.shape.turns_between):
            sent = []
            for s in sessions:
                if plant is not None and number == 0:
                    self._plant(s, plant, "exchange")
                self._turns[s] += 1
                self._depths[s] = max(depth - 100, self._depths[s]) + 10
                reply = self._turn(s, self._turns[s])
                sent.append((s, self._send(s, "turn", None, 400, reply), reply))
            self._tick(sessions)
            for s, req, reply in sent:
                self._end(s, req, "turn", 400, reply, text=False)

    def _plant(self, session: int, number: int, how: str) -> None:
        self.events.append(
            e.TagPlanted(
                session=session,
                label=self._labels[session][number],
                tag=self._tags[session][number],
                how="tail" if how == "tail" else "exchange",
                depth_tokens=self._depths[session],
                turn=self._turns[session] + 1,
            )
        )

    def _ask_all(self, sessions: range, fraction: float) -> None:
        """The same question to every conversation of the wave, one question after another."""
        last = fraction == ASK_AT[-1]
        for s in sessions:
            self._depths[s] = round(self.shape.target_depth * fraction)
        questions: list[tuple[e.RequestKind, int]] = [("recall", number) for number in self.shape.due(fraction)]
        questions += [("tail", self.shape.tags), ("absent", -1)] if last else []
        for kind, number in questions:
            groups = [sessions] if self.shape.meet else [range(s, s + 1) for s in sessions]
            for group in groups:
                if kind == "tail":
                    for s in group:
                        self._plant(s, number, "tail")
                self._put([(s, number) for s in group], kind, fraction, None)

    def _put(
        self, asked: list[tuple[int, int]], kind: e.RequestKind, fraction: float, again_of: int | None
    ) -> list[int]:
        sent = []
        for session, number in asked:
            ask = self._ask(session, number, kind)
            reply = self._answer(ask)
            question = e.TagAsked(
                req=self._requests,
                session=session,
                label=ask.label,
                tag=ask.tag,
                kind=kind,
                asked_at=fraction,
                planted_depth_tokens=None if number < 0 else 100 * number,
                depth_tokens=self._depths[session],
                again_of=again_of,
            )
            budget = self.shape.recall_max_tokens
            sent.append((session, self._send(session, kind, question, budget, reply), reply))
        self._tick(self._wave)
        for session, req, reply in sent:
            self._end(session, req, kind, self.shape.recall_max_tokens, reply, text=True)
        return [req for _, req, _ in sent]

    def _ask(self, session: int, number: int, kind: e.RequestKind) -> Ask:
        before = self._asked.get(kind, 0)
        self._asked[kind] = before + 1
        own = self._tags[session]
        return Ask(
            kind=kind,
            session=session,
            number=before,
            label=self._absent[session] if number < 0 else self._labels[session][number],
            tag="" if number < 0 else own[number],
            others=tuple(tag for place, tag in enumerate(own) if place != number),
            foreign=tuple(tag for other, tags in enumerate(self._tags) if other != session for tag in tags),
        )

    def _send(
        self, session: int, kind: e.RequestKind, question: e.TagAsked | None, max_tokens: int, reply: Reply
    ) -> int:
        req = self._requests
        self._requests += 1
        if question is not None:
            self.events.append(question)
        self.events.append(
            e.RequestStarted(
                req=req,
                session=session,
                turn=self._turns[session],
                kind=kind,
                prompt_tokens=self._depths[session],
                max_tokens=max_tokens,
            )
        )
        if reply.speaks:
            self.events.append(e.FirstToken(req=req, session=session, ttft_ms=40.0))
        return req

    def _end(self, session: int, req: int, kind: e.RequestKind, max_tokens: int, reply: Reply, *, text: bool) -> None:
        keep = text or reply.outcome != "ok"
        self.events.append(
            e.RequestEnded(
                req=req,
                session=session,
                turn=self._turns[session],
                kind=kind,
                outcome=reply.outcome,
                finish_reason=reply.finish_reason,
                status=reply.status,
                error=reply.error,
                max_tokens=max_tokens,
                prompt_tokens=self._depths[session],
                completion_tokens=reply.completion_tokens,
                cached_tokens=self._depths[session] // 2,
                chunks=reply.completion_tokens or 0,
                ttft_ms=40.0 if reply.speaks else None,
                decode_ms=400.0 if reply.speaks else None,
                first_chunk_tokens=1 if reply.speaks else None,
                total_ms=440.0,
                content_chars=len(reply.content or ""),
                reasoning_chars=len(reply.reasoning or ""),
                tool_chars=len(reply.tool_args or ""),
                content=reply.content if keep else None,
                reasoning=reply.reasoning if keep else None,
                tool_args=reply.tool_args if keep else None,
                degenerate=reply.degenerate,
                hits=reply.hits,
                anomalies=reply.anomalies,
            )
        )

    def _tick(self, sessions: range) -> None:
        """One second of readings."""
        gaps = ((_GAP, 20 * len(sessions)),)
        self.events += [
            e.Beat(
                window_ms=1000.0,
                sessions=tuple(sessions),
                tokens=(20,) * len(sessions),
                depths=tuple(self._depths[s] for s in sessions),
                gap_buckets=gaps,
            ),
            e.InstrumentRead(
                window_ms=1000.0,
                loop_lag_p50_ms=0.1,
                loop_lag_p99_ms=0.5,
                loop_lag_max_ms=0.8,
                cpu_share=0.2,
                rss_mib=80.0,
                events_parsed=100,
            ),
            e.MetricsRead(running=float(len(sessions)), waiting=0.0, kv_usage=0.2, process_start_s=1.7e9),
        ]

    def ask_again(self) -> None:
        """Each miss alone, twice; those that recall alone under load, three times."""
        for recall in state_of(self.events).recalls:
            if not recall.miss:
                continue
            number = self._labels[recall.session].index(recall.label)
            for _ in range(2):
                self._put([(recall.session, number)], "reask_alone", recall.asked_at, recall.req)
            again = next(one for one in state_of(self.events).recalls if one.req == recall.req)
            if any(one.complete and not one.miss for one in again.reasks):
                for _ in range(3):
                    self._put([(recall.session, number)], "reask_load", recall.asked_at, recall.req)

    def finish(self) -> None:
        """Reconciled counts and the last line."""
        tokens = sum(x.completion_tokens or 0 for x in self.events if isinstance(x, e.RequestEnded))
        prompts = sum(x.prompt_tokens or 0 for x in self.events if isinstance(x, e.RequestEnded))
        self.events.append(
            e.CountsReconciled(
                generation_client=tokens, generation_server=tokens, prompt_client=prompts, prompt_server=prompts
            )
        )
        self.events.append(e.RunEnded(reason="finished", events=len(self.events) + 1))
