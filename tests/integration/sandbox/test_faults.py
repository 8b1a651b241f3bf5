"""Faults on demand and the counters, as flows under fault use them."""

import threading

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


def test_a_slow_answer_is_late_and_well_and_holds_up_nobody(forge, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one waits, another is served."""
    slept: list[float] = []
    served = threading.Event()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert served.wait(60)

    monkeypatch.setattr(forge.sandbox.world, "sleep", sleep)
    forge.sandbox.slow_next("GET /user", 1.5)
    late: list[str] = []
    waiting = threading.Thread(target=lambda: late.append(forge.client("alice").get_user().login))
    waiting.start()
    while not slept:
        threading.Event().wait(0.01)
    assert forge.repository("bob").full_name == REPOSITORY
    assert late == []
    served.set()
    waiting.join()
    assert (late, slept) == (["alice"], [1.5])


def test_a_head_moves_after_so_many_reads(forge) -> None:
    """The race between reading and acting, on demand."""
    pull = forge.draft()
    asked = pull.head.sha
    forge.sandbox.move_head_after(REPOSITORY, pull.head.ref, "alice", reads=2)
    read = [forge.repository().get_pull(1).head.sha for _ in range(4)]
    assert read[:2] == [asked, asked]
    assert read[2] == read[3] != asked


def test_a_token_ends_at_its_time(forge) -> None:
    token = forge.sandbox.add_token("alice", lifetime=60)
    client = forge.client("alice", token=token)
    assert client.get_user().login == "alice"
    forge.now += 60
    with pytest.raises(GithubException) as refused:
        forge.client("alice", token=token).get_user().login  # noqa: B018 # the attribute sends the request
    assert refused.value.status == 401


def test_a_304_on_demand_hides_what_is_new(forge) -> None:
    number = forge.draft().number
    requester = forge.client("alice").requester
    forge.sandbox.comment(REPOSITORY, number, "carol", "new")
    forge.sandbox.fail_next("GET */issues/comments", 304)
    status, _, body = requester.requestJson("GET", f"/repos/{REPOSITORY}/issues/comments")
    assert (status, body) == (304, "")
    _, listed = requester.requestJsonAndCheck("GET", f"/repos/{REPOSITORY}/issues/comments")
    assert [row["body"] for row in listed] == ["new"]


def test_a_locked_thread_takes_writers_only(forge) -> None:
    """Locked and unlocked over REST; 403 to a triager, for comments and reactions."""
    number = forge.draft().number
    issue = forge.repository("alice").get_issue(number)
    written = issue.create_comment("before")
    issue.lock("resolved")
    assert forge.repository().get_pull(number).raw_data["active_lock_reason"] == "resolved"
    theirs = forge.repository("bob").get_issue(number)
    for act in (lambda: theirs.create_comment("x"), lambda: theirs.get_comment(written.id).create_reaction("eyes")):
        with pytest.raises(GithubException) as refused:
            act()
        assert refused.value.status == 403
    issue.create_comment("a writer may")
    issue.unlock()
    assert theirs.create_comment("again").body == "again"


def test_a_plan_is_forgotten_on_demand(forge) -> None:
    forge.sandbox.fail_next("*", 500, times=9)
    forge.sandbox.clear_faults()
    assert forge.client("alice").get_user().login == "alice"


# Limits


def test_ordinary_use_meets_no_secondary_limit(forge) -> None:
    """They are off until a test wants them."""
    number = forge.draft().number
    issue = forge.repository("alice").get_issue(number)
    for index in range(100):
        issue.create_comment(f"text {index}")


def test_content_is_limited_by_the_minute_and_says_until_when(forge) -> None:
    """80 a minute, for each account; reading goes on; after `retry-after` it is well again."""
    number = forge.draft().number
    forge.sandbox.obey_limits(secondary=True)
    issue = forge.repository("alice").get_issue(number)
    for index in range(80):
        issue.create_comment(f"text {index}")
    forge.now += 20
    with pytest.raises(RateLimitExceededException) as refused:
        issue.create_comment("one more")
    assert refused.value.headers is not None
    assert refused.value.headers["retry-after"] == "40"
    assert int(refused.value.headers["x-ratelimit-remaining"]) > 4000
    assert forge.repository("alice").get_issue(number).comments == 80
    assert forge.repository("bob").get_issue(number).create_comment("another account").body
    forge.now += 40
    assert issue.create_comment("later").body == "later"


def test_points_are_limited_by_the_minute(forge) -> None:
    """900 points: reading costs 1, writing 5; GraphQL has a row of its own."""
    forge.sandbox.obey_limits(secondary=True)
    requester = forge.client("alice").requester
    told = [requester.requestJson("PUT", f"/repos/{REPOSITORY}/issues/99/lock")[0] for _ in range(179)]
    assert set(told) == {404}
    assert {requester.requestJson("GET", "/user")[0] for _ in range(5)} == {200}
    status, headers, body = requester.requestJson("GET", "/user")
    assert (status, headers["retry-after"]) == (403, "60")
    assert "secondary rate limit" in body
    query = {"query": "query { viewer { login } }"}
    assert requester.requestJson("POST", "/graphql", input=query)[0] == 200


def test_the_primary_limit_is_counted_down_and_comes_back(forge) -> None:
    """Headers say what is left; a 304 costs nothing; at nothing left it is 403 until the reset."""
    forge.sandbox.obey_limits(hourly=3)
    requester = forge.client("alice").requester
    first = requester.requestJson("GET", "/user")
    assert (first[1]["x-ratelimit-remaining"], first[1]["x-ratelimit-resource"]) == ("2", "core")
    again = requester.requestJson("GET", "/user", headers={"If-None-Match": first[1]["etag"]})
    assert (again[0], again[1]["x-ratelimit-remaining"]) == (304, "2")
    for _ in range(2):
        assert requester.requestJson("GET", "/user")[0] == 200
    spent = requester.requestJson("GET", "/user")
    assert (spent[0], spent[1]["x-ratelimit-remaining"]) == (403, "0")
    assert "retry-after" not in spent[1]
    forge.now = int(spent[1]["x-ratelimit-reset"])
    assert requester.requestJson("GET", "/user")[0] == 200


def test_an_etag_belongs_to_a_token(forge) -> None:
    """Another token of the same account is answered 200 once."""
    other = forge.sandbox.add_token("alice")
    path = f"/repos/{REPOSITORY}/issues/comments"
    one, two = forge.client("alice").requester, forge.client("alice", token=other).requester
    etag = one.requestJson("GET", path)[1]["etag"]
    assert one.requestJson("GET", path, headers={"If-None-Match": etag})[0] == 304
    answered = two.requestJson("GET", path, headers={"If-None-Match": etag})
    assert answered[0] == 200
    assert two.requestJson("GET", path, headers={"If-None-Match": answered[1]["etag"]})[0] == 304
