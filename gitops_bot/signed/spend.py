"""Step 10: a grant is spent once, on evidence that is verified again, under the policy that the trust file pins.

What keeps a grant from being spent *now* (a hold, a freeze, an old fetch, the delay) leaves it minted and is looked at
again; what ends it (a vote withdrawn, too late, votes that no longer stand) ends it with a reason in the ledger. The
spend writes what is to be executed in the same transaction; nothing has left when it commits.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from gitops_bot.authority.duties import FINISHED, Again, Outcome
from gitops_bot.authority.limits import over_limit
from gitops_bot.authority.rules import Rules, params_of
from gitops_bot.authority.suspension import without
from gitops_bot.core.asks import Ask, AskId
from gitops_bot.core.canonical import action_hash
from gitops_bot.core.errors import Fact, Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.lookup import lookup
from gitops_bot.policy.model import Policy, VerbRule
from gitops_bot.policy.rules import QuorumState, tally, voters_of
from gitops_bot.signed.barrier import HELD_AGAIN_MS, LOOK_AGAIN_MS, SPEND, Barrier, Over, Wait, World, barrier, lapsed
from gitops_bot.signed.channel import Channel, Place
from gitops_bot.signed.looking import DUTY as LOOK
from gitops_bot.signed.looking import LOOKED_AT
from gitops_bot.signed.standing import KeyNow, Standing, bound, standing
from gitops_bot.store import (
    asks,
    branches,
    due,
    executions,
    grants,
    grants_read,
    holds,
    ledger,
    settings,
    signed_commits,
    signed_votes,
    suspensions,
    turns,
    votes,
    waiters,
)
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.grants_read import Grant
from gitops_bot.store.ids import new_id
from gitops_bot.store.signed_commits import COUNTED
from gitops_bot.store.signed_votes import SignedVote
from gitops_bot.store.states import BranchState, GrantState

EXECUTE: Final = "signed.execute"
_GRANT_KINDS: Final = (
    EventKind.GRANT_MINTED,
    EventKind.GRANT_SPENT,
    EventKind.GRANT_REVOKED,
    EventKind.GRANT_LAPSED,
)


@dataclass(frozen=True, slots=True)
class Rows:
    """What the database says of a minted grant at one moment; `untold` when the ledger tells of no such
    mint."""

    ask: Ask
    grant: Grant
    cast: tuple[SignedVote, ...]
    suspended: frozenset[PrincipalName]
    untold: Refused | None
    now: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read in one look at the rows of a grant, and the votes that stand by it; `suspended` are those whom the
    host had suspended then, `at` is the time for which the keys were asked (ms)."""

    ask: Ask
    grant: Grant
    rule: VerbRule
    cast: tuple[SignedVote, ...]
    standing: Standing
    suspended: frozenset[PrincipalName]
    at: int


class Spender:
    """Spends grants; `one` is the handler of the duty `signed.spend`, whose keys are grants."""

    def __init__(
        self,
        database: Database,
        rules: Rules,
        place: Place,
        channel: Callable[[], Channel],
        key_now: KeyNow,
        *,
        max_fetch_age: int,
        sound: Callable[[Tx], None],
        spent: Callable[[], None],
        executor: Callable[[VerbRule], Refused | None],
    ) -> None:
        """Take what decides. `sound` raises `Unavailable` while the database is not to be trusted; `spent` is called
        after each commit of a spend, to rewrite the trust file; `executor` looks whether a verb's executor is still
        what the bundle pins."""
        self._database = database
        self._rules = rules
        self._place = place
        self._channel = channel
        self._key_now = key_now
        self._max_fetch_age = max_fetch_age
        self._sound = sound
        self._spent = spent
        self._executor = executor

    def one(self, claimed: Claimed) -> Outcome:
        """Spend one grant if it may be spent now.

        Raises:
            Unavailable: an engine, git or the database is not there; the grant stays as it is.
        """
        with self._database.read() as tx:
            self._sound(tx)
            found = self._read(tx, claimed.key)
        if found is None:
            return FINISHED
        stands = self._unfounded(found)
        if stands is None:
            evidence = self._verified(found.ask, found.grant, found.cast, found.suspended, found.now)
            stands = evidence if isinstance(evidence, Wait | Over) else self._ready(evidence) or self._spend(evidence)
        match stands:
            case None:
                self._spent()
                return FINISHED
            case Wait(refused, after_ms):
                self._note(found.grant, refused)
                return Again(after_ms)
            case Over():
                self._end(found.grant, stands)
                return FINISHED

    def arm(self) -> None:
        """Look at every minted grant now: under another policy its delay may be over, or its time."""
        with self._database.write() as tx:
            for grant in grants_read.minted(tx):
                due.set_due(tx, SPEND, grant.id, tx.now)

    def _unfounded(self, found: Rows) -> Barrier | None:
        """End what no mint stands behind, and let a grant lapse by its time alone, whether or not its commits can be
        read."""
        ask, grant = found.ask, found.grant
        if found.untold is not None:
            return Over(found.untold)
        if ask.verb is None or ask.action is None or action_hash(ask.action) != grant.action_hash:
            return Over(refuse(Reason.BYTES_DIFFER, "The stored action is not the one that was approved."))
        rule = lookup(self._rules.policy, ask.verb, params_of(ask.action))
        return None if isinstance(rule, Refused) else lapsed(grant.minted_at, rule, found.now)

    def _ready(self, evidence: Evidence) -> Barrier | None:
        """Look at the executor before the grant is spent on it; what was replaced may be put back."""
        refused = self._executor(evidence.rule)
        return None if refused is None else Wait(refused, HELD_AGAIN_MS)

    def _read(self, tx: Tx, key: str) -> Rows | None:
        grant = grants_read.get(tx, key)
        if grant is None or grant.state is not GrantState.MINTED:
            return None
        ask = asks.get(tx, AskId(grant.ask))
        assert ask is not None
        cast = tuple(signed_votes.of_ask(tx, ask.id))
        return Rows(ask, grant, cast, suspensions.suspended(tx), _untold(tx, grant), tx.now)

    def verify(self, ask: Ask, grant: Grant, at: int) -> Evidence | Barrier:
        """Judge a grant by its commits, with every key asked for its state at a time; for whoever acts on it.

        Raises:
            Unavailable: an engine or git failed; nothing is known.
        """
        with self._database.read() as tx:
            cast = tuple(signed_votes.of_ask(tx, ask.id))
            suspended = suspensions.suspended(tx, at)
        return self._verified(ask, grant, cast, suspended, at)

    def _verified(
        self,
        ask: Ask,
        grant: Grant,
        cast: tuple[SignedVote, ...],
        suspended: frozenset[PrincipalName],
        now: int,
    ) -> Evidence | Barrier:
        """Judge the grant by what its commits say now, under the policy in force; the world around it comes later."""
        if grant.epoch != self._place.epoch:
            return Over(refuse(Reason.EPOCH, granted=grant.epoch, now=self._place.epoch), lapsed=True)
        if ask.action is None or ask.verb is None or action_hash(ask.action) != grant.action_hash:
            return Over(refuse(Reason.BYTES_DIFFER, "The stored action is not the one that was approved."))
        channel = self._channel()
        known = channel.asks(ask.id)
        moved = refuse(Reason.BAD_SIGNATURE, "It has no request.") if known is None else bound(self._place, ask, known)
        if moved is not None:
            return Over(moved)
        policy = without(self._rules.policy, suspended)
        rule = lookup(policy, ask.verb, params_of(ask.action))
        if isinstance(rule, Refused) or not rule.gated or rule.executor is None:
            detail = "The policy in force does not know this gated action any more."
            return Over(refuse(Reason.STALE_POLICY, detail, verb=ask.verb))
        stand = standing(replace(channel, policy=policy), cast, self._received(cast), self._key_now, now)
        refused = self._quorum(policy, ask, rule, cast, stand)
        return Over(refused) if refused is not None else Evidence(ask, grant, rule, cast, stand, suspended, now)

    def _received(self, cast: tuple[SignedVote, ...]) -> frozenset[tuple[PrincipalName, str]]:
        """Name the votes whose commits were received on their people's branches, and counted."""
        with self._database.read() as tx:
            judged = [signed_commits.get(tx, vote.principal, vote.commit_id) for vote in cast]
        return frozenset((one.person, one.commit_id) for one in judged if one is not None and one.code == COUNTED)

    def _quorum(
        self, policy: Policy, ask: Ask, rule: VerbRule, cast: tuple[SignedVote, ...], stand: Standing
    ) -> Refused | None:
        """Step 9 over the votes that stand: say why they are no quorum now, or None."""
        quorum = tally(policy, rule, stand.votes, requester=ask.requester, agent_owner=ask.owner)
        if quorum.state is QuorumState.APPROVED:
            return None
        if quorum.state is QuorumState.DENIED:
            return refuse(Reason.WITHDRAWN_VOTE, denied_by=quorum.denied_by)
        if stand.fallen:
            who, why = next(iter(stand.fallen.items()))
            return refuse(why.reason, f"The vote of {who} fell. {why.detail}".strip(), person=who)
        if any(vote.decision is not Decision.APPROVE for vote in cast):
            return refuse(Reason.WITHDRAWN_VOTE, "Somebody took back their approval.")
        if cast and rule.approve > len(cast) and ask.binding.policy != policy.digest:
            return refuse(Reason.STALE_POLICY, f"The policy in force demands {rule.approve}.", needed=rule.approve)
        return refuse(Reason.BAD_SIGNATURE, "The grant has no votes that make a quorum.")

    def _spend(self, evidence: Evidence) -> Barrier | None:
        """Spend in one transaction, if nothing stands against it there; None when it is spent."""
        ask, grant = evidence.ask, evidence.grant
        assert ask.verb is not None
        with self._database.write() as tx:
            self._sound(tx)
            # One spend of a verb at a time: its limits are sums over all of them.
            turns.take(tx, f"spend:{ask.verb}")
            locked = asks.get(tx, ask.id, lock=True)
            now = grants_read.of_ask(tx, ask.id, lock=True)
            if now is not None and now.state is not GrantState.MINTED:
                return Over(
                    refuse(Reason.SPENT, "Another broker was first, or somebody ended it.", state=now.state.value)
                )
            if locked is None or now != grant or locked.action != ask.action:
                return Wait(refuse(Reason.HELD, "It changed while it was looked at."), LOOK_AGAIN_MS)
            if tuple(signed_votes.of_ask(tx, ask.id)) != evidence.cast:
                return Wait(refuse(Reason.HELD, "Another vote came in."), 0)
            if suspensions.suspended(tx) != evidence.suspended:
                return Wait(refuse(Reason.HELD, "Somebody was suspended or reinstated."), 0)
            stands = self._barrier(tx, evidence)
            if stands is not None:
                return stands
            nonce = secrets.token_hex(16)
            if not grants.spend(tx, grant.id, nonce):
                return Over(refuse(Reason.SPENT, grant=grant.id))
            execution = new_id(tx.now)
            executions.add(tx, execution, grant.id, ask.id, grant.action_hash)
            due.set_due(tx, EXECUTE, execution, tx.now)
            by = tuple(sorted({name for name, said in evidence.standing.votes if said is Decision.APPROVE}))
            facts: dict[str, Fact] = {"grant": grant.id, "execution": execution, "nonce": nonce, "by": by}
            facts |= {"action_hash": grant.action_hash, "policy": self._rules.policy.digest}
            ledger.append(tx, _entry(EventKind.GRANT_SPENT, tx, ask, None, facts))
        return None

    def _barrier(self, tx: Tx, evidence: Evidence) -> Barrier | None:
        """Ask everything that may stand against a spend at this moment, what ends the grant first."""
        ask, grant = evidence.ask, evidence.grant
        world = World(
            now=tx.now,
            minted_at=grant.minted_at,
            revoked=bool(votes.revocations_of(tx, ask.id)),
            looked_at=int(settings.cursor(tx, LOOKED_AT) or 0),
            verified_at=evidence.at,
            held_until=holds.held_until(tx, ask.id),
            unread=self._unread(tx, evidence),
            over_limit=over_limit(tx, evidence.rule, ask.action or b""),
        )
        found = barrier(world, evidence.rule, self._max_fetch_age)
        if isinstance(found, Wait) and found.refused.reason is Reason.STALE_FETCH:
            due.set_due(tx, LOOK, self._place.environment, tx.now)
        return found

    def _unread(self, tx: Tx, evidence: Evidence) -> Refused | None:
        """Hold a grant while somebody whom it counts, or who may deny, has a branch that is frozen or cannot be read,
        or a commit on it that was received and not judged yet: it may be a deny."""
        policy = without(self._rules.policy, evidence.suspended)
        people = set(voters_of(policy, evidence.rule, evidence.ask.owner))
        people |= {vote.principal for vote in evidence.cast}
        for branch in branches.every(tx):
            if branch.person not in people:
                continue
            if branch.state is not BranchState.READ:
                detail = f"The branch of {branch.person} is {branch.state.value}."
                return refuse(Reason.HELD, detail, person=branch.person)
            if signed_commits.waiting(tx, branch.person, 1):
                return refuse(Reason.HELD, f"A commit of {branch.person} is not judged yet.", person=branch.person)
        return None

    def _note(self, grant: Grant, refused: Refused) -> None:
        """Say once for each reason why a grant waits."""
        key = f"signed.waits:{grant.id}"
        with self._database.write() as tx:
            if settings.cursor(tx, key) == refused.reason.value:
                return
            settings.set_cursor(tx, key, refused.reason.value)
            ask = asks.get(tx, AskId(grant.ask))
            assert ask is not None
            facts: dict[str, Fact] = {"grant": grant.id, "detail": refused.detail[:500], **refused.facts}
            ledger.append(tx, _entry(EventKind.GRANT_WAITS, tx, ask, refused.reason, facts))

    def _end(self, grant: Grant, over: Over) -> None:
        with self._database.write() as tx:
            ended = grants.lapse(tx, grant.id) if over.lapsed else grants.revoke(tx, grant.id)
            ask = asks.get(tx, AskId(grant.ask))
            if not ended or ask is None:
                return
            kind = EventKind.GRANT_LAPSED if over.lapsed else EventKind.GRANT_REVOKED
            facts: dict[str, Fact] = {"grant": grant.id, "detail": over.refused.detail[:500], **over.refused.facts}
            ledger.append(tx, _entry(kind, tx, ask, over.refused.reason, facts))
            waiters.wake(tx, ask.id, "GRANT_LAPSED" if over.lapsed else "GRANT_REVOKED")


def _untold(tx: Tx, grant: Grant) -> Refused | None:
    """Hold a minted grant's row against the ledger: minted once, then and for this action, and never ended."""
    told = [one for one in ledger.of_ask(tx, grant.ask) if one["kind"] in _GRANT_KINDS]
    minted: Any = told[0] if len(told) == 1 else {"kind": None, "at": None, "facts": {}}
    facts = minted["facts"]
    if (minted["kind"], minted["at"], facts.get("grant")) != (EventKind.GRANT_MINTED, grant.minted_at, grant.id):
        return refuse(Reason.BAD_SIGNATURE, "The ledger tells of no such mint.")
    if facts.get("action_hash") != grant.action_hash:
        return refuse(Reason.BYTES_DIFFER, "The ledger tells of the mint for another action.")
    return None


def lapse_all(tx: Tx, why: Refused) -> int:
    """Let every grant lapse that is not spent, as when this host is pinned anew; gives how many there were."""
    ended = 0
    for grant in grants_read.minted(tx):
        ask = asks.get(tx, AskId(grant.ask))
        if not grants.lapse(tx, grant.id) or ask is None:
            continue
        ended += 1
        due.drop(tx, SPEND, grant.id)
        facts: dict[str, Fact] = {"grant": grant.id, "detail": why.detail[:500], **why.facts}
        ledger.append(tx, _entry(EventKind.GRANT_LAPSED, tx, ask, why.reason, facts))
    return ended


def _entry(kind: EventKind, tx: Tx, ask: Ask, reason: Reason | None, facts: dict[str, Fact]) -> Entry:
    return Entry(kind, tx.now, ask=ask.id, run=ask.run, agent=ask.agent, channel="signed", reason=reason, facts=facts)
