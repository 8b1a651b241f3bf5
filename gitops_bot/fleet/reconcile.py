"""What broke in the middle is found and put right: bodies that are gone, and rows that no transaction of ours leaves.

A lost body's text so far is read again for its informational markers, each of which lands once (I9), and its run is
settled to be dispatched once more. Nothing is decided here, nobody's answer is touched, and each repair is one ledger
entry. Every look is bounded and goes on by a cursor, so that a step costs the same however large the fleet is.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from gitops_bot.authority.closing import Ended as AskEnded
from gitops_bot.authority.closing import withdraw
from gitops_bot.authority.rules import Rules
from gitops_bot.core.asks import AskState
from gitops_bot.core.errors import Unavailable
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.fleet import machine, schedule
from gitops_bot.fleet.grammar import Ended, Reader
from gitops_bot.fleet.machine import Wake, WakeReason
from gitops_bot.fleet.settle import settle
from gitops_bot.fleet.turn import Turn
from gitops_bot.ports import BodyEnd, BodyStop
from gitops_bot.store import agents, asks, dispatches, fleet, ledger, page_rows, repairs, settled, waiters
from gitops_bot.store.dispatches import Dispatch
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.fleet import Standing
from gitops_bot.store.repairs import Look
from gitops_bot.store.states import AgentState, RunState, WaiterKind

EVERY_SECONDS: Final = 3.0
MOST: Final = 20
"""Repairs of one kind in a step, each a transaction of its own."""
WALKED: Final = 1_000
"""Rows that a look walks in a step."""
_GONE: Final = "its broker is gone"
_LATER: Final = 1.0


def nobody(_holders: Collection[str]) -> Collection[str]:
    """Know of no holder that it is gone: leases alone say so."""
    return ()


class Reconcile:
    """The duty that repairs; implements `ports.Duty`. `gone` names those holders that are known to be dead before their
    leases are over."""

    name = "reconcile"

    def __init__(
        self, database: Database, rules: Rules, gone: Callable[[Collection[str]], Collection[str]] = nobody
    ) -> None:
        self._database, self._rules, self._gone = database, rules, gone
        self._runs, self._asks, self._agents = "", "", ""

    def step(self) -> float:
        """Look once at each kind of break, and repair what is found. Gives the seconds until the next look."""
        try:
            found = self._lost() + self._bodiless() + self._parked() + self._orphaned() + self._asleep()
        except Unavailable:
            return _LATER
        return 0.0 if found >= MOST else _LATER if self._runs or self._asks or self._agents else EVERY_SECONDS

    def _lost(self) -> int:
        with self._database.read() as tx:
            found = dispatches.lost(tx, MOST)
            dead = self._gone(dispatches.holders(tx))
            for holder in sorted(dead):
                found += dispatches.open_by(tx, holder)
        for one in found[:MOST]:
            with self._database.write() as tx:
                recover(tx, self._rules, one, known=one.holder in dead)
        return len(found)

    def _bodiless(self) -> int:
        with self._database.read() as tx:
            found = repairs.bodiless(tx, MOST)
        for run in found:
            with self._database.write() as tx:
                _give_up(tx, self._rules, run)
        return len(found)

    def _parked(self) -> int:
        with self._database.read() as tx:
            look = repairs.parked(tx, self._runs, WALKED)
        self._runs = _follow(look)
        for run in look.found[:MOST]:
            with self._database.write() as tx:
                _unpark(tx, run)
        return len(look.found)

    def _orphaned(self) -> int:
        with self._database.read() as tx:
            look = repairs.orphaned(tx, self._asks, WALKED)
        self._asks = _follow(look)
        for ask in look.found[:MOST]:
            with self._database.write() as tx:
                _withdraw(tx, ask)
        return len(look.found)

    def _asleep(self) -> int:
        with self._database.read() as tx:
            look = repairs.asleep(tx, self._agents, WALKED)
            # Whoever waits for the last of several answers sleeps by its own rule.
            found = [agent for agent in look.found if _wake_of(tx, agent) is not None]
        self._agents = _follow(replace(look, found=tuple(found)))
        for agent in found[:MOST]:
            with self._database.write() as tx:
                _rouse(tx, agent)
        return len(found)


def _follow(look: Look) -> str:
    """Give where the next look begins: past what was walked, or past what was repaired where that is not all."""
    return look.found[MOST - 1] if len(look.found) > MOST else look.after


def recover(tx: Tx, rules: Rules, lost: Dispatch, *, known: bool = False) -> bool:
    """Settle a dispatch whose body is lost; False when it is not lost any more. `known`: its holder is dead, whatever
    its lease says."""
    if not known and not repairs.is_over(tx, lost.run, lost.version):
        return False
    agent = agents.get(tx, lost.agent)
    assert agent is not None  # a foreign key
    turn = Turn(agent, lost.run, lost.version, lost.wake_seq, lost.depth, lost.lane, lost.holder)
    end = BodyEnd(BodyStop.FAILED, detail=_GONE)
    if settle(tx, rules, turn, end, _read(tx, lost.run, lost.version), lost=True) is not None:
        return True
    # Its run goes on, or ended, without it.
    if dispatches.end(tx, lost.run, lost.version, end.stop, None, end.detail, None):
        _repaired(tx, "dispatch without its run", run=lost.run, agent=lost.agent)
    return True


def _read(tx: Tx, run: str, version: int) -> Ended:
    """Read what a body said so far again. Its last line was torn off, and does not count."""
    reader = Reader()
    heard = reader.feed(dispatches.text(tx, run, version).encode("utf-8"))
    ended = reader.end(whole=False)
    return replace(ended, late=(*heard, *ended.late))


def _give_up(tx: Tx, rules: Rules, run_id: str) -> None:
    """Settle a live run that nobody has a body of."""
    run = agents.run(tx, run_id)
    agent = None if run is None else agents.get(tx, run.agent)
    if run is None or agent is None:
        return
    standing = fleet.get(tx, agent.id)
    if standing is None:
        if agents.end_run(tx, run.id, "no body"):
            _repaired(tx, "live run of an agent that no fleet runs", run=run.id, agent=agent.id)
        return
    # A dispatch of this run at this version was, if ever, written with the version: none can come after the look.
    known = dispatches.get(tx, run.id, run.version)
    seq, depth = (standing.wake_seq, 0) if known is None else (known.wake_seq, known.depth)
    turn = Turn(agent, run.id, run.version, seq, depth, standing.setup.lane, "")
    settle(tx, rules, turn, BodyEnd(BodyStop.FAILED, detail=_GONE), _read(tx, run.id, run.version), lost=True)


def _unpark(tx: Tx, run_id: str) -> None:
    run = agents.run(tx, run_id)
    if run is None:
        return
    standing = fleet.get(tx, run.agent, lock=True)
    run = agents.run(tx, run_id, lock=True)
    is_again = standing is not None and standing.again == run_id
    if run is None or run.state is not RunState.PARKED or is_again or waiters.still_waits(tx, WaiterKind.RUN, run_id):
        return
    agents.end_run(tx, run.id, "nothing is open")
    agents.revoke_run_tokens(tx, run.id)
    _repaired(tx, "parked run that waits for nothing", run=run.id, agent=run.agent)


def _withdraw(tx: Tx, ask_id: str) -> None:
    ask = asks.get(tx, ask_id, lock=True)
    agent = None if ask is None else agents.get(tx, ask.agent)
    if ask is None or ask.state is not AskState.OPEN or agent is None or agent.state is not AgentState.RETIRED:
        return
    if isinstance(withdraw(tx, ask.id, "broker", f"the agent {agent.slug} is retired", to_backlog=True), AskEnded):
        _repaired(tx, "open ask of a retired agent", run=ask.run, agent=agent.id, ask=ask.id)


def _rouse(tx: Tx, agent: str) -> None:
    standing = fleet.get(tx, agent, lock=True)
    wake = _wake_of(tx, agent)
    if standing is None or wake is None:
        return
    settled.wake(tx, agent, standing.wake_seq, wake.at, wake.reason.value)
    _repaired(tx, "agent that nothing would wake", agent=agent)


def _wake_of(tx: Tx, agent: str) -> Wake | None:
    """Give the wake that an agent lacks; None where it lacks none."""
    standing = fleet.get(tx, agent)
    if standing is None or standing.due_at is not None or standing.resting or page_rows.live_run(tx, agent) is not None:
        return None
    if standing.again is not None:
        return Wake(tx.now, WakeReason.RETRY)
    untold = settled.rousing(tx, agent, standing.setup.wake_on)
    if untold is not None:
        return Wake(tx.now, WakeReason(untold))
    # One that is blocked or asked waits for a person.
    waits = standing.outcome == "BLOCKED" or repairs.has_open(tx, agent)
    return None if waits else _own(tx, standing)


def _own(tx: Tx, standing: Standing) -> Wake | None:
    cron, zone = standing.setup.cron, standing.setup.zone
    following = schedule.next_after(cron, zone, tx.now) if cron is not None and zone is not None else None
    wake = machine.starting(standing.setup.policy, tx.now, following, WakeReason.SOON)
    return wake if wake is None or following is None else replace(wake, reason=WakeReason.SCHEDULE)


def _repaired(tx: Tx, what: str, *, run: str | None = None, agent: str | None = None, ask: str | None = None) -> None:
    ledger.append(tx, Entry(EventKind.FLEET_REPAIRED, tx.now, ask=ask, run=run, agent=agent, reason=what))
