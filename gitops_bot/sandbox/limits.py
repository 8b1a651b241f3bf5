"""Rate limits (GitHub REST, rate limits): the primary one by the hour, and the secondary ones where switched on.

Pure; `now` is whole seconds since the epoch. Both count by account; conditional answers are free of the primary limit
only. The limit of 100 requests at a time is not kept here.
"""

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

WINDOW: Final = 3600
"""Seconds of one primary window."""

POINTS_A_MINUTE: Final = {"core": 900, "graphql": 2000}
CONTENT_A_MINUTE: Final = 80
CONTENT_AN_HOUR: Final = 500
READ_POINTS: Final = 1
WRITE_POINTS: Final = 5


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
    """Primary allowances by account and resource (`core`, `graphql`); `hourly` is what a new window gives."""

    def __init__(self, hourly: int = 5000) -> None:
        self.hourly = hourly
        self._windows: dict[tuple[int, str], Allowance] = {}

    def allowance(self, account_id: int, now: int, resource: str = "core") -> Allowance:
        """Tell what is left without using any; a window that has ended starts anew."""
        known = self._windows.get((account_id, resource))
        if known is None or now >= known.reset:
            known = Allowance(self.hourly, 0, now + WINDOW)
            self._windows[(account_id, resource)] = known
        return known

    def use(self, account_id: int, now: int, resource: str = "core") -> Allowance:
        """Use one request."""
        known = self.allowance(account_id, now, resource)
        used = replace(known, used=known.used + 1)
        self._windows[(account_id, resource)] = used
        return used


class SecondaryLimits:
    """Points a minute, and new content a minute and an hour, by account. Off until `enabled`."""

    def __init__(self) -> None:
        self.enabled = False
        self._points: dict[tuple[int, str], deque[tuple[int, int]]] = {}
        self._content: dict[int, deque[int]] = {}

    def retry_after(self, account_id: int, now: int, *, resource: str, points: int, creates: bool) -> int | None:
        """Count one request in; or give the seconds after which it would fit, and count nothing."""
        if not self.enabled:
            return None
        spent = self._points.setdefault((account_id, resource), deque())
        while spent and spent[0][0] <= now - 60:
            spent.popleft()
        made = self._content.setdefault(account_id, deque())
        while made and made[0] <= now - WINDOW:
            made.popleft()
        waits = [0]
        if sum(cost for _, cost in spent) + points > POINTS_A_MINUTE[resource]:
            waits.append(spent[0][0] + 60 - now)
        if creates:
            minute = [at for at in made if at > now - 60]
            waits += [minute[0] + 60 - now] if len(minute) >= CONTENT_A_MINUTE else []
            waits += [made[0] + WINDOW - now] if len(made) >= CONTENT_AN_HOUR else []
        if max(waits) > 0:
            return max(waits)
        spent.append((now, points))
        if creates:
            made.append(now)
        return None
