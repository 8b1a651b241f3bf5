"""Webhooks without a network: who is told, what is logged, and each mishap once."""

import pytest

from gitops_bot.sandbox.hooks import KEPT, Delivery, Hook, Hooks, Mishap
from gitops_bot.sandbox.records import Ids, Repository
from gitops_bot.sandbox.refusals import Rejected

JUDGE, OTHER = (Repository(number, 50, name, "main", False, 0) for number, name in ((501, "judge"), (502, "other")))
URL = "http://127.0.0.1:8080/hooks"


@pytest.fixture
def hooks() -> Hooks:
    return Hooks(Ids())


def _hook(hooks: Hooks, url: str = URL) -> Hook:
    return hooks.add(JUDGE, url, "secret", ("issue_comment",), 0)


def _delivery(hook: Hook, guid: str = "g") -> Delivery:
    headers = {"X-GitHub-Event": "ping", "X-Hub-Signature": "1", "X-Hub-Signature-256": "2"}
    return Delivery(0, guid, hook, "issue_comment", "created", headers, b"{}", 0)


def test_a_webhook_is_told_of_its_events_while_it_is_on(hooks: Hooks) -> None:
    made = _hook(hooks)
    assert hooks.watching(501, "issue_comment") == (made,)
    assert hooks.watching(501, "pull_request") == hooks.watching(502, "issue_comment") == ()
    hooks.change(made, active=False)
    assert hooks.watching(501, "issue_comment") == ()
    assert hooks.change(made, active=True, secret="new").secret == "new"
    hooks.remove(made)
    with pytest.raises(Rejected):
        hooks.hook(JUDGE, made.id)


@pytest.mark.parametrize("url", [URL, "http://localhost/", "http://[::1]:9/x", "http://127.3.2.1/"])
def test_an_address_of_this_machine_is_taken(hooks: Hooks, url: str) -> None:
    made = _hook(hooks, url)
    with pytest.raises(Rejected):
        _hook(hooks, url)
    with pytest.raises(Rejected):
        hooks.hook(OTHER, made.id)
    assert hooks.hook(JUDGE, made.id) == made


@pytest.mark.parametrize("events", [(), ("push",), ("issue_comment", "everything")])
def test_an_event_that_never_happens_is_422(hooks: Hooks, events: tuple[str, ...]) -> None:
    with pytest.raises(Rejected) as refused:
        hooks.add(JUDGE, URL, None, events, 0)
    assert refused.value.status == 422


def test_each_mishap_meets_one_delivery_and_all_are_logged(hooks: Hooks) -> None:
    made = _hook(hooks)
    hooks.plan(Mishap.DROP, 2)
    hooks.plan(Mishap.DUPLICATE)
    hooks.plan(Mishap.UNSIGNED)
    sent = [hooks.post(_delivery(made, str(number))) for number in range(5)]
    assert [[one.guid for one in few] for few in sent] == [[], [], ["2", "2"], ["3"], ["4"]]
    assert set(sent[3][0].headers) == {"X-GitHub-Event"}
    assert "X-Hub-Signature-256" in sent[4][0].headers
    assert [one.guid for one in hooks.log(made)] == ["4", "3", "2", "1", "0"]


def test_what_is_held_leaves_in_either_order_and_then_nothing_is_held(hooks: Hooks) -> None:
    made = _hook(hooks)
    for backwards in (False, True):
        hooks.hold()
        hooks.hold()
        assert [hooks.post(_delivery(made, guid)) for guid in "ab"] == [(), ()]
        released = [one.guid for one in hooks.release(backwards=backwards)]
        assert released == (["b", "a"] if backwards else ["a", "b"])
        assert len(hooks.post(_delivery(made))) == 1
    assert hooks.release() == ()


def test_the_log_says_how_it_went_and_does_not_grow_for_ever(hooks: Hooks) -> None:
    from dataclasses import replace

    made = _hook(hooks)
    for _ in range(KEPT + 5):
        (sent,) = hooks.post(_delivery(made))
    hooks.answered(replace(sent, status_code=202, status="OK"))
    assert (hooks.log(made)[0].status_code, hooks.log(made)[1].status_code) == (202, 0)
    assert len(hooks.log(made)) == KEPT
    with pytest.raises(Rejected):
        hooks.delivery(made, 1)
    assert hooks.delivery(made, sent.id).status == "OK"
