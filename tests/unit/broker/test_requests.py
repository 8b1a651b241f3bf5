"""A request's run ends with the last ask that it waits for, not before."""

from gitops_bot.authority.asking import Opened, Waiter, Wish, open_ask
from gitops_bot.authority.closing import Ended, withdraw
from gitops_bot.authority.duties import RowDuty
from gitops_bot.authority.rules import Rules
from gitops_bot.broker.requests import DUTY, Requests
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import agents, due
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind, RunState, WaiterKind
from tests.policy_bundles import GOOD, load
from tests.store_fixtures import FreshDatabase


def ask_twice(database: Database) -> tuple[str, str, str]:
    """One run that waits for two questions: its id and theirs."""
    rules = Rules(load({}), "github.com/acme/ops", "test")
    with database.write() as tx:
        service = next(name for name, person in rules.policy.people.items() if person.principal.kind == "service")
        agent = agents.add(tx, "app", AgentKind.APPLICATION, service, PrincipalName("alice"), "asks")
        run = agents.add_run(tx, agent.id, "request", RunState.PARKED)
        asked = [
            open_ask(tx, rules, Wish(agent=agent, run=run, waiter=Waiter(WaiterKind.REQUEST, run.id), text=text))
            for text in ("first?", "second?")
        ]
    first, second = (opened.ask.id for opened in asked if isinstance(opened, Opened))
    return run.id, first, second


def test_a_run_ends_with_its_last_ask(database: FreshDatabase) -> None:
    """Nothing of a request is left behind: run ended, due rows gone. Its twin: one open ask keeps it."""
    assert GOOD
    rows = database.open(Role.BROKER)
    run, first, second = ask_twice(rows)
    duty = RowDuty(DUTY, rows, Requests(rows).one)
    for ask, wanted in ((first, RunState.PARKED), (second, RunState.ENDED)):
        with rows.write() as tx:
            assert isinstance(withdraw(tx, ask, "app", "not needed"), Ended)
        duty.step()
        with rows.read() as tx:
            left = agents.run(tx, run)
            assert left is not None
            assert left.state is wanted
            assert due.next_due(tx, DUTY) is None
