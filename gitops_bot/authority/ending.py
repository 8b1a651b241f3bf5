"""However an ask ends, this is its one ending: end, verdict, waiters, expiry and ledger commit together (I1, I6)."""

from dataclasses import dataclass

from gitops_bot.authority.asking import EXPIRE_DUTY, write
from gitops_bot.core.asks import VERDICT_STATES, Ask, AskState
from gitops_bot.core.errors import Fact
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.verdicts import Channel, Verdict
from gitops_bot.store import asks, due, ledger, votes, waiters
from gitops_bot.store.engine import Tx

_EVENTS = {
    AskState.APPROVED: EventKind.ASK_ANSWERED,
    AskState.DENIED: EventKind.ASK_ANSWERED,
    AskState.ANSWERED: EventKind.ASK_ANSWERED,
    AskState.WITHDRAWN: EventKind.ASK_WITHDRAWN,
    AskState.EXPIRED: EventKind.ASK_EXPIRED,
    AskState.SUPERSEDED: EventKind.ASK_SUPERSEDED,
}


@dataclass(frozen=True, slots=True)
class End:
    """How an ask is to end; `verdict` exactly for the three states that people decide."""

    state: AskState
    by: str | None
    reason: str | None = None
    verdict: Verdict | None = None
    channel: Channel | None = None
    successor: Ask | None = None
    before: tuple[Entry, ...] = ()
    """Ledger entries of what led to the end, written with it."""


def end(tx: Tx, ask: Ask, how: End) -> bool:
    """End an open ask with everything that belongs to it. False: it had ended, and nothing was written."""
    assert (how.verdict is not None) == (how.state in VERDICT_STATES)
    successor = how.successor.id if how.successor else None
    if not asks.end(tx, ask.id, how.state, how.by, how.reason, superseded_by=successor):
        return False
    if how.verdict is not None:
        votes.add_verdict(tx, how.verdict)
    if how.successor is not None:
        # After the end (one open ask for an action is an index) and before its waiters move to it.
        write(tx, how.successor, None, supersedes=ask.id)
        waiters.move(tx, ask.id, how.successor.id)
    else:
        waiters.wake(tx, ask.id, how.state.value)
    due.drop(tx, EXPIRE_DUTY, ask.id)
    facts: dict[str, Fact] = {"state": how.state.value, "action_hash": ask.binding.action_hash}
    if how.verdict is not None:
        facts |= {"option": how.verdict.option, "by": how.verdict.by}
    if successor is not None:
        facts["successor"] = successor
    entry = Entry(
        _EVENTS[how.state],
        tx.now,
        ask=ask.id,
        run=ask.run,
        agent=ask.agent,
        principal=how.by,
        channel=how.channel.value if how.channel else None,
        reason=how.reason,
        facts=facts,
    )
    ledger.append(tx, *how.before, entry)
    return True
