"""What the names in a loss ledger mean: what a file could not know, and what had to be changed or left out."""

from __future__ import annotations

from typing import Final

LOSSES: Final[dict[str, str]] = {
    # what the file does not hold
    "no_system_prompt": "the system prompt is not in the file",
    "no_tools": "the tool list is not in the file",
    "builtin_tools_missing": "the tool list holds only what was added to the agent's own tools",
    "tools_unrendered": "a tool list beside texts that hold the tools already",
    "tools_changed": "requests whose tools differ from the session's",
    "no_timing": "no times at all",
    "no_tool_timing": "stamps that do not say how long tools took",
    "usage_missing": "requests without recorded counts",
    "usage_aggregated": "counts of several requests in one, not used",
    "usage_cumulative": "counts that add up over the run, made into single ones",
    "usage_mended": "prompts counted without what was cached, added up",
    "usage_unaligned": "counts that cannot be told to replies, not used",
    "content_free": "lengths, block ids and delays only: a replay is blind to degeneration",
    "block_size_unknown": "block ids whose size no rule explains",
    "sessions_inferred": "rows without a session, put together by their shared prefixes",
    "graph_flattened": "rows that wait for others or branch, taken in file order",
    "starts_midway": "a first prompt so long that the session began before the file",
    "continued_elsewhere": "the session goes on in another file: give that too",
    "windows_lost": "earlier windows were overwritten: only the last survives",
    "layout_unverified": "a layout whose clearing of results is not known",
    # content without text
    "image_dropped": "pictures, a mark stands for each",
    "attachment_unrendered": "attachments that were sent in a form that is not recorded",
    "unknown_block": "parts of messages of unknown kinds, left out",
    "reasoning_encrypted": "reasoning of which only the length is known",
    "reasoning_summarised": "reasoning of which only a summary is known, left out",
    "compaction_encrypted": "summaries that cannot be read",
    "server_tool_dropped": "calls that the server ran itself, whose results are not in the file",
    "prompt_missing": "texts that were sent and are not in the file, sent empty",
    "reply_lost": "requests whose replies are not in the file",
    # lines left out
    "torn_tail": "the file ends in the middle of a record",
    "malformed_line": "records that cannot be read",
    "line_too_long": "lines longer than the cap",
    "foreign_record": "records of another format",
    "unknown_record": "records of unknown kinds",
    "empty_conversation": "conversations without messages",
    # content that was changed to be usable
    "surrogate_repaired": "texts with broken Unicode, repaired",
    "invalid_utf8": "lines that are not UTF-8, replaced where they are not",
    "arguments_wrapped": "call arguments that are no JSON object, wrapped in one",
    "assistant_joined": "replies with nothing between them, joined",
    "late_system": "system texts after the beginning, kept as a user's",
    "observation_undoubled": "results that a converter had doubled, taken once",
    # copies and branches
    "dup_dropped": "copies of records, results, counts or requests",
    "history_copied": "replies copied from a parent's history: part of the prompt, no requests",
    "history_missing": "the session goes on with another's history, whose file was not found",
    "fork_unresolved": "what was copied had to be told by stamps, since the parent's file was not found",
    "synthetic_dropped": "messages that no model wrote, left out",
    "synthetic_kept": "messages that no model wrote, kept in the prompt",
    "transcript_only_dropped": "records that were shown and not sent",
    "failed_reply": "requests that failed or were stopped before any reply",
    "turn_aborted": "turns that the user stopped",
    "turn_rolled_back": "turns that the user took back: a window begins after them",
    "branch_dropped": "replies on abandoned branches",
    "broken_parent": "parents that were never written, file order used instead",
    "subagent_unreadable": "subagent files without a session",
    # calls, results, prompts
    "orphan_result": "results without a call; dropped but in chat logs, where they were sent",
    "unanswered_call": "calls without a result",
    "unanswered_prompt": "prompts without a reply",
    # windows
    "preserved_lost": "messages that a compaction carried over and that cannot be found",
    "pruned_tool_result": "results that were cleared later: stubs from that moment on",
    "context_shrank": "prompts recorded as smaller inside a window: something was cut that the file shows whole",
    "context_rewritten": "prompts that do not go on with the last: a window begins at each",
    "prompts_rebuilt": "prompts are not in the file and were put together from its history",
    "prefix_broken": "recorded ids that do not go on with the last prompt and reply",
}
"""Meanings by name, for people."""
