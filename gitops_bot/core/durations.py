"""A length of time written by a person has one spelling and is an integer of milliseconds here.

`90s`, `30m`, `2h`, `7d`: a whole number without leading zeros and one unit. Nothing is combined, nothing is a fraction.
"""

import re
from typing import Final

from gitops_bot.core.errors import Malformed

_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_FORM: Final = re.compile(r"([1-9][0-9]{0,7})([smhd])", re.ASCII)
MAX_DURATION: Final = 3_650 * _UNITS["d"]


def parse_duration(text: str, *, where: str = "") -> int:
    """Read a duration; give milliseconds, from one second up to ten years.

    Raises:
        Malformed: any other spelling, zero, or longer than `MAX_DURATION`.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise Malformed("a duration is a whole number and a unit, as in 90s, 30m, 2h or 7d", where=where)
    length = int(found[1]) * _UNITS[found[2]]
    if length > MAX_DURATION:
        raise Malformed("longer than 3650d", where=where)
    return length


def show_duration(milliseconds: int) -> str:
    """Write a duration in the largest unit that divides it; what is no whole second gets `ms`."""
    for unit, length in reversed(_UNITS.items()):
        if milliseconds and milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0s"
