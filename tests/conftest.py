"""What every test of the repository shares: Hypothesis profiles and the fixtures of the store.

`HYPOTHESIS_PROFILE` chooses `quick` (the default, also of `make check`) or `full` (`make test`), `long` for
`make test-long`. None has a deadline: the machines that run this are shared, and what must be fast is
measured by counting or by a ratio.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("quick", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("full", max_examples=300, deadline=None)
settings.register_profile("long", max_examples=20_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

pytest_plugins = ["tests.store_fixtures"]
