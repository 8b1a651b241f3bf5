"""From two signed votes to one call with exactly the approved bytes, and everything that stops it on the way."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitops_bot.core.asks import AskState
from gitops_bot.store.states import EffectState, GrantState
from tests.signed_till import PROGRAM, TRANSFER, Open, tills
from tests.store_fixtures import FreshDatabase


@pytest.fixture
def till(memory_folder: Path, homes: Path, sqlite_database: FreshDatabase) -> Iterator[Open]:
    """Open a till."""
    with tills(memory_folder, homes, sqlite_database) as opened:
        yield opened


@pytest.mark.parametrize("verb", [TRANSFER, PROGRAM])
def test_two_votes_are_one_call(till: Open, verb: str) -> None:
    """OpenPGP and SSH together: a verdict and one grant, a marker on the requests branch, one call of these bytes."""
    host = till()
    ask = host.ready(verb, published=True)
    host.vote("alice", ask)
    host.look()
    assert host.get(ask).state is AskState.OPEN and host.grant(ask) is None
    host.vote("bob", ask)
    host.look()
    assert host.get(ask).state is AskState.APPROVED
    grant = host.minted(ask)
    assert grant.state is GrantState.MINTED and host.marker(ask) is None and host.calls() == []
    host.run()
    spent = host.minted(ask)
    assert spent.state is GrantState.SPENT
    marker = host.marker(ask)
    assert marker is not None and spent.nonce is not None and spent.nonce.encode() in marker
    (call,) = host.calls()
    action = host.get(ask).action
    assert action is not None
    assert call["action_hash"] == grant.action_hash and call["key"] == grant.id
    assert call["action"]["params"] == host.request(ask).params
    execution = host.execution(ask)
    assert execution is not None and execution.state is EffectState.DONE
    assert host.told(ask) == [
        (kind, None) for kind in ("grant.minted", "grant.spent", "effect.attempted", "effect.done")
    ]
    host.run()
    assert len(host.calls()) == 1


@pytest.mark.parametrize(
    ("more", "state"), [("exit 1", EffectState.FAILED), ("kill -9 $$", EffectState.UNKNOWN)], ids=["fails", "dies"]
)
def test_lifecycle_30_a_failed_execution_is_told_apart_and_never_run_again(
    till: Open, more: str, state: EffectState
) -> None:
    """The decision stands, the grant is spent; what came of it is the execution's, and a person looks."""
    host = till(more=more)
    ask = host.ready(PROGRAM)
    host.approve(ask)
    host.run()
    host.restart()
    host.run()
    execution = host.execution(ask)
    assert host.get(ask).state is AskState.APPROVED and host.minted(ask).state is GrantState.SPENT
    assert execution is not None and execution.state is state and execution.told["why"]
    assert len(host.calls()) == 1
    assert host.told(ask, "effect.")[-1] == (f"effect.{state.value}", None)


@pytest.mark.parametrize("who", ["alice", "carol"])
def test_a_deny_ends_it_without_a_grant(till: Open, who: str) -> None:
    """Whoever may vote may deny, the owner of the agent too; no approve counts afterwards."""
    host = till()
    ask = host.ready()
    host.vote("bob", ask)
    host.vote(who, ask, "deny")
    host.look()
    assert host.get(ask).state is AskState.DENIED
    host.vote("carol" if who == "alice" else "alice", ask)
    host.look()
    host.run()
    assert host.grant(ask) is None and host.calls() == []
    assert host.blamed(ask) in ("already_settled", "self_approval")


def test_what_could_not_be_spent_is_not_even_asked(till: Open) -> None:
    """A limit holds at the ask, beside what was spent in its window; the twin fits, and is asked and paid."""
    host = till(rule={"limits": {"sum": {"amount_minor": {"per": "24h", "le": 200_000}}}})
    first = host.ready(amount_minor=125_000)
    host.approve(first)
    host.run()
    with pytest.raises(AssertionError, match="limit_exceeded"):
        host.ready(amount_minor=75_001)
    second = host.ready(amount_minor=75_000)
    host.approve(second)
    host.run()
    assert [call["key"] for call in host.calls()] == [host.minted(first).id, host.minted(second).id]
