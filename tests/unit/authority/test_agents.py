"""What people decide about agents: paused, resumed, retired, added; and what is written to their threads."""

from collections.abc import Iterator

import pytest

from gitops_bot.authority import agents as acts
from gitops_bot.authority.agents import Added, Author, Changed, Wanted
from gitops_bot.core.asks import AskState
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import agents, ledger
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentState, RunState, TokenScope
from tests.decisions import Stage, reason_of
from tests.store_fixtures import FreshDatabase

ALICE, BOB = PrincipalName("alice"), PrincipalName("bob")
TRANSFER = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}


@pytest.fixture
def stage(database: FreshDatabase) -> Iterator[Stage]:
    return Stage(database.open(Role.WORKSPACE))


@pytest.fixture
def sealer(database: FreshDatabase) -> Stage:
    return Stage(database.open(Role.BROKER))


def retire(stage: Stage, slug: str = "agent-1", **given: object) -> object:
    return stage.write(lambda tx: acts.retire(tx, slug, ALICE, "done", **given))  # type: ignore[arg-type] # test's own


def kinds(sealer: Stage) -> list[str]:
    sealer.write(lambda tx: ledger.seal_next(tx, 100))
    return [str(one.document["kind"]) for one in sealer.read(lambda tx: ledger.sealed(tx, 0, 100))]


def test_lifecycle_21_asks_of_a_retired_agent_are_withdrawn_and_not_denied(stage: Stage, sealer: Stage) -> None:
    """lifecycle 21: whatever its kind; each goes to the backlog, each waiter is told, all in one transaction."""
    agent = stage.agent()
    opened = [stage.ask(), stage.question(), stage.ask(verb="payments.transfer", params=TRANSFER)]
    other = stage.ask(stage.agent("agent-2"), params={"version": "2.0"})
    done = retire(stage)
    assert isinstance(done, Changed)
    assert set(done.withdrawn) == {ask.id for ask in opened}
    for ask in opened:
        assert stage.get(ask).state is AskState.WITHDRAWN
        assert stage.get(ask).ended_by == "alice"
        assert stage.cause(ask) == "WITHDRAWN"
        assert stage.verdict(ask) is None
    assert {entry.ask for entry in stage.backlog()} == {ask.id for ask in opened}
    assert stage.get(other).state is AskState.OPEN
    found = stage.read(lambda tx: agents.get(tx, agent.id))
    assert found is not None
    assert (found.state, found.pause_reason) == (AgentState.RETIRED, "done")
    assert kinds(sealer)[-5:] == ["agent.retired", *["ask.withdrawn"] * 3, "token.revoked"]


def test_what_others_wait_for_too_stays_open(stage: Stage) -> None:
    shared, own = stage.ask(), stage.question()
    done = retire(stage, wanted_by_others=(shared.id,))
    assert isinstance(done, Changed)
    assert done.withdrawn == (own.id,)
    assert stage.get(shared).state is AskState.OPEN


def test_a_retired_agent_has_no_token_and_asks_no_more(stage: Stage) -> None:
    agent = stage.agent()
    token = stage.write(lambda tx: agents.issue_token(tx, agent.id, TokenScope.AGENT))
    parked = stage.run(agent)
    wish = stage.wish(agent)
    assert stage.read(lambda tx: agents.bearer(tx, token)) is not None
    retire(stage)
    assert stage.read(lambda tx: agents.bearer(tx, token)) is None
    assert reason_of(stage.try_ask(wish)) == "not_authorised"
    ended = stage.read(lambda tx: agents.run(tx, parked.id))
    assert ended is not None
    assert ended.state is RunState.ENDED


def test_retired_twice_is_retired_once_and_never_resumed(stage: Stage) -> None:
    stage.agent()
    retire(stage)
    again = retire(stage)
    assert isinstance(again, Changed)
    assert (again.repeated, again.withdrawn) == (True, ())
    assert reason_of(stage.write(lambda tx: acts.resume(tx, "agent-1", ALICE))) == "already_settled"
    assert reason_of(stage.write(lambda tx: acts.pause(tx, "agent-1", ALICE, ""))) == "already_settled"


def test_a_paused_agent_is_resumed_and_its_asks_stay(stage: Stage, sealer: Stage) -> None:
    stage.agent()
    ask = stage.ask()
    paused = stage.write(lambda tx: acts.pause(tx, "agent-1", ALICE, "looks odd"))
    assert isinstance(paused, Changed)
    assert (paused.agent.state, paused.agent.pause_reason) == (AgentState.PAUSED, "looks odd")
    again = stage.write(lambda tx: acts.pause(tx, "agent-1", BOB, "other words"))
    assert isinstance(again, Changed)
    assert (again.repeated, again.agent.pause_reason) == (True, "looks odd")
    resumed = stage.write(lambda tx: acts.resume(tx, "agent-1", BOB))
    assert isinstance(resumed, Changed)
    assert (resumed.agent.state, resumed.agent.pause_reason) == (AgentState.ACTIVE, None)
    assert stage.get(ask).state is AskState.OPEN
    assert kinds(sealer)[-2:] == ["agent.paused", "agent.resumed"]


@pytest.mark.parametrize("slug", ["nobody", "", "A", "agent-1\x00", "x" * 100])
def test_nothing_is_done_to_an_agent_that_is_not_there(stage: Stage, slug: str) -> None:
    stage.agent()
    assert reason_of(stage.write(lambda tx: acts.pause(tx, slug, ALICE, ""))) == "not_found"
    assert reason_of(retire(stage, slug)) == "not_found"


def own(stage: Stage, by: PrincipalName, principal: str = "agent", slug: str = "fresh-1") -> object:
    wanted = Wanted(slug, principal, None, "p", False)
    return stage.write(lambda tx: acts.add_own(tx, stage.rules.policy, wanted, by))


def test_i15_an_agent_that_a_person_adds_is_their_own(stage: Stage, sealer: Stage) -> None:
    """I15: nobody adds an agent that counts as another person's, to answer what it asks themselves."""
    added = own(stage, ALICE)
    assert isinstance(added, Added)
    assert (added.agent.owner, added.agent.principal) == ("alice", "agent")
    assert stage.read(lambda tx: agents.bearer(tx, added.token)) is not None
    assert kinds(sealer) == ["agent.added", "token.issued"]
    assert reason_of(own(stage, BOB, slug="fresh-2")) == "not_authorised"


@pytest.mark.parametrize(
    ("principal", "slug", "reason"),
    [
        ("nobody", "a", "unknown_principal"),
        ("bob", "a", "unknown_principal"),
        ("agent", "A", "bad_params"),
        ("agent", "agent-1", "already_settled"),
    ],
)
def test_what_is_no_agent_is_not_added(stage: Stage, principal: str, slug: str, reason: str) -> None:
    stage.agent()
    assert reason_of(own(stage, ALICE, principal, slug)) == reason
    assert isinstance(own(stage, ALICE), Added)


def test_a_service_adds_nothing(stage: Stage) -> None:
    assert reason_of(own(stage, PrincipalName("agent"))) == "not_authorised"


WRITER = Author("person", "alice", ALICE)


def post(stage: Stage, text: str, author: Author = WRITER) -> object:
    agent = stage.agent()
    return stage.write(lambda tx: acts.post(tx, agent, author, text))


def test_lifecycle_10_a_message_is_never_an_answer(stage: Stage) -> None:
    """lifecycle 10: free text into a thread that has an open options ask."""
    ask = stage.question(labels=("yes", "no"))
    assert post(stage, "yes") == 1
    assert post(stage, "o1") == 2
    assert stage.get(ask).state is AskState.OPEN
    lines = stage.reports(stage.agent())
    assert [(line.kind, line.author_kind, line.author, line.text) for line in lines] == [
        ("message", "person", "alice", "yes"),
        ("message", "person", "alice", "o1"),
    ]


@pytest.mark.parametrize("text", ["", " \n", "\u3164\u200b"])
def test_a_blank_message_says_nothing(stage: Stage, text: str) -> None:
    assert reason_of(post(stage, text)) == "empty"
    assert post(stage, text + "x") == 1


def test_messages_are_bounded_for_each_author(stage: Stage) -> None:
    for _ in range(acts.MOST_AN_HOUR):
        assert isinstance(post(stage, "again"), int)
    assert reason_of(post(stage, "again")) == "rate_limited"
    assert isinstance(post(stage, "others may", Author("agent", "agent-1", PrincipalName("agent"))), int)


def test_nobody_writes_to_a_retired_agent(stage: Stage) -> None:
    stage.agent()
    retire(stage)
    assert reason_of(post(stage, "hello")) == "already_settled"
