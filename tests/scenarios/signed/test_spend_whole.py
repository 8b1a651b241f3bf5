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
