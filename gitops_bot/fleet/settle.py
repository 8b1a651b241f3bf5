"""The end of a turn, in one transaction: its asks, its report, the run's state, the session, the next wake (I1, I2).

Whoever comes second finds the run not live at this version any more and writes nothing. What follows from the end is
decided in `machine`; here it is written. Locks are taken in one order: turns of threads, the turn of the agent's asks,
agents' rows by id, the run's row.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gitops_bot.authority.asking import Opened, Waiter, Wish, open_ask
from gitops_bot.authority.rules import Rules
from gitops_bot.core.asks import AskKind
from gitops_bot.core.errors import Fact, Refused
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.texts import storable
from gitops_bot.fleet import landing, machine, schedule, sending
from gitops_bot.fleet.grammar import Asked, Ended, body_hash
from gitops_bot.fleet.machine import Ending, Settled, TurnFacts, WakeReason
from gitops_bot.fleet.turn import Turn
from gitops_bot.ports import BodyEnd, BodyStop
from gitops_bot.store import (
    agents,
    asks,
    dispatches,
    fleet,
    landed,
    lanes,
    ledger,
    outbox,
    settled,
    threads,
    turns,
    waiters,
)
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet import Standing
from gitops_bot.store.outbox import Effect
from gitops_bot.store.settled import Left
from gitops_bot.store.states import AgentState, RunState, WaiterKind

RELEASE: Final = "fleet.release"
"""The kind of effect that releases a session."""
BLOCKED: Final = "The agent says that it is blocked, and asked nothing. What is it to do?"
_TORN: Final = 2_000
"""Characters of the text of a turn that ended badly that people are shown."""
_WHY: Final = 4_000
_ENDINGS: Final = {
    BodyStop.ENDED: Ending.WHOLE,
    BodyStop.RATE_LIMITED: Ending.RATE_LIMITED,
    BodyStop.STOPPED: Ending.STOPPED,
}


def settle(tx: Tx, rules: Rules, turn: Turn, end: BodyEnd, ended: Ended, *, lost: bool = False) -> Settled | None:
    """Settle a turn. None: it was settled before, by whoever found it first, and nothing was written.

    `ended` is what its text came to: `late` are all the informational markers that have not landed yet, and unless
    `end` says ENDED its asks and outcome do not count. `lost`: nobody saw the body's end.
    """
    to = sending.targets(tx, ended.late)
    turns.take(tx, f"asks:{turn.agent.id}")
    sending.hold(tx, {turn.agent.id, *(agent.id for agent in to.values())})
    standing = fleet.get(tx, turn.agent.id, lock=True)
    run = agents.run(tx, turn.run, lock=True)
    agent = agents.get(tx, turn.agent.id)
    assert standing is not None and agent is not None  # a turn is one of an agent of the fleet
    if run is None or run.state is not RunState.LIVE or run.version != turn.version:
        return None
    turn = replace(turn, agent=agent)
    whole = end.stop is BodyStop.ENDED and not lost
    landing.land(tx, rules, turn, ended.late, to)
    _tell_capped(tx, turn, ended)
    if whole:
        _open_asks(tx, rules, turn, run, ended.asks)
    facts = _facts(tx, turn, standing, end, ended, lost=lost)
    come_to = machine.settle(facts)
    if agent.state is AgentState.RETIRED:
        come_to = replace(come_to, run=RunState.ENDED, wake=None, ask_blocked=False, again=False)
    blocked = None
    if come_to.ask_blocked:
        blocked = _ask(tx, rules, turn, run, BLOCKED, (), f"blocked:{turn.run}:{turn.version}", ended.report[-_WHY:])
        if blocked is None and facts.open_asks == 0:
            # Nobody can be asked: its status says that it is blocked, and no run waits for an answer.
            come_to = replace(come_to, run=RunState.ENDED)
    _report(tx, turn, end, ended, whole=whole, lost=lost)
    _write(tx, turn, standing, come_to, ended.report if whole else standing.report, blocked)
    _end(tx, turn, end, come_to, lost=lost)
    return come_to


def _facts(tx: Tx, turn: Turn, standing: Standing, end: BodyEnd, ended: Ended, *, lost: bool) -> TurnFacts:
    setup = standing.setup
    lane = lanes.get(tx, turn.lane)
    # Of several that meet one limit at one time, only the first closes the lane for longer the next time.
    closings = 0 if lane is None else lane.closings - int(lane.opens_at > tx.now and lane.closings > 0)
    is_cron = setup.cron is not None and setup.zone is not None
    return TurnFacts(
        ending=Ending.LOST if lost else _ENDINGS.get(end.stop, Ending.FAILED),
        said=ended.outcome,
        policy=setup.policy,
        now=tx.now,
        open_asks=int(waiters.still_waits(tx, WaiterKind.RUN, turn.run)),
        other_open_asks=sum(asks.count_open(tx, turn.agent.id, kind) for kind in AskKind),
        untold=_untold(tx, turn, standing),
        idle=standing.idle,
        errors=standing.errors,
        next_cron=schedule.next_after(setup.cron or "", setup.zone or "", tx.now) if is_cron else None,
        closings=closings,
        lane_opens_at=None if lane is None else lane.opens_at,
        retry_after=end.retry_after,
    )


def _untold(tx: Tx, turn: Turn, standing: Standing) -> WakeReason | None:
    found = settled.rousing(tx, turn.agent.id, standing.setup.wake_on)
    if found is None and standing.wake_seq != turn.wake_seq:
        found = standing.due_reason
    return None if found is None else WakeReason(found)


def _open_asks(tx: Tx, rules: Rules, turn: Turn, run: agents.Run, asked: Sequence[Asked]) -> None:
    for one in asked:
        body = body_hash(one)
        if landed.add(tx, turn.run, one.kind.value, body):
            _ask(tx, rules, turn, run, one.text, one.options, f"marker:{turn.run}:{body}")


def _ask(
    tx: Tx, rules: Rules, turn: Turn, run: agents.Run, text: str, labels: Sequence[str], key: str, why: str = ""
) -> str | None:
    """Ask a question of the turn; give its id. What is refused is said in the thread, with why."""
    waiter = Waiter(WaiterKind.RUN, run.id)
    wish = Wish(turn.agent, run, waiter, text=text, labels=labels, why=why, idempotency_key=key)
    opened = open_ask(tx, rules, wish)
    match opened:
        case Opened(ask):
            return ask.id
        case Refused() as refused:
            said = f"A question was refused ({refused.reason.value}): {refused.sentence} It was: {text}"
            threads.post(tx, turn.agent.id, "report", said, run=turn.run)
            return None


def _tell_capped(tx: Tx, turn: Turn, ended: Ended) -> None:
    if not ended.dropped:
        return
    facts: dict[str, Fact] = {"version": turn.version, **{name: ended.dropped[name] for name in sorted(ended.dropped)}}
    agent = turn.agent
    entry = Entry(
        EventKind.MARKERS_CAPPED, tx.now, run=turn.run, agent=agent.id, principal=agent.principal, facts=facts
    )
    ledger.append(tx, entry)


def _report(tx: Tx, turn: Turn, end: BodyEnd, ended: Ended, *, whole: bool, lost: bool) -> None:
    agent = turn.agent
    text = ended.report if whole else ended.report[-_TORN:]
    if text:
        threads.post(tx, agent.id, "report", text, author_kind="agent", author=agent.slug, run=turn.run)
    if whole or end.stop is BodyStop.STOPPED:
        return
    said = f"The turn ended badly: {'its body was lost' if lost else end.stop.value.replace('_', ' ')}"
    said += f", exit code {end.exit_code}" if end.exit_code is not None else ""
    threads.post(tx, agent.id, "report", storable(f"{said}. {end.detail}").rstrip(), run=turn.run)


def _write(tx: Tx, turn: Turn, standing: Standing, come_to: Settled, report: str | None, blocked: str | None) -> None:
    """Write what follows: the run and its token, the session, the agent's row with its wake, the lane."""
    # Nobody speaks for a run that has no body; one that is dispatched again gets a new token.
    agents.revoke_run_tokens(tx, turn.run)
    if come_to.run is RunState.PARKED:
        agents.set_run_state(tx, turn.run, RunState.PARKED)
    else:
        agents.end_run(tx, turn.run, come_to.outcome.value)
    is_over = turn.agent.state is AgentState.RETIRED or (come_to.run is RunState.PARKED and not come_to.again)
    session = standing.session
    if session is not None and is_over:
        _release(tx, turn, session)
        session = None
    again = turn.run if come_to.again else None
    outcome = come_to.outcome.value
    settled.write(tx, turn.agent.id, Left(session, come_to.idle, come_to.errors, again, outcome, report, blocked))
    wake = come_to.wake
    at, why = (None, None) if wake is None else (wake.at, wake.reason.value)
    settled.wake(tx, turn.agent.id, turn.wake_seq, at, why)
    if come_to.lane is not None:
        _close(tx, turn, come_to.lane)
    elif come_to.lane_served and (lane := lanes.get(tx, turn.lane)) is not None:
        lanes.served(tx, lane)


def _release(tx: Tx, turn: Turn, session: str) -> None:
    payload = {"agent": turn.agent.id, "run": turn.run, "version": turn.version, "session": session}
    outbox.enqueue(tx, Effect(f"release:{turn.run}:{turn.version}", f"agent:{turn.agent.id}", RELEASE, payload))


def _close(tx: Tx, turn: Turn, closing: machine.LaneClosing) -> None:
    lanes.close(tx, turn.lane, closing.opens_at, closing.closings, f"{turn.agent.slug} met a limit")
    facts: dict[str, Fact] = {"lane": turn.lane, "opens_at": closing.opens_at, "closings": closing.closings}
    ledger.append(tx, Entry(EventKind.LANE_CLOSED, tx.now, run=turn.run, agent=turn.agent.id, facts=facts))


def _end(tx: Tx, turn: Turn, end: BodyEnd, come_to: Settled, *, lost: bool) -> None:
    dispatches.end(tx, turn.run, turn.version, end.stop, end.exit_code, end.detail, come_to.outcome.value)
    dispatches.forget_text(tx, turn.run, turn.version)
    facts: dict[str, Fact] = {
        "version": turn.version,
        "stop": end.stop.value,
        "outcome": come_to.outcome.value,
        "state": come_to.run.value,
        "again": come_to.again,
        "wakes_at": None if come_to.wake is None else come_to.wake.at,
        "wake": None if come_to.wake is None else come_to.wake.reason.value,
    }
    kind = EventKind.RUN_LOST if lost else EventKind.RUN_SETTLED
    agent = turn.agent
    ledger.append(tx, Entry(kind, tx.now, run=turn.run, agent=agent.id, principal=agent.principal, facts=facts))
