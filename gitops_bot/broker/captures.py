"""Captures as rows: requested, joined, left and moved along by the machine, each in one transaction with what follows.

After `apply` the state, its ledger entry and the effects that the machine commands are committed together. Nothing here
talks to the outside.
"""

from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority.asking import Waiter, Wish, open_ask
from gitops_bot.authority.closing import withdraw
from gitops_bot.authority.rules import Rules
from gitops_bot.broker.frozen import approved, fresh, measured_before
from gitops_bot.broker.machine import Command, Event, advance
from gitops_bot.core.asks import AskState, late
from gitops_bot.core.captures import CaptureState, Regime
from gitops_bot.core.errors import Refused
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.verdicts import Channel
from gitops_bot.policy.lookup import lookup
from gitops_bot.store import agents, captures, due, ledger, outbox, turns, waiters
from gitops_bot.store.captures import Capture, Seat
from gitops_bot.store.engine import Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.states import SeatState, WaiterKind

VERB: Final = "capture.approve"
DUTY: Final = waiters.duty(WaiterKind.CAPTURE)

_EVENTS: Final = {
    CaptureState.APPROVED: EventKind.CAPTURE_APPROVED,
    CaptureState.SUBMITTED: EventKind.CAPTURE_SUBMITTED,
    CaptureState.RUNNING: EventKind.CAPTURE_RUNNING,
    CaptureState.READY: EventKind.CAPTURE_READY,
    CaptureState.RESCOPED: EventKind.CAPTURE_RESCOPED,
    CaptureState.DENIED: EventKind.CAPTURE_DENIED,
    CaptureState.FAILED: EventKind.CAPTURE_FAILED,
    CaptureState.CANCELLED: EventKind.CAPTURE_CANCELLED,
    CaptureState.REQUESTED: EventKind.CAPTURE_RETURNED,
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where captures are asked for: environment, the forge's repository (`owner/name`; None: no forge), whether there
    is any approval surface at all, how many are measured at once, and how many of those places are kept for what a
    person approved."""

    environment: str
    repository: str | None
    degraded: bool = False
    slots: int = 1
    reserve: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A capture that an authenticated agent wants. `loop` is set for a loop's own run."""

    agent: agents.Agent
    run: agents.Run
    regime: Regime
    why: str
    mode: str = "block"
    loop: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """What the agent is told; `status` ∈ hit, submitted, deferred, pending_approval, escalate."""

    status: str
    capture: Capture | None
    ask: str | None = None
    reason: str | None = None


def lane(capture: str) -> str:
    """Name the lane of everything that is written to a capture's pull request."""
    return f"capture:{capture}"


def request(tx: Tx, rules: Rules, place: Place, wanted: Request, *, hit: Capture | None) -> Answered | Refused:
    """Ask for a capture: join the one under way, or open a new one with its ask and its draft pull request.

    `hit` is a finished capture whose artefact was re-hashed just now; whether its approval still stands is checked
    here.
    """
    # Two that ask for one trace at one instant get one capture, whoever they are.
    turns.take(tx, f"capture:{place.environment}:{wanted.regime.trace_id}")
    if hit is not None and _is_hit(tx, rules, hit):
        _sit(tx, hit, wanted)
        due.set_due(tx, DUTY, hit.id, tx.now)
        return Answered("hit", hit, hit.ask)
    standing = captures.active(tx, place.environment, wanted.regime.trace_id)
    if standing is not None:
        _sit(tx, standing, wanted)
        status = "pending_approval" if standing.state is CaptureState.REQUESTED else "submitted"
        return Answered(status, standing, standing.ask)
    if (again := _again(tx, place, wanted)) is not None:
        return again
    if place.degraded:
        return Answered("escalate", None, reason="there is no approval surface here")
    return _open(tx, rules, place, wanted)


def _open(tx: Tx, rules: Rules, place: Place, wanted: Request) -> Answered | Refused:
    capture_id = new_id(tx.now)
    regime = wanted.regime
    wish = Wish(
        agent=wanted.agent,
        run=wanted.run,
        waiter=Waiter(WaiterKind.CAPTURE, capture_id),
        verb=VERB,
        params={"trace_id": regime.trace_id, "regime": regime.params()},
        text=f"Measure {regime.trace_id}?",
        why=wanted.why,
        idempotency_key=wanted.idempotency_key,
    )
    opened = open_ask(tx, rules, wish)
    if isinstance(opened, Refused):
        return opened
    earlier = captures.of_ask(tx, opened.ask.id) if opened.repeated else None
    if earlier is not None:
        _sit(tx, earlier, wanted)
        due.set_due(tx, DUTY, earlier.id, tx.now)
        status = "pending_approval" if earlier.state is CaptureState.REQUESTED else "submitted"
        return Answered(status, earlier, opened.ask.id)
    if opened.ask.state is not AskState.OPEN:
        return late(opened.ask)
    # A repeated ask without a capture was reopened from the backlog by a person: this is the capture it waits for.
    capture = _fresh(tx, place, wanted, capture_id, opened.ask.id)
    captures.add(tx, capture)
    _sit(tx, capture, wanted)
    ledger.append(tx, _requested(tx, capture, wanted))
    if on_forge(rules, place, capture):
        draft(tx, capture)
    return Answered("pending_approval", capture, opened.ask.id)


def _requested(tx: Tx, capture: Capture, wanted: Request) -> Entry:
    return Entry(
        EventKind.CAPTURE_REQUESTED,
        tx.now,
        ask=capture.ask,
        run=capture.run,
        capture=capture.id,
        agent=wanted.agent.id,
        principal=wanted.agent.principal,
        facts={"trace_id": capture.trace_id, "mode": wanted.mode},
    )


def _fresh(tx: Tx, place: Place, wanted: Request, capture_id: str, ask: str) -> Capture:
    return fresh(
        tx,
        wanted.regime,
        environment=place.environment,
        repository=place.repository or "",
        agent=wanted.agent,
        run=wanted.run.id,
        why=wanted.why,
        ask=ask,
        id=capture_id,
    )


def on_forge(rules: Rules, place: Place, capture: Capture) -> bool:
    """Tell whether a capture is shown as a pull request: a forge is configured and the policy accepts it."""
    rule = lookup(rules.policy, VERB, {"trace_id": capture.trace_id, "regime": capture.regime.params()})
    return bool(place.repository) and not isinstance(rule, Refused) and Channel.FORGE in rule.channels


def draft(tx: Tx, capture: Capture) -> None:
    """Put the opening of a capture's draft pull request into the outbox, one for each ask."""
    effect = outbox.Effect(
        key=f"open:{capture.ask}",
        lane=lane(capture.id),
        kind="forge.open_draft",
        payload={"capture": capture.id, "ask": capture.ask},
    )
    outbox.enqueue(tx, effect)


def _sit(tx: Tx, capture: Capture, wanted: Request) -> None:
    if wanted.loop is not None:
        place = Seat(capture.id, wanted.run.id, wanted.loop, wanted.run.version, wanted.mode, SeatState.WAITING)
        captures.seat(tx, place)


def _is_hit(tx: Tx, rules: Rules, hit: Capture) -> bool:
    """Tell whether a finished capture was approved here, is not revoked, and is younger than the verb's `reuse`."""
    since = approved(tx, hit.ask)
    rule = lookup(rules.policy, VERB, {"trace_id": hit.trace_id, "regime": hit.regime.params()})
    return since is not None and not isinstance(rule, Refused) and tx.now < since + rule.reuse


def _again(tx: Tx, place: Place, wanted: Request) -> Answered | None:
    """Measure again inside the frozen regime, without a person, where a place is free; None when it is another."""
    before = measured_before(tx, wanted.run, wanted.regime) if wanted.loop is not None else None
    if before is None or before.ask is None:
        return None
    if captures.count_under_way(tx, place.environment) >= place.slots - place.reserve:
        return Answered("deferred", None, reason="no place to measure is free for what nobody approved anew")
    capture = _fresh(tx, place, wanted, new_id(tx.now), before.ask)
    captures.add(tx, capture)
    # Who revokes the approval ends this one too.
    waiters.add(tx, before.ask, WaiterKind.CAPTURE, capture.id)
    ledger.append(tx, _requested(tx, capture, wanted))
    apply(tx, capture, Event.APPROVED, "inside the frozen regime")
    due.set_due(tx, DUTY, capture.id, tx.now)
    return Answered("submitted", capture, before.ask)


def apply(tx: Tx, capture: Capture, event: Event, reason: str | None = None, **values: Any) -> Capture | None:
    """Move a capture along the table, with further columns; None when the event means nothing now, or the row changed
    since it was read. The ledger entry and the commanded effects are in the same transaction."""
    transition = advance(capture.state, event)
    if transition is None or not captures.change(tx, capture, state=transition.state, **values):
        return None
    changed = captures.get(tx, capture.id)
    assert changed is not None
    entry = Entry(
        _EVENTS[transition.state],
        tx.now,
        ask=changed.ask,
        run=changed.run,
        capture=changed.id,
        agent=changed.agent,
        reason=reason,
        facts={"event": event.value, "attempt": changed.attempt, "digest": changed.digest},
    )
    ledger.append(tx, entry)
    for command in transition.commands:
        _command(tx, capture, changed, command, reason or event.value)
    return changed


def _command(tx: Tx, before: Capture, after: Capture, command: Command, reason: str) -> None:
    match command:
        case Command.TELL_RESCOPE:
            due.set_due(tx, DUTY, after.id, tx.now)
        case Command.TELL_DENY:
            for place in captures.seats(tx, after.id):
                if place.state is SeatState.WAITING:
                    tell(tx, after, place, "deny", before.ask or "", reason)
        case Command.CANCEL_JOB:
            if before.state in (CaptureState.SUBMITTED, CaptureState.RUNNING):
                job = before.job
                outbox.enqueue(tx, outbox.Effect(f"cancel:{job}", f"job:{job}", "capture.cancel", {"job": job}))
        case Command.SHOW:
            show(tx, after)
        case Command.CLOSE:
            close(tx, before)
        case Command.RECORD:
            record(tx, after)


def close(tx: Tx, capture: Capture) -> None:
    """Put the closing of a capture's pull request into the outbox."""
    if capture.pull_request is not None:
        payload = {"capture": capture.id, "number": capture.pull_request}
        key = f"close:{capture.id}:{capture.pull_request}"
        outbox.enqueue(tx, outbox.Effect(key, lane(capture.id), "forge.close", payload))


def record(tx: Tx, capture: Capture) -> None:
    """Put the calibration's commit and the end of the draft into the outbox."""
    if capture.pull_request is not None:
        effect = outbox.Effect(f"record:{capture.id}", lane(capture.id), "forge.record", {"capture": capture.id})
        outbox.enqueue(tx, effect)


def show(tx: Tx, capture: Capture, because: str = "") -> None:
    """Put an update of the status comment into the outbox; it is rendered from the rows when it leaves. `because` names
    what changed where that is not the capture itself."""
    if capture.pull_request is None:
        return
    effect = outbox.Effect(
        key=f"status:{capture.id}:{because or f'{capture.version}:{capture.state.value}'}",
        lane=lane(capture.id),
        kind="forge.status",
        payload={"capture": capture.id, "number": capture.pull_request},
        replace_key=f"status:{capture.pull_request}",
    )
    outbox.enqueue(tx, effect)


def tell(tx: Tx, capture: Capture, place: Seat, what: str, ask: str, reason: str = "") -> None:
    """Put the one terminal signal for a seat into the outbox: `rescope` or `deny` (I10)."""
    key = f"{what}:{ask}:{place.loop}:{place.run_version}"
    payload = {
        "capture": capture.id,
        "loop": place.loop,
        "run": place.run,
        "run_version": place.run_version,
        "trace_id": capture.trace_id,
        "ask": ask,
        "reason": reason,
    }
    outbox.enqueue(tx, outbox.Effect(key, f"loop:{place.loop}", f"bridge.{what}", payload))


def leave(tx: Tx, loop: str, reason: str) -> int:
    """Take a loop away from everything that it waits for; with the last seat the ask is withdrawn and the capture
    cancelled, in this transaction. Gives how many seats ended."""
    ended = 0
    for place in sorted(captures.waiting_seats_of_loop(tx, loop), key=lambda seat: seat.capture):
        capture = captures.get(tx, place.capture, lock=True)
        if capture is None or not captures.leave(tx, place, SeatState.GONE):
            continue
        ended += 1
        entry = Entry(
            EventKind.LOOP_GAVE_UP,
            tx.now,
            ask=capture.ask,
            run=place.run,
            capture=capture.id,
            reason=reason,
            facts={"loop": loop},
        )
        ledger.append(tx, entry)
        end_if_deserted(tx, capture, f"loop:{loop}", reason)
    return ended


def end_if_deserted(tx: Tx, capture: Capture, by: str, reason: str) -> None:
    """Withdraw the ask and cancel the capture when neither a loop nor a request of an agent's waits any more."""
    if any(seat.state is SeatState.WAITING for seat in captures.seats(tx, capture.id)):
        return
    if capture.ask is not None:
        if any(kind is WaiterKind.REQUEST for kind, _ in waiters.of_ask(tx, capture.ask)):
            return
        withdraw(tx, capture.ask, by=by, reason=reason)
    apply(tx, capture, Event.ALL_LEFT, reason)
