"""What becomes of a capture whose pull request moved, or whose policy did: asked anew on a successor, or not at all.

The question is asked anew in one transaction. The successor's draft is opened before the old pull request points to it
and is closed, each through the outbox. A loop that was told the one terminal signal is past all that (I10).
"""

from typing import Final

from gitops_bot.authority.asking import Opened
from gitops_bot.authority.closing import carry_over, renew, supersede, withdraw
from gitops_bot.authority.rules import Rules
from gitops_bot.broker.captures import Place, apply, close, draft, lane, on_forge
from gitops_bot.broker.machine import Event, advance
from gitops_bot.core.asks import AskState
from gitops_bot.core.errors import Reason
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.verdicts import Channel
from gitops_bot.store import asks, captures, ledger, outbox, threads, votes, waiters
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import EffectState, SeatState, WaiterKind

MOST_MOVES: Final = 3
"""The third head that moved in a row opens no successor (forge-commands, step 6)."""

BLANK: Final = {"pull_request": None, "url": None, "head": None, "base": None, "branch": None, "status_comment": None}
"""What a capture knows of its pull request before that is opened."""


def follow(tx: Tx, rules: Rules, place: Place, before: Capture, after: Capture) -> None:
    """Put the way from one pull request to its successor into the outbox: the successor is opened first, then the old
    one points to it and is closed. `before` has the old ask and pull request, `after` the new ask and none."""
    if on_forge(rules, place, after):
        draft(tx, after)
    if before.pull_request is not None:
        number = before.pull_request
        payload = {"capture": after.id, "ask": before.ask, "number": number, "comment": before.status_comment}
        effect = outbox.Effect(f"supersede:{after.id}:{number}", lane(after.id), "forge.supersede", payload)
        outbox.enqueue(tx, effect)
        close(tx, before)


def told(tx: Tx, capture: Capture) -> bool:
    """Tell whether a loop was told to go on, or may have been: the signal was sent and its answer is not known."""
    for place in captures.seats(tx, capture.id):
        if place.state is SeatState.RESCOPED:
            return True
        sent = outbox.get(tx, f"rescope:{capture.ask}:{place.loop}:{place.run_version}")
        if sent is not None and sent.state in (EffectState.ATTEMPTING, EffectState.DONE):
            return True
    return False


def head_moved(tx: Tx, rules: Rules, place: Place, capture_id: str) -> None:
    """Re-ask after the pull request moved: the open ask is superseded, an approved one gets a revocation, the capture
    returns to REQUESTED under the new ask; the third time in a row nothing is opened (forge-commands, step 6). After
    a loop was told the one terminal signal nothing is asked anew (I10)."""
    capture = captures.get(tx, capture_id, lock=True)
    if capture is None or capture.ask is None or advance(capture.state, Event.HEAD_MOVED) is None:
        return
    if told(tx, capture):
        return
    ask = asks.get(tx, capture.ask, lock=True)
    assert ask is not None
    reason = Reason.STALE_HEAD
    if ask.state is AskState.APPROVED:
        votes.revoke(tx, ask.id, "gitops-bot", "moved", Channel.FORGE, text=reason.value, claim=None, evidence=b"{}")
        entry = Entry(EventKind.REVOCATION, tx.now, ask=ask.id, capture=capture.id, reason=reason.value)
        ledger.append(tx, entry)
    if capture.moved_heads + 1 >= MOST_MOVES:
        if ask.state is AskState.OPEN:
            withdraw(tx, ask.id, by="gitops-bot", reason=reason.value, to_backlog=True)
        else:
            threads.enter_backlog(tx, ask.id, reason.value)
        apply(tx, capture, Event.MOVED_TOO_OFTEN, reason.value)
        return
    opened = supersede(tx, rules, ask.id, reason) if ask.state is AskState.OPEN else renew(tx, rules, ask)
    if not isinstance(opened, Opened):
        # The policy in force would not ask this any more: it ends as after too many moves, in whatever state it is.
        withdraw(tx, ask.id, by="gitops-bot", reason=opened.reason.value, to_backlog=True)
        apply(tx, capture, Event.MOVED_TOO_OFTEN, opened.reason.value)
        return
    _goes_on(tx, rules, place, capture, opened, reason, capture.moved_heads + 1)


def policy_moved(tx: Tx, rules: Rules, place: Place, ask_id: str) -> None:
    """Ask anew under the policy in force what an open ask of an older one asked. A capture goes on on a successor pull
    request, for what people say on the old one is bound to the old ask. Where nobody would be asked any more, the ask
    is withdrawn, which wakes the capture and ends it."""
    found = captures.of_ask(tx, ask_id)
    capture = None if found is None else captures.get(tx, found.id, lock=True)
    opened = carry_over(tx, rules, ask_id)
    if opened is None or capture is None or capture.ask != ask_id:
        return
    if advance(capture.state, Event.HEAD_MOVED) is not None:
        _goes_on(tx, rules, place, capture, opened, Reason.STALE_POLICY, capture.moved_heads)


def _goes_on(
    tx: Tx, rules: Rules, place: Place, capture: Capture, opened: Opened, reason: Reason, moved_heads: int
) -> None:
    """Return a capture to REQUESTED under a new ask, on a successor of its pull request."""
    waiters.add(tx, opened.ask.id, WaiterKind.CAPTURE, capture.id)
    returned = apply(
        tx,
        capture,
        Event.HEAD_MOVED,
        reason.value,
        ask=opened.ask.id,
        moved_heads=moved_heads,
        successor=capture.successor + 1,
        attempt=capture.attempt + 1,
        artefact=None,
        digest=None,
        knobs=None,
        ready_at=None,
        **BLANK,
    )
    if returned is not None:
        follow(tx, rules, place, capture, returned)
