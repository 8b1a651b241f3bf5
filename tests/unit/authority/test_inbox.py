"""Who needs what: the inbox of one person, against a filter over every ask; its walks stay on their indexes."""

from typing import Any

import pytest
from sqlalchemy import event, text

from gitops_bot.authority import inbox
from gitops_bot.authority.inbox import Filters, Inbox, Row
from gitops_bot.core.asks import Ask, AskKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Channel
from gitops_bot.policy.model import Risk
from gitops_bot.store import agents, snoozes
from gitops_bot.store import inbox as walks
from gitops_bot.store.inbox import Source
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind, AgentState, RunState
from tests.decisions import VERB, Stage, rules_of
from tests.store_fixtures import FreshDatabase

TRANSFER = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}


@pytest.fixture
def stage(database: FreshDatabase) -> Stage:
    return Stage(database.open(Role.WORKSPACE))


def gated(stage: Stage, amount: int = 125_000) -> Ask:
    return stage.ask(verb="payments.transfer", params={**TRANSFER, "amount_minor": amount})


def see(stage: Stage, who: str, before: str | None = None, limit: int = 50, **filters: Any) -> Inbox:
    name = PrincipalName(who)
    return stage.read(lambda tx: inbox.needs_you(tx, stage.rules, name, Filters(**filters), before, limit))


def ids(found: Inbox) -> list[str]:
    return [row.ask.id for row in found.rows]


def one(found: Inbox) -> Row:
    assert len(found.rows) == 1, found
    return found.rows[0]


def test_a_question_is_its_owners_alone(stage: Stage) -> None:
    """Bob does not own the agent and is not asked; alice is."""
    ask = stage.question(["left", "right"])
    row = one(see(stage, "alice"))
    assert (row.ask.id, row.answerable, row.channels) == (ask.id, True, ("workspace", "operator"))
    assert [option.label for option in row.ask.options] == ["left", "right"]
    assert (row.agent, row.risk, row.missing, row.approve_needed) == ("agent-1", "normal", 1, 1)
    assert not see(stage, "bob").rows


def test_a_verb_is_its_voters_and_tells_what_is_missing(stage: Stage) -> None:
    """Whoever voted already is not needed any more, and the others see that one vote less is missing."""
    ask = stage.ask()
    for who in ("alice", "bob", "carol"):
        assert ids(see(stage, who)) == [ask.id]
    assert not see(stage, "dave").rows
    stage.answer(ask, "bob", "approve")
    assert not see(stage, "bob").rows
    assert (one(see(stage, "carol")).missing, one(see(stage, "carol")).approve_needed) == (1, 2)
    stage.answer(ask, "carol", "approve")
    assert not see(stage, "alice").rows, "it ended"


def test_nobody_is_asked_to_approve_their_own_request(stage: Stage) -> None:
    """I15: the requester is out, the owner of the agent is not (for a verb that is not gated)."""
    agent = stage.agent("alices-own", principal="alice")
    ask = stage.ask(agent)
    assert ids(see(stage, "alice")) == []
    assert ids(see(stage, "bob")) == [ask.id]


def test_candidates_leave_everybody_else_out(stage: Stage) -> None:
    """An ask that names its candidates is theirs, and its row names them."""
    ask = stage.ask(candidates=(PrincipalName("carol"), PrincipalName("dave")))
    assert not see(stage, "bob").rows
    assert one(see(stage, "carol")).ask.candidates == ("carol", "dave")
    assert not see(stage, "dave").rows, "a candidate who is no voter may not answer either"
    assert ask.id in ids(see(stage, "carol"))


def test_what_is_answered_elsewhere_says_where(stage: Stage) -> None:
    """A verb of the forge alone is shown, cannot be answered here, and names its channel."""
    stage = stage.under({f"verbs/{VERB}/channels": ["forge"]})
    stage.ask()
    row = one(see(stage, "bob"))
    assert (row.answerable, row.channels) == (False, ("forge",))
    stage = stage.under({f"verbs/{VERB}/channels": ["workspace"]})
    assert one(see(stage, "bob")).answerable


def test_a_gated_ask_concerns_everybody_and_nobody_answers_it_here(stage: Stage) -> None:
    """Also its agent's owner, who may not approve it: any person may stop it."""
    ask = gated(stage)
    for who in ("alice", "bob", "dave"):
        row = one(see(stage, who))
        assert (row.ask.id, row.answerable, row.channels, row.risk) == (ask.id, False, ("signed",), "high")
    assert one(see(stage, "bob")).summary == "Transfer 1,250.00 EUR to DE89370400440532013000"
    assert one(see(stage, "bob")).approve_needed == 2


@pytest.mark.parametrize("who", ["agent", "bot", "nobody", ""])
def test_whoever_is_no_person_of_the_policy_is_needed_for_nothing(stage: Stage, who: str) -> None:
    """A service never answers, and neither does somebody whom the policy does not know."""
    gated(stage)
    assert see(stage, who) == Inbox((), None, 0)


def test_who_is_suspended_is_needed_for_nothing(stage: Stage, database: FreshDatabase) -> None:
    """The suspension of this very transaction counts."""
    from gitops_bot.store import suspensions

    ask = stage.ask()
    assert ids(see(stage, "bob")) == [ask.id]
    with database.open(Role.HOST).write() as tx:
        suspensions.suspend(tx, PrincipalName("bob"), "lost")
    assert see(stage, "bob") == Inbox((), None, 0)
    assert ids(see(stage, "carol")) == [ask.id]


def test_an_ask_whose_time_is_over_is_gone_before_the_duty_comes_by(stage: Stage) -> None:
    """It could not be answered any more."""
    stage.expiring()
    assert not see(stage, "bob").rows
    ask = stage.ask(params={"version": "2.0"})
    assert ids(see(stage, "bob")) == [ask.id]


def test_a_snooze_is_its_persons_alone(stage: Stage) -> None:
    """Put off it is hidden from alice, shown to bob, and found by alice under its filter."""
    ask = stage.ask()
    until = stage.read(lambda tx: tx.now) + 60_000
    stage.write(lambda tx: snoozes.put_off(tx, ask.id, PrincipalName("alice"), until))
    assert not see(stage, "alice").rows
    assert see(stage, "alice").count == 0
    assert ids(see(stage, "bob")) == [ask.id]
    assert one(see(stage, "alice", snoozed=True)).snoozed_until == until
    assert not see(stage, "bob", snoozed=True).rows
    stage.write(lambda tx: snoozes.put_off(tx, ask.id, PrincipalName("alice"), tx.now))
    assert ids(see(stage, "alice")) == [ask.id], "its time is over"


def test_pages_go_from_the_newest_to_the_oldest_without_a_gap(stage: Stage) -> None:
    """Sources are merged by id, the cursor goes on below the last row."""
    asked = []
    for number in range(7):
        asked += [stage.ask(params={"version": str(number)}).id, stage.question().id]
        if number < 5:  # as many as an agent may have open
            asked.append(gated(stage, number + 1).id)
    walked: list[str] = []
    before: str | None = None
    while True:
        page = see(stage, "alice", before, 4)
        walked += ids(page)
        before = page.next
        if before is None:
            break
    assert walked == sorted(asked, reverse=True)


def test_filters_narrow_the_page(stage: Stage) -> None:
    """Each filter alone finds its ask and nothing else."""
    stage = stage.under({f"verbs/{VERB}/risk": "low"})
    other = stage.agent("writer")
    plain, bound, transfer = stage.question(), stage.ask(why="because of Äpfel"), gated(stage)
    written = stage.ask(other, verb=None, params=None, text="What next?")
    expected: dict[str, tuple[Any, list[str]]] = {
        "agent": ("writer", [written.id]),
        "verb": (VERB, [bound.id]),
        "kind": (AskKind.GATED, [transfer.id]),
        "risk": (Risk.LOW, [bound.id]),
        "channel": (Channel.FORGE, [bound.id]),
        "text": ("äPFEL", [bound.id]),
    }
    for name, (value, found) in expected.items():
        narrowed: dict[str, Any] = {name: value}
        assert ids(see(stage, "alice", **narrowed)) == found, name
    assert ids(see(stage, "alice", kind=AskKind.QUESTION)) == [written.id, plain.id]
    assert ids(see(stage, "alice", risk=Risk.HIGH)) == [transfer.id]
    # What stands on the row is found, though the sentence is stored nowhere.
    assert ids(see(stage, "alice", text="1,250.00 eur")) == [transfer.id]
    assert ids(see(stage, "alice", agent="nobody")) == ids(see(stage, "alice", verb="no.such")) == []
    assert ids(see(stage, "alice", agent="agent-1", kind=AskKind.GATED)) == [transfer.id]


def test_a_page_that_filters_away_too_much_is_short_and_goes_on(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at for a page is bounded; the cursor reaches the rest."""
    monkeypatch.setattr(inbox, "LOOKED", 3)
    rare = stage.ask(why="needle")
    for number in range(4):
        stage.ask(params={"version": f"2.{number}"})
    first = see(stage, "bob", text="needle")
    assert (first.rows, first.next is not None) == ((), True)
    assert ids(see(stage, "bob", first.next, text="needle")) == [rare.id]


@pytest.mark.parametrize("before", ["\x00", "", "0", "z" * 500, "\ud800"])
def test_a_cursor_of_no_form_is_no_error(stage: Stage, before: str) -> None:
    """Whatever comes as a cursor reads a page, an empty one at worst."""
    stage.ask()
    assert len(see(stage, "bob", before).rows) <= 1


def test_only_what_stands_still_badges(stage: Stage) -> None:
    """I8: an agent that goes on meanwhile, or that people paused, is in the list and not in the count."""
    parked = stage.ask()
    assert (one(see(stage, "bob")).blocks, see(stage, "bob").count) == ("the agent waits", 1)
    stage.write(lambda tx: agents.set_run_state(tx, parked.run, RunState.LIVE))
    found = see(stage, "bob")
    assert (one(found).blocks, one(found).badges, found.count) == ("the agent goes on meanwhile", False, 0)
    stage.write(lambda tx: agents.set_run_state(tx, parked.run, RunState.PARKED))
    stage.write(lambda tx: agents.set_state(tx, parked.agent, AgentState.PAUSED, "by alice"))
    assert (one(see(stage, "bob")).blocks, see(stage, "bob").count) == ("the agent is paused", 0)
    stage.write(lambda tx: agents.set_state(tx, parked.agent, AgentState.ACTIVE))
    assert see(stage, "bob").count == stage.read(lambda tx: inbox.badge(tx, stage.rules, PrincipalName("bob"))) == 1
    stage.answer(parked, "bob", "approve")
    assert see(stage, "bob").count == 0


def test_the_count_ends_at_a_hundred(stage: Stage) -> None:
    """What is beyond is not counted, so that the badge costs the same."""
    for number in range(103):
        stage.ask(stage.agent(f"agent-{number % 3}"), params={"version": str(number)})
    assert see(stage, "bob", limit=5).count == 100


INDEXES = {
    Source.OWNER: "ix_asks_open_owner",
    Source.QUESTIONS: "ix_asks_open_verb",
    Source.VERB: "ix_asks_open_verb",
    Source.ALL: "ix_asks_open",
}


@pytest.mark.parametrize("source", [*INDEXES, Source.AGENT, Source.SNOOZED])
def test_every_walk_is_on_its_index(stage: Stage, source: Source) -> None:
    """The plan of the statement that runs names the index of open asks, never a scan or a sort of the table."""
    said: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        said.append((statement, values))

    stage.write(lambda tx: agents.add(tx, "a", AgentKind.AGENT, PrincipalName("agent"), PrincipalName("alice"), ""))
    ask = stage.ask()
    stage.write(lambda tx: snoozes.put_off(tx, ask.id, PrincipalName("alice"), tx.now + 60_000))
    of = {Source.VERB: VERB, Source.AGENT: ask.agent}.get(source, "alice")
    engine = stage.database.engine
    event.listen(engine, "before_cursor_execute", note)
    stage.read(lambda tx: walks.step(tx, source, of, "alice", walks.FIRST, 32))
    event.remove(engine, "before_cursor_execute", note)
    statements = [(sql, values) for sql, values in said if "FROM asks" in sql or "FROM snoozes" in sql]
    assert statements
    for sql, values in statements:
        plan = explain(stage, sql, values)
        if stage.database.dialect == "sqlite":
            assert "SCAN asks" not in plan, plan
            assert "TEMP B-TREE" not in plan or source in (Source.AGENT, Source.SNOOZED), plan
            assert INDEXES.get(source, "") in plan, plan
        elif source in INDEXES:
            assert f"using {INDEXES[source]} " in plan, plan
            assert "Sort" not in plan, plan


def explain(stage: Stage, sql: str, values: Any) -> str:
    """Read the plan of a statement; PostgreSQL is told not to prefer a scan of what is a tiny table here."""
    with stage.database.engine.connect() as connection:
        if stage.database.dialect == "sqlite":
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)
            return "\n".join(row[3] for row in rows)
        for kind in ("seqscan", "sort", "bitmapscan"):
            connection.execute(text(f"SET enable_{kind} = off"))
        return "\n".join(row[0] for row in connection.exec_driver_sql(f"EXPLAIN {sql}", values))


def test_the_rules_of_these_tests_hold_no_surprise() -> None:
    """The verb of these tests takes two of three, and its risk is a normal one unless a test says otherwise."""
    rule = rules_of().policy.verbs[VERB]
    assert (rule.approve, rule.risk, rule.voters.people) == (2, Risk.NORMAL, ("alice", "bob", "carol"))
