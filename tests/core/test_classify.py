"""What a reply is: each class, and each pair of neighbours in the contract's order."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from infermaxx_tui.core import classify as module
from infermaxx_tui.core.canary import Registry, make_tags
from infermaxx_tui.core.classify import COMPLETE, FOREIGN, MISSES, RECALLED, classify, classify_absent, is_capped
from infermaxx_tui.core.events import Hit, RequestEnded
from infermaxx_tui.core.refusal import refuses
from infermaxx_tui.core.wording import recall_question, tag_line, tag_repeat, tag_statement

TAG, OTHER, TAIL, FOREIGN_TAG, STALE, DECOY, UNKNOWN = make_tags(5, "classify", 7)
LABEL, OTHER_LABEL = "copper kettle", "brass lamp"
REGISTRY = Registry.build(
    [(TAG, 0, LABEL), (OTHER, 0, OTHER_LABEL), (TAIL, 0, "linen kite"), (FOREIGN_TAG, 1, "stone harp")],
    [DECOY],
    {STALE: "20250101-000000-demo-ab12"},
)
QUESTION = recall_question(LABEL)
ANSWER = tag_repeat(LABEL, TAG)
WRONG = TAG[:-1] + next(symbol for symbol in "AC" if symbol != TAG[-1])
FAR = FOREIGN_TAG[:-1] + next(symbol for symbol in "AC" if symbol != FOREIGN_TAG[-1])
BABBLE = " it is that" * 60


def reply(
    content: str = "",
    reasoning: str = "",
    tool: str = "",
    *,
    finish: str | None = "stop",
    tokens: int | None = 20,
    outcome: str = "ok",
    degenerate: str | None = None,
    hits: tuple[Hit, ...] = (),
) -> RequestEnded:
    """A finished recall reply with a budget of 400 tokens."""
    made = RequestEnded(
        req=1,
        session=0,
        turn=3,
        kind="recall",
        outcome="ok",
        finish_reason=finish,
        max_tokens=400,
        prompt_tokens=1000,
        completion_tokens=tokens,
        content=content,
        reasoning=reasoning,
        tool_args=tool,
        content_chars=len(content),
        reasoning_chars=len(reasoning),
        tool_chars=len(tool),
        degenerate=degenerate,
        hits=hits,
    )
    return replace(made, outcome=outcome)


ECHO = f"{tag_statement(OTHER_LABEL, OTHER)}\n{tag_statement(LABEL, TAG)}\n{QUESTION}"

TABLE: list[tuple[str, RequestEnded, str]] = [
    # recalled, in whatever dress
    ("plain", reply(ANSWER), "recalled"),
    ("the tag alone", reply(TAG), "recalled"),
    ("bold", reply(f"It is **{TAG}**."), "recalled"),
    ("lower case", reply(f"it is {TAG.lower()}"), "recalled"),
    ("spaced", reply(" ".join(TAG)), "recalled"),
    ("wrapped", reply(TAG.replace("-", "\n-")), "recalled"),
    ("after thinking", reply(ANSWER, f"The note says {TAG}."), "recalled"),
    ("after an inline think block", reply(f"<think>Let me look.</think>\n{ANSWER}"), "recalled"),
    ("after an unopened think block", reply(f"Let me look.</think>\n{ANSWER}"), "recalled"),
    ("beside another own tag", reply(f"{ANSWER} The {OTHER_LABEL} has {OTHER}."), "recalled"),
    ("beside a damaged tag", reply(f"{ANSWER} Not {WRONG}."), "recalled"),
    ("beside an unknown tag", reply(f"{ANSWER} Not {UNKNOWN}."), "recalled"),
    ("with an apology", reply(f"I'm sorry, I can't share more than this: {TAG}"), "recalled"),
    ("the question restated", reply(f"{QUESTION} {ANSWER}"), "recalled"),
    ("one statement in a person's words", reply(tag_statement(LABEL, TAG)), "recalled"),
    ("a note repeated", reply(f"{tag_line(OTHER_LABEL, OTHER)}\n{tag_line(LABEL, TAG)}"), "recalled"),
    ("by a tool", reply("", "", f'{{"text": "\\n{TAG}"}}', finish="tool_calls"), "recalled"),
    ("the sentinel of its own", reply(f"{TAG} and {TAIL}"), "recalled"),
    ("no token counts", reply(ANSWER, tokens=None), "recalled"),
    # recalled, not delivered
    ("in reasoning only", reply("", f"It is {TAG}."), "reasoning_only"),
    ("in an inline think block only", reply(f"<think>It is {TAG}.</think>\nDone."), "reasoning_only"),
    ("in an unclosed think block", reply(f"<think>It is {TAG}."), "reasoning_only"),
    ("in reasoning, another one answered", reply(f"It is {OTHER}.", f"Is it {TAG}?"), "reasoning_only"),
    # misses
    ("another label's tag", reply(tag_repeat(LABEL, OTHER)), "mislabelled"),
    ("the sentinel instead", reply(TAIL), "mislabelled"),
    ("another label's tag by a tool", reply("", "", OTHER), "mislabelled"),
    ("another label's tag in thought alone", reply("", f"It may be {OTHER}."), "mislabelled"),
    ("mislabelled outranks corrupted", reply(f"{OTHER}, or {WRONG}"), "mislabelled"),
    ("one wrong symbol", reply(tag_repeat(LABEL, WRONG)), "corrupted"),
    ("one wrong symbol, spaced", reply(" ".join(WRONG)), "corrupted"),
    ("a lost symbol", reply(f"It is {TAG[:-1]}."), "corrupted"),
    ("a foreign symbol", reply(f"It is O{TAG[1:]}."), "corrupted"),
    ("damaged in reasoning", reply("", f"It is {WRONG}."), "corrupted"),
    ("corrupted outranks invented", reply(f"{UNKNOWN} or {WRONG}"), "corrupted"),
    ("a tag nobody made", reply(tag_repeat(LABEL, UNKNOWN)), "invented"),
    ("a code of another form", reply("The lot tag is AB12-CD34."), "invented"),
    ("near a foreign tag", reply(f"It is {FAR}."), "invented"),
    ("invented outranks refused", reply(f"I can't share that, but {UNKNOWN}."), "invented"),
    ("not given", reply(f"I was not given a lot tag for the {LABEL}."), "forgotten"),
    ("does not know", reply("I don't know."), "forgotten"),
    ("talks of something else", reply("The loader opens each file twice."), "forgotten"),
    ("a tag without its half", reply(f"It begins with {TAG[:4]}."), "forgotten"),
    ("thought without an answer", reply("", "Hm, which one was it?"), "forgotten"),
    ("names other tags in thought, none in the answer", reply("I do not remember.", f"{OTHER}?"), "forgotten"),
    ("restates the question and gives up", reply(f"{QUESTION} I was not told."), "forgotten"),
    # excluded
    ("declines", reply("I'm sorry, but I can't share that information."), "refused"),
    ("declines in thought alone", reply("", "That is confidential."), "refused"),
    ("filtered", reply("I", finish="content_filter"), "refused"),
    ("cut by length", reply("The lot tag for the", finish="length"), "capped"),
    ("cut by length, with the tag", reply(ANSWER, finish="length"), "capped"),
    ("full budget that claims to have stopped", reply(ANSWER, tokens=400), "capped"),
    ("one short of the budget", reply(ANSWER, tokens=399), "capped"),
    ("a cut tool call", reply("", "", f'{{"text": "{TAG}', finish="tool_calls", tokens=400), "capped"),
    ("no finish", reply(ANSWER, finish=None), "capped"),
    ("cut refusal", reply("I can't share that.", finish="length"), "capped"),
    ("cut and damaged", reply(WRONG, finish="length"), "capped"),
    ("cut and mislabelled", reply(OTHER, finish="length"), "capped"),
    ("nothing", reply(), "empty"),
    ("one blank", reply(" \n"), "empty"),
    ("nothing, cut", reply(finish="length", tokens=400), "empty"),
    ("nothing, broken", reply(outcome="truncated"), "empty"),
    ("shed", reply(finish=None, tokens=None, outcome="shed"), "empty"),
    ("cut stream", reply(ANSWER, finish=None, outcome="truncated"), "truncated"),
    ("error in the stream", reply("The lot", outcome="protocol"), "truncated"),
    ("stalled", reply("The lot", finish=None, outcome="stalled"), "truncated"),
    ("aborted by the server", reply("The lot", finish="abort"), "truncated"),
    ("cut stream outranks capped", reply("The lot", finish="length", outcome="truncated"), "truncated"),
    ("babble", reply("The lot tag" + BABBLE), "degenerate"),
    ("babble with the tag", reply(ANSWER + BABBLE), "degenerate"),
    ("babble in reasoning", reply(ANSWER, BABBLE), "degenerate"),
    ("babble in tool arguments", reply(ANSWER, "", BABBLE), "degenerate"),
    ("babble by its ids", reply(ANSWER, degenerate="cycle: 3 tokens 40 times from token 9"), "degenerate"),
    ("stopped for repetition", reply(ANSWER, finish="repetition"), "degenerate"),
    ("babble outranks capped", reply(BABBLE, finish="length", tokens=400), "degenerate"),
    ("babble outranks truncated", reply(BABBLE, finish=None, outcome="truncated"), "degenerate"),
    ("the prompt given back", reply(ECHO), "prompt_echo"),
    ("the question given back", reply(QUESTION), "prompt_echo"),
    (
        "the question given back with a turn's end",
        reply(f"{QUESTION}<|im_end|>\n<|im_start|>assistant\n"),
        "prompt_echo",
    ),
    ("the last notes and the question", reply(f"{tag_line(LABEL, TAG)}\n{QUESTION}"), "prompt_echo"),
    ("the question in bold", reply(f"**{QUESTION}**"), "prompt_echo"),
    ("statements without the question", reply(ECHO.removesuffix(QUESTION)), "prompt_echo"),
    ("echo outranks degenerate", reply(ECHO, degenerate="cycle"), "prompt_echo"),
    ("echo outranks capped", reply(ECHO, finish="length"), "prompt_echo"),
    ("the question in a loop", reply(f"{QUESTION} " * 20), "degenerate"),
    ("the question in reasoning", reply(ANSWER, f"{tag_statement(LABEL, TAG)} {QUESTION}"), "recalled"),
    # alien tags outrank everything
    ("foreign", reply(tag_repeat(LABEL, FOREIGN_TAG)), "leaked"),
    ("foreign beside the asked", reply(f"{ANSWER} {FOREIGN_TAG}"), "leaked"),
    ("foreign in reasoning", reply(ANSWER, FOREIGN_TAG), "leaked"),
    ("foreign in tool arguments", reply(ANSWER, "", FOREIGN_TAG), "leaked"),
    ("foreign, spaced", reply(" ".join(FOREIGN_TAG)), "leaked"),
    ("foreign and capped", reply(FOREIGN_TAG, finish="length", tokens=400), "leaked"),
    ("foreign and cut", reply(FOREIGN_TAG, finish=None, outcome="truncated"), "leaked"),
    ("foreign in babble", reply(FOREIGN_TAG + BABBLE), "leaked"),
    ("foreign in an echo", reply(f"{FOREIGN_TAG} {ECHO}"), "leaked"),
    ("foreign in a refusal", reply(f"I can't share {FOREIGN_TAG}."), "leaked"),
    ("foreign as the runner saw it", reply("…", hits=(Hit(FOREIGN_TAG, "foreign", 1, "content"),)), "leaked"),
    ("foreign outranks stale and decoy", reply(f"{DECOY} {STALE} {FOREIGN_TAG}"), "leaked"),
    ("stale", reply(STALE), "stale"),
    ("stale and capped", reply(STALE, finish="length"), "stale"),
    ("stale outranks a decoy", reply(f"{DECOY} {STALE}"), "stale"),
    ("a decoy", reply(f"{ANSWER} {DECOY}"), "harness_fault"),
    ("a decoy, capped", reply(DECOY, finish="length"), "harness_fault"),
]


@pytest.mark.parametrize(("made", "cls"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_each_reply_has_its_class(made: RequestEnded, cls: str) -> None:
    assert classify(TAG, 0, made, REGISTRY, QUESTION, 32_768).cls == cls


def test_every_class_is_in_the_table() -> None:
    assert {row[2] for row in TABLE} == {
        name for part in get_args(module.ReplyClass) for name in get_args(part) or (part,)
    }


def test_what_enters_recalls_n() -> None:
    assert sorted(COMPLETE) == ["corrupted", "forgotten", "invented", "mislabelled", "reasoning_only", "recalled"]
    assert COMPLETE == RECALLED | MISSES
    assert not RECALLED & MISSES
    assert not FOREIGN & COMPLETE


@pytest.mark.parametrize(
    ("made", "tag", "far", "note"),
    [
        (reply(ANSWER), TAG, None, ""),
        (reply(f"{ANSWER} {OTHER}"), TAG, None, f"names the tag of {OTHER_LABEL} too"),
        (reply("", "", TAG), TAG, None, "in tool arguments only"),
        (reply(f"It is {OTHER}.", TAG), TAG, None, f"the answer names the tag of {OTHER_LABEL} too"),
        (reply(OTHER), OTHER, None, f"the tag of {OTHER_LABEL}"),
        (reply(WRONG), WRONG, 1, ""),
        (reply(f"O{OTHER[1:]}"), f"O{OTHER[1:]}", 1, f"nearest is the tag of {OTHER_LABEL}"),
        (reply(FOREIGN_TAG), FOREIGN_TAG, None, "a tag of session 1, in content"),
        (reply("", STALE), STALE, None, "a tag of run 20250101-000000-demo-ab12, in reasoning"),
        (reply("", "", DECOY), DECOY, None, "a decoy that was never sent, in tool arguments"),
        (reply("x", outcome="protocol"), "", None, "protocol"),
        (reply("x", finish="abort"), "", None, "finish_reason abort"),
        (reply("x", finish="length", tokens=400), "", None, "400 of 400 tokens, finish_reason length"),
        (reply("x", finish=None), "", None, "20 of 400 tokens, no finish_reason"),
        (reply(finish="length"), "", None, "capped too"),
        (reply("", "Hm."), "", None, "nothing but reasoning"),
    ],
)
def test_what_decided_is_named(made: RequestEnded, tag: str, far: int | None, note: str) -> None:
    found = classify(TAG, 0, made, REGISTRY, QUESTION, None)
    assert (found.tag_found, found.distance, found.note) == (tag, far, note)


def test_a_code_near_a_foreign_tag_is_called_a_suspect() -> None:
    found = classify(TAG, 0, reply(FAR), REGISTRY, QUESTION, None)
    assert found.note == f"distance 1 from {FOREIGN_TAG} of session 1: leak suspect"
    assert found.distance is not None
    assert found.distance > 2


def test_a_tag_that_stood_in_the_prompt_is_no_leak() -> None:
    made = reply(f"{ANSWER} {FOREIGN_TAG}", hits=(Hit(FOREIGN_TAG, "foreign", 1, "content"),))
    assert classify(TAG, 0, made, REGISTRY, QUESTION, None, frozenset({FOREIGN_TAG})).cls == "recalled"
    assert classify(TAG, 0, made, REGISTRY, QUESTION, None, frozenset({STALE})).cls == "leaked"


def test_the_same_reply_is_a_leak_or_a_recall_by_who_owns_the_tag() -> None:
    asked = recall_question("stone harp")
    assert classify(FOREIGN_TAG, 1, reply(FOREIGN_TAG), REGISTRY, asked, None).cls == "recalled"
    assert classify(FOREIGN_TAG, 1, reply(TAG), REGISTRY, asked, None).cls == "leaked"


def test_text_that_the_log_does_not_hold_is_never_a_miss() -> None:
    made = replace(reply(), content=None, content_chars=30)
    assert classify(TAG, 0, made, REGISTRY, QUESTION, None).cls == "truncated"
    assert classify(TAG, 0, replace(made, finish_reason="length"), REGISTRY, QUESTION, None).cls == "capped"


def test_a_label_without_a_tag_is_another_question() -> None:
    with pytest.raises(ValueError, match="classify_absent"):
        classify("", 0, reply(ANSWER), REGISTRY, QUESTION, None)


CAPS: list[tuple[str | None, int | None, int | None, int | None, int | None, bool]] = [
    ("stop", 398, 400, 1000, 8192, False),
    ("stop", 399, 400, 1000, 8192, True),
    ("stop", 400, 400, 1000, 8192, True),
    ("tool_calls", 399, 400, 1000, 8192, True),
    ("length", 3, 400, 1000, 8192, True),
    ("length", None, None, None, None, True),
    (None, 3, 400, 1000, 8192, True),
    (None, None, None, None, None, True),
    ("stop", 100, 400, 8090, 8192, False),
    ("stop", 101, 400, 8090, 8192, True),
    ("stop", 102, 400, 8090, 8192, True),
    ("stop", 102, 400, 8090, None, False),
    ("stop", 102, 400, None, 8192, False),
    ("stop", None, 400, 8190, 8192, False),
    ("stop", 5, None, None, None, False),
    ("stop", 5, 0, None, None, False),
    ("repetition", 5, 400, 10, 8192, False),
]


@pytest.mark.parametrize(("finish", "completion", "most", "prompt", "window", "capped"), CAPS)
def test_what_is_capped(
    finish: str | None, completion: int | None, most: int | None, prompt: int | None, window: int | None, capped: bool
) -> None:
    assert is_capped(finish, completion, most, prompt, window) is capped


def test_the_window_caps_too() -> None:
    made = replace(reply(ANSWER), prompt_tokens=8180)
    assert classify(TAG, 0, made, REGISTRY, QUESTION, 8192).cls == "capped"
    assert classify(TAG, 0, made, REGISTRY, QUESTION, None).cls == "recalled"


ABSENT: list[tuple[RequestEnded, str]] = [
    (reply("I was not given a lot tag for the marble oven."), "none"),
    (reply("None."), "none"),
    (reply("What is the lot tag for the marble oven? I was not told."), "none"),
    (reply("I was not given one.", f"The kettle has {TAG}."), "none"),
    (reply(tag_repeat("marble oven", TAG)), "own_tag"),
    (reply("", tag_repeat("marble oven", OTHER)), "own_tag"),
    (reply(tag_repeat("marble oven", UNKNOWN)), "invented"),
    (reply(tag_repeat("marble oven", WRONG)), "invented"),
    (reply("I can't share that, it is confidential."), "refused"),
    (reply(tag_repeat("marble oven", FOREIGN_TAG)), "leaked"),
    (reply(FOREIGN_TAG, finish="length"), "leaked"),
    (reply(STALE), "stale"),
    (reply(DECOY), "harness_fault"),
    (reply("None.", finish="length"), "capped"),
    (reply("None.", finish=None), "capped"),
    (reply("None.", outcome="truncated"), "truncated"),
    (reply(), "empty"),
    (reply(BABBLE), "degenerate"),
    (reply("What is the lot tag for the marble oven?"), "prompt_echo"),
]


@pytest.mark.parametrize(("made", "cls"), ABSENT)
def test_replies_to_an_absent_label(made: RequestEnded, cls: str) -> None:
    assert classify_absent(0, made, REGISTRY, recall_question("marble oven"), 32_768).cls == cls


channels = st.sampled_from(["content", "reasoning", "tool"])
broken = st.sampled_from(
    [
        reply(),
        reply(ANSWER),
        reply(BABBLE),
        reply(ECHO),
        reply(finish="length", tokens=400),
        reply("x", finish=None, outcome="truncated"),
        reply("I can't share that."),
    ]
)


@given(broken, channels, st.sampled_from([FOREIGN_TAG, FOREIGN_TAG.lower(), " ".join(FOREIGN_TAG)]))
def test_a_foreign_tag_makes_any_reply_a_leak(made: RequestEnded, channel: str, tag: str) -> None:
    field = {"content": "content", "reasoning": "reasoning", "tool": "tool_args"}[channel]
    leaky = replace(made, **{field: f"{getattr(made, field) or ''} ({tag}) "})
    assert classify(TAG, 0, leaky, REGISTRY, QUESTION, None).cls == "leaked"
    assert classify_absent(0, leaky, REGISTRY, QUESTION, None).cls == "leaked"


@given(st.text(max_size=200), st.text(max_size=100), st.text(max_size=100))
def test_no_text_without_a_tag_recalls_or_leaks(content: str, reasoning: str, tool: str) -> None:
    found = classify(TAG, 0, reply(content, reasoning, tool), REGISTRY, QUESTION, None)
    assert found.cls not in RECALLED | FOREIGN | {"mislabelled", "harness_fault"}


@given(st.integers(0, 7), st.sampled_from("ACDEFGHJKMNPQRTUVWXY34679O0ISZ"))
def test_one_changed_symbol_turns_a_recall_into_a_corruption(place: int, symbol: str) -> None:
    bare = TAG.replace("-", "")
    wrong = bare[:place] + symbol + bare[place + 1 :]
    found = classify(TAG, 0, reply(f"It is {wrong[:4]}-{wrong[4:]}."), REGISTRY, QUESTION, None)
    assert (found.cls, found.distance) == (("recalled", None) if wrong == bare else ("corrupted", 1))


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't share the lot tag for the copper kettle. That is confidential.",
        "I'm sorry, but I can’t help with that.",
        "I cannot disclose this.",
        "I am not able to provide that information.",
        "Sharing it would be against my guidelines.",
        "I won't reveal it.",
        "I don't have permission to say it.",
        "For security reasons I must not tell you.",
        "I'm unable to assist with this request.",
    ],
)
def test_refusals(text: str) -> None:
    assert refuses(text)


@pytest.mark.parametrize(
    "text",
    [
        "I was not given a lot tag for the copper kettle.",
        "I'm sorry, I don't have that information.",
        "I don't know.",
        "I cannot provide the lot tag because it was not mentioned.",
        "I'm unable to provide it, as there is no record of it.",
        "I can't find it in our conversation.",
        "I'm afraid I do not remember.",
        "There is no lot tag for that.",
        "As an assistant I don't have access to that.",
        "The tag isn't listed here, so I can't give it to you.",
        "The search is case-sensitive.",
        "The loader opens each file twice.",
        "",
    ],
)
def test_what_is_no_refusal(text: str) -> None:
    assert not refuses(text)
