"""The prefix cache: whole blocks, kept apart by salt, lost when the pool is full."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.sim.cache import PrefixCache
from infermaxx_tui.sim.reading import pack

prompts = st.lists(st.integers(0, 3), min_size=1, max_size=90)


def shared(a: list[int], b: list[int]) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


@given(st.lists(prompts, max_size=6), prompts)
def test_hits_are_the_longest_shared_prefix_in_whole_blocks(known: list[list[int]], asked: list[int]) -> None:
    cache = PrefixCache(10_000, 4)
    for prompt in known:
        cache.add(pack(prompt), "")
    best = max((min(shared(asked, p) // 4, len(p) // 4, (len(asked) - 1) // 4) for p in known), default=0)
    assert cache.cached_tokens(pack(asked), "") == 4 * best


def test_the_measured_case_of_552_tokens() -> None:
    """vllm-wire §7d, with its block of 128: first nothing, again 512; a salt has a space of its own."""
    cache, prompt = PrefixCache(100, 128), pack(range(552))
    seen = []
    for salt in ("", "", "A", "A", "B", ""):
        seen.append(cache.cached_tokens(prompt, salt))
        cache.add(prompt, salt)
    assert seen == [0, 512, 0, 512, 0, 512]


def test_a_prompt_of_whole_blocks_keeps_its_last_block_to_compute() -> None:
    cache, prompt = PrefixCache(100, 16), pack(range(64))
    cache.add(prompt, "")
    assert cache.cached_tokens(prompt, "") == 48


@given(st.lists(prompts, max_size=20))
def test_it_never_holds_more_than_the_pool(known: list[list[int]]) -> None:
    cache = PrefixCache(5, 4)
    for prompt in known:
        cache.cached_tokens(pack(prompt), "")
        cache.add(pack(prompt), "")
        assert len(cache) <= 5


def test_the_least_recently_used_goes_first() -> None:
    cache = PrefixCache(4, 2)
    old, new, third = pack([1, 1, 1, 1, 9]), pack([2, 2, 2, 2, 9]), pack([3, 3, 9])
    cache.add(old, "")
    cache.add(new, "")
    assert cache.cached_tokens(old, "") == 4
    cache.add(third, "")
    assert cache.cached_tokens(old, "") == 4
    assert cache.cached_tokens(new, "") < 4


def test_a_cleared_cache_is_cold() -> None:
    cache, prompt = PrefixCache(100, 16), pack(range(64))
    cache.add(prompt, "")
    cache.clear()
    assert cache.cached_tokens(prompt, "") == 0
