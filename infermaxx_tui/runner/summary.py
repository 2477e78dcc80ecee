"""What the log says of a request that is over. Missing counts are None, never 0."""

from __future__ import annotations

import hashlib

import msgspec

from infermaxx_tui.core.canary import RegistryBuilder
from infermaxx_tui.core.degeneration import find_reply
from infermaxx_tui.core.events import Outcome, RequestEnded
from infermaxx_tui.core.inflation import distinct_trigrams
from infermaxx_tui.core.lumps import Reads
from infermaxx_tui.core.reply import Reply
from infermaxx_tui.runner.exchange import Order

_ERROR_CHARS = 500


class Wire(msgspec.Struct, kw_only=True):
    """How one request fared, besides its reply."""

    started_us: int
    ended_us: int
    status: int | None = None
    """HTTP status, None if no answer came."""
    refused: tuple[Outcome, str] | None = None
    """What an answer other than 200 meant."""
    broken: tuple[Outcome, str] | None = None
    """What the transport said if the connection did not end in order."""
    cancelled: str | None = None
    """Why we cancelled it."""
    stall_s: float | None = None
    """The stall limit, if it was cancelled for that."""

    def outcome(self, reply: Reply) -> tuple[Outcome, str | None]:
        """How the request ended, and one line of evidence if it did not end well."""
        if self.stall_s is not None:
            return "stalled", f"no token for limits.stall_s={self.stall_s:g} s"
        if self.cancelled is not None:
            return "cancelled", self.cancelled
        if self.refused is not None:
            return self.refused
        if self.broken is not None and (self.status is None or self.broken[0] != "truncated"):
            return self.broken
        ending = reply.outcome(self.broken[1] if self.broken is not None else None)
        return ending.outcome, ending.detail


def summarise(
    req: int, order: Order, wire: Wire, reply: Reply, reads: Reads, registry: RegistryBuilder
) -> RequestEnded:
    """The event that closes the request."""
    outcome, error = wire.outcome(reply)
    content, reasoning, tools = reply.content, reply.reasoning, reply.tools.text
    usage = reply.usage
    _note_differences(order, reply)
    keep = order.keep_text or outcome not in ("ok", "shed")
    said = bool(content or reasoning or tools)
    prefix = order.prefix.compare(reply.prompt_ids) if order.prefix is not None else None
    return RequestEnded(
        req=req,
        session=order.session,
        turn=order.turn,
        kind=order.kind,
        outcome=outcome,
        finish_reason=reply.finish_reason,
        stop_reason=None if reply.stop_reason is None else str(reply.stop_reason),
        status=wire.status,
        error=None if error is None else error[:_ERROR_CHARS],
        max_tokens=order.max_tokens,
        prompt_tokens=_prompt_tokens(reply),
        completion_tokens=reply.completion_tokens,
        ids_received=len(reply.ids) or None,
        cached_tokens=usage.cached_tokens if usage is not None else None,
        reasoning_tokens=reply.reasoning_tokens,
        chunks=reply.chunks,
        ttft_ms=_ms(wire.started_us, reply.first_token_us),
        first_visible_ms=_ms(wire.started_us, reply.first_visible_us),
        decode_ms=_ms(reply.first_token_us, reply.last_token_us),
        first_chunk_tokens=reply.first_chunk_tokens,
        total_ms=(wire.ended_us - wire.started_us) / 1000,
        content_chars=len(content),
        reasoning_chars=len(reasoning),
        tool_chars=len(tools),
        text_sha256=_sha256(content, reasoning, tools) if said else None,
        content=content if keep else None,
        reasoning=reasoning if keep else None,
        tool_args=tools if keep else None,
        degenerate=find_reply((content, reasoning), reply.anomalies, reply.ids) if said or reply.ids else None,
        hits=() if order.kind == "warmup" or not said else registry.hits(order.session, content, reasoning, tools),
        anomalies=tuple(sorted(reply.anomalies)),
        server_id=reply.server_id,
        distinct_trigrams=distinct_trigrams(reply.ids),
        prefix_shared=prefix.share if prefix is not None else None,
        prefix_tokens=prefix.kept if prefix is not None else None,
        prefix_missed=prefix.missed if prefix is not None else None,
        forced=order.forced,
        lag_first_ms=order.lags.worst_ms(wire.started_us, reply.first_token_us) if order.lags is not None else None,
        lag_max_ms=order.lags.worst_ms(wire.started_us, wire.ended_us) if order.lags is not None else None,
        arrivals=reads.arrivals(reply.first_token_us, reply.last_token_us),
    )


def _note_differences(order: Order, reply: Reply) -> None:
    """Notes where the server saw another prompt than the one that was sent, or thought though it should not."""
    sent = order.prompt.ids
    if sent is not None:
        counted = _prompt_tokens(reply)
        if counted is not None and counted != len(sent):
            reply.anomalies.add("prompt_count_differs")
        elif reply.prompt_ids is not None and reply.prompt_ids != sent:
            reply.anomalies.add("prompt_ids_differ")
    if order.prompt.no_thinking and reply.reasoning.strip():
        reply.anomalies.add("thought_anyway")


def _prompt_tokens(reply: Reply) -> int | None:
    counted = reply.usage.prompt_tokens if reply.usage is not None else None
    return reply.prompt_ids_count if counted is None else counted


def _sha256(*texts: str) -> str:
    return hashlib.sha256("\x00".join(texts).encode("utf-8", "replace")).hexdigest()


def _ms(since_us: int | None, at_us: int | None) -> float | None:
    return None if since_us is None or at_us is None else (at_us - since_us) / 1000
