"""A known tag is found in any dress, and prose is never taken for one."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.canary import ALPHABET, make_labels, make_tags
from infermaxx_tui.core.tag_scan import (
    INCOMPARABLE,
    distance,
    find_known,
    find_tags,
    near_misses,
    nearest,
    tag_shaped,
    windows,
)
from infermaxx_tui.core.wording import recall_question, tag_statement

TAGS = make_tags(11, "scan", 400)
KNOWN = frozenset(TAGS)
TAG = "KX7Q-M4TR"

DRESSES: dict[str, Callable[[str, str], str]] = {
    "plain": lambda a, b: f"{a}-{b}",
    "spaced": lambda a, b: " ".join(a) + " - " + " ".join(b),
    "newline before the hyphen": lambda a, b: f"{a}\n-{b}",
    "newline after the hyphen, indented": lambda a, b: f"{a}-\n      {b}",
    "bold": lambda a, b: f"**{a}-{b}**",
    "bold halves": lambda a, b: f"**{a}**-**{b}**",
    "code": lambda a, b: f"`{a}`-`{b}`",
    "struck": lambda a, b: f"~~{a}-{b}~~",
    "lower case": lambda a, b: f"{a}-{b}".lower(),
    "full width": lambda a, b: "".join(chr(ord(c) + 0xFEE0) for c in f"{a}-{b}"),
    "mathematical bold": lambda a, b: (
        "".join(chr(0x1D400 + ord(c) - 65) if c.isalpha() else chr(0x1D7CE + int(c)) for c in a) + f"-{b}"
    ),
    "keycaps": lambda a, b: "".join(f"{c}\ufe0f\u20e3" if c.isdigit() else c for c in f"{a}-{b}"),
    "no-break hyphen": lambda a, b: f"{a}\u2011{b}",
    "en dash": lambda a, b: f"{a} \u2013 {b}",
    "em dash": lambda a, b: f"{a}\u2014{b}",
    "minus": lambda a, b: f"{a}\u2212{b}",
    "soft hyphen and zero width": lambda a, b: f"{a[:2]}\u00ad{a[2:]}\u200b-\u2060{b}",
    "no hyphen": lambda a, b: a + b,
    "blank for a hyphen": lambda a, b: f"{a} {b}",
    "no-break blanks": lambda a, b: "\u00a0".join(f"{a}-{b}"),
    "listed": lambda a, b: ", ".join(a + b),
    "array": lambda a, b: str(list(a + b)),
    "dotted": lambda a, b: ".".join(a + b),
    "hyphens all over": lambda a, b: "-".join(a + b),
    "JSON newline": lambda a, b: f'{{"note": "tag:\\n{a}-{b}\\n"}}',
    "JSON escape": lambda a, b: f'"{a}\\u2011{b}"',
    "escaped hyphen": lambda a, b: f"{a}\\-{b}",
    "TeX": lambda a, b: f"\\text{{{a}-{b}}}",
    "in a name": lambda a, b: f"lot_tag_{a}-{b}",
    "emphasis": lambda a, b: f"_{a}-{b}_",
    "between Chinese": lambda a, b: f"标签是{a}-{b}。",
    "quoted": lambda a, b: f"“{a}-{b}”",
}


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES.keys())
@pytest.mark.parametrize("frame", ["{}", "The lot tag for the copper kettle is {}.", "a {} b", "({})", "x={};"])
def test_a_known_tag_is_found_in_any_dress(dress: Callable[[str, str], str], frame: str) -> None:
    for tag in TAGS[:20]:
        assert find_known(frame.format(dress(*tag.split("-"))), KNOWN) == (tag,)


@pytest.mark.parametrize(
    "text",
    [
        "XKX7Q-M4TR", "KX7Q-M4TRX", "4KX7Q-M4TR", "KX7Q-M4TR4", "OKX7Q-M4TR", "KX7Q-M4TRb", "KX7Q-M4T", "KX7Q-", "",
        "KX7Q----M4TR", "KX7Q(M4TR)", "KX7Q and M4TR", "KX7Q-M4RT", "М4TR-KX7Q", "KX7Q-M4TЯ",
    ],
)  # fmt: skip
def test_what_is_not_the_tag_is_not_found(text: str) -> None:
    assert find_known(text, {TAG}) == ()


def test_known_tags_come_once_and_in_order() -> None:
    text = f"{TAGS[3]} {TAGS[1].lower()} {TAGS[3]} {' '.join(TAGS[2])}"
    assert find_known(text, KNOWN) == (TAGS[3], TAGS[1], TAGS[2])
    assert find_known(text, list(TAGS)) == (TAGS[3], TAGS[1], TAGS[2])
    assert find_known(text, dict.fromkeys(TAGS)) == (TAGS[3], TAGS[1], TAGS[2])
    assert find_known(text, ()) == ()


def test_tags_side_by_side_are_told_apart() -> None:
    assert find_known(" ".join(TAGS[:50]), KNOWN) == TAGS[:50]
    assert find_known("|".join(TAGS[:50]).lower(), KNOWN) == TAGS[:50]


@given(st.text(max_size=300))
def test_any_text_can_be_scanned(text: str) -> None:
    assert find_known(text, KNOWN) == ()
    assert all(re.fullmatch(rf"[{ALPHABET}]{{4}}-[{ALPHABET}]{{4}}", found) for found in windows(text))
    assert all(re.fullmatch("[A-Z0-9]{4}-[A-Z0-9]{4}", found) for found in find_tags(text))
    near_misses(text, TAGS[:5])
    tag_shaped(text)


@given(st.text(alphabet="AK7 -*_\n`.\u200b\u2011m\\n", max_size=400))
def test_any_near_code_can_be_scanned(text: str) -> None:
    assert find_known(text, KNOWN) == ()
    find_tags(text)
    near_misses(text, TAGS[:3])


@given(st.text(max_size=80), st.text(max_size=80), st.sampled_from(TAGS), st.sampled_from(sorted(DRESSES)))
def test_a_tag_is_found_whatever_stands_around_it(before: str, after: str, tag: str, dress: str) -> None:
    text = f"{before} ( {DRESSES[dress](*tag.split('-'))} ) {after}"
    assert find_known(text, KNOWN) == (tag,)


PROSE = [
    "A long-term, well-made, hand-made, part-time, real-time, free-form plan. HAND-MADE MADE-UPON READ-ONLY REAR-FACE.",
    "THE FARM HAD A CART AND A MARE; THEY WERE FAR AWAY AND THE DAY WAS WARM. A CAT ATE THE RAT.",
    "We met in June-2025 and Sept-2024, at 10-12, on 2024-2025, room 3497-4679, see ISO-8601, UTF-8, RFC 7231.",
    "id 3f2504e0-4f89-41d3-9a0c-0305e82c3301 and 6ba7b810-9dad-11d1-80b4-00c04fd430c8, upper 9A7C4F4D-43D9-4E7A-97AC.",
    "Use XXXX-XXXX as a form, AAAA-AAAA or 4444-4444 as a placeholder; call 7364-9473 or +49 30 4679-3344.",
    "RTX 4090 with 24GB; gpt-4o; int8, fp16 and bf16; x86_64; a1b2c3; v1.2.3-rc4; SHA 4f3a9c7d2e; 0x7f45; P99=3.4ms",
    "TASK-3497, PAGE-4396 and TEAM-7434 are tickets. The serial is ACDE-FGHJ-KMNP-QRTU.",
    "for x in data: yield x[0:4] - y[4:8]  # a - b - c - d - e - f - g - h",
    "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z 0 1 2 3 4 5 6 7 8 9",
]


@pytest.mark.parametrize("text", PROSE)
@pytest.mark.parametrize("case", [str, str.upper, str.lower])
def test_prose_and_identifiers_are_no_candidates(text: str, case: Callable[[str], str]) -> None:
    assert find_tags(case(text)) == ()
    assert tag_shaped(case(text)) is None


def test_labels_and_wording_are_no_candidates() -> None:
    for label in make_labels(3, "scan", 300):
        assert find_tags(recall_question(label)) == ()
        assert find_tags(tag_statement(label, TAG)) == (TAG,)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("it is KX7Q-M4TR.", ("KX7Q-M4TR",)),
        ("kx7q-m4tr and **3DC4**-P3N6", ("KX7Q-M4TR", "3DC4-P3N6")),
        ("KX7Q - M4TR", ("KX7Q-M4TR",)),
        ("KX7Q M4TR", ("KX7Q-M4TR",)),
        ("KX7QM4TR", ("KX7Q-M4TR",)),
        ("K X 7 Q - M 4 T R", ("KX7Q-M4TR",)),
        ("KX7Q\u2011M4TR", ("KX7Q-M4TR",)),
        ("KX7Q\n-M4TR", ("KX7Q-M4TR",)),
        ("KX7Q-M8TR", ("KX7Q-M8TR",)),
        ("AB12-CD34", ("AB12-CD34",)),
        ("FGHJ-KMNP", ("FGHJ-KMNP",)),
        ("KX7Q-M4TR KX7Q-M4TR", ("KX7Q-M4TR", "KX7Q-M4TR")),
        ("KX7Q-M4TR-KX7Q", ()),
        ("KX7Q-M4TRX", ()),
    ],
)
def test_candidates(text: str, found: tuple[str, ...]) -> None:
    assert find_tags(text) == found


@given(st.sampled_from(TAGS))
def test_every_tag_of_ours_is_a_candidate_and_tag_shaped(tag: str) -> None:
    assert find_tags(f"so {tag}, yes") == (tag,)
    assert tag_shaped(f"x\n| {tag} |") == tag
    assert tag_shaped(f'{{"out": "\\n{tag}"}}') == tag


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("lot KX7Q-M4TR in", "KX7Q-M4TR"),
        ("`ACDE-FGHJ`", "ACDE-FGHJ"),
        ("first HAND-MADE then 3DC4-P3N6", "3DC4-P3N6"),
        ("KX7Q‑M4TR", "KX7Q‑M4TR"),
        ("kx7q-m4tr", None),
        ("KX7Q M4TR", None),
        ("OX7Q-M4TR", None),
        ("KX7Q-M4TR-1", None),
        ("", None),
    ],
)
def test_what_a_transcript_may_not_hold(text: str, shape: str | None) -> None:
    assert tag_shaped(text) == shape


def mutate(tag: str, place: int, symbol: str) -> str:
    """`tag` with one of its eight symbols replaced."""
    bare = tag.replace("-", "")
    bare = bare[:place] + symbol + bare[place + 1 :]
    return f"{bare[:4]}-{bare[4:]}"


@pytest.mark.parametrize(
    ("a", "b", "far"),
    [
        ("KX7Q-M4TR", "kx7qm4tr", 0),
        ("KX7Q-M4TR", "KX7Q-M4TA", 1),
        ("KX7Q-M4TR", "XK7Q-M4TR", 2),
        ("KX7Q-M4TR", "ACDE-FGHJ", 8),
        ("KX7Q-M4TR", "KX7Q-M4T", 1),
        ("KX7Q-M4TR", "KX7QQ-M4TR", 1),
        ("KX7Q-M4TR", "KXQ-M4T", 2),
        ("KX7Q-M4TR", "KX7Q", INCOMPARABLE),
        ("KX7Q-M4TR", "", INCOMPARABLE),
        ("KX7Q-M4TR", "KX7Q-M4TR-KX7Q", INCOMPARABLE),
    ],
)
def test_distances(a: str, b: str, far: int) -> None:
    assert distance(a, b) == distance(b, a) == far


@given(st.sampled_from(TAGS), st.sampled_from(TAGS), st.sampled_from(TAGS))
def test_distance_is_a_metric_on_tags(a: str, b: str, c: str) -> None:
    assert (distance(a, b) == 0) == (a == b)
    assert distance(a, b) == distance(b, a) <= distance(a, c) + distance(c, b)


def test_the_nearest_tag() -> None:
    assert nearest(mutate(TAGS[5], 2, "O"), TAGS) == (TAGS[5], 1)
    assert nearest("anything", ()) is None
    assert nearest("KX7Q-M4TR", ("KX7Q-M4TC", "KX7Q-M4TA")) == ("KX7Q-M4TA", 1)


@given(st.sampled_from(TAGS), st.integers(0, 7), st.integers(0, 7), st.sampled_from("O0BSACX9"), st.sampled_from("O0I"))
def test_a_damaged_tag_is_seen_in_any_dress(tag: str, first: int, second: int, one: str, two: str) -> None:
    wrong = mutate(mutate(tag, first, one), second, two)
    far = distance(wrong, tag)
    for dress in ("plain", "spaced", "bold", "lower case", "no hyphen", "newline before the hyphen"):
        found = near_misses(f"It is {DRESSES[dress](*wrong.split('-'))}.", TAGS[:40] if tag in TAGS[:40] else [tag])
        assert found[0] == (wrong, tag, far)


@given(st.sampled_from(TAGS[:40]), st.integers(0, 7))
def test_a_lost_or_doubled_symbol_is_seen(tag: str, place: int) -> None:
    bare = tag.replace("-", "")
    for wrong in (bare[:place] + bare[place + 1 :], bare[:place] + bare[place] + bare[place:]):
        found = near_misses(f"It is {wrong[:4]}-{wrong[4:]}.", [tag])
        assert [(miss[1], miss[2]) for miss in found[:1]] == [(tag, 1)]


@pytest.mark.parametrize("text", PROSE)
def test_prose_is_near_no_tag(text: str) -> None:
    assert near_misses(text, TAGS) == ()


def test_an_exact_tag_is_no_near_miss() -> None:
    assert near_misses(" ".join(TAGS), TAGS) == ()
