"""The poll: one conditional request a repository and round finds comments that may be commands, and leaves hints.

Nothing is read but the listing, and nothing is decided. The cursor moves only over what was committed as hints, with an
overlap of two seconds: `since` has a resolution of one second and includes its own (facts/github.md).
"""

import json
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.comments import leave_hint
from gitops_bot.authority.duties import Again, Outcome
from gitops_bot.core.asks import AskState
from gitops_bot.forge.grammar import Silent, parse
from gitops_bot.ports import Forge
from gitops_bot.store import asks, captures, due, settings
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx

DUTY: Final = "poll"
OVERLAP_MS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Pace:
    """How often to look, in ms: while an ask waits on a pull request of the repository, and else."""

    fast: int
    slow: int
    first_look_back: int


class Poll:
    """Looks for comments; `one` is the handler of the duty `poll`, whose key is a repository."""

    def __init__(self, database: Database, forge: Forge, pace: Pace) -> None:
        self._database = database
        self._forge = forge
        self._pace = pace

    def arm(self, repositories: tuple[str, ...]) -> None:
        """Make sure that every repository is looked at."""
        with self._database.write() as tx:
            for repository in repositories:
                due.ensure(tx, DUTY, repository)

    def one(self, claimed: Claimed) -> Outcome:
        """Look at one repository once."""
        repository = claimed.key
        with self._database.read() as tx:
            since, etag = self._cursor(tx, repository)
        page = self._forge.comments_since(repository, since, etag)
        with self._database.write() as tx:
            for hint in page.hints:
                # A filter only: what the comment says is read fresh at intake.
                if isinstance(parse(hint.body), Silent):
                    continue
                if captures.pull_request(tx, hint.repository_id, hint.pull_request) is not None:
                    leave_hint(tx, hint.repository_id, hint.comment_id, hint.pull_request)
            if not page.unchanged:
                # The URL stays the same until something newer arrives: a moving `since` would defeat the ETag.
                moved = page.newest is not None and page.newest - OVERLAP_MS > since
                newest = page.newest - OVERLAP_MS if moved and page.newest is not None else since
                value = json.dumps({"since": newest, "etag": None if moved else page.etag})
                settings.set_cursor(tx, f"comments:{repository}", value)
            waits = self._waits(tx, repository)
        return Again(self._pace.fast if waits else self._pace.slow)

    def _cursor(self, tx: Tx, repository: str) -> tuple[int, str | None]:
        stored = settings.cursor(tx, f"comments:{repository}")
        if stored is None:
            return tx.now - self._pace.first_look_back, None
        value = json.loads(stored)
        return value["since"], value["etag"]

    def _waits(self, tx: Tx, repository: str) -> bool:
        for row in captures.open_pull_requests(tx, repository):
            ask = asks.get(tx, row.ask)
            if ask is not None and ask.state is AskState.OPEN:
                return True
        return False
