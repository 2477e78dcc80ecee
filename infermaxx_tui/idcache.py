"""Token ids of transcripts on disk, because tokenising long ones again for every run takes longer than reading them.

An entry is found only by the same transcript, tokenizer, template and code, and used only if its checksum holds:
a cache can make a run faster, never different.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from array import array
from pathlib import Path
from typing import Literal

import msgspec
import platformdirs

from infermaxx_tui import __version__
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.segments import SEGMENTS_VERSION, TokenisedRequest, TokenisedTranscript, tokenise
from infermaxx_tui.core.transcript import Session
from infermaxx_tui.private import make_folder
from infermaxx_tui.server_renderer import FINGERPRINT

FOLDER_VARIABLE = "INFERMAXX_CACHE"
"""Environment variable that names another cache folder."""

Truth = Literal["none", "last", "all"]


class _StoredRequest(msgspec.Struct, frozen=True, array_like=True):
    delta: bytes
    reply: bytes
    prompt_tokens: int
    opens_window: bool
    prefix_share: float | None


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    session: str
    tokenizer: str
    tokenizer_sha256: str
    template_sha256: str
    requests: tuple[_StoredRequest, ...]
    wrapped_arguments: int


_DECODER = msgspec.msgpack.Decoder(_Stored)
_CHECKSUM_BYTES = hashlib.sha256().digest_size


def cache_folder() -> Path:
    """Where ids are kept: the folder that INFERMAXX_CACHE names, else the platform's cache folder for this program."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else Path(platformdirs.user_cache_dir("infermaxx", appauthor=False))


def cache_key(session: Session, renderer: Renderer, truth: Truth = "last") -> str:
    """Hex hash of all that the ids depend on: transcript, tokenizer, template and code."""
    parts = (
        hashlib.sha256(msgspec.json.encode(session)).hexdigest(),
        renderer.name,
        renderer.sha256,
        renderer.template_sha256,
        truth,
        f"{__version__}/{SEGMENTS_VERSION}",
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


class IdCache:
    """A folder of tokenised transcripts. No disk error comes out: what cannot be read is a miss."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = (folder if folder is not None else cache_folder()) / "ids"

    def path(self, key: str) -> Path:
        """The file of an entry, whether it exists or not."""
        return self._folder / f"{key}.ids"

    def get(self, key: str) -> TokenisedTranscript | None:
        """The entry, None if there is none or if it is damaged."""
        try:
            raw = self.path(key).read_bytes()
        except OSError:
            return None
        checksum, body = raw[:_CHECKSUM_BYTES], raw[_CHECKSUM_BYTES:]
        if hashlib.sha256(key.encode() + body).digest() != checksum:
            return None
        try:
            return _thawed(_DECODER.decode(body))
        except (msgspec.DecodeError, ValueError):
            return None

    def put(self, key: str, tokenised: TokenisedTranscript) -> bool:
        """Keeps an entry, whole or not at all, readable by its owner alone. False if the disk does not take it."""
        body = msgspec.msgpack.encode(_frozen(tokenised))
        name: str | None = None
        try:
            make_folder(self._folder)
            handle, name = tempfile.mkstemp(prefix=".new-", dir=self._folder)
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(key.encode() + body).digest() + body)
            os.replace(name, self.path(key))
        except OSError:
            if name is not None:
                with contextlib.suppress(OSError):
                    os.unlink(name)
            return False
        return True


def tokenise_cached(
    session: Session, renderer: Renderer, cache: IdCache | None = None, truth: Truth = "last"
) -> TokenisedTranscript:
    """`core.segments.tokenise` by way of the cache; a server's renderer is asked anew, since its hashes are probes."""
    if renderer.sha256.startswith(FINGERPRINT):
        return tokenise(session, renderer, truth)
    cache = cache if cache is not None else IdCache()
    key = cache_key(session, renderer, truth)
    found = cache.get(key)
    if found is None:
        found = tokenise(session, renderer, truth)
        cache.put(key, found)
    return found


def _packed(ids: tuple[int, ...]) -> bytes:
    """Little-endian unsigned integers of 32 bits."""
    numbers = array("I", ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _unpacked(raw: bytes) -> tuple[int, ...]:
    numbers = array("I")
    numbers.frombytes(raw)
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)


def _frozen(t: TokenisedTranscript) -> _Stored:
    requests = tuple(
        _StoredRequest(_packed(r.delta_ids), _packed(r.reply_ids), r.prompt_tokens, r.opens_window, r.prefix_share)
        for r in t.requests
    )
    return _Stored(t.session, t.tokenizer, t.tokenizer_sha256, t.template_sha256, requests, t.wrapped_arguments)


def _thawed(s: _Stored) -> TokenisedTranscript:
    requests = tuple(
        TokenisedRequest(_unpacked(r.delta), _unpacked(r.reply), r.prompt_tokens, r.opens_window, r.prefix_share)
        for r in s.requests
    )
    return TokenisedTranscript(
        s.session, s.tokenizer, s.tokenizer_sha256, s.template_sha256, requests, s.wrapped_arguments
    )
