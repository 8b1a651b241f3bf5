"""The expiry duty: an ask whose time is over ends as EXPIRED, by the database's clock, and is never approved (I5)."""

from collections.abc import Callable

from gitops_bot.authority.closing import Ended, expire
from gitops_bot.authority.duties import FINISHED, Again, Outcome
from gitops_bot.core.asks import AskState
from gitops_bot.store import asks
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx


class Expiry:
    """Expires asks; `ended` is told in the same transaction (a capture that waited is settled there)."""

    def __init__(self, database: Database, ended: Callable[[Tx, Ended], None] | None = None) -> None:
        self._database = database
        self._ended = ended

    def one(self, claimed: Claimed) -> Outcome:
        """Expire one ask, or look again when its time is not over (its row came early)."""
        with self._database.write() as tx:
            result = expire(tx, claimed.key)
            if isinstance(result, Ended) and self._ended is not None:
                self._ended(tx, result)
            ask = asks.get(tx, claimed.key)
            if ask is not None and ask.state is AskState.OPEN and ask.expires_at is not None:
                return Again(max(ask.expires_at - tx.now, 1))
        return FINISHED
