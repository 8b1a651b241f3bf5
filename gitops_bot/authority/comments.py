"""What a comment on a pull request amounts to: the steps of intake, numbered as on the page (forge-commands, Steps).

Every channel delivers a hint and nothing else: (repository id, comment id). Everything that counts is read fresh here.
A look-up that failed leaves the claim held and is tried again (I14); whatever bytes arrive cost one refusal (I20).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from gitops_bot.authority import voters
from gitops_bot.authority.duties import FINISHED, Finished
from gitops_bot.authority.feedback import HOUR, Case, Remark, marks, react, say, show, within_budgets
from gitops_bot.authority.rules import Rules, params_of
from gitops_bot.authority.settling import Counted, Revoked, Settled, Voice, answer
from gitops_bot.core.asks import APPROVE, DENY, MAX_TEXT, Ask, AskState, late
from gitops_bot.core.captures import TraceId
from gitops_bot.core.errors import Fact, Reason, Refused, Unavailable, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.readings import Comment, PullRequest, Reaction
from gitops_bot.core.texts import storable
from gitops_bot.core.verdicts import Answer, Channel, ClaimState, Decision
from gitops_bot.forge import replies
from gitops_bot.forge.grammar import Judgement, Outcome, judge, parse
from gitops_bot.policy.lookup import Allowed, NeedsPermission
from gitops_bot.ports import Forge
from gitops_bot.store import asks, captures, claims, due, ledger
from gitops_bot.store.captures import PullRequestRow
from gitops_bot.store.claims import Claim
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx

DUTY: Final = "comment"
_UNDECIDED: Final = (ClaimState.NEW, ClaimState.HELD)

Moved = Callable[[Tx, str], None]
"""Re-asks for a capture whose pull request moved, in the transaction of the claim."""


@dataclass(frozen=True, slots=True)
class Intake:
    """What intake works with: repositories by numeric id, the forge, the rules, ages in ms, what to do on a move.

    `bot` None: the forge is asked for its own id when a comment needs it.
    """

    database: Database
    forge: Forge
    rules: Rules
    repositories: Mapping[int, str]
    bot: int | None
    moved: Moved
    max_comment_age: int = 7 * 24 * HOUR


def leave_hint(
    tx: Tx, repository_id: int, comment_id: int, pull_request: int, *, updated_at: int | None = None
) -> bool:
    """Leave a claim for a comment that may be a command; the first hint wins, others change nothing. `updated_at` (ms
    by the forge's clock), where the channel knows it, is what later edits are told by (`authority.edits`)."""
    source = f"{repository_id}:{comment_id}"
    facts: dict[str, Fact] = {
        "repository_id": repository_id,
        "comment_id": comment_id,
        "pull_request": pull_request,
    }
    if updated_at is not None:
        facts["updated_at"] = updated_at
    claim, is_new = claims.add(tx, Channel.FORGE, source, facts)
    if is_new:
        due.set_due(tx, DUTY, claim.id, tx.now)
        ledger.append(tx, Entry(EventKind.COMMENT_SEEN, tx.now, channel=Channel.FORGE.value, facts=facts))
    return is_new


def take(intake: Intake, claimed: Claimed) -> Finished:
    """Take one claim through all steps. Raises `Unavailable` to be called again: the claim is held."""
    with intake.database.read() as tx:
        claim = claims.get(tx, claimed.key)
    if claim is None or claim.state not in _UNDECIDED:
        return FINISHED
    try:
        _take(intake, claim)
    except Unavailable as error:
        hold(intake, claim, str(error))
        raise
    return FINISHED


def _take(intake: Intake, claim: Claim) -> None:
    # Step 1: the repository is configured, the pull request carries an ask of ours.
    repository = intake.repositories.get(claim.facts["repository_id"])
    if repository is None:
        return ignore(intake, claim, "unknown repository")
    # Step 2: the comment, read fresh; from here on only this reading counts.
    comment = intake.forge.comment(repository, claim.facts["comment_id"])
    if comment is None or comment.repository_id != claim.facts["repository_id"]:
        return ignore(intake, claim, "the comment is gone")
    with intake.database.read() as tx:
        row = captures.pull_request(tx, claim.facts["repository_id"], comment.pull_request)
        ask = asks.get(tx, row.ask) if row is not None else None
    if row is None or ask is None:
        return ignore(intake, claim, "no ask of ours")
    case = Case(claim, repository, row, ask, comment)
    # Step 3: a user's own comment.
    author = _author(case, intake.forge.self_id() if intake.bot is None else intake.bot)
    if author is not None:
        return _refuse(intake, case, author)
    # Step 4: it parses, and names the trace id of this pull request's ask.
    judgement = judge(parse(comment.body), trace_id_of(ask))
    match judgement.outcome:
        case Outcome.SILENT:
            return ignore(intake, claim, "no command")
        case Outcome.HELP | Outcome.STATUS:
            return _inform(intake, case, judgement)
        case Outcome.NEAR_MISS:
            return reply_no(intake, case, Reason(judgement.reason), replies.near_miss(judgement, comment.id))
        case Outcome.APPROVE if ask.state is not AskState.OPEN:
            refused = late(ask)
            return reply_no(intake, case, refused.reason, replies.late(refused, comment.id))
        case Outcome.APPROVE | Outcome.DENY:
            return _decide(intake, case, judgement)
        case _:
            assert_never(judgement.outcome)


def trace_id_of(ask: Ask) -> TraceId:
    """Give the trace id that an ask of a capture is about."""
    assert ask.action is not None
    return TraceId(str(params_of(ask.action)["trace_id"]))


def _author(case: Case, bot: int) -> Refused | None:
    comment = case.comment
    if comment.author_type != "User" or comment.author_id == bot:
        return refuse(Reason.FROM_BOT, account=comment.author_id)
    if comment.via_app:
        return refuse(Reason.VIA_APP, account=comment.author_id)
    if comment.via_email:
        return refuse(Reason.VIA_EMAIL, account=comment.author_id)
    return None


def _decide(intake: Intake, case: Case, judgement: Judgement) -> None:
    comment = case.comment
    with intake.database.read() as tx:
        age = tx.now - comment.created_at
    # Step 5: as it was written, and lately.
    unfit = _fitness(comment, age, intake.max_comment_age)
    if unfit is not None:
        return _refuse(intake, case, unfit)
    # Step 6: the pull request, read fresh. Only while the ask is open: a deny that comes later takes away, whatever
    # became of the pull request.
    if case.ask.state is AskState.OPEN:
        gone = standing(comment.pull or intake.forge.pull_request(case.repository, case.row.number), case.row)
        if gone is not None:
            return _move(intake, case, gone)
    # Step 7: who, by numeric id, with the permission and the team that the policy asks for.
    decision = Decision.APPROVE if judgement.outcome is Outcome.APPROVE else Decision.DENY
    allowed = voters.under_policy(intake.rules, case.ask, comment.author_id, decision)
    if isinstance(allowed, Refused):
        return _refuse(intake, case, allowed)
    _claimed(intake, case)
    held = _read(intake, case, decision)
    if isinstance(held, Refused):
        return _refuse(intake, case, held)
    # Step 8: bound by reference to this ask and head (I4), counted, settled.
    _settle(intake, case, judgement, held)
    return None


def _fitness(comment: Comment, age: int, most: int) -> Refused | None:
    if comment.edited:
        return refuse(Reason.EDITED)
    if comment.minimised:
        return refuse(Reason.MINIMISED)
    if age > most:
        return refuse(Reason.TOO_OLD, age_ms=age)
    return None


def standing(pull: PullRequest | None, row: PullRequestRow) -> Refused | None:
    """Compare a fresh reading with the pull request as the bot made it; shared by intake, submit and rescope."""
    if pull is None or pull.state != "open":
        return refuse(Reason.CLOSED)
    if not pull.draft:
        return refuse(Reason.NOT_DRAFT)
    if pull.head_sha != row.head or pull.base_ref != row.base:
        return refuse(Reason.STALE_HEAD, pushed=row.head, now=pull.head_sha)
    return None


def _read(intake: Intake, case: Remark, decision: Decision) -> voters.Held | Refused:
    said = case.said
    return voters.read(
        intake.forge, intake.rules, case.repository, case.ask, said.author_id, said.author_login, decision
    )


def _settle(intake: Intake, case: Case, judgement: Judgement, held: voters.Held) -> None:
    comment, claim = case.comment, case.claim
    parsed = parse(comment.body)
    # The evidence has the whole comment; the reason is what is shown.
    reason = getattr(parsed, "reason", "")[:MAX_TEXT] or None
    approve = judgement.outcome is Outcome.APPROVE
    voice = Voice(
        principal=voters.principal(intake.rules, comment.author_id),
        channel=Channel.FORGE,
        evidence=comment.raw,
        account=comment.author_id,
        permission=held.permission,
        in_team=held.in_team,
        claim=claim.id,
    )
    given = Answer(APPROVE if approve else DENY, reason, case.ask.binding)
    with intake.database.write() as tx:
        current = claims.get(tx, claim.id, lock=True)
        if current is None or current.state not in _UNDECIDED:
            return  # another process took it while this one read the forge
        result = answer(tx, intake.rules, case.ask.id, given, voice)
        match result:
            case Settled() | Counted() | Revoked():
                _close_claim(tx, case, ClaimState.COUNTED, None, {})
                react(tx, case, Reaction.ROCKET)
                show(tx, case)
            case NeedsPermission():
                raise Unavailable("the policy changed while the permission was read")
            case Refused():
                _close_claim(tx, case, ClaimState.REFUSED, result.reason, {})
                react(tx, case, Reaction.CONFUSED)
            case _:
                assert_never(result)


def _claimed(intake: Intake, case: Case) -> None:
    """Let the author see that the comment is being looked at, before the forge is asked about them."""
    with intake.database.write() as tx:
        react(tx, case, Reaction.EYES)


# Step 9: what the author and the readers get back (`authority.feedback`), all through the outbox.


def _close_claim(tx: Tx, case: Remark, state: ClaimState, reason: str | None, facts: Mapping[str, Fact]) -> bool:
    seen: dict[str, Fact] = {"account": case.said.author_id, "pull": case.thread}
    return claims.settle(
        tx, case.claim, state, reason, ask=case.ask.id, facts={**seen, **facts}, evidence=case.said.raw
    )


def _refuse(intake: Intake, case: Case, refused: Refused) -> None:
    """Refuse a claim: a reaction for the author, a ledger entry, no words."""
    with intake.database.write() as tx:
        if _close_refused(tx, case, refused.reason, {}) and refused.reason not in _UNANSWERED:
            react(tx, case, Reaction.CONFUSED)


def _close_refused(tx: Tx, case: Remark, reason: Reason, facts: Mapping[str, Fact]) -> bool:
    """Refuse a claim with its reason; one ledger entry a person, pull request and hour, so that nobody floods it."""
    said = f"{case.said.author_id}@{case.thread}"
    first = claims.replies_since(tx, Channel.FORGE, tx.now - HOUR, f'"told":"{said}"') == 0
    if not _close_claim(tx, case, ClaimState.REFUSED, reason, {**facts, **({"told": said} if first else {})}):
        return False
    if first:
        _ledger_refusal(tx, case, reason)
    return True


def _ledger_refusal(tx: Tx, case: Remark, reason: Reason) -> None:
    entry = Entry(
        EventKind.VOTE_REFUSED,
        tx.now,
        ask=case.ask.id,
        capture=case.row.capture,
        channel=Channel.FORGE.value,
        reason=reason,
        facts={"account": case.said.author_id, "claim": case.claim.id, _noun(case): case.said.id},
    )
    ledger.append(tx, entry)


def _noun(case: Remark) -> str:
    return "comment" if isinstance(case, Case) else "review"


_UNANSWERED: Final = (Reason.FROM_BOT, Reason.UNKNOWN_PRINCIPAL)
"""Refusals of those who are nobody here: not even a reaction, or anybody could make the bot write."""


def _is_heard(intake: Intake, case: Remark) -> bool:
    """Tell whether the author is somebody who may vote; nobody else is answered in words. The forge is asked only while
    the budgets allow an answer."""
    with intake.database.read() as tx:
        if not within_budgets(tx, case):
            return False
    held = _read(intake, case, Decision.DENY)
    if isinstance(held, Refused):
        return False
    allowed = voters.under_policy(intake.rules, case.ask, case.said.author_id, Decision.DENY, held)
    return isinstance(allowed, Allowed)


def reply_no(intake: Intake, case: Remark, reason: Reason, text: str) -> None:
    """Refuse with one short reply, only to people who may vote, within the budgets of an hour."""
    heard = _is_heard(intake, case)
    with intake.database.write() as tx:
        heard = heard and within_budgets(tx, case)
        if _close_refused(tx, case, reason, marks(case) if heard else {}) and heard:
            say(tx, case, text)


def _inform(intake: Intake, case: Case, judgement: Judgement) -> None:
    """Answer the two commands that decide nothing, to the same people and within the same budgets: help in words,
    status by an update of the one status comment."""
    heard, asked = _is_heard(intake, case), judgement.outcome
    with intake.database.write() as tx:
        heard = heard and within_budgets(tx, case)
        facts: dict[str, Fact] = {"did": asked.value, **(marks(case) if heard else {})}
        if not _close_claim(tx, case, ClaimState.IGNORED, None, facts) or not heard:
            return
        if asked is Outcome.HELP:
            say(tx, case, replies.help_text(trace_id_of(case.ask), case.comment.id))
        else:
            show(tx, case)
            react(tx, case, Reaction.EYES)


def _move(intake: Intake, case: Case, gone: Refused) -> None:
    """The pull request is not as the bot made it: the claim is refused, and a move re-asks in the same transaction."""
    with intake.database.write() as tx:
        if not _close_refused(tx, case, gone.reason, {}):
            return
        react(tx, case, Reaction.CONFUSED)
        if gone.reason is Reason.STALE_HEAD:
            capture = captures.get(tx, case.row.capture, lock=True)
            # Another process may have asked anew already; the new ask's own pull request did not move.
            if capture is not None and capture.ask == case.ask.id:
                intake.moved(tx, case.row.capture)


def ignore(intake: Intake, claim: Claim, why: str) -> None:
    """Close a claim that is nothing to answer, with a word for the record."""
    with intake.database.write() as tx:
        if claims.settle(tx, claim, ClaimState.IGNORED, None, ask=None, facts={"why": why}, evidence=None):
            facts = {"claim": claim.id, "why": why}
            ledger.append(tx, Entry(EventKind.CLAIM_IGNORED, tx.now, channel=Channel.FORGE.value, facts=facts))


def hold(intake: Intake, claim: Claim, why: str) -> None:
    """Keep a claim for which a look-up failed; its duty tries again."""
    why = storable(why)[:200]
    with intake.database.write() as tx:
        held = claims.settle(tx, claim, ClaimState.HELD, None, ask=claim.ask, facts={"held": why}, evidence=None)
        if held and claim.state is ClaimState.NEW:
            facts = {"claim": claim.id, "why": why}
            ledger.append(tx, Entry(EventKind.CLAIM_HELD, tx.now, channel=Channel.FORGE.value, facts=facts))
