"""Read a log's bytes whatever it is packed in, without the pictures in it.

A picture is a run of base64 of many megabytes inside a line, and agents copy it again with every compaction: lines of
79 MB and files of 24 GB are pictures, not text (transcripts.md §3.3). A run is cut while it streams by, so that no line
has to be held whole; its first characters stay, so that whoever reads the line still sees a picture and counts it.
"""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from infermaxx_tui.core.transcript import TranscriptError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SUFFIXES = (".gz", ".zst")
"""What packed files are called besides their own name. What they are is seen from their first bytes."""

_CHUNK_BYTES = 1 << 20
_GZIP, _ZSTD, _BOM = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xef\xbb\xbf"

_MARKS = {b";base64,": 256, b'"data":"': 1 << 20, b'"data": "': 1 << 20}
"""What comes before a run, and how much of it is kept: 256 characters are enough to see a picture in a data URL; under
a bare key `data` a text might be meant, but none without a single space is this long."""
_MARK = re.compile(b"|".join(map(re.escape, _MARKS)))
_RUN = re.compile(rb"[A-Za-z0-9+/=_-]*+")
_LONGEST_MARK = max(map(len, _MARKS))


def stem(path: Path) -> str:
    """The file's name without what says how it is packed and written."""
    name = path.name
    for suffix in (*SUFFIXES, ".jsonl", ".json", ".traj"):
        name = name.removesuffix(suffix)
    return name


def chunks(path: Path) -> Iterator[bytes]:
    """The unpacked bytes of a file without its BOM and with the pictures cut short.

    Raises TranscriptError if the file cannot be opened or unpacked.
    """
    try:
        with path.open("rb") as file:
            cutter = _Cutter()
            first = True
            for chunk in _chunks(_unpacked(file, path)):
                yield cutter.feed(chunk.removeprefix(_BOM) if first else chunk)
                first = False
            yield cutter.flush()
    except FileNotFoundError:
        raise TranscriptError(str(path), None, "no such file") from None
    except IsADirectoryError:
        raise TranscriptError(str(path), None, "is a folder: name the files in it") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TranscriptError(str(path), None, f"damaged gzip: {error}") from None
    except zstd.ZstdError as error:
        raise TranscriptError(str(path), None, f"damaged zstd: {error}") from None
    except OSError as error:
        raise TranscriptError(str(path), None, f"cannot be read: {error.strerror or error}") from None


def _unpacked(file: BufferedReader, path: Path) -> BufferedReader | gzip.GzipFile | zstd.ZstdFile:
    magic = file.read(4)
    file.seek(0)
    if magic == _ZSTD:
        return zstd.ZstdFile(file)
    if magic[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise TranscriptError(str(path), 1, "not UTF-8 but UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`")
    return gzip.GzipFile(fileobj=file) if magic[:2] == _GZIP else file


def _chunks(file: BufferedReader | gzip.GzipFile | zstd.ZstdFile) -> Iterator[bytes]:
    while True:
        try:
            chunk = file.read1(_CHUNK_BYTES)
        except EOFError:  # a packed file that is still being written
            return
        if not chunk:
            return
        yield chunk


class _Cutter:
    """Shortens runs of base64 in a stream of chunks."""

    def __init__(self) -> None:
        self._held = b""
        """The end of the last chunk, which may be the beginning of a mark."""
        self._run = -1
        """Length of the run that the last chunk ended in, -1 outside of one."""
        self._keep = 0

    def feed(self, chunk: bytes) -> bytes:
        """What is left of the stream up to here, but for a few bytes that are held back."""
        data, at, out = self._held + chunk, 0, list[bytes]()
        self._held = b""
        while at < len(data):
            if self._run < 0:
                mark = _MARK.search(data, at) if b"e64," in data or b'"data"' in data else None
                if mark is None:
                    end = max(at, len(data) - _LONGEST_MARK + 1)
                    out.append(data[at:end])
                    self._held = data[end:]
                    break
                out.append(data[at : mark.end()])
                at, self._run, self._keep = mark.end(), 0, _MARKS[mark[0]]
            at = self._in_run(data, at, out)
        return b"".join(out)

    def _in_run(self, data: bytes, at: int, out: list[bytes]) -> int:
        """Keeps what is to be kept of the run at this place, and returns where it ends."""
        match = _RUN.match(data, at)
        end = match.end() if match is not None else at
        out.append(data[at : min(end, at + max(0, self._keep - self._run))])
        self._run += end - at
        if end < len(data):
            self._run = -1
        return end

    def flush(self) -> bytes:
        """What was held back."""
        held, self._held = self._held, b""
        return held
