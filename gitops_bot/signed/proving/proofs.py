"""What verifying processes found of the commits that wait to be judged, where enough wait to be worth their start.

A process that died, hung or answered strangely makes `gather` raise: the look holds what waits, and the look after it
verifies everything itself, so that neither a commit that kills such a process nor a host that cannot start one stops
a branch for ever.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from gitops_bot.core.errors import Unavailable
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.evidence import ObjectId, Signed
from gitops_bot.signed.proving.pool import Pool, tasks_of

WORTH: Final = 256
"""So many commits take longer to verify in this process than others take to start (0.2 s)."""


class Proofs:
    """The signatures that stand by the word of a pool; of commits that wait alone."""

    def __init__(self, pool: Pool | None, *, worth: int = WORTH) -> None:
        """Take the processes (None: there are none) and how many commits they are started for."""
        self._pool = pool
        self._worth = worth
        self._asked: dict[ObjectId, Signed | None] = {}
        self._failed = False

    def gather(self, waiting: Mapping[PrincipalName, Sequence[tuple[ObjectId, int]]]) -> None:
        """Have verified what waits on people's branches, each with the time of its receipt (ms), if it is much.

        Raises:
            Unavailable: a process died, hung, failed or answered strangely.
        """
        known = {oid: self._asked[oid] for many in waiting.values() for oid, _ in many if oid in self._asked}
        self._asked = known
        new = {person: [one for one in many if one[0] not in known] for person, many in waiting.items()}
        much = sum(map(len, new.values())) >= self._worth
        if self._pool is None or not much or self._failed:
            self._failed = False
            return
        try:
            stood = self._pool.prove(task for person, many in new.items() for task in tasks_of(person, many))
        except Unavailable:
            self._failed = True
            raise
        self._asked |= {oid: stood.get(oid) for many in new.values() for oid, _ in many}

    def of(self, oid: ObjectId) -> Signed | None:
        """Give the signature on a commit that stands; None where nothing is known of it."""
        return self._asked.get(oid)

    def close(self) -> None:
        """End the processes, if there are any."""
        if self._pool is not None:
            self._pool.close()
