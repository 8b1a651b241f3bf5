"""The primary rate limit: so many requests an hour for each account, conditional answers free.

Pure; `now` is whole seconds since the epoch. Secondary limits are told through faults.
"""

from dataclasses import dataclass, replace
from typing import Final

WINDOW: Final = 3600
"""Seconds of one window (GitHub REST, rate limits)."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What an account has left: requests allowed and used in the window that ends at `reset`."""

    limit: int
    used: int
    reset: int

    @property
    def remaining(self) -> int:
        """Requests left."""
        return max(0, self.limit - self.used)


class Limits:
    """Allowances by account; `hourly` is what a new window gives."""

    def __init__(self, hourly: int = 5000) -> None:
        self.hourly = hourly
        self._windows: dict[int, Allowance] = {}

    def allowance(self, account_id: int, now: int) -> Allowance:
        """Tell what is left without using any; a window that has ended starts anew."""
        known = self._windows.get(account_id)
        if known is None or now >= known.reset:
            known = Allowance(self.hourly, 0, now + WINDOW)
            self._windows[account_id] = known
        return known

    def use(self, account_id: int, now: int) -> Allowance:
        """Use one request."""
        known = self.allowance(account_id, now)
        self._windows[account_id] = replace(known, used=known.used + 1)
        return self._windows[account_id]
