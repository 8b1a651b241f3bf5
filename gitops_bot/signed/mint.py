"""Step 9: votes that reach the quorum end the ask and mint the one grant, in the transaction that counted the last.

The grant is an index, never evidence: whoever spends it verifies the stored commits again. A deny or revoke after the
verdict takes the grant away while it is not spent.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from gitops_bot.authority.ending import End, end
from gitops_bot.authority.rules import Rules, rule_of
from gitops_bot.authority.suspension import standing_policy
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.errors import Fact, Reason, Refused
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.verdicts import Channel, Verdict
from gitops_bot.policy.rules import Quorum, QuorumState, tally
from gitops_bot.signed.barrier import SPEND
from gitops_bot.signed.channel import Place
from gitops_bot.store import due, grants, grants_read, ledger, signed_votes, waiters
from gitops_bot.store.engine import Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.states import GrantState

WITHDRAWN: Final = Reason.WITHDRAWN_VOTE
"""Why a grant is revoked when somebody denied or took back their approval after the verdict."""


@dataclass(frozen=True, slots=True)
class Mint:
    """What is told of each counted vote and revocation (`votes.Counted`). `sound` raises `Unavailable` while the schema
    is not what the migrations made or the database is behind the trust file; then nothing is counted at all."""

    rules: Rules
    place: Place
    sound: Callable[[Tx], None]

    def __call__(self, tx: Tx, ask: Ask) -> None:
        """Draw what follows from the votes on an ask, in the transaction that changed them.

        Raises:
            Unavailable: the database is not sound; the transaction must not be committed.
        """
        self.sound(tx)
        if ask.state is AskState.OPEN:
            self._tally(tx, ask)
        else:
            take_back(tx, ask)

    def _tally(self, tx: Tx, ask: Ask) -> None:
        rule = rule_of(self.rules, ask)
        if isinstance(rule, Refused):
            return
        cast = signed_votes.decisions(signed_votes.of_ask(tx, ask.id))
        policy = standing_policy(tx, self.rules.policy)
        quorum = tally(policy, rule, cast, requester=ask.requester, agent_owner=ask.owner)
        if quorum.state is QuorumState.DENIED:
            self._end(tx, ask, AskState.DENIED, quorum)
        elif quorum.state is QuorumState.APPROVED and self._end(tx, ask, AskState.APPROVED, quorum):
            grant = new_id(tx.now)
            after = tx.now + rule.delay
            minted = grants.mint(
                tx,
                grant,
                ask.id,
                ask.binding.action_hash,
                epoch=self.place.epoch,
                spend_after=after,
                spend_before=tx.now + rule.spend_within,
            )
            if not minted:
                raise RuntimeError(f"ask {ask.id} has a grant before its verdict")
            due.set_due(tx, SPEND, grant, after)
            facts: dict[str, Fact] = {"grant": grant, "action_hash": ask.binding.action_hash, "spend_after": after}
            ledger.append(tx, _entry(EventKind.GRANT_MINTED, tx, ask, facts))

    def _end(self, tx: Tx, ask: Ask, state: AskState, quorum: Quorum) -> bool:
        by = quorum.denied_by if state is AskState.DENIED else quorum.approved_by
        option = "deny" if state is AskState.DENIED else "approve"
        verdict = Verdict(ask.id, state, option, None, by, tx.now)
        if not end(tx, ask, End(state, by=by[-1], verdict=verdict, channel=Channel.SIGNED)):
            raise RuntimeError(f"ask {ask.id} ended under its own lock")
        return True


def take_back(tx: Tx, ask: Ask) -> None:
    """Revoke the grant of an ask that somebody took authority away from; a spent one stays spent."""
    grant = grants_read.of_ask(tx, ask.id, lock=True)
    if grant is None or grant.state is not GrantState.MINTED or not grants.revoke(tx, grant.id):
        return
    due.drop(tx, SPEND, grant.id)
    ledger.append(tx, replace(_entry(EventKind.GRANT_REVOKED, tx, ask, {"grant": grant.id}), reason=WITHDRAWN))
    waiters.wake(tx, ask.id, "GRANT_REVOKED")


def _entry(kind: EventKind, tx: Tx, ask: Ask, facts: dict[str, Fact]) -> Entry:
    return Entry(kind, tx.now, ask=ask.id, run=ask.run, agent=ask.agent, channel=Channel.SIGNED.value, facts=facts)
