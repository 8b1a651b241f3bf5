"""What a run may still use. Time is the sum of active intervals, so that waiting for a person is free (I11).

Pure: `now` is monotonic seconds. Between two looks no more than `MAX_GAP` counts: a longer gap means that the process
or the machine was suspended, and nobody worked in it. The driver looks several times a second while it is active.
"""

from dataclasses import dataclass, replace
from typing import Final

MAX_GAP: Final = 5.0


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds and US dollars used, and their limits (0 = unlimited); `since` is the last look of an active interval."""

    max_seconds: float = 0.0
    max_usd: float = 0.0
    spent: float = 0.0
    elapsed: float = 0.0
    since: float | None = None

    def started(self, now: float) -> "Budget":
        """Begin an active interval; one that runs already goes on."""
        return self.looked(now) if self.since is not None else replace(self, since=now)

    def looked(self, now: float) -> "Budget":
        """Count the time since the last look, when active."""
        if self.since is None:
            return self
        gap = now - self.since
        return replace(self, elapsed=self.elapsed + (gap if 0 <= gap <= MAX_GAP else 0.0), since=now)

    def stopped(self, now: float) -> "Budget":
        """End the active interval."""
        return replace(self.looked(now), since=None)

    def charged(self, usd: float) -> "Budget":
        """Add what a turn cost."""
        return replace(self, spent=self.spent + max(usd, 0.0))

    def limited(self, usd: float) -> "Budget":
        """Set another limit of cost; 0 = unlimited."""
        return replace(self, max_usd=usd)

    def exceeded(self) -> str | None:
        """Say which limit is reached, None when there is room."""
        if self.max_seconds and self.elapsed >= self.max_seconds:
            return f"the time budget of {self.max_seconds:g} s is used"
        if self.max_usd and self.spent >= self.max_usd:
            return f"the cost budget of {self.max_usd:g} USD is used"
        return None
