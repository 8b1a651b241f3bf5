"""What agents do with captures over HTTP: ask for a measured trace, look, take the wish back; and their owners.

Each function is one service. An artefact is hashed outside of any transaction; what it hashed to is compared inside.
"""

from pathlib import Path

from gitops_bot.api.grammar import CaptureBody, Page
from gitops_bot.authority.closing import withdraw
from gitops_bot.authority.sessions import Person
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.broker.captures import Answered, Request, apply, end_if_deserted, leave, request
from gitops_bot.broker.machine import Event, advance
from gitops_bot.core.asks import AskState, late
from gitops_bot.core.captures import CaptureState
from gitops_bot.core.errors import Reason, Refusal, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Channel
from gitops_bot.store import agents, asks, captures, ledger, waiters
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import SeatState, WaiterKind
from workspace.asking import ASKING, request_run
from workspace.auth.people import again
from workspace.callers import Caller, authenticate

_FINISHED = (CaptureState.READY, CaptureState.RESCOPED)
_PAGE = 100
_OVER = (CaptureState.DENIED, CaptureState.FAILED, CaptureState.CANCELLED)


def request_capture(services: Services, token: str, body: CaptureBody) -> Answered:
    """Ask for a capture as the caller: a finished one that still hashes, the one under way, or a new one.

    Raises:
        Refusal: the answer is no.
    """
    intact = _intact(services, body)

    def work(tx: Tx) -> Answered | Refused:
        caller = authenticate(tx, token)
        caller.require(*ASKING)
        hit = None if intact is None else _still(tx, intact)
        run, fresh = _run_for(tx, services, caller, body, hit)
        loop = _loop_of(tx, run)
        wanted = Request(caller.agent, run, body.regime, body.why, body.mode, loop, body.idempotency_key)
        answered = _alive(tx, request(tx, services.rules, services.place, wanted, hit=hit))
        waits = isinstance(answered, Answered) and answered.capture is not None and loop is None
        if isinstance(answered, Answered) and answered.capture is not None and waits and answered.capture.ask:
            # The request is on record: whoever asked sees the capture, and it does not end while they wait.
            waiters.add(tx, answered.capture.ask, WaiterKind.REQUEST, run.id)
        elif fresh:
            agents.end_run(tx, run.id, "refused" if isinstance(answered, Refused) else answered.status)
        return answered

    return services.decide(work)


def _intact(services: Services, body: CaptureBody) -> Capture | None:
    """Find the newest finished capture of this trace id whose artefact hashes now to what the ledger says."""
    with services.database.read() as tx:
        found = captures.newest_ready(tx, services.place.environment, body.regime.trace_id)
    if found is None or found.artefact is None or found.digest is None:
        return None
    return found if services.rehash(Path(found.artefact)) == found.digest else None


def _still(tx: Tx, intact: Capture) -> Capture | None:
    now = captures.get(tx, intact.id)
    return now if now is not None and now.state in _FINISHED and now.digest == intact.digest else None


def _run_for(
    tx: Tx, services: Services, caller: Caller, body: CaptureBody, hit: Capture | None
) -> tuple[agents.Run, bool]:
    if caller.run is not None:
        return caller.run, False
    standing = hit or captures.active(tx, services.place.environment, body.regime.trace_id)
    if standing is not None:
        return request_run(tx, caller, standing.ask)
    key = body.idempotency_key
    earlier = None if key is None else asks.by_idempotency_key(tx, caller.agent.id, key)
    return request_run(tx, caller, None if earlier is None else earlier[0])


def _loop_of(tx: Tx, run: agents.Run) -> str | None:
    return next((loop.id for loop in agents.all_loops(tx) if loop.run == run.id), None)


def _alive(tx: Tx, answered: Answered | Refused) -> Answered | Refused:
    """Tell how it ended where a repeated key names a capture that is over: nothing would come of waiting for it."""
    if isinstance(answered, Refused) or answered.capture is None or answered.capture.state not in _OVER:
        return answered
    ask = asks.get(tx, answered.ask) if answered.ask else None
    if ask is not None and ask.state not in (AskState.OPEN, AskState.APPROVED):
        return late(ask)
    state = answered.capture.state.value
    return refuse(Reason.ALREADY_SETTLED, f"The capture ended as {state}.", capture=answered.capture.id, state=state)


def show_capture(services: Services, token: str, capture_id: str) -> Capture:
    """Read a capture that the caller has to do with.

    Raises:
        Refusal: there is none of that id, or the caller has nothing to do with it.
    """
    with services.database.read() as tx:
        return _own(tx, authenticate(tx, token), capture_id, lock=False)


def list_captures(services: Services, token: str, page: Page) -> tuple[list[Capture], str | None]:
    """Read a page of the captures that the caller has to do with, and the cursor of the next (None at the end)."""
    with services.database.read() as tx:
        caller = authenticate(tx, token)
        caller.require(*ASKING)
        found = captures.page_of(tx, caller.agent.id, caller.run_id, page.after, page.limit)
    over = (*_OVER, *_FINISHED)
    shown = [capture for capture in found if not page.only_open or capture.state not in over]
    return shown, found[-1].id if len(found) == page.limit else None


def list_all(services: Services, page: Page) -> tuple[list[Capture], str | None]:
    """Read a page of all captures, as `list_captures`."""
    with services.database.read() as tx:
        found = captures.page(tx, page.after, page.limit)
    over = (*_OVER, *_FINISHED)
    shown = [capture for capture in found if not page.only_open or capture.state not in over]
    return shown, found[-1].id if len(found) == page.limit else None


def cancel_capture(services: Services, token: str, capture_id: str, reason: str) -> Capture:
    """Take the caller's wish back; a capture that nobody wants any more is cancelled and its ask withdrawn.

    Raises:
        Refusal: the caller has nothing to do with it, or it is finished.
    """

    def work(tx: Tx) -> Capture | Refused:
        caller = authenticate(tx, token)
        capture = _own(tx, caller, capture_id, lock=True)
        if advance(capture.state, Event.ALL_LEFT) is None:
            detail = f"The capture is {capture.state.value} already."
            return refuse(Reason.ALREADY_SETTLED, detail, capture=capture.id, state=capture.state.value)
        _leave(tx, capture, caller.agent, caller.run)
        end_if_deserted(tx, capture, caller.agent.principal, reason or "withdrawn by its requester")
        return _again(tx, capture)

    return services.decide(work)


def cancel_as_owner(services: Services, person: Person, capture_id: str, reason: str) -> Capture:
    """Cancel a capture as the owner of the agent that asked for it, whoever waits for it: each is told, and nothing is
    denied.

    Raises:
        Refusal: there is none, its agent belongs to somebody else, or it is finished.
    """

    def work(tx: Tx) -> Capture | Refused:
        who = again(tx, person).principal.name
        capture = captures.get(tx, capture_id, lock=True)
        if capture is None:
            return refuse(Reason.NOT_FOUND, capture=capture_id)
        said = reason or f"cancelled by {who}"
        refused = _kept(tx, capture, who)
        if refused is not None:
            ledger.append(tx, _refused(tx, capture, who, refused))
            return refused
        ask = asks.get(tx, capture.ask, lock=True) if capture.ask else None
        if ask is not None and ask.state is AskState.OPEN:
            withdraw(tx, ask.id, by=who, reason=said)
        apply(tx, capture, Event.WITHDRAWN, said)
        return _again(tx, capture)

    return services.decide(work)


def may_cancel(tx: Tx, capture_id: str, who: PrincipalName) -> bool:
    """Tell whether somebody may cancel a capture now. It is shown, never relied on."""
    capture = captures.get(tx, capture_id)
    return capture is not None and _kept(tx, capture, who) is None


def _kept(tx: Tx, capture: Capture, who: PrincipalName) -> Refused | None:
    """Say why somebody may not cancel a capture; None where they may."""
    agent = agents.get(tx, capture.agent)
    if agent is None or agent.owner != who:
        return refuse(Reason.NOT_AUTHORISED, "Only the owner of the agent that asked cancels its capture.")
    if advance(capture.state, Event.WITHDRAWN) is None:
        state = capture.state.value
        return refuse(Reason.ALREADY_SETTLED, f"The capture is {state} already.", state=state)
    return None


def _refused(tx: Tx, capture: Capture, who: PrincipalName, refused: Refused) -> Entry:
    return Entry(
        EventKind.ACT_REFUSED,
        tx.now,
        ask=capture.ask,
        capture=capture.id,
        agent=capture.agent,
        principal=who,
        channel=Channel.WORKSPACE.value,
        reason=refused.reason.value,
        facts={"act": EventKind.CAPTURE_CANCELLED.value},
    )


def leave_all(tx: Tx, agent: agents.Agent, by: PrincipalName, reason: str) -> frozenset[str]:
    """Take an agent away from every capture that it waits for, its loops included; give the asks of captures that go
    on, because others wait for them."""
    for loop in agents.all_loops(tx):
        if loop.agent == agent.id:
            leave(tx, loop.id, reason)
    going_on: set[str] = set()
    after = ""
    while found := captures.page_of(tx, agent.id, None, after, _PAGE):
        after = found[-1].id
        for row in found:
            capture = captures.get(tx, row.id, lock=True) if row.state in captures.ACTIVE else None
            if capture is None or capture.state not in captures.ACTIVE:
                continue
            _leave(tx, capture, agent, None)
            end_if_deserted(tx, capture, by, reason)
            if capture.ask is not None and _again(tx, capture).state in captures.ACTIVE:
                going_on.add(capture.ask)
    return frozenset(going_on)


def _again(tx: Tx, capture: Capture) -> Capture:
    changed = captures.get(tx, capture.id)
    assert changed is not None
    return changed


def _leave(tx: Tx, capture: Capture, agent: agents.Agent, run: agents.Run | None) -> None:
    """Let nobody of an agent's wait for a capture any more, or with `run` that run alone."""
    for seat in captures.seats(tx, capture.id):
        if seat.state is SeatState.WAITING and _is_of(tx, agent, run, seat.run):
            captures.leave(tx, seat, SeatState.GONE)
    for kind, waiter in waiters.of_ask(tx, capture.ask) if capture.ask else ():
        if kind is WaiterKind.REQUEST and _is_of(tx, agent, run, waiter):
            assert capture.ask is not None
            waiters.remove(tx, capture.ask, kind, waiter)
            if run is None:
                agents.end_run(tx, waiter, "withdrawn")


def _is_of(tx: Tx, agent: agents.Agent, run: agents.Run | None, run_id: str) -> bool:
    if run is not None:
        return run_id == run.id
    found = agents.run(tx, run_id)
    return found is not None and found.agent == agent.id


def _own(tx: Tx, caller: Caller, capture_id: str, *, lock: bool) -> Capture:
    caller.require(*ASKING)
    capture = captures.get(tx, capture_id, lock=lock)
    if capture is None or not captures.concerns(tx, capture_id, caller.agent.id, caller.run_id):
        raise Refusal(refuse(Reason.NOT_FOUND, capture=capture_id))
    return capture
