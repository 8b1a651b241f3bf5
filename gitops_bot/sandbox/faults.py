"""Faults on demand: which next request fails or is slow, whether its effect happens all the same, and what happens
elsewhere once so many requests were answered. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

SECONDARY: Final = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
MESSAGES: Final[Mapping[int, str]] = MappingProxyType(
    {
        401: "Bad credentials",
        403: SECONDARY,
        404: "Not Found",
        429: SECONDARY,
        500: "Server Error",
        502: "Server Error",
        503: "Service Unavailable",
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned failure: a glob over `METHOD /path`, what is answered, and how often.

    `delay` in seconds comes first; a fault with status None is nothing but slow.
    """

    pattern: str
    status: int | None
    times: int = 1
    after_effect: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0

    @property
    def message(self) -> str:
        """The words of the answer."""
        return MESSAGES.get(self.status or 500, "Server Error")


@dataclass(frozen=True, slots=True)
class Push:
    """A planned push: once `reads` requests that match were answered, somebody moves a branch."""

    pattern: str
    reads: int
    repository_id: int
    branch: str
    account_id: int


class Faults:
    """Planned failures and pushes, first planned first used."""

    def __init__(self) -> None:
        self._planned: list[Fault] = []
        self._pushes: list[Push] = []

    def plan(self, fault: Fault) -> None:
        """Add a failure."""
        self._planned.append(fault)

    def plan_push(self, push: Push) -> None:
        """Add a push."""
        self._pushes.append(push)

    def clear(self) -> None:
        """Forget every plan."""
        self._planned.clear()
        self._pushes.clear()

    def take(self, *names: str) -> Fault | None:
        """Use up one failure of the first fault that matches any name of a request; None when none does."""
        for place, fault in enumerate(self._planned):
            if any(fnmatchcase(name, fault.pattern) for name in names):
                if fault.times <= 1:
                    del self._planned[place]
                else:
                    self._planned[place] = replace(fault, times=fault.times - 1)
                return fault
        return None

    def due_pushes(self, *names: str) -> tuple[Push, ...]:
        """Count an answered request in, and give the pushes that it makes due."""
        counted = [
            replace(push, reads=push.reads - any(fnmatchcase(name, push.pattern) for name in names))
            for push in self._pushes
        ]
        self._pushes = [push for push in counted if push.reads > 0]
        return tuple(push for push in counted if push.reads <= 0)
