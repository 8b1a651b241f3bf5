"""From two signed votes to one call with exactly the approved bytes, and everything that stops it on the way."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from gitops_bot.core.asks import AskState
from gitops_bot.store.states import EffectState, GrantState
from tests.payee import listening
from tests.signed_till import DONE, PROGRAM, TRANSFER, Till
from tests.store_fixtures import FreshDatabase

_TILLS: Final = itertools.count(1)
Open = Callable[..., Till]


@pytest.fixture
def till(memory_folder: Path, sqlite_database: FreshDatabase) -> Iterator[Open]:
    """Make a till over a real payee."""
    opened: list[Till] = []
    with listening(DONE) as payee:

        def make(**options: Any) -> Till:
            made = Till(memory_folder / f"till-{next(_TILLS)}" / "host", sqlite_database, payee=payee, **options)
            opened.append(made)
            return made

        yield make
        for one in opened:
            one.close()


@pytest.mark.parametrize("verb", [TRANSFER, PROGRAM])
def test_two_votes_are_one_call(till: Open, verb: str) -> None:
    """OpenPGP and SSH together: a verdict and one grant, a marker on the requests branch, one call of these bytes."""
    host = till()
    ask = host.ready(verb)
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
    assert host.told(ask) == [("grant.minted", None), ("grant.spent", None), ("effect.done", None)]
    host.run()
    assert len(host.calls()) == 1
