"""What the newest selftest on this host came to, so that a verdict can cite it: an instrument is suspected first.

A run notes it among its gates (core.events.GateChecked), which decide nothing unless they are asked for. The log then
holds what was known of the judges when it was written, and judging it again gives the same bytes wherever that is done.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Final, Literal

import msgspec

from infermaxx_tui import __version__
from infermaxx_tui.core.events import GateChecked
from infermaxx_tui.idcache import cache_folder
from infermaxx_tui.private import make_folder
from infermaxx_tui.rundir import replace_file

SCHEMA: Final = 1
_CORE: Final = Path(__file__).resolve().parent / "core"
_SHOWN: Final = 12
"""Digits of a hash that people are shown."""


class OverSockets(msgspec.Struct, frozen=True, kw_only=True):
    """That the same runs were played by runner processes against servers over loopback, and what came of it."""

    at: str
    """When that ended, UTC, ISO 8601."""
    took_s: float
    planted: int
    caught: int
    clean: int
    false_alarms: int

    @property
    def proved(self) -> bool:
        """Whether all was caught and nothing healthy accused."""
        return self.caught == self.planted and not self.false_alarms


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a whole selftest."""

    schema: int = SCHEMA
    version: str
    core_sha256: str
    """Of the names and contents of all modules of infermaxx_tui.core."""
    at: str
    """When it ended, UTC, ISO 8601."""
    took_s: float
    planted: int
    """Runs that were sick or blind."""
    caught: int
    clean: int
    """Healthy runs, and harmless changes to them."""
    false_alarms: int
    mutations: int
    """Changes that must flip a verdict."""
    killed: int
    survivors: tuple[str, ...] = ()
    sockets: OverSockets | None = None
    """None where nothing of this program was played over sockets here."""

    @property
    def proved(self) -> bool:
        """Whether all was caught, nothing healthy accused, and no mutation survived; over sockets too, where tried."""
        seen = self.caught == self.planted and not self.false_alarms and self.killed == self.mutations
        return seen and (self.sockets is None or self.sockets.proved)

    @property
    def figures(self) -> str:
        """One line for people."""
        said = (
            f"{self.caught} of {self.planted} planted caught, {self.false_alarms} false alarms of {self.clean} clean,"
            f" {self.killed} of {self.mutations} mutations killed"
        )
        over = self.sockets
        if over is None:
            return f"{said}; not played over sockets"
        return (
            f"{said}; over sockets {over.at}: {over.caught} of {over.planted} caught,"
            f" {over.false_alarms} false alarms of {over.clean}"
        )


def core_sha256() -> str:
    """The hash of the judges and of all that they rest on, as they lie on disk."""
    digest = hashlib.sha256()
    for path in sorted(_CORE.rglob("*.py")):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(_CORE).as_posix()} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def place() -> Path:
    """The file, one for each user."""
    return cache_folder() / "selftest.json"


def over_sockets(earned: Certificate) -> Certificate:
    """The certificate of a selftest over sockets, which says so."""
    played = OverSockets(
        at=earned.at,
        took_s=earned.took_s,
        planted=earned.planted,
        caught=earned.caught,
        clean=earned.clean,
        false_alarms=earned.false_alarms,
    )
    return msgspec.structs.replace(earned, sockets=played)


def keep(certificate: Certificate) -> Path:
    """Writes it down, with what the one before says of sockets if that was the same program. Raises OSError."""
    before = newest()
    if certificate.sockets is None and before is not None and _same(before, certificate):
        certificate = msgspec.structs.replace(certificate, sockets=before.sockets)
    path = place()
    make_folder(path.parent)
    replace_file(path, msgspec.json.format(msgspec.json.encode(certificate), indent=2) + b"\n")
    return path


def _same(one: Certificate, other: Certificate) -> bool:
    return (one.core_sha256, one.version) == (other.core_sha256, other.version)


def newest() -> Certificate | None:
    """The one on this host; None if there is none that can be read."""
    try:
        return msgspec.json.decode(place().read_bytes(), type=Certificate)
    except (OSError, msgspec.DecodeError):
        return None


def now_utc() -> str:
    """The time of a certificate."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def cited() -> GateChecked | None:
    """What a run's log says of it, None if nobody has run a selftest here: its absence is no finding about a server."""
    found = newest()
    if found is None:
        return None
    core = core_sha256()
    said = f"{found.at}, version {found.version}, core {found.core_sha256[:_SHOWN]}: {found.figures}"
    outcome: Literal["pass", "fail", "unknown"] = "pass"
    advice = None
    if found.core_sha256 != core or found.version != __version__:
        outcome = "unknown"
        advice = f"that was another program (this is {__version__}, core {core[:_SHOWN]}): run infermaxx selftest again"
    elif not found.proved:
        outcome = "fail"
        advice = "the judges did not prove themselves: infermaxx selftest names what they missed"
    return GateChecked(name="selftest", when="before", outcome=outcome, required=False, said=said, advice=advice)
