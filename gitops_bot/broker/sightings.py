"""What was last seen of a pull request, and the words that its status has for it.

A row of `cursors` a pull request: it tells a new state from one that was acted on, so that each is acted on once.
"""

import json
from dataclasses import asdict, dataclass

from gitops_bot.core.readings import PullRequest
from gitops_bot.forge.quoting import phrase
from gitops_bot.store import settings
from gitops_bot.store.engine import Tx


@dataclass(frozen=True, slots=True)
class Sighting:
    """A pull request as it was seen; `closed_by` is a login, for people to read."""

    state: str
    draft: bool
    merged: bool
    head: str
    base: str
    closed_by: str | None = None

    def remark(self) -> str:
        """Say what a reader of the status must know; empty while all is as the bot made it."""
        if self.merged:
            return "It was merged, which approves nothing. The ask stands; decide it in the workspace."
        if self.state != "open":
            who = f" by {phrase(self.closed_by)}" if self.closed_by else ""
            return (
                f"It was closed{who}, which did not settle this. The ask stands; reopen it, or decide in the workspace."
            )
        if not self.draft:
            return "It was marked ready for review, which approves nothing. Convert it back to a draft to decide here."
        return ""


def sighting(pull: PullRequest, closed_by: str | None = None) -> Sighting:
    """Give what is kept of a reading."""
    return Sighting(pull.state, pull.draft, pull.merged, pull.head_sha, pull.base_ref, closed_by)


def _name(repository_id: int, number: int) -> str:
    return f"pull:{repository_id}#{number}"


def last(tx: Tx, repository_id: int, number: int) -> Sighting | None:
    """Read what was seen last; None for the first time."""
    stored = settings.cursor(tx, _name(repository_id, number))
    return None if stored is None else Sighting(**json.loads(stored))


def keep(tx: Tx, repository_id: int, number: int, seen: Sighting) -> None:
    """Keep what was seen."""
    settings.set_cursor(tx, _name(repository_id, number), json.dumps(asdict(seen)))
