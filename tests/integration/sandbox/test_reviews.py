"""Reviews of pull requests over REST and as a webhook is told of them, in GitHub's shape."""

import pytest
import requests

REPOSITORY = "acme/judge"


def _send(forge, method: str, login: str, path: str, **body: object) -> requests.Response:
    headers = {"Authorization": f"token {forge.tokens[login]}"}
    there = f"{forge.sandbox.url}/repos/{REPOSITORY}/pulls/{path}"
    return requests.request(method, there, json=body or None, headers=headers, timeout=60)


def test_the_real_client_reviews_edits_and_lists(forge) -> None:
    number = forge.draft().number
    made = forge.repository("carol").get_pull(number).create_review(body="text", event="COMMENT")
    assert (made.state, made.user.login, made.commit_id) == (
        "COMMENTED",
        "carol",
        forge.repository().get_pull(1).head.sha,
    )
    made.edit("another text")
    forge.repository("alice").get_pull(number).create_review(event="APPROVE")
    listed = list(forge.repository().get_pull(number).get_reviews())
    assert [(one.user.login, one.body, one.state) for one in listed] == [
        ("carol", "another text", "COMMENTED"),
        ("alice", "", "APPROVED"),
    ]
    assert forge.repository().get_pull(number).get_review(made.id).body == "another text"


@pytest.mark.parametrize(
    ("login", "body", "status"),
    [
        ("carol", {"event": "COMMENT"}, 422),
        ("carol", {"event": "COMMENT", "body": " "}, 422),
        ("carol", {"event": "REQUEST_CHANGES"}, 422),
        ("carol", {"event": "DENY", "body": "x"}, 422),
        ("carol", {"body": "pending"}, 422),
        ("gitops-bot[bot]", {"event": "APPROVE"}, 422),
        ("carol", {"event": "COMMENT", "body": "x" * 65_537}, 422),
        ("carol", {"event": "COMMENT", "body": "x"}, 200),
        ("gitops-bot[bot]", {"event": "COMMENT", "body": "x"}, 200),
    ],
)
def test_what_a_review_may_say(forge, login: str, body: dict, status: int) -> None:
    forge.draft()
    assert _send(forge, "POST", login, "1/reviews", **body).status_code == status


def test_who_may_change_a_review_and_where_it_is(forge) -> None:
    forge.draft()
    forge.draft("capture/judge-2")
    made = forge.sandbox.review(REPOSITORY, 1, "carol", "text")
    assert _send(forge, "PUT", "bob", f"1/reviews/{made}", body="x").status_code == 403
    assert _send(forge, "PUT", "carol", f"1/reviews/{made}", body="x").status_code == 200
    assert _send(forge, "GET", "bob", f"1/reviews/{made}").json()["body"] == "x"
    for path in (f"2/reviews/{made}", f"1/reviews/{made + 1}", "1/reviews/x", "99/reviews/1"):
        assert _send(forge, "GET", "bob", path).status_code == 404


def test_on_a_locked_thread_only_writers_review(forge) -> None:
    forge.draft()
    forge.sandbox.lock_thread(REPOSITORY, 1)
    body = {"event": "COMMENT", "body": "x"}
    assert _send(forge, "POST", "carol", "1/reviews", **body).status_code == 403
    assert _send(forge, "POST", "alice", "1/reviews", **body).status_code == 200
