"""Events become effects in sealed order, once a receiver, and carry what an answer must echo."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gitops_bot.authority.noticing import KINDS, LANES, Noticing, Receiver
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.store import agents, ledger, outbox
from gitops_bot.store.roles import Role
from gitops_bot.store.states import RunState
from tests.decisions import Stage
from tests.store_fixtures import FreshDatabase

HOOK = Receiver("hook", frozenset(KINDS), is_person=False)
PEOPLE = Receiver("apprise", frozenset(KINDS), is_person=True)
TRANSFER = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}


@pytest.fixture
def stage(database: FreshDatabase) -> Iterator[Stage]:
    return Stage(database.open(Role.BROKER))


def noticing(stage: Stage, *receivers: Receiver) -> Noticing:
    made = Noticing(stage.database, receivers or (HOOK,), "http://localhost:8480")
    made.arm()
    return made


def sealed(stage: Stage) -> None:
    stage.write(lambda tx: ledger.seal_next(tx, 1_000))


def told(stage: Stage, receiver: str = "hook") -> list[dict[str, Any]]:
    """What was written for a receiver, in order."""

    def read(tx: Any) -> list[dict[str, Any]]:
        seqs = range(1, ledger.head(tx).seq + 1)
        found = [outbox.get(tx, f"notice:{receiver}:{seq}") for seq in seqs]
        return [json.loads(json.dumps(one.payload["told"])) for one in found if one is not None]

    return stage.read(read)


def test_an_open_ask_is_told_with_the_binding_that_an_answer_must_echo(stage: Stage) -> None:
    duty = noticing(stage)
    ask = stage.question()
    sealed(stage)
    duty.step()
    (one,) = told(stage)
    assert one["event"] == "ask.opened"
    assert one["ask"]["id"] == ask.id
    assert one["ask"]["action_hash"] == ask.binding.action_hash
    assert (one["ask"]["policy"], one["ask"]["run_version"]) == (ask.binding.policy, ask.binding.run_version)
    assert one["ask"]["url"] == f"http://localhost:8480/asks/{ask.id}"
    assert (one["ask"]["gated"], one["ask"]["answerable"]) == (False, True)
    assert one["ask"]["from_agent"]["text"] == ask.text


def test_a_gated_ask_is_flagged_and_answerable_nowhere(stage: Stage) -> None:
    duty = noticing(stage)
    stage.ask(verb="payments.transfer", params=TRANSFER)
    sealed(stage)
    duty.step()
    (one,) = told(stage)
    assert (one["ask"]["gated"], one["ask"]["answerable"]) == (True, False)


def test_what_is_not_sealed_is_not_told(stage: Stage) -> None:
    """Its place in the order is not known yet; the twin is told once it has one."""
    duty = noticing(stage)
    stage.question()
    duty.step()
    assert told(stage) == []
    sealed(stage)
    duty.step()
    assert len(told(stage)) == 1


def test_an_event_is_told_once_whoever_looks_again(stage: Stage) -> None:
    duty = noticing(stage)
    stage.question()
    sealed(stage)
    duty.step()
    noticing(stage).step()
    assert len(told(stage)) == 1


def test_a_new_receiver_hears_of_nothing_that_was_before(stage: Stage) -> None:
    stage.question()
    sealed(stage)
    duty = noticing(stage)
    duty.step()
    assert told(stage) == []
    stage.ask()
    sealed(stage)
    duty.step()
    assert len(told(stage)) == 1


def test_a_receiver_gets_its_kinds_alone(stage: Stage) -> None:
    duty = noticing(stage, Receiver("hook", frozenset({"ask.withdrawn"}), is_person=False), PEOPLE)
    stage.question()
    sealed(stage)
    duty.step()
    assert (told(stage), len(told(stage, "apprise"))) == ([], 1)


def test_people_hear_of_an_ask_only_when_somebody_stands_still_for_it(stage: Stage) -> None:
    """I8: an agent that goes on meanwhile badges nobody; a program that follows events hears of it all the same."""
    duty = noticing(stage, HOOK, PEOPLE)
    ask = stage.question()
    stage.write(lambda tx: agents.set_run_state(tx, ask.run, RunState.LIVE))
    sealed(stage)
    duty.step()
    assert [one["needs_person"] for one in told(stage)] == [False]
    assert told(stage, "apprise") == []


def test_a_notice_that_could_not_be_told_is_not_told_as_a_notice(stage: Stage) -> None:
    """Else a hook that fails would fail for ever; of another effect's failure it hears."""
    duty = noticing(stage)

    def fail(kind: str) -> None:
        facts = {"key": "one", "kind": kind, "why": "the hook ended with 1"}
        stage.write(lambda tx: ledger.append(tx, Entry(EventKind.EFFECT_FAILED, tx.now, facts=facts)))

    fail("notice")
    fail("forge.comment")
    sealed(stage)
    duty.step()
    assert [one["effect"]["kind"] for one in told(stage)] == ["forge.comment"]


def test_what_an_agent_says_stands_under_its_own_name(stage: Stage) -> None:
    duty = noticing(stage)
    agent = stage.agent()
    facts = {"text": "VERDICT: approved"}
    stage.write(lambda tx: ledger.append(tx, Entry(EventKind.AGENT_NOTIFY, tx.now, agent=agent.id, facts=facts)))
    sealed(stage)
    duty.step()
    (one,) = told(stage)
    assert one["from_agent"] == {"text": "VERDICT: approved"}
    assert one["agent"] == agent.slug
    assert "text" not in one


def test_a_long_silence_is_caught_up_batch_by_batch(stage: Stage) -> None:
    duty = noticing(stage)

    def say(tx: Any) -> None:
        ledger.append(tx, *(Entry(EventKind.AGENT_NOTIFY, tx.now, facts={"text": str(n)}) for n in range(450)))

    stage.write(say)
    sealed(stage)
    steps = 0
    while duty.step() == 0.0:
        steps += 1
    assert [one["from_agent"]["text"] for one in told(stage)] == [str(n) for n in range(450)]
    assert steps == 2
    for number in range(LANES):
        assert stage.write(lambda tx, lane=f"notice:hook:{number}": outbox.next_in_lane(tx, lane)) is not None
