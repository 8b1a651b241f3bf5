"""Faults on demand: which next request fails, with what, and whether its effect happens all the same. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

MESSAGES: Final[Mapping[int, str]] = MappingProxyType(
    {
        401: "Bad credentials",
        403: "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
        404: "Not Found",
        429: "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
        500: "Server Error",
        502: "Server Error",
        503: "Service Unavailable",
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned failure: a glob over `METHOD /path`, what is answered, and how often."""

    pattern: str
    status: int
    times: int
    after_effect: bool
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """The words of the answer."""
        return MESSAGES.get(self.status, "Server Error")


class Faults:
    """Planned failures, first planned first used."""

    def __init__(self) -> None:
        self._planned: list[Fault] = []

    def plan(self, fault: Fault) -> None:
        """Add one."""
        self._planned.append(fault)

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
