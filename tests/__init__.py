"""The tests. What Hypothesis may conclude from time, which on a busy machine says nothing, is set here."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "cloche",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # Where a failure stops everybody, the examples are the same each time; at a desk they are always new.
    derandomize=os.environ.get("CLOCHE_NO_SKIP") == "1",
)
settings.load_profile("cloche")
