"""I3, surface by surface: whoever answers a gated ask through anything but a signed commit is told `gated`, in words,
and nothing comes of it. That no surface reaches the mint is `tests/architecture/test_contracts.py`; that none of their
connections writes what it would write is `test_attacks_database.py`.
"""

from typing import Final

import pytest
from sqlalchemy import text

from gitops_bot.authority import settling
from gitops_bot.authority.asking import Opened
from gitops_bot.core.asks import AskState
from gitops_bot.core.errors import Refused
from gitops_bot.core.verdicts import Channel
from gitops_bot.store.roles import Role
from tests.decisions import Stage
from tests.store_fixtures import FreshDatabase

VERB: Final = "release.cut"
GATED: Final = {
    f"verbs/{VERB}": {
        "gated": True,
        "summary": "Cut {version}",
        "voters": {"people": ["alice", "bob", "carol", "dave"]},
        "keys": "verified",
        "approve": 1,
        "expires": "1h",
        "params": {"version": {"match": "[0-9.]{1,9}"}},
        "executor": {"http": "https://releases.internal/", "idempotent": True},
    }
}
SURFACES: Final = {
    "workspace, its API and its batch": Channel.WORKSPACE,
    "a comment on the forge": Channel.FORGE,
    "the bridge and a viewer": Channel.OPERATOR,
    "an application's page and its tools": Channel.APP,
    "a surface that says that it is the signed one": Channel.SIGNED,
}


@pytest.fixture
def stage(sqlite_database: FreshDatabase) -> Stage:
    """A stage whose one verb is gated."""
    return Stage(sqlite_database.open(Role.BROKER)).under(GATED)


def count(stage: Stage, table: str) -> int:
    """Count the rows of a table."""
    found: int = stage.read(lambda tx: tx._connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())
    return found


@pytest.mark.parametrize("option", ["approve", "deny"])
@pytest.mark.parametrize("surface", SURFACES)
def test_a_gated_ask_is_answered_by_no_surface(stage: Stage, surface: str, option: str) -> None:
    opened = stage.try_ask(stage.wish(verb=VERB, params={"version": "1.0"}))
    assert isinstance(opened, Opened)
    result = stage.answer(opened.ask, "bob", option, channel=SURFACES[surface])
    assert isinstance(result, Refused) and result.reason.value == "gated"
    assert "no grant was minted" in result.sentence
    assert stage.get(opened.ask.id).state is AskState.OPEN
    for table in ("votes", "verdicts", "signed_votes", "grants", "executions", "effects"):
        assert count(stage, table) == 0, table


@pytest.mark.parametrize("surface", [name for name, channel in SURFACES.items() if channel is Channel.WORKSPACE])
def test_an_ordinary_ask_is_answered_there(sqlite_database: FreshDatabase, surface: str) -> None:
    """The twin: the same answer, through the same surface, on a verb that the policy does not gate."""
    stage = Stage(sqlite_database.open(Role.BROKER))
    result = stage.answer(stage.ask(), "bob", "approve", channel=SURFACES[surface])
    assert isinstance(result, settling.Settled | settling.Counted)
