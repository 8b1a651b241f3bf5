"""Step 8: an examined commit is counted, once, in one transaction with its judgement and its ledger entry.

What time may have changed since the steps before is asked again here, under the lock of the ask: whether it is open
(I6), whether the run that asked stands (I4), the counter of a security key. A vote is its person's on its ask, with
the raw commit and file; never keyed by commit id, for one signature can be given many.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.closing import expire
from gitops_bot.authority.standing import run_stands
from gitops_bot.core.asks import Ask, AskState, late
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Channel as Surface
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.model import Policy
from gitops_bot.signed.channel import Examined, fallen, too_late
from gitops_bot.signed.evidence import Change, Commit, Signed
from gitops_bot.store import asks, grants_read, ledger, signatures, signed_commits, signed_votes, suspensions, votes
from gitops_bot.store.engine import Tx
from gitops_bot.store.signed_commits import COUNTED, REVOCATION, ROOT, Judgement
from gitops_bot.store.signed_votes import SignedVote
from gitops_bot.store.states import GrantState

Counted = Callable[[Tx, Ask], None]
"""Told in the same transaction that a vote was counted or an approval taken back."""

_NEVER_REPLACED: Final = (Decision.DENY, Decision.REVOKE)


@dataclass(frozen=True, slots=True)
class Ballot:
    """A commit that passed steps 2 to 7, by whom and when it was received."""

    person: PrincipalName
    commit: Commit
    change: Change
    blob: bytes
    signed: Signed
    received_at: int


def count(
    tx: Tx,
    policy: Policy,
    key_set: Digest,
    person: PrincipalName,
    examined: Examined,
    received_at: int,
    *,
    counted: Counted | None = None,
) -> Judgement:
    """Judge an examined commit for good: count it, take it as a revocation, or refuse it; give what was written.

    It was judged before: what stands is left, and given.
    """
    before = signed_commits.get(tx, person, examined.commit_id)
    if before is not None and before.code is not None and before.judged_at is not None:
        return Judgement(before.code, before.detail or "", before.ask, before.decision, before.key)
    code = _code(tx, policy, key_set, person, examined, received_at, counted)
    change = examined.change
    key = examined.first.component if isinstance(examined.first, Signed) else None
    if isinstance(code, Refused):
        judged = Judgement(
            code.reason.value,
            code.detail,
            None if change is None else change.ask,
            None if change is None else change.decision.value,
            key,
        )
        ledger.append(tx, _refusal(tx, person, examined, code))
    else:
        judged = Judgement(
            code, "", None if change is None else change.ask, None if change is None else change.decision.value, key
        )
    signed_commits.judge(tx, person, examined.commit_id, judged)
    return judged


def _code(
    tx: Tx,
    policy: Policy,
    key_set: Digest,
    person: PrincipalName,
    examined: Examined,
    received_at: int,
    counted: Counted | None,
) -> str | Refused:
    refused = examined.refused
    if refused is not None:
        return refused
    assert examined.commit is not None and examined.signed is not None
    refused = _counter(tx, examined.signed)
    if refused is not None:
        return refused
    if examined.root:
        return ROOT
    if person in suspensions.suspended(tx):
        return refuse(Reason.SUSPENDED, person=person)
    assert examined.change is not None and examined.blob is not None
    ballot = Ballot(person, examined.commit, examined.change, examined.blob, examined.signed, received_at)
    ask = asks.get(tx, ballot.change.ask, lock=True)
    assert ask is not None
    if ask.state is AskState.OPEN and ask.expires_at is not None and ask.expires_at <= tx.now:
        # The duty has not come by yet; it is over all the same.
        expire(tx, ask.id)
        ended = asks.get(tx, ask.id)
        assert ended is not None
        ask = ended
    refused = too_late(policy, ask, ballot.change.decision)
    if refused is None and ballot.change.decision is Decision.APPROVE and not run_stands(tx, ask):
        refused = refuse(Reason.STALE_RUN, asked=ask.binding.run_version)
    if refused is not None:
        return refused
    code = _vote(tx, ask, ballot, key_set) if ask.state is AskState.OPEN else _after_end(tx, ask, ballot)
    if not isinstance(code, Refused) and counted is not None:
        counted(tx, ask)
    return code


def _counter(tx: Tx, signed: Signed) -> Refused | None:
    """Hold a security key's counter against the highest that it showed, and keep it; an honest one never falls."""
    if signed.counter is None:
        return None
    highest = signatures.counter(tx, signed.key)
    if highest is not None and signed.counter < highest:
        return fallen(signed.counter, highest)
    signatures.set_counter(tx, signed.key, signed.counter)
    return None


def follows(voter: PrincipalName, last: Decision | None, decision: Decision) -> Refused | None:
    """Refuse a vote that cannot follow its person's last one on the ask (None: there is none); None when it may."""
    if last is decision:
        return refuse(Reason.DUPLICATE, voter=voter)
    if last is not None and last in _NEVER_REPLACED:
        return refuse(Reason.WITHDRAWN_VOTE, voter=voter, last=last.value)
    if decision is Decision.REVOKE and last is None:
        return refuse(Reason.NOT_FOUND, "There is no approval of one's own to take back; deny instead.")
    return None


def _vote(tx: Tx, ask: Ask, ballot: Ballot, key_set: Digest) -> str | Refused:
    """Write the vote: one a person, an approve replaced at most once, by one's own deny or revoke."""
    own = [vote for vote in signed_votes.of_ask(tx, ask.id) if vote.principal == ballot.person]
    decision = ballot.change.decision
    refused = follows(ballot.person, own[-1].decision if own else None, decision)
    if refused is not None:
        return refused
    vote = SignedVote(
        ask.id,
        ballot.person,
        len(own) + 1,
        decision,
        ballot.commit.id,
        ballot.commit.raw,
        ballot.blob,
        ballot.signed.kind.value,
        ballot.signed.key,
        ballot.signed.counter,
        key_set,
        ballot.received_at,
    )
    if not signed_votes.add(tx, vote):
        return refuse(Reason.DUPLICATE, voter=ballot.person)
    ledger.append(tx, _entry(EventKind.VOTE_COUNTED, tx, ask, ballot))
    return COUNTED


def _after_end(tx: Tx, ask: Ask, ballot: Ballot) -> str | Refused:
    """A deny or revoke on an ended ask is a revocation: it never touches the ask and stops what was not executed."""
    if ask.state is not AskState.APPROVED:
        return late(ask)
    grant = grants_read.of_ask(tx, ask.id)
    if grant is not None and grant.state is GrantState.SPENT:
        return refuse(Reason.SPENT, grant=grant.id, at=grant.ended_at)
    decision = ballot.change.decision
    fresh = votes.revoke(
        tx,
        ask.id,
        ballot.person,
        decision.value,
        Surface.SIGNED,
        text=None,
        claim=ballot.commit.id,
        evidence=ballot.commit.raw,
    )
    if not fresh:
        return refuse(Reason.DUPLICATE, voter=ballot.person)
    ledger.append(tx, _entry(EventKind.REVOCATION, tx, ask, ballot))
    return REVOCATION


def _entry(kind: EventKind, tx: Tx, ask: Ask, ballot: Ballot) -> Entry:
    return Entry(
        kind,
        tx.now,
        ask=ask.id,
        run=ask.run,
        agent=ask.agent,
        principal=ballot.person,
        channel=Surface.SIGNED.value,
        facts={
            "decision": ballot.change.decision.value,
            "commit": ballot.commit.id,
            "key": ballot.signed.component,
            "received_at": ballot.received_at,
            "state": ask.state.value,
        },
    )


def _refusal(tx: Tx, person: PrincipalName, examined: Examined, refused: Refused) -> Entry:
    ask = None if examined.known is None else examined.known.ask
    return Entry(
        EventKind.VOTE_REFUSED,
        tx.now,
        ask=None if ask is None else ask.id,
        run=None if ask is None else ask.run,
        agent=None if ask is None else ask.agent,
        principal=person,
        channel=Surface.SIGNED.value,
        reason=refused.reason,
        facts={"commit": examined.commit_id, "detail": refused.detail[:500], **refused.facts},
    )
