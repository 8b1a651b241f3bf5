"""Where the bot is a GitHub App a check run mirrors the status comment, on the commit that the pull request was opened
with. It has a lane of its own: a thread that is locked or a comment that fails stops nothing here, and the other way
round. It shows and never decides.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.outbox import Delivered, Delivery, Impossible
from gitops_bot.core.asks import Ask
from gitops_bot.forge import replies
from gitops_bot.ports import Forge
from gitops_bot.store import asks, captures, outbox
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.outbox import Effect, StoredEffect

KIND: Final = "forge.check"


def show(tx: Tx, because: StoredEffect, capture: str, ask: str, number: int) -> None:
    """Put an update of a pull request's check run into the outbox, once for each update of its status; it is rendered
    from the rows when it leaves."""
    effect = Effect(
        key=f"check:{because.id}",
        lane=f"check:{capture}:{number}",
        kind=KIND,
        payload={"capture": capture, "ask": ask, "number": number},
        replace_key=f"check:{number}",
    )
    outbox.enqueue(tx, effect)


@dataclass(frozen=True, slots=True)
class Mirror:
    """Deliveries of check runs; `card` says what to show of an ask of a capture. `by_app` False: the bot is no App."""

    database: Database
    forge: Forge
    card: Callable[[Capture, Ask], replies.Card]
    by_app: bool

    def deliver(self, effect: StoredEffect) -> Delivery:
        """Bring the check run up to date: the one that is there, by name and external id, else a new one."""
        said = effect.payload
        with self.database.read() as tx:
            capture, ask = captures.get(tx, said["capture"]), asks.get(tx, said["ask"])
            row = captures.pull_request_of(tx, said["capture"], said["ask"])
        if not self.by_app or capture is None or ask is None or row is None:
            return Impossible("the bot is no GitHub App any more, or the rows moved on")
        check = replies.check(self.card(capture, ask))
        found = self.forge.find_check(row.repository, row.head, check)
        if found is None:
            found = self.forge.create_check(row.repository, row.head, check)
        else:
            self.forge.update_check(row.repository, found, check)
        return Delivered({"check": found})
