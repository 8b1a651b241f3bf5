"""The poll: one conditional request a repository and round finds comments that may be commands, and leaves hints.

Nothing is read but the listing, and nothing is decided. The cursor moves only over what was committed as hints, by the
forge's own times, with an overlap: `since` has a resolution of one second and includes its own, and what was written
last is not always listed first (facts/github.md). Comments that were seen before are known by their claim.
"""

import json
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority import hearing
from gitops_bot.authority.duties import Again, Outcome
from gitops_bot.ports import Forge
from gitops_bot.store import captures, due, settings
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database

DUTY: Final = hearing.POLL_DUTY
OVERLAP_MS: Final = 5_000


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
            stored = settings.cursor(tx, f"comments:{repository}")
            now = tx.now
        known = {} if stored is None else json.loads(stored)
        since: int = known["since"] if known else self._first(repository, now)
        page = self._forge.comments_since(repository, since, known.get("etag"))
        # The URL stays the same until something newer arrives: a moving `since` would defeat the ETag.
        newest = since if page.newest is None else max(since, page.newest - OVERLAP_MS)
        with self._database.write() as tx:
            for hint in page.hints:
                hearing.comment_listed(tx, hint)
            if not page.unchanged:
                value = {"since": newest, "etag": page.etag if newest == since else None}
                settings.set_cursor(tx, f"comments:{repository}", json.dumps(value))
            waits = captures.asks_waiting(tx, repository)
        if newest != since and page.etag is None:
            return Again(0)  # there are more pages than one listing reads
        return Again(self._pace.fast if waits else self._pace.slow)

    def _first(self, repository: str, now: int) -> int:
        """Say where to begin without a cursor: as far back as a comment may count, by the forge's own clock."""
        return (self._forge.repository(repository).at or now) - self._pace.first_look_back
