"""Comments, edits, reactions and the poll through the real client, and what GraphQL adds."""

from datetime import UTC, datetime

import pytest
from github import GithubException, UnknownObjectException

from gitops_bot.sandbox.records import App

REPOSITORY = "acme/judge"
EDIT_QUERY = (
    "query($id: ID!) { node(id: $id) { __typename ... on IssueComment {"
    " lastEditedAt editor { login } includesCreatedEdit isMinimized createdViaEmail } } }"
)


def _facts(forge, node_id: str) -> dict[str, object]:
    requester = forge.client("gitops-bot[bot]").requester
    _, data = requester.graphql_query(EDIT_QUERY, {"id": node_id})
    return data["data"]["node"]


def test_a_comment_is_written_read_edited_and_deleted(forge) -> None:
    """The life of a comment; the times have whole seconds and only the edit moves the second one."""
    issue = forge.repository().get_issue(forge.draft().number)
    made = issue.create_comment("first │ ünïcode 🚀\r\nsecond")
    assert (made.body, made.user.id, made.user.type) == ("first │ ünïcode 🚀\r\nsecond", 2001, "Bot")
    forge.now += 5
    made.edit("changed")
    again = issue.get_comment(made.id)
    assert again.body == "changed"
    assert (again.updated_at - again.created_at).total_seconds() == 5
    again.delete()
    with pytest.raises(UnknownObjectException):
        issue.get_comment(made.id)


def test_what_graphql_says_of_an_untouched_comment(forge) -> None:
    """The accepting twin of the next one: no edit, not minimised, not by e-mail."""
    number = forge.draft().number
    written = forge.sandbox.comment(REPOSITORY, number, "alice", "/approve-capture x")
    comment = forge.repository().get_issue(number).get_comment(written)
    facts = _facts(forge, comment.raw_data["node_id"])
    assert facts == {
        "__typename": "IssueComment",
        "lastEditedAt": None,
        "editor": None,
        "includesCreatedEdit": False,
        "isMinimized": False,
        "createdViaEmail": False,
    }
    assert comment.performed_via_github_app is None


def test_edits_minimising_mail_and_apps_show_where_github_shows_them(forge) -> None:
    """Somebody else's edit names the editor; e-mail and minimising are GraphQL only; an app is in REST."""
    number = forge.draft().number
    mailed = forge.sandbox.comment(REPOSITORY, number, "alice", "text", via_email=True, app=App(7, "some-app"))
    forge.now += 60
    forge.sandbox.edit_comment(REPOSITORY, mailed, "gitops-bot[bot]", "/approve-capture x")
    forge.sandbox.minimise(REPOSITORY, mailed, "gitops-bot[bot]")
    comment = forge.repository().get_issue(number).get_comment(mailed)
    facts = _facts(forge, comment.raw_data["node_id"])
    assert facts["editor"] == {"login": "gitops-bot[bot]"}
    assert facts["lastEditedAt"] == datetime.fromtimestamp(forge.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (facts["includesCreatedEdit"], facts["isMinimized"], facts["createdViaEmail"]) == (True, True, True)
    assert comment.user.login == "alice"
    assert comment.performed_via_github_app is not None
    assert comment.performed_via_github_app.slug == "some-app"


def test_a_node_id_of_nothing_is_not_found(forge) -> None:
    """GraphQL answers 200 with a NOT_FOUND error; the client makes 404 of it."""
    with pytest.raises(UnknownObjectException):
        _facts(forge, "IC_nothing")


def test_a_user_token_of_an_app_marks_what_it_writes(forge) -> None:
    """It comments as the person; performed_via_github_app tells."""
    number = forge.draft().number
    token = forge.sandbox.add_token("alice", app=App(7, "some-app"))
    issue = forge.client("alice", token=token).get_repo(REPOSITORY).get_issue(number)
    made = issue.create_comment("text")
    assert made.user.login == "alice"
    assert made.performed_via_github_app is not None
    assert forge.repository("alice").get_issue(number).create_comment("text").performed_via_github_app is None


def test_a_reaction_twice_is_one_and_answers_200_after_201(forge) -> None:
    """Creating what exists is no error, so a retry leaves one reaction."""
    number = forge.draft().number
    written = forge.sandbox.comment(REPOSITORY, number, "alice", "text")
    comment = forge.repository().get_issue(number).get_comment(written)
    first, second = comment.create_reaction("eyes"), comment.create_reaction("eyes")
    assert first.id == second.id
    route = "/repos/{owner}/{repo}/issues/comments/{comment_id}/reactions"
    assert forge.sandbox.answers[("POST", route, 201)] == 1
    assert forge.sandbox.answers[("POST", route, 200)] == 1
    comment.create_reaction("rocket")
    assert [r.content for r in comment.get_reactions()] == ["eyes", "rocket"]
    assert comment.raw_data["reactions"]["eyes"] == 0, "the object was read before"
    with pytest.raises(GithubException) as refused:
        comment.create_reaction("shrug")
    assert refused.value.status == 422


def test_the_31st_comment_is_on_the_second_page_and_none_is_lost(forge) -> None:
    """Default pages of 30, links by repository id, the count from the last link."""
    number = forge.draft().number
    ids = [forge.sandbox.comment(REPOSITORY, number, "carol", f"comment {n}") for n in range(31)]
    listed = forge.repository().get_issue(number).get_comments()
    assert [comment.id for comment in listed] == ids
    assert listed.totalCount == 31
    assert [comment.id for comment in listed.get_page(1)] == ids[30:]
    requester = forge.client("alice").requester
    headers, rows = requester.requestJsonAndCheck("GET", f"/repos/{REPOSITORY}/issues/comments?page=2")
    assert len(rows) == 1
    here = f"{forge.sandbox.url}/repositories/501/issues/comments?page=1"
    assert headers["link"] == f'<{here}>; rel="prev", <{here}>; rel="first"'
    assert [c.id for c in reversed(forge.repository().get_issues_comments())] == ids[::-1]


def test_pages_hold_at_most_a_hundred(forge) -> None:
    """per_page beyond 100 is 100."""
    number = forge.draft().number
    for n in range(101):
        forge.sandbox.comment(REPOSITORY, number, "carol", f"comment {n}")
    requester = forge.client("alice").requester
    _, rows = requester.requestJsonAndCheck("GET", f"/repos/{REPOSITORY}/issues/comments?per_page=1000")
    assert len(rows) == 100


def test_the_poll_is_inclusive_ordered_by_update_and_shows_edits(forge) -> None:
    """since=T gives what changed in second T too; an edit brings an old comment back; a deletion shows nothing."""
    number = forge.draft().number
    early = forge.sandbox.comment(REPOSITORY, number, "alice", "early")
    forge.now += 10
    gone = forge.sandbox.comment(REPOSITORY, number, "alice", "gone")
    late = forge.sandbox.comment(REPOSITORY, number, "alice", "late")
    mark = datetime.fromtimestamp(forge.now, UTC)
    forge.now += 10
    forge.sandbox.edit_comment(REPOSITORY, early, "alice", "early, edited")
    forge.sandbox.delete_comment(REPOSITORY, gone, "alice")
    repository = forge.repository()
    seen = repository.get_issues_comments(sort="updated", direction="asc", since=mark)
    assert [comment.id for comment in seen] == [late, early]
    backwards = repository.get_issues_comments(sort="updated", direction="desc")
    assert [comment.id for comment in backwards] == [early, late]
    assert [comment.id for comment in repository.get_issues_comments(direction="desc")] == [early, late]
    after = datetime.fromtimestamp(forge.now + 1, UTC)
    assert list(repository.get_issues_comments(sort="updated", direction="asc", since=after)) == []


def test_an_unchanged_answer_is_304_free_and_the_etag_belongs_to_the_token(forge) -> None:
    """304 costs nothing of the limit; another token, or a change, gets 200."""
    number = forge.draft().number
    forge.sandbox.comment(REPOSITORY, number, "alice", "text")
    url, requester = f"/repos/{REPOSITORY}/issues/comments", forge.client("alice").requester
    status, headers, _ = requester.requestJson("GET", url)
    assert status == 200
    known = {"If-None-Match": headers["etag"]}
    status, second, body = requester.requestJson("GET", url, headers=dict(known))
    assert (status, body) == (304, "")
    assert second["etag"] == headers["etag"]
    assert second["x-ratelimit-remaining"] == headers["x-ratelimit-remaining"]
    other = forge.client("alice", token=forge.sandbox.add_token("alice")).requester
    assert other.requestJson("GET", url, headers=dict(known))[0] == 200
    forge.sandbox.comment(REPOSITORY, number, "alice", "more")
    status, third, _ = requester.requestJson("GET", url, headers=dict(known))
    assert status == 200
    assert int(third["x-ratelimit-remaining"]) == int(headers["x-ratelimit-remaining"]) - 2


def test_every_answer_carries_githubs_headers(forge) -> None:
    """Limits, request id, media type and the forge's own clock."""
    _, headers, _ = forge.client("alice").requester.requestJson("GET", "/user")
    assert headers["x-ratelimit-limit"] == "5000"
    assert headers["x-ratelimit-used"] == "1"
    assert headers["x-ratelimit-resource"] == "core"
    assert int(headers["x-ratelimit-reset"]) == forge.now + 3600
    assert headers["x-github-media-type"] == "github.v3; format=json"
    assert headers["x-github-request-id"]
    assert headers["date"] == datetime.fromtimestamp(forge.now, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")


def test_the_primary_limit_is_403_with_the_words_that_the_client_knows(forge) -> None:
    """Remaining 0 and the reset are told; the next window is open again."""
    forge.sandbox.world.model.limits.hourly = 2
    requester = forge.client("carol").requester
    assert [requester.requestJson("GET", "/user")[0] for _ in range(3)] == [200, 200, 403]
    _, headers, body = requester.requestJson("GET", "/user")
    assert headers["x-ratelimit-remaining"] == "0"
    assert "API rate limit exceeded" in body
    forge.now += 3600
    assert requester.requestJson("GET", "/user")[0] == 200


@pytest.mark.parametrize(("length", "status"), [(65_536, 201), (65_537, 422)])
def test_a_body_over_the_limit_is_422(forge, length: int, status: int) -> None:
    """And one of exactly the limit is kept."""
    number = forge.draft().number
    url = f"/repos/{REPOSITORY}/issues/{number}/comments"
    answered, _, _ = forge.client("alice").requester.requestJson("POST", url, input={"body": "é" * length})
    assert answered == status


@pytest.mark.parametrize(
    ("body", "status"), [(b"{", 400), (b"[]", 400), (b'{"body": 3}', 422), (b'{"body": "x"}', 201), (b"\xff", 400)]
)
def test_a_request_that_is_no_object_of_texts_is_refused(forge, body: bytes, status: int) -> None:
    """400 for no JSON object, 422 for a wrong field; never a 500 (I20)."""
    import requests

    number = forge.draft().number
    answer = requests.post(
        f"{forge.sandbox.url}/repos/{REPOSITORY}/issues/{number}/comments",
        data=body,
        headers={"Authorization": f"Bearer {forge.tokens['alice']}"},
        timeout=60,
    )
    assert answer.status_code == status


def test_who_may_not_edit_is_403_and_a_locked_thread_takes_writers_only(forge) -> None:
    """The refusing twins of an edit and of a comment."""
    number = forge.draft().number
    written = forge.sandbox.comment(REPOSITORY, number, "alice", "text")
    with pytest.raises(GithubException) as refused:
        forge.repository("carol").get_issue(number).get_comment(written).edit("mine now")
    assert refused.value.status == 403
    forge.sandbox.lock_thread(REPOSITORY, number)
    with pytest.raises(GithubException) as locked:
        forge.repository("carol").get_issue(number).create_comment("text")
    assert locked.value.status == 403
    assert forge.repository("alice").get_issue(number).create_comment("text").id


def test_a_comment_on_a_plain_issue_is_in_the_poll_and_tells_its_issue(forge) -> None:
    """The poll covers issues too; `pull_request` tells them apart."""
    number = forge.sandbox.issue(REPOSITORY, "carol", "A question")
    forge.sandbox.comment(REPOSITORY, number, "carol", "text")
    (comment,) = forge.repository().get_issues_comments()
    assert comment.issue_url.endswith(f"/issues/{number}")
    assert forge.repository().get_issue(number).pull_request is None
    pull = forge.draft()
    as_issue = forge.repository().get_issue(pull.number)
    assert as_issue.pull_request is not None
    assert as_issue.raw_data["draft"] is True
