"""The clocks of the outside world. The wall clock is for records and displays; no decision is made by it."""

import time


class SystemClock:
    """`ports.Clock` over the machine's monotonic clock."""

    def monotonic(self) -> float:
        """Give seconds that only grow."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def wall_seconds() -> int:
    """Give whole seconds since 1970 UTC."""
    return int(time.time())
