"""Settings of all property tests: no deadlines and no complaint of slowness, since time is never asserted.

In CI the examples are the same each time, so that a red run can be run again; elsewhere they are always new ones.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
