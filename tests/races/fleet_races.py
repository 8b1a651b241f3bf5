"""The races of the fleet, each prepared as rows of agents of their own in a lane of their own.

A check first says what both transactions came to, then lets the agents run on to their rest: in the end every verdict
is in exactly one capsule, and nobody sleeps for ever.
"""

import itertools
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import select, update

from gitops_bot.authority import agents as acts
from gitops_bot.authority import closing, settling
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Answer
from gitops_bot.fleet import reconcile, tick
from gitops_bot.store import agents, fleet
from gitops_bot.store.due_agents import Opened
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_tables import dispatches, fleet_agents
from gitops_bot.store.states import RunState, WakeOn, WakePolicy
from tests.asserted import asserted
from tests.fleet_searched import sleeps_forever, told_wrongly
from tests.fleet_stage import HOLDER, LEASE, WELL, FleetStage
from tests.interleaved import Race, Work

_NUMBERS: Final = itertools.count(1)
NOTHING: Final = "OUTCOME: NO_WORK"
ASKS: Final = "ASK: Which way?\nOPTIONS: north | south"
TWO: Final = f"{ASKS}\nASK: And then?\nOPTIONS: up | down"


class Ground:
    """One agent in its lane."""

    def __init__(self, stage: FleetStage, **given: Any) -> None:
        self.number = next(_NUMBERS)
        self.stage, self.lane = stage, f"command:race-{self.number}"
        self.agent = self.member("racer", **given)
        self.left: list[Opened] = []

    def member(self, slug: str, **given: Any) -> agents.Agent:
        """Add an agent to the lane."""
        return self.stage.member(f"{slug}-{self.number}", lane=self.lane, **given)

    def claim(self, tx: Tx, slots: int = 9) -> list[Opened]:
        """Do what a tick does in the lane."""
        return tick.dispatch(tx, self.lane, slots, HOLDER, LEASE)

    def opened(self) -> Opened:
        """Wake the agent, and open its run."""
        self.stage.wake(self.agent)
        (opened,) = self.stage.write(self.claim)
        return opened

    def asked(self, text: str = ASKS) -> list[Ask]:
        """Let a turn ask, and end; give what it asked."""
        assert self.stage.settle(self.opened(), text) is not None
        return [self.stage.get(ask) for ask in self.stage.open_asks(self.agent)]

    def asking(self, opened: Opened) -> Ask:
        """Let a body ask while it runs."""
        run = self.stage.read(lambda tx: agents.run(tx, opened.dispatch.run))
        return self.stage.question(agent=self.agent, run=run, labels=("north", "south"))

    def answering(self, ask: Ask, who: str = "alice") -> Work:
        """Answer an ask."""
        voice = self.stage.voice(who, asserted=asserted(ask, who, "o2", None))
        given = Answer("o2", None, ask.binding)
        return lambda tx: settling.answer(tx, self.stage.rules, ask.id, given, voice)

    def expiring(self, ask: Ask) -> Work:
        """Expire an ask, in the millisecond after its time: it began just after whoever answers."""

        def work(tx: Tx) -> Any:
            tx.now = (ask.expires_at or 0) + 1
            return closing.expire(tx, ask.id)

        return work

    def settling(self, opened: Opened, text: str = NOTHING) -> Work:
        """Settle a turn that ended well."""
        return lambda tx: self.stage.settle_in(tx, opened, text, WELL)

    def reason(self) -> str | None:
        """Say why the agent is due now; None where it is not."""
        wait, reason = self.stage.wakes_in(self.agent)
        return reason if wait is not None and wait <= 0 else None

    def rest(self) -> None:
        """Let all agents of the lane run until nothing of it is due; every paused one is resumed first."""
        stage = self.stage
        held = select(dispatches.c.run).where(dispatches.c.lane == self.lane, dispatches.c.ended_at.is_(None))
        only = self.members()
        assert sleeps_forever(stage.database, only) == []
        for agent in only:
            one = stage.read(lambda tx, agent=agent: agents.get(tx, agent))  # type: ignore[misc] # bound now
            if one is not None and stage.standing(one).resting:
                stage.resume(one)
        assert stage.read(lambda tx: tx.execute(held).all()) == [] or self.left
        for opened in self.left:
            stage.settle(opened, NOTHING)
        while self.hurried() and (ready := stage.write(self.claim)):
            for opened in ready:
                assert stage.settle(opened, NOTHING) is not None
        for ask in stage.open_asks(self.agent):
            stage.withdraw(stage.get(ask))
        while self.hurried() and (ready := stage.write(self.claim)):
            for opened in ready:
                assert stage.settle(opened, NOTHING) is not None
        assert told_wrongly(stage.database, only) == [] and sleeps_forever(stage.database, only) == []

    def members(self) -> list[str]:
        """Name all agents of the lane."""
        of_lane = select(fleet_agents.c.agent).where(fleet_agents.c.lane == self.lane)
        return self.stage.read(lambda tx: list(tx.execute(of_lane).scalars()))

    def hurried(self) -> int:
        """Let the time of every wake of the lane come."""
        all_due = update(fleet_agents).where(fleet_agents.c.lane == self.lane, fleet_agents.c.due_at.is_not(None))
        return self.stage.write(lambda tx: tx.execute(all_due.values(due_at=tx.now)).rowcount)


def answer_settle(stage: FleetStage) -> Race:
    """A body asked by the API; a person answers as its turn is settled."""
    ground = Ground(stage)
    opened = ground.opened()
    ask = ground.asking(opened)

    def check(answer: Any, settled: Any) -> None:
        assert isinstance(answer, settling.Settled) and settled is not None
        assert (ground.reason(), stage.state_of(opened.dispatch.run)) == ("answer", RunState.ENDED)
        ground.rest()

    return Race(ground.answering(ask), ground.settling(opened), check)


def answer_settle_all(stage: FleetStage) -> Race:
    """The same where the agent wakes on all: the turn itself asks another thing, which stays open."""
    ground = Ground(stage, wake_on=WakeOn.ALL)
    opened = ground.opened()
    ask = ground.asking(opened)

    def check(answer: Any, settled: Any) -> None:
        assert isinstance(answer, settling.Settled) and settled is not None
        assert stage.state_of(opened.dispatch.run) is RunState.PARKED
        (left,) = stage.open_asks(ground.agent)
        stage.answer(stage.get(left), "alice", "o1")
        assert (ground.reason(), stage.state_of(opened.dispatch.run)) == ("answer", RunState.ENDED)
        ground.rest()

    return Race(ground.answering(ask), ground.settling(opened, ASKS), check)


def expiry_answer(stage: FleetStage) -> Race:
    """A person answers in the last millisecond (I5, I6)."""
    ground = Ground(stage)
    (ask,) = ground.asked()

    def check(expired: Any, answer: Any) -> None:
        after, agent = stage.get(ask), stage.read(lambda tx: agents.get(tx, ground.agent.id))
        assert agent is not None
        won = isinstance(answer, settling.Settled)
        assert isinstance(expired, Refused) if won else isinstance(answer, Refused)
        assert after.state is (AskState.ANSWERED if won else AskState.EXPIRED)
        assert (stage.verdict(ask) is not None) is won and stage.standing(ground.agent).resting is not won
        loser = expired if won else answer
        assert loser.facts["state"] == after.state.value
        assert stage.standing(ground.agent).due_reason == ("answer" if won else "expired")
        ground.rest()

    return Race(ground.expiring(ask), ground.answering(ask), check)


def expiry_settle(stage: FleetStage) -> Race:
    """What a body asked by the API expires as its turn is settled."""
    ground = Ground(stage, policy=WakePolicy.CONTINUOUS, first_at=None)
    (opened,) = stage.write(ground.claim)
    ask = ground.asking(opened)

    def check(expired: Any, settled: Any) -> None:
        assert isinstance(expired, closing.Ended) and settled is not None
        standing = stage.standing(ground.agent)
        assert standing.resting and standing.due_reason == "expired" and stage.verdict(ask) is None
        stage.resume(ground.agent)
        quiet(ground)

    return Race(ground.expiring(ask), ground.settling(opened), check)


def quiet(ground: Ground) -> None:
    """Let an agent that runs by itself have one more turn, and be told."""
    ground.hurried()
    (again,) = ground.stage.write(ground.claim)
    assert ground.stage.settle(again, NOTHING) is not None
    only = ground.members()
    assert told_wrongly(ground.stage.database, only) == [] and sleeps_forever(ground.stage.database, only) == []
    ground.stage.retire(ground.agent)


def withdraw_answer(stage: FleetStage) -> Race:
    """An ask is withdrawn as a person answers it (I6)."""
    ground = Ground(stage)
    (ask,) = ground.asked()

    def check(withdrawn: Any, answer: Any) -> None:
        won = isinstance(answer, settling.Settled)
        assert isinstance(withdrawn, Refused) is won and isinstance(answer, Refused) is not won
        assert (stage.verdict(ask) is not None) is won
        assert ground.reason() == ("answer" if won else "withdrawn")
        ground.rest()

    return Race(lambda tx: closing.withdraw(tx, ask.id, "alice", "no"), ground.answering(ask), check)


def message_settle(stage: FleetStage) -> Race:
    """A person writes to an agent as its turn is settled (I2)."""
    ground = Ground(stage, policy=WakePolicy.CONTINUOUS, first_at=None)
    (opened,) = stage.write(ground.claim)
    author = acts.Author("person", "bob", PrincipalName("bob"))

    def check(number: Any, settled: Any) -> None:
        assert isinstance(number, int) and settled is not None
        assert ground.reason() == "message"
        quiet(ground)

    return Race(lambda tx: acts.post(tx, ground.agent, author, "look"), ground.settling(opened), check)


def wake_settle(stage: FleetStage) -> Race:
    """A person wakes an agent as its turn is settled (I2): nothing else says so than the wake itself."""
    ground = Ground(stage)
    opened = ground.opened()

    def check(woken: Any, settled: Any) -> None:
        assert woken and settled is not None and ground.reason() == "person"
        ground.rest()

    return Race(lambda tx: fleet.wake(tx, ground.agent.id, "person"), ground.settling(opened), check)


def two_answers(stage: FleetStage) -> Race:
    """Two asks of one run are answered at one time, of an agent that wakes on all."""
    ground = Ground(stage, wake_on=WakeOn.ALL)
    one, other = ground.asked(TWO)

    def check(first: Any, second: Any) -> None:
        assert isinstance(first, settling.Settled) and isinstance(second, settling.Settled)
        assert ground.reason() == "answer" and stage.state_of(one.run) is RunState.ENDED
        (opened,) = stage.write(ground.claim)
        assert one.id in opened.dispatch.capsule and other.id in opened.dispatch.capsule
        assert stage.settle(opened, NOTHING) is not None
        ground.rest()

    return Race(ground.answering(one), ground.answering(other), check)


def answer_claim(stage: FleetStage) -> Race:
    """An agent that is due anyway is claimed as a person answers what it asked before."""
    ground = Ground(stage)
    (ask,) = ground.asked()
    stage.wake(ground.agent)

    def check(answer: Any, claimed: Any) -> None:
        assert isinstance(answer, settling.Settled)
        if claimed:
            told = ask.id in claimed[0].dispatch.capsule
            assert told or ground.reason() == "answer"
            assert stage.settle(claimed[0], NOTHING) is not None
        assert claimed == [] or not told or ground.reason() in (None, "answer")
        ground.rest()

    return Race(ground.answering(ask), ground.claim, check)


def pause_claim(stage: FleetStage) -> Race:
    """A person pauses an agent as it is claimed: it runs once more, or it does not run."""
    ground = Ground(stage)
    stage.wake(ground.agent)

    def check(paused: Any, claimed: Any) -> None:
        assert isinstance(paused, acts.Changed)
        standing = stage.standing(ground.agent)
        assert standing.resting and (standing.due_at is None) is bool(claimed)
        assert stage.write(ground.claim) == []
        ground.left = claimed
        ground.rest()

    return Race(lambda tx: acts.pause(tx, ground.agent.slug, PrincipalName("alice"), "wait"), ground.claim, check)


def claim_claim(stage: FleetStage) -> Race:
    """Two brokers tick: each agent gets one run, and no more run than there are slots."""
    ground = Ground(stage)
    others = [ground.member(slug) for slug in ("other", "third")]
    for agent in (ground.agent, *others):
        stage.wake(agent)

    def check(first: Any, second: Any) -> None:
        slugs = [opened.agent.slug for opened in (*first, *second)]
        assert len(slugs) == len(set(slugs)) == 2
        for opened in (*first, *second):
            assert stage.settle(opened, NOTHING) is not None
        ground.rest()

    return Race(lambda tx: ground.claim(tx, 2), lambda tx: ground.claim(tx, 2), check)


def settle_recover(stage: FleetStage) -> Race:
    """A body's turn is settled as the reconciler finds it lost: one of them does (I6), each marker lands once (I9)."""
    ground = Ground(stage)
    opened = ground.opened()
    said = "REPORT: half way\n"
    stage.say(opened, said)

    def check(settled: Any, _recovered: Any) -> None:
        lines = [text for _, text in stage.lines(ground.agent)]
        assert lines.count("half way") == 1
        ended = [*stage.happened("run.settled"), *stage.happened("run.lost")]
        assert len([entry for entry in ended if entry["run"] == opened.dispatch.run]) == 1
        assert (stage.standing(ground.agent).again is None) is (settled is not None)
        ground.rest()

    return Race(
        ground.settling(opened, f"{said}{NOTHING}"),
        lambda tx: reconcile.recover(tx, stage.rules, opened.dispatch, known=True),
        check,
    )


def send_settle(stage: FleetStage) -> Race:
    """Two agents end their turns, and each sends to the other: nobody deadlocks, and each is woken (I2)."""
    ground = Ground(stage)
    other = ground.member("other")
    one = ground.opened()
    stage.wake(other)
    (two,) = stage.write(ground.claim)

    def check(first: Any, second: Any) -> None:
        assert first is not None and second is not None
        for agent in (ground.agent, other):
            assert stage.wakes_in(agent)[1] == "message"
        ground.rest()

    return Race(
        ground.settling(one, f"SEND: @{other.slug} hello"),
        ground.settling(two, f"SEND: @{ground.agent.slug} hi"),
        check,
    )


RACES: Final[dict[str, Callable[[FleetStage], Race]]] = {
    "answer, settle": answer_settle,
    "answer, settle, wakes on all": answer_settle_all,
    "expiry, answer": expiry_answer,
    "expiry, settle": expiry_settle,
    "withdraw, answer": withdraw_answer,
    "message, settle": message_settle,
    "wake, settle": wake_settle,
    "two answers, wakes on all": two_answers,
    "answer, claim": answer_claim,
    "pause, claim": pause_claim,
    "claim, claim": claim_claim,
    "settle, recover": settle_recover,
    "send, send": send_settle,
}
