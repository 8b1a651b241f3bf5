"""What every channel does with what it heard: a claim for a comment, a nudge for whoever reads a pull request fresh.

Nothing is believed and nothing is decided: only (repository id, comment id) goes on, and only for pull requests that
the bot opened. One comment is one claim, however often and by whatever way it is heard of.
"""

import enum
from typing import Final, assert_never

from gitops_bot.authority import edits, reviews
from gitops_bot.authority.comments import leave_hint
from gitops_bot.core.errors import Fact
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.readings import CommentHint
from gitops_bot.core.verdicts import Channel
from gitops_bot.forge.grammar import Silent, parse
from gitops_bot.forge.hooks.grammar import CheckPressed, Hint, Ignored, InstallationChanged, Ping, PullHint, ReviewHint
from gitops_bot.store import captures, claims, due, ledger, outbox
from gitops_bot.store.engine import Tx

POLL_DUTY: Final = "poll"
PULLS_DUTY: Final = "pulls"
_MINUTE: Final = 60_000


class Heard(enum.Enum):
    """What became of a comment: it is none of ours, it left a claim, or it left none (known, or no command)."""

    ELSEWHERE = enum.auto()
    CLAIMED = enum.auto()
    NOTHING_NEW = enum.auto()


def comment(tx: Tx, hint: CommentHint) -> Heard:
    """Leave a claim where a comment on a pull request of the bot's may be a command."""
    if captures.pull_request(tx, hint.repository_id, hint.pull_request) is None:
        return Heard.ELSEWHERE
    # A filter only: what the comment says is read fresh at intake.
    is_new = not isinstance(parse(hint.body), Silent) and leave_hint(
        tx, hint.repository_id, hint.comment_id, hint.pull_request, updated_at=hint.updated_at
    )
    return Heard.CLAIMED if is_new else Heard.NOTHING_NEW


def comment_listed(tx: Tx, hint: CommentHint) -> None:
    """Hear of a comment from a listing of the forge; an edit of one that was claimed is noted."""
    if comment(tx, hint) is Heard.NOTHING_NEW:
        edits.note(tx, hint)


def delivered(tx: Tx, hint: Hint, app_id: int) -> bool:
    """Act on what a webhook told. `app_id` is our App's, 0 without one. False: it concerns nothing of ours."""
    match hint:
        case CommentHint():
            return _comment_delivered(tx, hint)
        case PullHint(repository_id, number, _):
            row = captures.pull_request(tx, repository_id, number)
            if row is None or row.closed:
                return False
            due.set_due(tx, PULLS_DUTY, row.repository, tx.now)
            return True
        case ReviewHint():
            return _reviewed(tx, hint)
        case CheckPressed():
            return _pressed(tx, hint)
        case InstallationChanged():
            if hint.app_id != app_id:
                return False
            facts: dict[str, Fact] = {"installation": hint.installation_id, "action": hint.action}
            ledger.append(tx, Entry(EventKind.INSTALLATION_CHANGED, tx.now, channel=Channel.FORGE.value, facts=facts))
            return True
        case Ping() | Ignored():
            return False
        case _:
            assert_never(hint)


def _comment_delivered(tx: Tx, hint: CommentHint) -> bool:
    heard = comment(tx, hint)
    if heard is not Heard.NOTHING_NEW:
        return heard is Heard.CLAIMED
    known = claims.by_source(tx, Channel.FORGE, f"{hint.repository_id}:{hint.comment_id}")
    seen = None if known is None else known.facts.get("updated_at")
    row = captures.pull_request(tx, hint.repository_id, hint.pull_request)
    if row is None or not isinstance(seen, int) or hint.updated_at <= seen:
        return False
    # What changed, and that it did, is for the poll to see: it keeps how far each comment was noted.
    due.set_due(tx, POLL_DUTY, row.repository, tx.now)
    return True


def _reviewed(tx: Tx, hint: ReviewHint) -> bool:
    """Leave a claim where a review of a pull request of the bot's may hold a command; the text is only a filter."""
    if captures.pull_request(tx, hint.repository_id, hint.number) is None or isinstance(parse(hint.body), Silent):
        return False
    return reviews.leave_hint(tx, hint.repository_id, hint.review_id, hint.number)


def _pressed(tx: Tx, hint: CheckPressed) -> bool:
    """Bring the status up to date, at most once a minute, whoever pressed; both buttons ask for no more than that."""
    capture = captures.of_ask(tx, hint.ask)
    if capture is None or capture.pull_request is None:
        return False
    row = captures.pull_request(tx, hint.repository_id, capture.pull_request)
    if row is None or row.capture != capture.id:
        return False
    payload = {"capture": capture.id, "number": row.number}
    key = f"status:{capture.id}:pressed:{tx.now // _MINUTE}"
    outbox.enqueue(
        tx,
        outbox.Effect(key, f"capture:{capture.id}", "forge.status", payload, replace_key=f"status:{row.number}"),
    )
    return True
