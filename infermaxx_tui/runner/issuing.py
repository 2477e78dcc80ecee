"""Says in the log which tags a conversation has, and lets the scan of replies know them."""

from __future__ import annotations

from infermaxx_tui.core.events import TagIssued
from infermaxx_tui.core.plan import ConversationPlan
from infermaxx_tui.runner.context import RunContext


def issue(run: RunContext, conversation: ConversationPlan) -> None:
    """Logs and registers each tag, sentinel and absent label."""
    for issued in _issued(conversation):
        run.recorder.emit(issued)
        run.registry.add_issued(issued)


def _issued(conversation: ConversationPlan) -> list[TagIssued]:
    session = conversation.session
    own = [TagIssued(kind="own", session=session, label=t.label, tag=t.tag) for t in conversation.tags]
    for ask in conversation.asks:
        for question in ask.questions:
            if question.kind == "tail":
                own.append(TagIssued(kind="tail", session=session, label=question.label, tag=question.tag))
            elif question.kind == "absent":
                own.append(TagIssued(kind="absent", session=session, label=question.label, tag=""))
    return own
