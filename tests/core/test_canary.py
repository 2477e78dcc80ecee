"""Tags are far apart, the same on each machine, and whose they are is never in doubt."""

from __future__ import annotations

import hashlib
import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.canary import (
    ALPHABET,
    MIN_DISTANCE,
    Registry,
    RegistryBuilder,
    distance,
    is_tag,
    make_labels,
    make_tags,
    tag_shaped,
)
from infermaxx_tui.core.events import Hit, TagIssued, TagsKnown
from infermaxx_tui.core.words import FIRST, SECOND

TAGS = make_tags(7, "nonce", 600)
symbols = st.sampled_from(ALPHABET)
tags = st.builds(lambda seed: make_tags(seed, "property", 1)[0], st.integers(0, 10**9))


def test_the_alphabet_leaves_out_what_is_mixed_up() -> None:
    assert len(set(ALPHABET)) == 25
    assert not set(ALPHABET) & set("0O1IL2Z5S8B")


def test_tags_of_a_seed_and_nonce_never_change() -> None:
    assert make_tags(7, "ab", 3) == ("7QFK-9VH3", "7V3G-KG7D", "3DC4-P3N6")
    digest = hashlib.sha256("".join(make_tags(1, "golden", 500)).encode()).hexdigest()
    assert digest[:16] == "6c79876719a37893"


def test_any_two_tags_of_a_run_differ_in_four_symbols() -> None:
    assert min(distance(a, b) for a, b in itertools.combinations(TAGS[:250], 2)) >= MIN_DISTANCE


def test_twenty_thousand_tags_are_unique_and_far_apart_by_an_independent_count() -> None:
    """Two tags at a distance below four agree in five places of eight."""
    many = make_tags(3, "many", 20_000)
    assert len(set(many)) == 20_000
    bare = [tag.replace("-", "") for tag in many]
    for places in itertools.combinations(range(8), 5):
        a, b, c, d, e = places
        assert len({tag[a] + tag[b] + tag[c] + tag[d] + tag[e] for tag in bare}) == 20_000


@given(st.integers(0, 2**63), st.text(max_size=20), st.integers(0, 40), st.integers(0, 40))
def test_fewer_tags_are_a_prefix_of_more(seed: int, nonce: str, few: int, more: int) -> None:
    made = make_tags(seed, nonce, few + more)
    assert make_tags(seed, nonce, few) == made[:few]
    assert all(is_tag(tag) and tag_shaped(tag) == tag for tag in made)


def test_seed_and_nonce_both_matter() -> None:
    sets = [set(make_tags(seed, nonce, 50)) for seed, nonce in ((1, "a"), (1, "b"), (2, "a"), (11, ""), (1, "1"))]
    assert len(set().union(*sets)) == 250


def test_each_half_mixes_letters_and_digits() -> None:
    for tag in TAGS:
        assert all(re.search("[A-Z]", half) and re.search("[0-9]", half) for half in tag.split("-"))


@given(tags, st.integers(0, 7), symbols)
def test_the_checksum_sees_any_wrong_symbol(tag: str, place: int, symbol: str) -> None:
    bare = tag.replace("-", "")
    wrong = bare[:place] + symbol + bare[place + 1 :]
    assert is_tag(f"{wrong[:4]}-{wrong[4:]}") == (wrong == bare)


@given(tags, st.integers(0, 6))
def test_the_checksum_sees_any_swap_of_neighbours(tag: str, place: int) -> None:
    bare = tag.replace("-", "")
    swapped = bare[:place] + bare[place + 1] + bare[place] + bare[place + 2 :]
    assert is_tag(f"{swapped[:4]}-{swapped[4:]}") == (swapped == bare)


@pytest.mark.parametrize("text", ["", "7QFK9VH3", "7QFK-9VH", "7QFK-9VH33", "7qfk-9vh3", "7QFK 9VH3", "OQFK-9VH3", "-"])
def test_other_forms_are_no_tags(text: str) -> None:
    assert not is_tag(text)


def test_labels_are_two_plain_words_and_none_is_part_of_another() -> None:
    assert len(set(FIRST)) == len(FIRST) >= 200
    assert len(set(SECOND)) == len(SECOND) >= 200
    assert not set(FIRST) & set(SECOND)
    assert all(word.isascii() and word.isalpha() and word.islower() for word in FIRST + SECOND)
    assert not [(a, b) for a, b in itertools.permutations(FIRST, 2) if b.endswith(a)]
    assert not [(a, b) for a, b in itertools.permutations(SECOND, 2) if b.startswith(a)]


def test_no_label_sounds_like_a_secret() -> None:
    secret = {
        "secret",
        "password",
        "key",
        "code",
        "token",
        "private",
        "hidden",
        "lock",
        "safe",
        "vault",
        "cipher",
        "pin",
    }
    assert not secret & set(FIRST + SECOND)


def test_every_label_that_the_words_allow_is_unique() -> None:
    everything = make_labels(5, "all", len(FIRST) * len(SECOND))
    assert len(set(everything)) == len(everything)
    with pytest.raises(ValueError, match="words for"):
        make_labels(5, "all", len(everything) + 1)


@given(st.integers(0, 2**63), st.text(max_size=20))
def test_the_first_labels_share_no_word(seed: int, nonce: str) -> None:
    labels = make_labels(seed, nonce, 200)
    words = [word for label in labels for word in label.split(" ")]
    assert len(words) == len(set(words)) == 400
    assert labels[:50] == make_labels(seed, nonce, 50)


# Whose a tag is

OWN, TAIL, FOREIGN, STALE, DECOY = TAGS[:5]


def builder() -> RegistryBuilder:
    """Session 0 owns OWN and the sentinel TAIL, session 1 owns FOREIGN."""
    made = RegistryBuilder()
    made.add_known(TagsKnown(run="before", tags=(STALE,)))
    made.add_issued(TagIssued(kind="own", session=0, label="copper kettle", tag=OWN))
    made.add_issued(TagIssued(kind="tail", session=0, label="brass lamp", tag=TAIL))
    made.add_issued(TagIssued(kind="own", session=1, label="linen kite", tag=FOREIGN))
    made.add_issued(TagIssued(kind="absent", session=0, label="stone harp", tag=""))
    made.add_issued(TagIssued(kind="decoy", session=None, label="", tag=DECOY))
    return made


def test_own_tags_and_sentinels_are_no_hits() -> None:
    assert builder().hits(0, f"{OWN} {TAIL}", OWN, TAIL) == ()
    assert dict(builder().registry.own(0)) == {OWN: "copper kettle", TAIL: "brass lamp"}
    assert dict(builder().registry.own(9)) == {}


@pytest.mark.parametrize(
    ("tag", "kind", "owner"), [(FOREIGN, "foreign", 1), (STALE, "stale", None), (DECOY, "decoy", None)]
)
@pytest.mark.parametrize("channel", ["content", "reasoning", "tool"])
def test_every_alien_tag_is_a_hit_in_every_channel(tag: str, kind: str, owner: int | None, channel: str) -> None:
    spaced = " ".join(tag.lower())
    texts = [f"so: {spaced}." if channel == name else "nothing" for name in ("content", "reasoning", "tool")]
    (hit,) = builder().hits(0, *texts)
    assert (hit.tag, hit.kind, hit.owner, hit.channel) == (tag, kind, owner, channel)


def test_a_tag_counts_once_and_in_the_first_channel() -> None:
    hits = builder().hits(0, f"{FOREIGN}, {FOREIGN}", f"{DECOY} {FOREIGN}", DECOY)
    assert hits == (Hit(FOREIGN, "foreign", 1, "content"), Hit(DECOY, "decoy", None, "reasoning"))


def test_a_sentinel_of_another_session_is_foreign() -> None:
    assert [hit.kind for hit in builder().hits(1, TAIL, "", "")] == ["foreign"]


def test_a_tag_that_differs_in_one_symbol_is_no_hit() -> None:
    wrong = FOREIGN[:-1] + ("A" if FOREIGN[-1] != "A" else "C")
    assert builder().hits(0, wrong, wrong, wrong) == ()


def test_a_live_tag_outranks_an_earlier_run() -> None:
    made = builder()
    made.add_known(TagsKnown(run="before", tags=(OWN, FOREIGN)))
    assert [hit.kind for hit in made.hits(0, f"{OWN} {FOREIGN}", "", "")] == ["foreign"]


def test_tags_of_a_session_that_starts_again_are_stale() -> None:
    made = builder()
    made.retire(0, "segment 0")
    made.add_issued(TagIssued(kind="own", session=0, label="copper kettle", tag=TAGS[5]))
    assert dict(made.registry.own(0)) == {TAGS[5]: "copper kettle"}
    assert [hit.kind for hit in made.hits(0, f"{OWN} {TAGS[5]}", "", "")] == ["stale"]
    assert made.registry.stale[OWN] == "segment 0"


def test_the_builder_and_a_built_registry_agree() -> None:
    own = [(OWN, 0, "copper kettle"), (TAIL, 0, "brass lamp"), (FOREIGN, 1, "linen kite")]
    built = Registry.build(own, [DECOY], {STALE: "before"})
    for session in (0, 1, 2):
        assert built.hits(session, " ".join(TAGS[:8]), "", "") == builder().hits(session, " ".join(TAGS[:8]), "", "")
        assert built.own(session) == builder().registry.own(session)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 599), unique=True, max_size=12), st.integers(0, 5))
def test_hits_are_exactly_the_tags_of_others(said: list[int], session: int) -> None:
    registry = Registry.build((tag, place % 6, f"label {place}") for place, tag in enumerate(TAGS))
    hits = registry.hits(session, " and ".join(TAGS[place] for place in said), "", "")
    assert [hit.tag for hit in hits] == [TAGS[place] for place in said if place % 6 != session]
    assert all(hit.owner is not None and hit.owner != session for hit in hits)
