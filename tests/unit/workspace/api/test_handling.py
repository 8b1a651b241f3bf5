"""What people do with asks beside answering them, and what their lists show."""

import time
from typing import Any

import pytest

from gitops_bot.authority.closing import expire
from gitops_bot.core.asks import AskState
from gitops_bot.store import asks, ledger, notices
from gitops_bot.store.roles import Role
from tests.signed_in import PersonClient
from tests.store_fixtures import FreshDatabase
from tests.unit.workspace.api.conftest import answer, bound, gated, question, saying
from tests.unit.workspace.conftest import REGIME, Workplace, refused


@pytest.fixture
def alice(workplace: Workplace) -> PersonClient:
    return workplace.person("alice")


@pytest.fixture
def bob(workplace: Workplace) -> PersonClient:
    return workplace.person("bob")


def ids(person: PersonClient, query: str = "") -> list[str]:
    return [row["id"] for row in person.ok("GET", f"/needs-you{query}")["items"]]


def test_needs_you_shows_what_this_person_may_answer_and_what_is_gated(
    workplace: Workplace, alice: PersonClient, bob: PersonClient
) -> None:
    plain, cut, money = question(workplace), bound(workplace), gated(workplace)
    found = alice.ok("GET", "/needs-you")
    assert [row["id"] for row in found["items"]] == [money["id"], cut["id"], plain["id"]]
    assert [row["answerable"] for row in found["items"]] == [False, True, True]
    assert [row["risk"] for row in found["items"]] == ["high", "low", "normal"]
    assert (found["next"], found["count"]) == (None, 3)
    assert found["items"][2]["options"] == [{"id": "o1", "label": "a"}, {"id": "o2", "label": "b"}]
    assert ids(bob) == [money["id"], cut["id"]]
    assert answer(alice, cut, option="approve").status_code == 200
    assert ids(bob) == [money["id"]]


def test_needs_you_is_narrowed_and_paged(workplace: Workplace, alice: PersonClient) -> None:
    asked = [bound(workplace, str(number)) for number in range(3)] + [question(workplace, question="Which cheese?")]
    assert ids(alice, "?kind=question") == ids(alice, "?text=cheese") == [asked[3]["id"]]
    assert ids(alice, "?verb=release.cut&risk=low&channel=workspace&agent=shell") == [ask["id"] for ask in asked[2::-1]]
    assert ids(alice, "?agent=other") == []
    seen, query = [], "?limit=2"
    while True:
        page = alice.ok("GET", f"/needs-you{query}")
        seen += [row["id"] for row in page["items"]]
        if page["next"] is None:
            break
        query = f"?limit=2&before={page['next']}"
    assert seen == [ask["id"] for ask in asked[::-1]]


@pytest.mark.parametrize(
    "path", ["/needs-you?x=1", "/backlog?after=1", "/ledger?limit=0", "/people?x=1", "/agents?after=A"]
)
def test_a_query_that_is_none_is_refused(alice: PersonClient, path: str) -> None:
    assert refused(alice.call("GET", path)) == (422, "bad_params")
    assert alice.call("GET", path.partition("?")[0]).status_code == 200


PEOPLES_OWN = ("/needs-you", "/backlog", "/ledger", "/ledger/export", "/people")


@pytest.mark.parametrize("path", PEOPLES_OWN)
def test_what_is_for_people_is_not_for_tokens(workplace: Workplace, alice: PersonClient, path: str) -> None:
    assert refused(workplace.call("GET", path, "shell")) == (403, "not_authorised")
    assert refused(workplace.call("GET", path, None)) == (401, None)
    assert alice.call("GET", path).status_code == 200


ACTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("claim", {}),
    ("delegate", {"to": "bob"}),
    ("snooze", {"lasts": "1h"}),
    ("hold", {"lasts": "1h"}),
)


@pytest.mark.parametrize(("act", "body"), ACTS)
def test_no_token_handles_an_ask(workplace: Workplace, act: str, body: dict[str, Any]) -> None:
    ask = gated(workplace) if act == "hold" else bound(workplace)
    assert refused(workplace.call("POST", f"/asks/{ask['id']}/{act}", "shell", body)) == (403, "not_authorised")
    assert refused(workplace.call("POST", f"/asks/{ask['id']}/{act}", None, body)) == (401, None)


def test_an_ask_is_claimed_and_given_back(workplace: Workplace, alice: PersonClient, bob: PersonClient) -> None:
    ask = bound(workplace)
    path = f"/asks/{ask['id']}/claim"
    alice.ok("POST", path)
    with workplace.host.read() as tx:
        found = asks.get(tx, ask["id"])
    assert found is not None
    assert found.assignee == "alice"
    alice.ok("POST", path, {"release": True})
    bob.ok("POST", path)
    assert answer(alice, ask, option="approve").status_code == 200, "a claim keeps nobody from answering"
    assert refused(bob.call("POST", path)) == (409, "already_settled")


def test_handing_on_takes_a_passkey(workplace: Workplace, alice: PersonClient) -> None:
    """A fresh assertion over this very act; another ask's is none."""
    ask, other = bound(workplace, "1"), bound(workplace, "2")
    path = f"/asks/{ask['id']}/delegate"
    response = alice.call("POST", path, {"to": "bob"})
    assert refused(response) == (422, "assertion_required")
    assert alice.confirmed("POST", path, {"to": "bob"}).status_code == 200
    elsewhere = alice.confirmed("POST", f"/asks/{other['id']}/delegate", {"to": "carol"})
    assert refused(elsewhere) == (403, "not_authorised")


def test_snoozed_is_put_off_for_oneself_alone(workplace: Workplace, alice: PersonClient, bob: PersonClient) -> None:
    ask = bound(workplace)
    until = alice.ok("POST", f"/asks/{ask['id']}/snooze", {"lasts": "2h"})["until"]
    assert until > ask["opened_at"]
    assert (ids(alice), ids(alice, "?snoozed=1"), ids(bob)) == ([], [ask["id"]], [ask["id"]])
    assert alice.ok("POST", f"/asks/{ask['id']}/snooze", {"lasts": None})["until"] is None
    assert ids(alice) == [ask["id"]]
    assert refused(alice.call("POST", f"/asks/{ask['id']}/snooze", {"lasts": "31d"})) == (422, "limit_exceeded")


def test_anybody_holds_what_is_gated_and_nothing_else(workplace: Workplace, bob: PersonClient) -> None:
    money, cut = gated(workplace), bound(workplace)
    carol = workplace.person("carol")
    assert carol.ok("POST", f"/asks/{money['id']}/hold", {"lasts": "72h", "reason": "who is this?"})["until"] > 0
    assert refused(bob.call("POST", f"/asks/{money['id']}/hold", {"lasts": "73h"})) == (422, "limit_exceeded")
    assert refused(bob.call("POST", f"/asks/{cut['id']}/hold", {"lasts": "1h"})) == (422, "bad_params")


def test_the_owner_withdraws_and_nobody_else(workplace: Workplace, alice: PersonClient, bob: PersonClient) -> None:
    """Gated ones too: it mints nothing, and withdrawn is not denied."""
    for ask in (gated(workplace), question(workplace)):
        path = f"/asks/{ask['id']}/cancel"
        assert refused(bob.call("POST", path, {"reason": "no"})) == (403, "not_authorised")
        done = alice.ok("POST", path, {"reason": "not now"})
        assert (done["state"], done["ended_by"], done["end_reason"], done["verdict"]) == (
            "WITHDRAWN",
            "alice",
            "not now",
            None,
        )


def test_lifecycle_18_who_looks_after_the_answer_sees_no_open_ask(
    workplace: Workplace, alice: PersonClient, bob: PersonClient
) -> None:
    """Whatever is still to be woken or written outside: not in the list, the badge, the page or the API."""
    left, ask = bound(workplace, "0"), bound(workplace, "1")
    assert alice.get("/needs-you/badge").get_data(as_text=True).strip() == "2"
    assert answer(bob, ask, option="approve").status_code == 200
    assert [row["id"] for row in alice.ok("GET", "/needs-you")["items"]] == [left["id"]]
    assert [row["id"] for row in alice.ok("GET", "/asks?open=1")["items"]] == [left["id"]]
    assert alice.get("/needs-you/badge").get_data(as_text=True).strip() == "1"
    assert alice.ok("GET", f"/asks/{ask['id']}")["state"] == "APPROVED"
    for one, open_ in ((ask, False), (left, True)):
        page = alice.get(f"/asks/{one['id']}", headers={"Accept": "text/html"}).get_data(as_text=True)
        assert (f'action="/api/v1/asks/{one["id"]}/answer"' in page) is open_


def test_lifecycle_44_an_expired_decision_is_asked_again(workplace: Workplace, alice: PersonClient) -> None:
    """lifecycle 44: a new ask with a fresh binding; I5: nothing was approved."""
    ask = question(workplace, expires_in="1s")

    time.sleep(1.1)

    with workplace.host.write() as tx:
        expire(tx, ask["id"])
    assert [item["ask"] for item in alice.ok("GET", "/backlog")["items"]] == [ask["id"]]
    response = alice.call("POST", f"/backlog/{ask['id']}/reopen")
    again = response.get_json()
    assert (response.status_code, again["state"], again["verdict"]) == (201, "OPEN", None)
    assert again["id"] != ask["id"]
    assert again["run"] != ask["run"]
    assert alice.ok("GET", "/backlog")["items"] == []
    assert refused(alice.call("POST", f"/backlog/{ask['id']}/reopen")) == (404, "not_found")
    assert refused(alice.call("POST", f"/asks/{ask['id']}/answer", saying(ask, option="o1"))) == (410, "expired")
    assert answer(alice, again, option="o1").status_code == 200


def test_what_is_open_or_decided_is_not_reopened(workplace: Workplace, alice: PersonClient) -> None:
    ask = question(workplace)
    assert refused(alice.call("POST", f"/backlog/{ask['id']}/reopen")) == (409, "already_settled")
    assert answer(alice, ask, option="o1").status_code == 200
    assert refused(alice.call("POST", f"/backlog/{ask['id']}/reopen")) == (409, "already_settled")
    assert refused(alice.call("POST", f"/backlog/{'0' * 26}/reopen")) == (404, "not_found")


def test_people_see_all_asks_and_captures(workplace: Workplace, alice: PersonClient, bob: PersonClient) -> None:
    first = question(workplace)
    second = workplace.ok("POST", "/asks", "other", {"question": "theirs"})
    assert [ask["id"] for ask in bob.ok("GET", "/asks?open=1")["items"]] == [first["id"], second["id"]]
    assert bob.ok("GET", "/asks?limit=1")["next"] == first["id"]
    told = workplace.ok("POST", "/captures", "shell", REGIME)
    assert [row["id"] for row in bob.ok("GET", "/captures")["items"]] == [told["handle"]]
    path = f"/captures/{told['handle']}"
    assert bob.ok("GET", path)["state"] == "pending"
    assert refused(bob.call("POST", f"{path}/cancel")) == (403, "not_authorised")
    done = alice.ok("POST", f"{path}/cancel", {"reason": "too dear"})
    assert done["exact"] == "CANCELLED"
    with workplace.host.read() as tx:
        ask = asks.get(tx, done["ask"])
    assert ask is not None
    assert (ask.state, ask.ended_by) == (AskState.WITHDRAWN, "alice")
    assert refused(alice.call("POST", f"{path}/cancel")) == (409, "already_settled")
    assert refused(alice.call("GET", f"/captures/{'0' * 26}")) == (404, "not_found")


def test_the_ledger_is_looked_up_and_taken_away(
    workplace: Workplace, alice: PersonClient, sqlite_database: FreshDatabase
) -> None:
    ask = question(workplace)
    with sqlite_database.open(Role.BROKER).write() as tx:
        ledger.seal_next(tx, 100)
    found = alice.ok("GET", f"/ledger?ask={ask['id']}")
    assert [entry["kind"] for entry in found["items"]] == ["ask.opened"]
    assert found["head"]["seq"] >= 1
    paged = alice.ok("GET", "/ledger?limit=1")
    assert alice.ok("GET", f"/ledger?limit=1&before={paged['next']}")["items"][0]["seq"] < paged["items"][0]["seq"]
    assert alice.ok("GET", "/ledger?agent=nobody")["items"] == []
    lines = alice.call("GET", "/ledger/export?after=1")
    assert lines.content_type == "application/x-ndjson"
    assert len(lines.get_data().splitlines()) == found["head"]["seq"] - 1


def test_people_are_shown_with_their_keys_and_nobody_elses_credential_id(
    workplace: Workplace, alice: PersonClient, bob: PersonClient
) -> None:
    for person, name in ((alice, "alice"), (bob, "bob")):
        shown = {one["name"]: one for one in person.ok("GET", "/people")["items"]}
        for other in ("alice", "bob"):
            assert (shown[other]["passkeys"][0]["id"] is not None) is (other == name)
        assert shown["agent"]["owner"] == "alice"
        assert {vote["verb"] for vote in shown["bob"]["votes_on"]} >= {"release.cut", "payments.transfer"}


def test_notices_are_read_up_to_one(workplace: Workplace, alice: PersonClient) -> None:
    """Everybody is told of a new passkey; what was read is read."""
    workplace.person("bob")
    assert alice.ok("POST", "/auth/notices/read", {"upto": 0}) == {"ok": True}
    assert alice.ok("POST", "/auth/notices/read", {"upto": 2**53 - 1}) == {"ok": True}
    with workplace.host.read() as tx:
        assert notices.unread(tx, "alice") == 0
