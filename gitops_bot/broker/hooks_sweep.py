"""Deliveries that failed are asked for again, and what is remembered of old ones is dropped; both a little at a time.

Nothing depends on it: the poll finds whatever was lost. Where the bot may not see webhooks that is said once, in the
log, and looked at again rarely.
"""

import logging
from collections.abc import Callable
from typing import Final

from gitops_bot.authority.duties import FINISHED, Again, Outcome
from gitops_bot.core.errors import Unavailable
from gitops_bot.store import deliveries, due
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database

DUTY: Final = "hooks_sweep"
EVERY_MS: Final = 300_000
RARELY_MS: Final = 86_400_000
KEPT_MS: Final = 7 * 86_400_000
MOST_PURGED: Final = 2_000
_log: Final = logging.getLogger(__name__)

AskAgain = Callable[[str], int]
"""Asks the forge for what the webhook of a key failed to deliver; how many it were."""


class Sweep:
    """`one` is the handler of the duty `hooks_sweep`, whose key is a repository or stands for the bot's App."""

    def __init__(self, database: Database, ask_again: AskAgain) -> None:
        self._database = database
        self._ask_again = ask_again
        self._told: set[str] = set()
        self._keys: frozenset[str] = frozenset()

    def arm(self, keys: tuple[str, ...]) -> None:
        """Make sure that every webhook is looked at, and no other from here on."""
        self._keys = frozenset(keys)
        with self._database.write() as tx:
            for key in keys:
                due.ensure(tx, DUTY, key)

    def one(self, claimed: Claimed) -> Outcome:
        """Look at one webhook once; what was armed under other settings ends."""
        if claimed.key not in self._keys:
            return FINISHED
        with self._database.write() as tx:
            deliveries.purge(tx, tx.now - KEPT_MS, MOST_PURGED)
        try:
            self._ask_again(claimed.key)
        except Unavailable as error:
            if not error.refused:
                raise
            if claimed.key not in self._told:
                self._told.add(claimed.key)
                _log.warning(
                    "%s: failed deliveries are not asked for again, the bot may not list webhooks (%s); "
                    "the poll finds what was lost",
                    claimed.key,
                    error,
                )
            return Again(RARELY_MS)
        return Again(EVERY_MS)
