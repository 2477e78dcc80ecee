"""The cache of token ids: what was kept comes back, and whatever is damaged or of something else is a miss."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui import idcache
from infermaxx_tui.core import segments
from infermaxx_tui.core.transcript import Message, Request, Session, Window
from infermaxx_tui.idcache import IdCache, cache_key, tokenise_cached
from infermaxx_tui.vocabulary import Vocabulary, shipped

SESSION = Session(
    "s",
    "test",
    "s.jsonl",
    (Window("start", (Request((Message("user", "Hi 🙂"),), Message("assistant", "Hello")),) * 2),),
)

ids = st.lists(st.integers(0, 2**32 - 1)).map(tuple)
requests = st.builds(
    segments.TokenisedRequest, ids, ids, st.integers(0, 2**40), st.booleans(), st.none() | st.floats(0, 1)
)
transcripts = st.builds(
    segments.TokenisedTranscript, st.text(), st.text(), st.text(), st.text(), st.lists(requests).map(tuple)
)


@given(tokenised=transcripts)
def test_what_was_put_comes_back(
    tmp_path_factory: pytest.TempPathFactory, tokenised: segments.TokenisedTranscript
) -> None:
    cache = IdCache(tmp_path_factory.getbasetemp() / "kept")
    assert cache.put("k", tokenised)
    assert cache.get("k") == tokenised


def test_files_are_the_owners_and_no_half_written_one_stays(tmp_path: Path) -> None:
    cache = IdCache(tmp_path / "cache")
    assert cache.put("k", segments.tokenise(SESSION, shipped()))
    path = cache.path("k")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_every_damage_is_a_miss(tmp_path: Path) -> None:
    cache = IdCache(tmp_path)
    tokenised = segments.tokenise(SESSION, shipped())
    cache.put("k", tokenised)
    raw = cache.path("k").read_bytes()
    for place in range(0, len(raw), 3):
        cache.path("k").write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        assert cache.get("k") is None
    for length in (0, 1, 32, 33, len(raw) - 1):
        cache.path("k").write_bytes(raw[:length])
        assert cache.get("k") is None
    cache.path("other").write_bytes(raw)
    assert cache.get("other") is None
    cache.path("k").write_bytes(raw)
    assert cache.get("k") == tokenised


def test_a_disk_that_takes_nothing_loses_nothing_but_the_entry(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache = IdCache(blocked)
    tokenised = segments.tokenise(SESSION, shipped())
    assert cache.put("k", tokenised) is False
    assert cache.get("k") is None
    assert tokenise_cached(SESSION, shipped(), cache) == tokenised
    taken = IdCache(tmp_path / "c")
    taken.path("k").mkdir(parents=True)
    assert taken.put("k", tokenised) is False
    assert [file.name for file in taken.path("k").parent.iterdir()] == ["k.ids"]


class Counting(Vocabulary):
    """Counts what it renders; `sha256` can be that of a server's renderer."""

    renders = 0
    fingerprint = ""

    @property
    def sha256(self) -> str:
        return self.fingerprint or super().sha256

    def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
        self.renders += 1
        return super().render(messages, tools, add_generation_prompt)


def counting(template: str) -> Counting:
    from importlib import resources

    folder = resources.files("infermaxx_tui") / "data"
    written = (folder / "chat_template.jinja").read_text("utf-8")
    return Counting("counting", (folder / "tokenizer.json").read_text("utf-8"), template or written)


def test_the_second_time_nothing_is_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERMAXX_CACHE", str(tmp_path / "here"))
    renderer = counting("")
    first = tokenise_cached(SESSION, renderer)
    done = renderer.renders
    assert done > 0
    assert tokenise_cached(SESSION, renderer) == first
    assert renderer.renders == done
    assert (tmp_path / "here" / "ids").is_dir()


def test_a_servers_renderer_is_always_asked(tmp_path: Path) -> None:
    renderer = counting("")
    renderer.fingerprint = "probe:1"
    cache = IdCache(tmp_path)
    tokenise_cached(SESSION, renderer, cache)
    done = renderer.renders
    tokenise_cached(SESSION, renderer, cache)
    assert renderer.renders == 2 * done
    assert not cache.path("x").parent.exists()


def test_the_key_depends_on_all_that_the_ids_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    longer = Session("s", "test", "s.jsonl", (Window("start", SESSION.requests * 2),))
    retemplated = counting("{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}")
    fingerprinted = counting("")
    fingerprinted.fingerprint = "f" * 64
    keys = {
        cache_key(SESSION, counting("")),
        cache_key(longer, counting("")),
        cache_key(SESSION, retemplated),
        cache_key(SESSION, fingerprinted),
        cache_key(SESSION, counting(""), "all"),
    }
    monkeypatch.setattr(idcache, "SEGMENTS_VERSION", -1)
    keys.add(cache_key(SESSION, counting("")))
    assert len(keys) == 6


def test_the_folder_is_the_platforms_unless_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INFERMAXX_CACHE", str(tmp_path))
    assert idcache.cache_folder() == tmp_path
    monkeypatch.delenv("INFERMAXX_CACHE")
    assert idcache.cache_folder().name == "infermaxx"
