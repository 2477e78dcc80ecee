"""Settings of the property tests: a busy machine is no failure, so no example has a deadline."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("core", deadline=None)
settings.load_profile("core")
