"""Sealing soon: whoever follows the ledger sees an answer well within a second, and a ledger at rest costs one read.

The row of the duty stays the truth: once a second its holder looks back for entries that were committed late. In
between, what was written is sealed as soon as it is noticed, by a hint or at the next look. Two who do so at one time
take turns, and the second finds nothing left.
"""

from typing import Final

from gitops_bot.authority.duties import IDLE_SECONDS, Pace, RowDuty
from gitops_bot.authority.sealing import BATCH, DUTY, Sealer
from gitops_bot.core.errors import Unavailable
from gitops_bot.store.engine import Database

SOON_SECONDS: Final = 0.25


class SealDuty:
    """The sealer's duty; implements `ports.Duty`."""

    def __init__(self, database: Database, sealer: Sealer, pace: Pace) -> None:
        self.name = DUTY
        self._sealer = sealer
        self._row = RowDuty(DUTY, database, sealer.step, pace)

    def step(self) -> float:
        """Seal a batch of what was written, and do what is due. Gives the seconds until there may be more."""
        try:
            if self._sealer.is_behind() and self._sealer.seal() == BATCH:
                return 0.0
        except Unavailable:
            return IDLE_SECONDS
        return min(self._row.step(), SOON_SECONDS)
