"""Serves one generation: its tokens become events and writes, and what a fault does in mid-stream happens here."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from infermaxx_tui.sim.delivery import ERROR_EVENT, Delivery, huge_event, with_nan
from infermaxx_tui.sim.engine import Generation
from infermaxx_tui.sim.http import JSON, Cut, Response
from infermaxx_tui.sim.script import TROUBLE_AFTER, Trouble
from infermaxx_tui.sim.wire import Writer


async def stream(generation: Generation, writer: Writer, delivery: Delivery) -> AsyncGenerator[bytes, None]:
    """The writes of a streamed reply. Raises Cut where the connection breaks."""
    event = delivery.event
    opened = closed = troubled = False
    async with aclosing(generation.tokens()) as steps:
        async for ids in steps:
            last = generation.complete
            if not opened:
                opened = True
                for payload in writer.opening():
                    for write in event(payload):
                        yield write
            if not troubled and (trouble := _due(generation)):
                troubled = True
                for write in _happens(trouble, generation, writer, delivery):
                    yield write
                if trouble in ("error-done", "eof"):
                    return
            for payload in writer.closing(ids, generation.finish) if last else writer.tokens(ids):
                for write in event(payload):
                    yield write
            closed = last
            generation.stopped = generation.stopped or writer.detokeniser.stopped_by is not None
    if not closed:
        for payload in (*(() if opened else writer.opening()), *writer.closing((), generation.finish)):
            for write in event(payload):
                yield write
    for write in delivery.done():
        yield write


async def whole(generation: Generation, writer: Writer) -> Response:
    """The reply of a request that does not stream. Raises Cut where the connection breaks."""
    writer.opening()
    closed = False
    async with aclosing(generation.tokens()) as steps:
        async for ids in steps:
            match _due(generation):
                case "error-done":
                    return Response(500, (JSON,), ERROR_EVENT)
                case "eof" | "reset" as how:
                    raise Cut(how)
                case _:
                    pass
            closed = generation.complete
            if closed:
                writer.closing(ids, generation.finish)
            else:
                writer.tokens(ids)
            generation.stopped = generation.stopped or writer.detokeniser.stopped_by is not None
    if not closed:
        writer.closing((), generation.finish)
    return Response(200, (JSON,), writer.body())


def _due(generation: Generation) -> Trouble | None:
    """What happens to the reply now, if anything does."""
    script = generation.script
    if script is None or script.trouble is None:
        return None
    return script.trouble if generation.complete or len(generation.sent) >= TROUBLE_AFTER else None


def _happens(trouble: Trouble, generation: Generation, writer: Writer, delivery: Delivery) -> tuple[bytes, ...]:
    """The writes of the trouble. Raises Cut if it is the end of the connection.

    Half of the streams that end early are closed in order, as a proxy does, the others inside the body.
    """
    match trouble:
        case "error-done":
            return (*delivery.event(ERROR_EVENT), *delivery.done())
        case "nan":
            return tuple(delivery.event(with_nan(writer.blank())))
        case "huge-event":
            return huge_event()
        case "reset":
            raise Cut("reset")
        case "eof" if len(generation.job.ids) % 2:
            raise Cut("eof")
        case _:
            return ()
