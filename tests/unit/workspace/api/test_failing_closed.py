"""What cannot be known decides nothing: the policy unreadable, the database gone, in the middle of an answer."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gitops_bot.authority.rules import Rules
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.asks import AskState
from gitops_bot.core.errors import Unavailable
from gitops_bot.store import asks, votes
from gitops_bot.store.engine import Database
from tests.signed_in import PersonClient
from tests.unit.workspace.api.conftest import asserted, bound, gated, question, saying
from tests.unit.workspace.conftest import Workplace, refused
from workspace.serving import SERVICES


class Unreadable:
    """A pin that moved to what cannot be read."""

    def now(self) -> Rules:
        raise Unavailable("the policy cannot be read: no such file")


@pytest.fixture
def alice(workplace: Workplace) -> PersonClient:
    return workplace.person("alice")


@contextmanager
def without_a_policy(workplace: Workplace) -> Iterator[None]:
    kept: Services = workplace.app.extensions[SERVICES]
    unreadable: Any = Unreadable()
    workplace.app.extensions[SERVICES] = dataclasses.replace(kept, decided_by=unreadable)
    yield
    workplace.app.extensions[SERVICES] = kept


@contextmanager
def without_a_database(workplace: Workplace) -> Iterator[None]:
    """The person is still known: only what would be written fails, at the last moment before it is kept."""
    whole = Database.write

    @contextmanager
    def breaks(self: Database) -> Iterator[Any]:
        with whole(self) as tx:
            yield tx
            raise Unavailable("database: OperationalError")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "write", breaks)
        yield


@pytest.mark.parametrize("broken", [without_a_policy, without_a_database])
def test_an_answer_counts_wholly_or_not_at_all_and_may_be_sent_again(
    workplace: Workplace, alice: PersonClient, broken: Callable[[Workplace], Any]
) -> None:
    """503, no vote, no verdict, and the challenge is not used up: the same request counts once it can."""
    plain, ask = question(workplace), bound(workplace)
    body = asserted(alice, ask, saying(ask, option="approve"))
    with broken(workplace):
        for path, sent in (
            (f"/asks/{ask['id']}/answer", body),
            (f"/asks/{plain['id']}/answer", saying(plain, option="o1")),
            (f"/asks/{ask['id']}/statement", saying(ask, option="approve")),
            (f"/asks/{ask['id']}/cancel", {}),
            (f"/asks/{ask['id']}/snooze", {"lasts": "1h"}),
        ):
            response = alice.call("POST", path, sent)
            assert refused(response) == (503, None), path
            assert "nothing was done that is not told" in response.get_json(force=True)["detail"]
    with workplace.host.read() as tx:
        for one in (plain, ask):
            found = asks.get(tx, one["id"])
            assert found is not None and found.state is AskState.OPEN
            assert votes.of_ask(tx, one["id"]) == []
    assert alice.call("POST", f"/asks/{ask['id']}/answer", body).status_code == 200
    assert alice.call("POST", f"/asks/{plain['id']}/answer", saying(plain, option="o1")).status_code == 200


def test_without_a_policy_nobody_is_shown_or_let_in(workplace: Workplace, alice: PersonClient) -> None:
    """Neither a page, nor the API, nor a sign-in goes by what was read before; what holds no policy still answers."""
    money = gated(workplace)
    with without_a_policy(workplace):
        for path in ("/needs-you", f"/asks/{money['id']}", "/people"):
            page = alice.get(path, headers={"Accept": "text/html"})
            assert (page.status_code, page.mimetype) == (503, "text/html")
            assert "Nothing was decided by this" in page.get_data(as_text=True)
        for path in ("/needs-you", f"/asks/{money['id']}", "/agents"):
            assert refused(alice.call("GET", path)) == (503, None)
        assert refused(alice.call("POST", f"/asks/{money['id']}/hold", {"lasts": "1h"})) == (503, None)
        assert alice.get("/healthz").status_code == 200
    assert alice.get("/needs-you").status_code == 200
    assert alice.call("POST", f"/asks/{money['id']}/hold", {"lasts": "1h"}).status_code == 200
