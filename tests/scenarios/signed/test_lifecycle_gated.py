"""Life of a gated ask: a run that was dispatched again cannot use what its earlier start was granted."""

from gitops_bot.authority import closing
from gitops_bot.authority.asking import Opened
from gitops_bot.core.errors import Reason
from gitops_bot.store import agents, asks, requests
from tests.signed_court import COUNTED, Court


def test_a_rerun_that_plans_another_action_gets_nothing_from_the_old_vote(court: Court) -> None:
    """Lifecycle 14: refused, re-asked; the old approval binds the old action and the old version of the run alone."""
    court.begin()
    old = court.request
    first = court.vote("alice")
    court.look()
    assert court.outcome(first) == COUNTED
    with court.database.write() as tx:
        ask = asks.get(tx, old.ask)
        assert ask is not None
        agents.raise_version(tx, ask.run)
    late = court.vote("bob")
    court.look()
    assert court.outcome(late) == Reason.STALE_RUN.value
    with court.database.write() as tx:
        asked_again = closing.supersede(tx, court.rules, old.ask, Reason.STALE_RUN)
        assert isinstance(asked_again, Opened)
        assert asked_again.ask.binding.run_version == 2
    other = court.ask(amount_minor=9)
    assert other.action_hash != old.action_hash
    with court.database.read() as tx:
        assert requests.get(tx, other.ask) is not None
    # The twin: the new request of the other action is voted on by itself, and by nobody's earlier vote.
    again = court.vote("bob", request=other)
    court.look()
    assert court.outcome(again) == COUNTED
