"""Faults on demand and the counters, as flows under fault use them."""

import pytest
from github import Auth, Github, GithubException, RateLimitExceededException

REPOSITORY = "acme/judge"
COMMENTS = "/repos/{owner}/{repo}/issues/{issue_number}/comments"


def test_a_502_after_the_effect_leaves_the_comment(forge) -> None:
    """The client sees a failure, the comment is there: the case that makes blind retries double."""
    number = forge.draft().number
    issue = forge.repository().get_issue(number)
    forge.sandbox.fail_next("POST */issues/*/comments", 502, after_effect=True)
    with pytest.raises(GithubException) as failed:
        issue.create_comment("once")
    assert failed.value.status == 502
    assert [comment.body for comment in forge.sandbox.comments(REPOSITORY, number)] == ["once"]


def test_a_502_before_the_effect_leaves_nothing(forge) -> None:
    """The twin: same answer, no comment; and the next request is fine."""
    number = forge.draft().number
    issue = forge.repository().get_issue(number)
    forge.sandbox.fail_next("POST */issues/*/comments", 502)
    with pytest.raises(GithubException):
        issue.create_comment("never")
    assert forge.sandbox.comments(REPOSITORY, number) == ()
    assert issue.create_comment("now").body == "now"


def test_the_default_retry_of_the_client_doubles_a_comment_here_as_at_github(forge) -> None:
    """What the product must switch off is what this forge shows: PyGithub retries POST on 502."""
    number = forge.draft().number
    from github import GithubRetry

    with Github(
        base_url=forge.sandbox.url,
        auth=Auth.Token(forge.tokens["alice"]),
        retry=GithubRetry(total=2, backoff_factor=0),
    ) as eager:
        issue = eager.get_repo(REPOSITORY).get_issue(number)
        forge.sandbox.fail_next("POST */issues/*/comments", 502, after_effect=True)
        issue.create_comment("twice")
    assert [comment.body for comment in forge.sandbox.comments(REPOSITORY, number)] == ["twice", "twice"]


def test_a_secondary_limit_carries_retry_after_and_the_words(forge) -> None:
    """403 with the message that the client recognises."""
    forge.sandbox.fail_next("GET /user", 403, headers={"Retry-After": "7"})
    with pytest.raises(RateLimitExceededException) as refused:
        forge.client("alice").get_user().login  # noqa: B018 # the attribute sends the request
    assert refused.value.headers is not None
    assert refused.value.headers["retry-after"] == "7"


def test_a_503_on_the_permission_is_unknown_for_a_while(forge) -> None:
    """Planned for two requests, gone at the third."""
    repository = forge.repository()
    forge.sandbox.fail_next("GET /repos/{owner}/{repo}/collaborators/*", 503, times=2)
    for _ in range(2):
        with pytest.raises(GithubException) as failed:
            repository.get_collaborator_permission("alice")
        assert failed.value.status == 503
    assert repository.get_collaborator_permission("alice") == "write"


def test_requests_are_counted_by_route_and_answer(forge) -> None:
    """What the cost tests count, the same for a repository named by id; setting to nothing works."""
    number = forge.draft().number
    forge.sandbox.reset_counters()
    requester = forge.client("alice").requester
    requester.requestJson("POST", f"/repos/{REPOSITORY}/issues/{number}/comments", input={"body": "x"})
    requester.requestJson("GET", f"/repositories/501/issues/{number}/comments")
    requester.requestJson("GET", f"/repos/{REPOSITORY}/issues/99/comments")
    assert forge.sandbox.requests == {("POST", COMMENTS): 1, ("GET", COMMENTS): 2}
    assert forge.sandbox.answers == {
        ("POST", COMMENTS, 201): 1,
        ("GET", COMMENTS, 200): 1,
        ("GET", COMMENTS, 404): 1,
    }


def test_an_unknown_path_and_method_are_404_in_json(forge) -> None:
    """The client gets its own exception, not a page."""
    requester = forge.client("alice").requester
    for method, path in (("GET", "/nothing/here/at/all"), ("PUT", "/user"), ("GET", "/repos//judge")):
        status, _, body = requester.requestJson(method, path)
        assert status == 404
        assert '"Not Found"' in body
