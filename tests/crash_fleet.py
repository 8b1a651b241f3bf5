"""A small fleet as a piece of work that a crash may cut: its broker's duties and bodies that are processes, and people.

One agent asks, is answered, and sends to another, which asks too; that ask expires, the agent is paused and resumed.
Who dies takes its bodies along, and the next process goes on from the rows alone.
"""

import threading
from collections import Counter
from pathlib import Path
from typing import Final
from unittest import mock

from sqlalchemy import select

from gitops_bot.authority import agents as acts
from gitops_bot.authority import closing
from gitops_bot.authority.settling import Settled
from gitops_bot.bootstrap.holders import Holders
from gitops_bot.core.asks import AskState
from gitops_bot.core.principals import PrincipalName
from gitops_bot.fleet import machine
from gitops_bot.fleet.bodies import Bodies, Ground
from gitops_bot.fleet.reconcile import Reconcile
from gitops_bot.fleet.tick import Tick
from gitops_bot.harness.bodies import CommandBodies
from gitops_bot.harness.fleet_isolation import Kind, isolate
from gitops_bot.store import agents, asks, page_rows
from gitops_bot.store import fleet as fleet_rows
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import AgentState, HarnessKind
from gitops_bot.store.tables import asks as asks_table
from tests.capture_stage import CaptureStage
from tests.fleet_searched import sleeps_forever, told_wrongly
from tests.fleet_stage import FleetStage

BODY: Final = """
capsule=$(cat)
case $capsule in
*"option: o2"*) printf 'NOTIFY: going south\\nSEND: @second the ball is yours\\nOUTCOME: NO_WORK\\n' ;;
*"state: EXPIRED"*) printf 'REPORT: nobody said\\nOUTCOME: NO_WORK\\n' ;;
*"the ball is yours"*) printf 'REPORT: my turn\\nASK: Shall I?\\n' ;;
*"walk"*) printf 'REPORT: at the fork\\nASK: Which way?\\nOPTIONS: north | south\\n' ;;
esac
"""
LEASE: Final = 60_000
MOST: Final = 2_000
SAID: Final = ("at the fork", "going south", "my turn", "nobody said")


def prepare(stage: CaptureStage) -> None:
    """Add two agents, and write to the first."""
    fleet, command = FleetStage(stage.database, stage.rules), ("/bin/sh", "-c", BODY)
    first = fleet.member("first", command=command)
    fleet.member("second", command=command)
    fleet.message(first, "Take a walk.")


def do(stage: CaptureStage) -> None:
    """Run the fleet, and do what people do, until everything rests."""
    folder = Path(stage.folder)
    holders, bell = Holders(folder / "brokers"), threading.Event()
    harness = CommandBodies(isolate(Kind.NONE).start)
    ground = Ground(
        stage.database, stage.rules, {HarnessKind.COMMAND: harness}, "http://localhost", holders.name, LEASE
    )
    bodies = Bodies(ground, bell.set)
    tick = Tick(stage.database, bodies, holder=holders.name, slots=4, lease=LEASE)
    reconcile = Reconcile(stage.database, stage.rules, holders.gone)
    # This process is in a hurry: what was lost is tried again at once.
    with mock.patch.object(machine, "RETRY", (1, 1)):
        for _ in range(MOST):
            tick.step()
            reconcile.step()
            if not people(stage) and not bodies.count() and stage.read(is_at_rest):
                break
            bell.wait(0.01)
            bell.clear()
    holders.close()


def is_at_rest(tx: Tx) -> bool:
    """Tell whether nothing is due, runs, or waits for anybody."""
    for slug in ("first", "second"):
        agent = agents.by_slug(tx, slug)
        assert agent is not None
        standing = fleet_rows.get(tx, agent.id)
        assert standing is not None
        if standing.due_at is not None or standing.resting or page_rows.live_run(tx, agent.id) is not None:
            return False
    return not asks.page(tx, "", 9, only_open=True)


def people(stage: CaptureStage) -> bool:
    """Answer the first agent, let the second wait in vain, resume who is paused; tell whether there was anything."""
    found = stage.read(lambda tx: asks.page(tx, "", 9, only_open=True))
    for one in found:
        ask = stage.get(one.id)
        if ask.text == "Which way?":
            assert isinstance(stage.answer(ask, "alice", "o2", idempotency_key="k"), Settled)
            continue
        with stage.database.write() as tx:
            tx.now = ask.expires_at or 0
            assert isinstance(closing.expire(tx, ask.id), closing.Ended)
    paused = [slug for slug in ("first", "second") if stage.agent(slug).state is AgentState.PAUSED]
    for slug in paused:
        with stage.database.write() as tx:
            assert isinstance(acts.resume(tx, slug, PrincipalName("alice")), acts.Changed)
    return bool(found or paused)


def check(stage: CaptureStage) -> None:
    """Each marker landed once, each verdict is in one capsule, nobody sleeps for ever, and nothing was decided by
    nobody."""
    fleet = FleetStage(stage.database, stage.rules)
    assert told_wrongly(stage.database) == [] and sleeps_forever(stage.database) == []
    first, second = stage.agent("first"), stage.agent("second")
    said = Counter(text for agent in (first, second) for _, text in fleet.lines(agent))
    assert [said[text] for text in SAID] == [1, 1, 1, 1], said
    assert Counter(fleet.lines(second))["agent", "the ball is yours"] == 1
    rows = stage.read(lambda tx: tx.execute(select(asks_table.c.text, asks_table.c.state)).all())
    states = {(row.text, row.state) for row in rows}
    assert len(rows) == 2
    assert states == {("Which way?", AskState.ANSWERED.value), ("Shall I?", AskState.EXPIRED.value)}
    assert [len(fleet.happened(kind)) for kind in ("ask.opened", "ask.answered", "ask.expired")] == [2, 1, 1]
    assert stage.count("verdicts") == 1
    for agent in (first, second):
        assert {state for _, _, state in fleet.runs(agent)} == {"ended"}
        assert len(fleet.runs(agent)) == 2
