"""People answer over HTTP: what counts, what is refused with which status, and what nothing gets around."""

import threading
import time
from typing import Any

import pytest

from gitops_bot.authority import sessions
from gitops_bot.core.asks import AskState
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import asks, ledger, votes
from tests.signed_in import PersonClient
from tests.unit.workspace.api.conftest import answer, asserted, bound, gated, question, saying
from tests.unit.workspace.conftest import Workplace, refused


@pytest.fixture
def alice(workplace: Workplace) -> PersonClient:
    return workplace.person("alice")


@pytest.fixture
def bob(workplace: Workplace) -> PersonClient:
    return workplace.person("bob")


def state(workplace: Workplace, ask: dict[str, Any]) -> AskState:
    with workplace.host.read() as tx:
        found = asks.get(tx, ask["id"])
    assert found is not None
    return found.state


def last(workplace: Workplace, ask: dict[str, Any]) -> tuple[object, object]:
    with workplace.host.read() as tx:
        entry = ledger.of_ask(tx, ask["id"])[-1]
    return entry["kind"], entry["reason"]


def test_a_question_is_answered_by_its_option_or_in_words(workplace: Workplace, alice: PersonClient) -> None:
    chosen, said = question(workplace), question(workplace)
    done = answer(alice, chosen, option="o2", text="cheaper")
    assert done.status_code == 200
    document = done.get_json()
    assert (document["result"], document["repeated"], document["state"]) == ("settled", False, "ANSWERED")
    assert document["verdict"] == {
        "state": "ANSWERED",
        "option": "o2",
        "text": "cheaper",
        "by": ["alice"],
        "at": document["ended_at"],
    }
    assert answer(alice, said, text="neither").get_json()["verdict"]["text"] == "neither"
    assert workplace.ok("GET", f"/asks/{chosen['id']}", "shell")["verdict"]["option"] == "o2"


def test_a_bound_answer_counts_with_its_assertion_alone(workplace: Workplace, alice: PersonClient) -> None:
    """attacks, Workspace: a bound answer without an assertion. The accepting twin signs the statement."""
    ask = bound(workplace)
    path = f"/asks/{ask['id']}/answer"
    assert refused(alice.call("POST", path, saying(ask, option="approve"))) == (422, "assertion_required")
    assert last(workplace, ask) == ("vote.refused", "assertion_required")
    begun = alice.ok("POST", f"/asks/{ask['id']}/statement", saying(ask, option="approve"))
    assert begun["statement"]["option"] == "approve"
    assert begun["statement"]["person"] == "alice"
    assert begun["statement"]["action_hash"] == ask["binding"]["action_hash"]
    done = answer(alice, ask, option="approve")
    assert (done.status_code, done.get_json()["state"]) == (200, "APPROVED")


def test_votes_are_counted_until_there_are_enough(workplace: Workplace, alice: PersonClient, bob: PersonClient) -> None:
    ask = bound(workplace, verb="release.two")
    first = answer(alice, ask, option="approve").get_json()
    assert (first["result"], first["state"], first["quorum"]["missing"]) == ("counted", "OPEN", 1)
    assert answer(bob, ask, option="approve").get_json()["result"] == "settled"


def test_lifecycle_4_who_comes_second_is_told_who_won(
    workplace: Workplace, alice: PersonClient, bob: PersonClient
) -> None:
    """lifecycle 4, I6: yes and no at once; one verdict, the other is told who won and when."""
    ask = bound(workplace)
    yes = asserted(alice, ask, saying(ask, option="approve"))
    no = asserted(bob, ask, saying(ask, option="approve"))
    assert alice.call("POST", f"/asks/{ask['id']}/answer", yes).status_code == 200
    late = bob.call("POST", f"/asks/{ask['id']}/answer", no)
    assert refused(late) == (409, "already_settled")
    facts = late.get_json(force=True)["facts"]
    assert (facts["by"], facts["state"]) == ("alice", "APPROVED")
    assert facts["at"] > 0


def test_lifecycle_5_the_same_answer_twice_is_one_answer(workplace: Workplace, alice: PersonClient) -> None:
    """lifecycle 5: a double click, a retry after a lost reply; the same key with another body is a conflict."""
    ask = question(workplace)
    path = f"/asks/{ask['id']}/answer"
    body = saying(ask, option="o1", idempotency_key="k")
    first, again = alice.ok("POST", path, body), alice.ok("POST", path, body)
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert first["verdict"] == again["verdict"]
    assert refused(alice.call("POST", path, {**body, "option": "o2"})) == (409, "idempotency_conflict")
    plain = alice.ok("POST", path, saying(ask, option="o1"))
    assert plain["repeated"] is True
    with workplace.host.read() as tx:
        assert len(votes.of_ask(tx, ask["id"])) == 1


def test_lifecycle_5_a_bound_answer_may_be_sent_again_whole(workplace: Workplace, alice: PersonClient) -> None:
    ask = bound(workplace)
    body = asserted(alice, ask, saying(ask, option="approve"))
    path = f"/asks/{ask['id']}/answer"
    assert alice.ok("POST", path, body)["repeated"] is False
    assert alice.ok("POST", path, body)["repeated"] is True
    assert refused(alice.call("POST", path, {**body, "option": "deny"}))[0] == 422


def test_an_idempotency_key_is_its_persons_own(workplace: Workplace, alice: PersonClient, bob: PersonClient) -> None:
    """attacks, Workspace: another's idempotency key neither finds nor disturbs an answer."""
    ask = bound(workplace, verb="release.two")
    mine = {**asserted(alice, ask, saying(ask, option="approve")), "idempotency_key": "k"}
    path = f"/asks/{ask['id']}/answer"
    assert alice.ok("POST", path, mine)["result"] == "counted"
    theirs = {**asserted(bob, ask, saying(ask, option="deny", text="no")), "idempotency_key": "k"}
    done = bob.ok("POST", path, theirs)
    assert (done["repeated"], done["state"]) == (False, "DENIED")


@pytest.mark.parametrize(
    ("ask_id", "expected"),
    [("0" * 26, (404, "not_found")), ("nothing", (404, "not_found")), ("..%2Fanswers", (404, "not_found"))],
)
def test_lifecycle_6_an_unknown_ask_is_a_visible_refusal(
    workplace: Workplace, alice: PersonClient, ask_id: str, expected: tuple[int, str]
) -> None:
    """lifecycle 6: and nothing else happens."""
    ask = question(workplace)
    assert refused(alice.call("POST", f"/asks/{ask_id}/answer", saying(ask, option="o1"))) == expected
    assert refused(alice.call("GET", f"/asks/{ask_id}")) == expected
    assert state(workplace, ask) is AskState.OPEN
    assert answer(alice, ask, option="o1").status_code == 200


def test_lifecycle_6_an_option_and_a_binding_of_another_ask(workplace: Workplace, alice: PersonClient) -> None:
    """lifecycle 6 and 29: the ask id decides, and what was bound is compared with it (I4)."""
    one, other = bound(workplace, "1.0"), question(workplace, question="Other?")
    assert refused(alice.call("POST", f"/asks/{other['id']}/answer", saying(one, option="o1"))) == (409, "stale_action")
    assert refused(alice.call("POST", f"/asks/{one['id']}/statement", saying(one, option="o1"))) == (
        422,
        "unknown_option",
    )
    assert refused(alice.call("POST", f"/asks/{one['id']}/statement", saying(other, option="approve")))[0] == 409
    assert (state(workplace, one), state(workplace, other)) == (AskState.OPEN, AskState.OPEN)


def test_lifecycle_7_an_answer_that_comes_too_late_is_told_so(workplace: Workplace, alice: PersonClient) -> None:
    """lifecycle 7: a late approve is refused as expired; withdrawn is told as withdrawn."""
    ask = question(workplace, expires_in="1s")
    time.sleep(1.1)
    assert refused(answer(alice, ask, option="o1")) == (410, "expired")
    gone = question(workplace)
    workplace.ok("POST", f"/asks/{gone['id']}/cancel", "shell")
    assert refused(answer(alice, gone, option="o1")) == (410, "withdrawn")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"option": "o3"}, (422, "unknown_option")),
        ({"option": "approve"}, (422, "unknown_option")),
        ({"text": ""}, (422, "empty")),
        ({"text": " \u2003\u3164"}, (422, "empty")),
        ({}, (422, "empty")),
        ({"text": "x" * 8_001}, (422, "bad_params")),
        ({"option": "o1", "person": "bob"}, (422, "bad_params")),
    ],
)
def test_lifecycle_9_what_says_nothing_is_no_answer(
    workplace: Workplace, alice: PersonClient, said: dict[str, Any], expected: tuple[int, str]
) -> None:
    """lifecycle 9: an option that was never offered, an empty text, white space of other scripts."""
    ask = question(workplace)
    assert refused(alice.call("POST", f"/asks/{ask['id']}/answer", saying(ask, **said))) == expected
    assert state(workplace, ask) is AskState.OPEN
    assert answer(alice, ask, text="x").status_code == 200


@pytest.mark.parametrize("gone", ["action_hash", "policy", "run_version"])
def test_i4_an_answer_echoes_all_that_binds_it(workplace: Workplace, alice: PersonClient, gone: str) -> None:
    ask = question(workplace)
    body = {name: value for name, value in saying(ask, option="o1").items() if name != gone}
    assert refused(alice.call("POST", f"/asks/{ask['id']}/answer", body)) == (422, "unbindable")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"action_hash": "sha256:" + "0" * 64}, (409, "stale_action")),
        ({"policy": "sha256:" + "0" * 64}, (409, "stale_policy")),
        ({"run_version": 2}, (409, "stale_run")),
    ],
)
def test_i4_what_was_shown_before_something_moved_is_stale(
    workplace: Workplace, alice: PersonClient, change: dict[str, Any], expected: tuple[int, str]
) -> None:
    ask = question(workplace)
    assert refused(alice.call("POST", f"/asks/{ask['id']}/answer", {**saying(ask, option="o1"), **change})) == expected
    assert answer(alice, ask, option="o1").status_code == 200


def test_lifecycle_15_and_45_only_a_person_answers(workplace: Workplace, alice: PersonClient) -> None:
    """lifecycle 15 and 45: no credential is 401; an agent's token is 403 on every way to answer, and ledgered."""
    ask = bound(workplace)
    body = saying(ask, option="approve")
    batch = {"answers": [{"ask": ask["id"], **body}]}
    ways = ((f"/asks/{ask['id']}/answer", body), (f"/asks/{ask['id']}/statement", body))
    for path, sent in (*ways, ("/answers", batch), ("/answers/statement", batch)):
        assert refused(workplace.call("POST", path, None, sent)) == (401, None)
        assert refused(workplace.call("POST", path, "gbt_" + "x" * 43, sent)) == (401, None)
        assert refused(workplace.call("POST", path, "gbs_" + "x" * 43, sent)) == (401, None)
        assert refused(workplace.call("POST", path, "shell", sent)) == (403, "self_approval")
        assert last(workplace, ask) == ("vote.refused", "self_approval")
    assert state(workplace, ask) is AskState.OPEN
    assert answer(alice, ask, option="approve").status_code == 200


def test_an_agents_token_does_not_learn_of_anothers_ask(workplace: Workplace) -> None:
    """attacks, Workspace: another agent's ask id."""
    ask = question(workplace)
    assert refused(workplace.call("POST", f"/asks/{ask['id']}/answer", "other", saying(ask, option="o1"))) == (
        404,
        "not_found",
    )
    assert refused(workplace.call("GET", f"/asks/{ask['id']}", "other")) == (404, "not_found")
    assert refused(workplace.call("POST", f"/asks/{ask['id']}/cancel", "other")) == (404, "not_found")
    assert workplace.call("GET", f"/asks/{ask['id']}", "shell").status_code == 200


def test_i3_a_gated_ask_is_answered_by_nothing_that_comes_over_http(workplace: Workplace, alice: PersonClient) -> None:
    """attacks, Workspace: a gated answer through API, batch and a hand-made request, with a true assertion too."""
    ask, other = gated(workplace), bound(workplace)
    body = saying(ask, option="approve")
    path = f"/asks/{ask['id']}"
    assert refused(alice.call("POST", f"{path}/statement", body)) == (403, "gated")
    assert refused(alice.call("POST", f"{path}/answer", body)) == (403, "gated")
    real = asserted(alice, other, saying(other, option="approve"))["assertion"]
    assert refused(alice.call("POST", f"{path}/answer", {**body, "assertion": real}))[0] in (403, 422)
    item = {"ask": ask["id"], **body}
    assert refused(alice.call("POST", "/answers/statement", {"answers": [item]})) == (403, "gated")
    assert refused(alice.call("POST", "/answers", {"answers": [item], "assertion": real}))[0] in (403, 422)
    assert refused(workplace.call("POST", f"{path}/answer", "shell", body)) == (403, "gated")
    hand_made = alice.http.post(
        f"/api/v1{path}/answer",
        data=b'{"option":"approve","kind":"approval"}',
        base_url=alice.origin,
        headers={"Content-Type": "application/json", "Origin": alice.origin, "X-CSRF-Token": alice.csrf},
    )
    assert refused(hand_made)[0] == 422
    assert state(workplace, ask) is AskState.OPEN
    with workplace.host.read() as tx:
        assert votes.of_ask(tx, ask["id"]) == []
    shown = alice.ok("GET", path)
    assert shown["signed"]["command"] == f"gitops-bot approval sign {ask['id']}"


def test_a_channel_that_the_policy_does_not_name_answers_nothing(workplace: Workplace, alice: PersonClient) -> None:
    ask = bound(workplace, verb="forge.only")
    body = asserted(alice, ask, saying(ask, option="approve"))
    assert refused(alice.call("POST", f"/asks/{ask['id']}/answer", body)) == (403, "wrong_channel")


def test_who_may_not_vote_is_told_so(workplace: Workplace) -> None:
    carol, ask = workplace.person("carol"), bound(workplace)
    body = asserted(carol, ask, saying(ask, option="approve"))
    assert refused(carol.call("POST", f"/asks/{ask['id']}/answer", body)) == (403, "not_authorised")
    plain = question(workplace)
    assert refused(answer(carol, plain, option="o1")) == (403, "not_authorised")


def batch(person: PersonClient, items: list[dict[str, Any]]) -> Any:
    begun = person.ok("POST", "/answers/statement", {"answers": items})
    given = {"ceremony": begun["id"], "credential": person.passkey.get(begun["options"])}
    return person.call("POST", "/answers", {"answers": items, "assertion": given})


def test_a_batch_tells_the_result_of_each(workplace: Workplace, alice: PersonClient, bob: PersonClient) -> None:
    """One that was settled elsewhere meanwhile is told as that, and stops none of the others."""
    asked = [bound(workplace, version) for version in ("1", "2", "3")]
    items = [{"ask": ask["id"], **saying(ask, option="approve")} for ask in asked]
    begun = alice.ok("POST", "/answers/statement", {"answers": items})
    assert [one["ask"] for one in begun["statements"]] == [ask["id"] for ask in asked]
    given = {"ceremony": begun["id"], "credential": alice.passkey.get(begun["options"])}
    assert answer(bob, asked[1], option="deny", text="no").status_code == 200
    done = alice.ok("POST", "/answers", {"answers": items, "assertion": given})["items"]
    assert [one["result"] for one in done] == ["settled", "refused", "settled"]
    assert (done[0]["state"], done[1]["problem"]["reason"], done[1]["problem"]["status"]) == (
        "APPROVED",
        "already_settled",
        409,
    )
    assert done[1]["problem"]["facts"]["by"] == "bob"


def test_a_batch_sent_again_after_a_lost_reply_is_told_the_same(workplace: Workplace, alice: PersonClient) -> None:
    """lifecycle 5 for a batch: every answer was stored, so the same request has the same results, and no vote more;
    where one of it never was, the whole is used up."""
    asked = [bound(workplace, version) for version in ("1", "2", "3")]
    items = [{"ask": ask["id"], **saying(ask, option="approve")} for ask in asked]
    begun = alice.ok("POST", "/answers/statement", {"answers": items})
    body = {"answers": items, "assertion": {"ceremony": begun["id"], "credential": alice.passkey.get(begun["options"])}}
    first = alice.ok("POST", "/answers", body)
    assert [one["result"] for one in first["items"]] == ["settled"] * 3
    again = alice.ok("POST", "/answers", body)
    assert again["items"] == [{**one, "repeated": True} for one in first["items"]]
    with workplace.host.read() as tx:
        assert [len(votes.of_ask(tx, ask["id"])) for ask in asked] == [1, 1, 1]
    other = {**body, "answers": [*items[:2], {**items[2], "option": "deny"}]}
    assert refused(alice.call("POST", "/answers", other)) == (422, "assertion_invalid")


def test_a_batch_extended_or_reordered_is_not_what_was_signed(workplace: Workplace, alice: PersonClient) -> None:
    """attacks, Workspace: batch extended or reordered."""
    items = [
        {"ask": ask["id"], **saying(ask, option="approve")} for ask in (bound(workplace, "1"), bound(workplace, "2"))
    ]
    for wrong in (items[::-1], items[:1], [items[0], {**items[1], "option": "deny"}]):
        begun = alice.ok("POST", "/answers/statement", {"answers": items})
        given = {"ceremony": begun["id"], "credential": alice.passkey.get(begun["options"])}
        response = alice.call("POST", "/answers", {"answers": wrong, "assertion": given})
        assert refused(response) == (422, "assertion_invalid")
    assert batch(alice, items).status_code == 200


def test_a_batch_is_of_one_verb_and_never_of_high_risk(workplace: Workplace, alice: PersonClient) -> None:
    cut, two, wipe = bound(workplace), bound(workplace, verb="release.two"), bound(workplace, verb="fleet.wipe")
    wipe2 = bound(workplace, "2", verb="fleet.wipe")
    for pair in ((cut, two), (wipe, wipe2)):
        items = [{"ask": ask["id"], **saying(ask, option="approve")} for ask in pair]
        assert refused(alice.call("POST", "/answers/statement", {"answers": items})) == (422, "bad_params")
    assert refused(
        alice.call("POST", "/answers", {"answers": [{"ask": cut["id"], **saying(cut, option="approve")}]})
    ) == (422, "assertion_required")
    assert answer(alice, wipe, option="approve").status_code == 200


def test_a_long_poll_of_a_person_ends_with_the_answer(workplace: Workplace, alice: PersonClient) -> None:
    ask = question(workplace)
    later = threading.Timer(0.2, lambda: workplace.answer(ask, "o1"))
    later.start()
    began = time.monotonic()
    shown = alice.ok("GET", f"/asks/{ask['id']}?wait=30")
    later.join()
    assert shown["state"] == "ANSWERED"
    assert time.monotonic() - began < 25


def test_a_person_who_signs_out_during_a_long_poll_learns_nothing(workplace: Workplace, alice: PersonClient) -> None:
    ask = question(workplace)
    alone = PrincipalName("alice")
    ended = threading.Timer(0.1, lambda: workplace.services.write(lambda tx: sessions.end_all(tx, alone, alone)))
    ended.start()
    response = alice.call("GET", f"/asks/{ask['id']}?wait=1")
    ended.join()
    assert response.status_code == 401


def test_lifecycle_17_no_get_decides(workplace: Workplace, alice: PersonClient) -> None:
    """lifecycle 17: a scanner that opens whatever is linked decides nothing."""
    ask = question(workplace)
    for path in (f"/asks/{ask['id']}/answer", f"/asks/{ask['id']}/cancel", "/answers"):
        query = "&".join(f"{name}={value}" for name, value in saying(ask, option="o1").items())
        assert alice.call("GET", f"{path}?{query}").status_code == 405
    assert state(workplace, ask) is AskState.OPEN


def test_a_large_body_is_refused_before_it_is_worked_on(workplace: Workplace, alice: PersonClient) -> None:
    """10 MB: refused by its length, whatever is in it."""
    ask = question(workplace)
    body = saying(ask, text="x" * 10_000_000)
    assert refused(alice.call("POST", f"/asks/{ask['id']}/answer", body)) == (413, "limit_exceeded")
    assert answer(alice, ask, text="x" * 8_000).status_code == 200
