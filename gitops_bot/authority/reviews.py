"""What a review of a pull request amounts to: never an answer. A command in it gets one hint, where commands count.

Reviews are heard of by webhook alone (forge-commands, intake channels), once each by their id, however often they are
delivered and whatever becomes of them later. The text is read fresh; nothing of it decides, and no reaction is left.
Whom to answer, and how often, is `comments`': people who may vote, within the budgets of an hour.
"""

from typing import Final

from gitops_bot.authority.comments import Intake, hold, ignore, reply_no, trace_id_of
from gitops_bot.authority.duties import FINISHED, Finished
from gitops_bot.authority.feedback import Remark
from gitops_bot.core.errors import Fact, Reason, Unavailable
from gitops_bot.core.verdicts import Channel, ClaimState
from gitops_bot.forge import replies
from gitops_bot.forge.grammar import meant, parse
from gitops_bot.store import asks, captures, claims, due
from gitops_bot.store.claims import Claim
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Tx

DUTY: Final = "review"


def leave_hint(tx: Tx, repository_id: int, review_id: int, pull_request: int) -> bool:
    """Leave a claim for a review that may hold a command; the first hint wins, others change nothing."""
    facts: dict[str, Fact] = {"repository_id": repository_id, "review_id": review_id, "pull_request": pull_request}
    claim, is_new = claims.add(tx, Channel.FORGE, f"{repository_id}:review:{review_id}", facts)
    if is_new:
        due.set_due(tx, DUTY, claim.id, tx.now)
    return is_new


def take(intake: Intake, claimed: Claimed) -> Finished:
    """Answer one review, or say why it gets none. Raises `Unavailable` to be called again: the claim is held."""
    with intake.database.read() as tx:
        claim = claims.get(tx, claimed.key)
    if claim is None or claim.state not in (ClaimState.NEW, ClaimState.HELD):
        return FINISHED
    try:
        _take(intake, claim)
    except Unavailable as error:
        hold(intake, claim, str(error))
        raise
    return FINISHED


def _take(intake: Intake, claim: Claim) -> None:
    repository_id, number = claim.facts["repository_id"], claim.facts["pull_request"]
    repository = intake.repositories.get(repository_id)
    if repository is None:
        return ignore(intake, claim, "unknown repository")
    review = intake.forge.review(repository, number, claim.facts["review_id"])
    if review is None or review.pull_request != number:
        return ignore(intake, claim, "the review is gone")
    with intake.database.read() as tx:
        row = captures.pull_request(tx, repository_id, number)
        ask = asks.get(tx, row.ask) if row is not None else None
    if row is None or ask is None:
        return ignore(intake, claim, "no ask of ours")
    bot = intake.forge.self_id() if intake.bot is None else intake.bot
    if review.author_type != "User" or review.author_id == bot:
        return ignore(intake, claim, "a bot's review")
    command = meant(parse(review.body))
    if command is None:
        return ignore(intake, claim, "no command")
    text = replies.in_review(command, trace_id_of(ask), review.id)
    return reply_no(intake, Remark(claim, repository, row, ask, review), Reason.NEAR_MISS, text)
