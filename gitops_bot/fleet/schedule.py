"""When a scheduled agent is next due: a cron expression of five fields, read in the wall time of a named zone.

The fields, and what daylight saving does to them, are those of Debian's cron, as `cronsim` has them: what falls into a
gap runs at its end, what falls into a repeated hour runs once, and what runs every few minutes or hours keeps its pace.
The zones are the system's, else those of `tzdata`. What is given is later than the moment asked about, always.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from gitops_bot.core.errors import Malformed

MAX_CRON: Final = 200
FIELDS: Final = 5
# Names of the database; none leaves its folder, and `localtime` would be whatever a machine is set to.
_ZONE: Final = re.compile(
    r"(?!localtime\Z|posix)[A-Za-z][A-Za-z0-9_+-]{0,31}(?:/[A-Za-z][A-Za-z0-9_+-]{0,31}){0,2}", re.ASCII
)
_CRON: Final = re.compile(r"[0-9A-Za-z*/,#\- ]+", re.ASCII)
# One repeated hour holds 60 minutes, which a candidate may fall back by.
_TRIES: Final = 200
_PROBE: Final = 946_684_800_000


def check(cron: str, zone: str) -> None:
    """Check that an expression and a zone name times to come.

    Raises:
        Malformed: another form or zone, or an expression that no day matches, as the 30th of February.
    """
    next_after(cron, zone, _PROBE)


def next_after(cron: str, zone: str, now_ms: int) -> int:
    """Give the first time (ms) after a moment (ms) that an expression names.

    Raises:
        Malformed: as `check`; there is none within 50 years.
    """
    try:
        for _, moment in zip(range(_TRIES), _moments(cron, _zone(zone), now_ms), strict=False):
            at = int(moment.timestamp()) * 1_000
            if at > now_ms:
                return at
    except CronSimError as error:
        raise Malformed(f"no schedule: {error}", where="cron") from None
    raise Malformed("no day within 50 years matches", where="cron")


def _moments(cron: str, zone: ZoneInfo, now_ms: int) -> Iterator[datetime]:
    if len(cron) > MAX_CRON or _CRON.fullmatch(cron) is None or len(cron.split()) != FIELDS:
        raise Malformed("five fields, as in 30 7 * * MON-FRI: minute, hour, day, month, weekday", where="cron")
    return CronSim(cron, datetime.fromtimestamp(now_ms // 1_000, UTC).astimezone(zone))


def _zone(name: str) -> ZoneInfo:
    try:
        if _ZONE.fullmatch(name) is None:
            raise ValueError(name)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Malformed("no zone of the tz database, as Europe/Berlin or UTC", where="zone") from None
