"""What the author of a comment and the readers of its pull request get back: a reaction, the status, one short reply.

Everything goes through the outbox, in the lane of the pull request. Whom to answer is decided by `comments`; how often
by the budgets here: at most three replies a person and ten a pull request in an hour.
"""

from dataclasses import dataclass
from typing import Final

from gitops_bot.core.asks import Ask
from gitops_bot.core.errors import Fact
from gitops_bot.core.readings import Comment, Reaction, Review
from gitops_bot.core.verdicts import Channel
from gitops_bot.forge import replies
from gitops_bot.store import captures, claims, outbox
from gitops_bot.store.captures import PullRequestRow
from gitops_bot.store.claims import Claim
from gitops_bot.store.engine import Tx

HOUR: Final = 3_600_000
REPLIES_A_PERSON: Final = 3
REPLIES_A_PULL_REQUEST: Final = 10


@dataclass(frozen=True, slots=True)
class Remark:
    """A claim with what somebody wrote on a pull request of the bot's: enough to answer in words, and no more."""

    claim: Claim
    repository: str
    row: PullRequestRow
    ask: Ask
    said: Comment | Review

    @property
    def lane(self) -> str:
        """Everything that is written to this pull request goes in this order."""
        return f"capture:{self.row.capture}"

    @property
    def thread(self) -> str:
        """The pull request by the repository's numeric id and its number."""
        return f"{self.row.repository_id}#{self.row.number}"

    @property
    def marker(self) -> str:
        """The hidden line by which the reply is found again."""
        of = replies.review_marker if isinstance(self.said, Review) else replies.reply_marker
        return of(self.said.id)


@dataclass(frozen=True, slots=True)
class Case(Remark):
    """A claim with the comment that was read for it; each step adds what it established."""

    said: Comment

    @property
    def comment(self) -> Comment:
        """The comment."""
        return self.said


def react(tx: Tx, case: Case, reaction: Reaction) -> None:
    """Leave a reaction on the comment; the same one twice is once."""
    payload = {"repository": case.repository, "comment": case.comment.id, "reaction": reaction.value}
    key = f"react:{case.claim.source}:{reaction.value}"
    outbox.enqueue(tx, outbox.Effect(key, case.lane, "forge.react", payload))


def show(tx: Tx, case: Case) -> None:
    """Bring the one status comment up to date."""
    capture = captures.get(tx, case.row.capture)
    if capture is not None and capture.pull_request == case.row.number:
        payload = {"capture": capture.id, "number": case.row.number}
        key = f"status:{capture.id}:claim:{case.claim.id}"
        outbox.enqueue(
            tx, outbox.Effect(key, case.lane, "forge.status", payload, replace_key=f"status:{case.row.number}")
        )


def within_budgets(tx: Tx, case: Remark) -> bool:
    """Tell whether this person and this pull request may get another reply in this hour."""
    since, counted = tx.now - HOUR, marks(case)
    to_person = claims.replies_since(tx, Channel.FORGE, since, f'"replied_to":{counted["replied_to"]},')
    on_thread = claims.replies_since(tx, Channel.FORGE, since, f'"replied_on":"{counted["replied_on"]}"')
    return to_person < REPLIES_A_PERSON and on_thread < REPLIES_A_PULL_REQUEST


def marks(case: Remark) -> dict[str, Fact]:
    """Give the facts by which replies are counted; `replying` only keeps a comma behind the number."""
    return {"replied_on": case.thread, "replied_to": case.said.author_id, "replying": True}


def say(tx: Tx, case: Remark, text: str) -> None:
    """Write one reply; that it is within the budgets is *not* checked."""
    payload = {
        "repository": case.repository,
        "number": case.row.number,
        "marker": case.marker,
        "body": text,
    }
    outbox.enqueue(tx, outbox.Effect(f"reply:{case.claim.source}", case.lane, "forge.reply", payload))
