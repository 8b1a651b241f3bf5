"""How each fault of HTTP and each shape of an answer is told; whole flows run against the sandbox (tests/contract)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import responses
from responses.matchers import header_matcher, query_param_matcher

from gitops_bot.core.errors import Unavailable
from gitops_bot.core.readings import Permission, Reaction
from gitops_bot.forge.client import GitHubForge

API = "https://forge.invalid/api/v3"
GRAPHQL = "https://forge.invalid/api/graphql"
REPO = f"{API}/repos/acme/rig"
TOKEN = "ghs_" + "s3cret" * 20
BOT = 900


@pytest.fixture
def wire() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


@pytest.fixture
def forge() -> Iterator[GitHubForge]:
    made = GitHubForge(API, TOKEN, account_id=BOT)
    yield made
    made.disconnect()


def row(comment_id: int, second: int, **more: Any) -> dict[str, Any]:
    return {
        "id": comment_id,
        "node_id": f"IC_{comment_id}",
        "issue_url": f"{REPO}/issues/7",
        "html_url": "https://forge.invalid/acme/rig/pull/7#issuecomment-1",
        "user": {"id": 1001, "login": "alice", "type": "User"},
        "body": "/capture-help",
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": f"2026-01-01T00:00:{second:02d}Z",
        "performed_via_github_app": None,
        **more,
    }


def node(comment_id: int, **more: Any) -> dict[str, Any]:
    return {
        "databaseId": comment_id,
        "lastEditedAt": None,
        "includesCreatedEdit": False,
        "isMinimized": False,
        "createdViaEmail": False,
        "repository": {"databaseId": 5},
        **more,
    }


def pull(number: int, **more: Any) -> dict[str, Any]:
    return {
        "number": number,
        "node_id": f"PR_{number}",
        "html_url": f"https://forge.invalid/acme/rig/pull/{number}",
        "state": "open",
        "draft": True,
        "merged_at": None,
        "user": {"id": BOT},
        "head": {"sha": "a" * 40, "ref": "capture/x", "repo": {"id": 5}},
        "base": {"sha": "b" * 40, "ref": "main", "repo": {"id": 5}},
        **more,
    }


def with_repository(wire: responses.RequestsMock) -> None:
    wire.get(REPO, json={"id": 5, "full_name": "acme/rig", "default_branch": "main"})


def with_comment(wire: responses.RequestsMock, document: Any, about: Any) -> None:
    with_repository(wire)
    wire.get(f"{REPO}/issues/comments/{document['id']}", json=document)
    wire.post(GRAPHQL, json={"data": {"node": about}})


# Faults


@pytest.mark.parametrize(
    ("status", "headers", "message", "wait"),
    [
        (500, {}, "Server Error", None),
        (502, {}, "Server Error", None),
        (401, {}, "Bad credentials", None),
        (403, {}, "Resource not accessible", None),
        (422, {}, "Validation Failed", None),
        (404, {}, "Not Found", None),
        (503, {"Retry-After": "7"}, "", 7.0),
        (403, {"Retry-After": "30"}, "You have exceeded a secondary rate limit", 30.0),
        (403, {}, "You have exceeded a secondary rate limit", 60.0),
        (429, {}, "", 60.0),
        (429, {"Retry-After": "soon"}, "", 60.0),
        (
            403,
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225700", "Date": "Thu, 01 Jan 2026 00:00:00 GMT"},
            "API rate limit exceeded",
            100.0,
        ),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225700"}, "API rate limit exceeded", 60.0),
    ],
)
def test_a_failed_write_is_unavailable_and_sent_exactly_once(
    wire: responses.RequestsMock,
    forge: GitHubForge,
    status: int,
    headers: dict[str, str],
    message: str,
    wait: float | None,
) -> None:
    """A comment that was created and answered 502 must not be written twice, nor waited for in line."""
    sent = wire.post(f"{REPO}/issues/7/comments", status=status, headers=headers, json={"message": message})
    with pytest.raises(Unavailable) as caught:
        forge.create_comment("acme/rig", 7, "text")
    assert sent.call_count == 1
    assert caught.value.retry_after == wait
    assert str(status) in str(caught.value)


def test_a_successful_write_is_sent_once_and_gives_the_id(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    sent = wire.post(f"{REPO}/issues/7/comments", status=201, json={"id": 42})
    assert forge.create_comment("acme/rig", 7, "text") == 42
    assert sent.call_count == 1
    assert json.loads(sent.calls[0].request.body) == {"body": "text"}


@pytest.mark.parametrize(
    "fault", [requests.ConnectTimeout(TOKEN), requests.ReadTimeout(TOKEN), requests.ConnectionError(TOKEN)]
)
def test_no_answer_is_unavailable_and_tells_no_secret(
    wire: responses.RequestsMock, forge: GitHubForge, fault: Exception
) -> None:
    sent = wire.post(f"{REPO}/issues/7/comments", body=fault)
    with pytest.raises(Unavailable) as caught:
        forge.create_comment("acme/rig", 7, "text")
    assert sent.call_count == 1
    assert TOKEN not in repr(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "body", [b"<html>", b"\xff", b"[" * 100_000, b"{", b'{"id": "42"}', b'{"id": true}', b"[]", b""]
)
def test_an_answer_of_another_shape_is_unavailable(
    wire: responses.RequestsMock, forge: GitHubForge, body: bytes
) -> None:
    wire.post(f"{REPO}/issues/7/comments", status=201, body=body, content_type="application/json")
    with pytest.raises(Unavailable):
        forge.create_comment("acme/rig", 7, "text")


def test_a_broken_rate_limit_header_is_unavailable_not_a_crash(
    wire: responses.RequestsMock, forge: GitHubForge
) -> None:
    wire.get(f"{API}/repos/acme/rig", json={}, headers={"X-RateLimit-Reset": "inf"})
    with pytest.raises(Unavailable):
        forge.repository("acme/rig")


def test_a_renamed_repository_is_followed_for_reads_with_its_query(
    wire: responses.RequestsMock, forge: GitHubForge
) -> None:
    there = f"{API}/repositories/5/pulls/7"
    wire.get(f"{REPO}/pulls/7", status=301, headers={"Location": there})
    wire.get(there, json=pull(7))
    found = forge.pull_request("acme/rig", 7)
    assert found is not None
    assert found.number == 7


@pytest.mark.parametrize("location", ["https://elsewhere.invalid/api/v3/x", "https://forge.invalid.evil/x", "/loop"])
def test_a_redirection_elsewhere_or_without_end_never_gets_the_token(
    wire: responses.RequestsMock, forge: GitHubForge, location: str
) -> None:
    wire.get(f"{REPO}/pulls/7", status=301, headers={"Location": location})
    wire.get("https://forge.invalid/loop", status=301, headers={"Location": "/loop"})
    stolen = wire.get("https://elsewhere.invalid/api/v3/x", json=pull(7))
    with pytest.raises(Unavailable):
        forge.pull_request("acme/rig", 7)
    assert stolen.call_count == 0


def test_a_redirected_write_is_not_repeated_elsewhere(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    there = wire.post(f"{API}/repositories/5/issues/7/comments", status=201, json={"id": 42})
    wire.post(
        f"{REPO}/issues/7/comments",
        status=301,
        headers={"Location": f"{API}/repositories/5/issues/7/comments"},
    )
    with pytest.raises(Unavailable):
        forge.create_comment("acme/rig", 7, "text")
    assert there.call_count == 0


def test_not_ready_yet_is_not_waited_for_in_line(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    asked = wire.get(f"{REPO}/pulls/7", status=202, json={})
    with pytest.raises(Unavailable) as caught:
        forge.pull_request("acme/rig", 7)
    assert (asked.call_count, caught.value.retry_after) == (1, 60.0)


def test_a_name_that_leaves_its_place_in_the_address_is_our_bug(forge: GitHubForge) -> None:
    with pytest.raises(ValueError, match="owner/name"):
        forge.pull_request("acme/../user", 7)


# Listing comments


def test_an_unchanged_listing_is_conditional_and_empty(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    with_repository(wire)
    wire.get(f"{REPO}/issues/comments", status=304, match=[header_matcher({"If-None-Match": '"e1"'})])
    page = forge.comments_since("acme/rig", 0, '"e1"')
    assert page.unchanged
    assert (page.hints, page.etag, page.newest) == ((), '"e1"', None)


def test_a_listing_of_one_page_gives_its_etag_and_asks_in_utc(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    with_repository(wire)
    query = {"sort": "updated", "direction": "asc", "since": "2026-01-01T00:00:01Z", "per_page": "100", "page": "1"}
    wire.get(f"{REPO}/issues/comments", json=[row(1, 2)], headers={"ETag": '"e2"'}, match=[query_param_matcher(query)])
    page = forge.comments_since("acme/rig", 1_767_225_601_999, None)
    assert (page.unchanged, page.etag, page.newest) == (False, '"e2"', 1_767_225_602_000)
    (hint,) = page.hints
    assert (hint.repository_id, hint.comment_id, hint.pull_request, hint.body) == (5, 1, 7, "/capture-help")


def test_later_pages_go_on_at_the_last_time_and_give_no_etag(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    """Between two pages an edited comment leaves its place; counting pages would skip the one that slides into it."""
    with_repository(wire)
    more = {"Link": '<https://forge.invalid/x>; rel="next"', "ETag": '"e1"'}

    def page(since: str, number: int, rows: list[Any], headers: dict[str, str]) -> None:
        query = {"sort": "updated", "direction": "asc", "since": since, "per_page": "100", "page": str(number)}
        wire.get(f"{REPO}/issues/comments", json=rows, headers=headers, match=[query_param_matcher(query)])

    page("2026-01-01T00:00:00Z", 1, [row(1, 0), row(2, 3)], more)
    page("2026-01-01T00:00:03Z", 1, [row(2, 3), row(3, 3)], more)
    page("2026-01-01T00:00:03Z", 2, [row(1, 9)], {"ETag": '"e3"'})
    listed = forge.comments_since("acme/rig", 1_767_225_600_000, None)
    assert [(hint.comment_id, hint.updated_at % 60_000) for hint in listed.hints] == [
        (1, 0),
        (2, 3000),
        (3, 3000),
        (1, 9000),
    ]
    assert listed.etag is None, "an unchanged first page would hide a changed second one"
    assert listed.newest == listed.hints[-1].updated_at


# One comment


def test_a_comment_joins_both_answers_and_keeps_them(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    with_comment(wire, row(1, 0), node(1))
    read = forge.comment("acme/rig", 1)
    assert read is not None
    assert (read.repository_id, read.pull_request, read.author_id, read.author_type) == (5, 7, 1001, "User")
    assert not (read.edited or read.minimised or read.via_app or read.via_email)
    assert json.loads(read.raw) == {"rest": row(1, 0), "graphql": node(1)}
    assert [call.request.method for call in wire.calls] == ["GET", "POST"], "the edit state is read after the text"


@pytest.mark.parametrize(
    ("rest", "graphql", "seen"),
    [
        ({}, {"lastEditedAt": "2026-01-01T00:00:01Z"}, "edited"),
        ({}, {"includesCreatedEdit": True}, "edited"),
        ({}, {"isMinimized": True}, "minimised"),
        ({}, {"createdViaEmail": True}, "via_email"),
        ({"performed_via_github_app": {"id": 3}}, {}, "via_app"),
    ],
)
def test_each_mark_of_a_comment_is_read(
    wire: responses.RequestsMock, forge: GitHubForge, rest: dict[str, Any], graphql: dict[str, Any], seen: str
) -> None:
    with_comment(wire, row(1, 0, **rest), node(1, **graphql))
    read = forge.comment("acme/rig", 1)
    flags = {name: getattr(read, name) for name in ("edited", "minimised", "via_email", "via_app")}
    assert flags == {name: name == seen for name in flags}


@pytest.mark.parametrize(
    "about",
    [
        node(2),
        {name: value for name, value in node(1).items() if name != "lastEditedAt"},
        {name: value for name, value in node(1).items() if name != "isMinimized"},
        node(1, includesCreatedEdit=None),
        node(1, createdViaEmail="no"),
        node(1, repository=None),
        {},
    ],
)
def test_what_the_forge_does_not_say_is_unavailable_not_harmless(
    wire: responses.RequestsMock, forge: GitHubForge, about: Any
) -> None:
    """I14: an answer without the edit state is no unedited comment."""
    with_comment(wire, row(1, 0), about)
    with pytest.raises(Unavailable):
        forge.comment("acme/rig", 1)


def test_a_deleted_comment_is_none_at_either_answer(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    with_repository(wire)
    wire.get(f"{REPO}/issues/comments/1", status=404, json={"message": "Not Found"})
    assert forge.comment("acme/rig", 1) is None
    wire.get(f"{REPO}/issues/comments/2", json=row(2, 0))
    wire.post(GRAPHQL, json={"data": {"node": None}, "errors": [{"type": "NOT_FOUND", "message": "gone"}]})
    assert forge.comment("acme/rig", 2) is None


@pytest.mark.parametrize(
    ("document", "wait"),
    [
        ({"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}, 60.0),
        ({"errors": [{"type": "FORBIDDEN", "message": "no"}], "data": {"node": None}}, None),
        ({"errors": [{"message": "timeout"}, {"type": "NOT_FOUND"}]}, None),
        ({}, None),
        ([], None),
    ],
)
def test_other_graphql_errors_are_unavailable(
    wire: responses.RequestsMock, forge: GitHubForge, document: Any, wait: float | None
) -> None:
    with_repository(wire)
    wire.get(f"{REPO}/issues/comments/1", json=row(1, 0))
    wire.post(GRAPHQL, json=document)
    with pytest.raises(Unavailable) as caught:
        forge.comment("acme/rig", 1)
    assert caught.value.retry_after == wait


def test_a_comment_of_a_deleted_account_is_nobodys(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    with_comment(wire, row(1, 0, user=None), node(1))
    read = forge.comment("acme/rig", 1)
    assert read is not None
    assert (read.author_id, read.author_type) == (0, "")


def test_evidence_is_kept_even_where_it_has_no_canonical_form(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    """I20: neither a float nor a lone surrogate in an answer stops its reading."""
    with_comment(wire, row(1, 0, body="\ud800", score=0.5), node(1))
    read = forge.comment("acme/rig", 1)
    assert read is not None
    assert json.loads(read.raw)["rest"]["body"] == "\ud800"


# Permission


@pytest.mark.parametrize(
    ("answer", "held"),
    [
        ({"permission": "write", "role_name": "maintain", "user": {"id": 1001}}, Permission.MAINTAIN),
        ({"permission": "read", "role_name": "triage", "user": {"id": 1001}}, Permission.TRIAGE),
        ({"permission": "write", "role_name": "release crew", "user": {"id": 1001}}, Permission.WRITE),
        ({"permission": "admin", "role_name": "admin", "user": {"id": 1002}}, Permission.NONE),
        ({"permission": "owner", "role_name": "owner", "user": {"id": 1001}}, Permission.NONE),
    ],
)
def test_permission_counts_for_the_account_it_is_about(
    wire: responses.RequestsMock, forge: GitHubForge, answer: dict[str, Any], held: Permission
) -> None:
    """I13: an answer about another account, or a word nobody knows, grants nothing."""
    wire.get(f"{REPO}/collaborators/alice/permission", json=answer)
    assert forge.permission("acme/rig", "alice", 1001) is held


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_a_permission_that_cannot_be_read_is_unknown(
    wire: responses.RequestsMock, forge: GitHubForge, status: int
) -> None:
    """I14"""
    wire.get(f"{REPO}/collaborators/alice/permission", status=status, json={"message": "Must have push access"})
    with pytest.raises(Unavailable):
        forge.permission("acme/rig", "alice", 1001)


def test_an_unknown_account_has_no_permission_and_an_unnamed_answer_is_unknown(
    wire: responses.RequestsMock, forge: GitHubForge
) -> None:
    wire.get(f"{REPO}/collaborators/bob/permission", status=404, json={"message": "bob is not a user"})
    assert forge.permission("acme/rig", "bob", 1002) is Permission.NONE
    wire.get(f"{REPO}/collaborators/carol/permission", json={"permission": "admin", "role_name": "admin", "user": None})
    with pytest.raises(Unavailable):
        forge.permission("acme/rig", "carol", 1003)


# Pull requests


def test_only_the_bots_own_newest_request_of_this_repository_is_found(
    wire: responses.RequestsMock, forge: GitHubForge
) -> None:
    fork = {"sha": "c" * 40, "ref": "capture/x", "repo": {"id": 6}}
    wire.get(
        f"{REPO}/pulls",
        json=[
            pull(12, head=fork),
            pull(11, head={**fork, "repo": None}),
            pull(10, user={"id": 1001}),
            pull(9, merged_at="2026-01-01T00:00:00Z", state="closed"),
            pull(8),
        ],
    )
    found = forge.find_pull_request("acme/rig", "capture/x")
    assert found is not None
    assert (found.number, found.merged, found.state) == (9, True, "closed")


def test_an_open_request_is_reused_and_a_missing_one_opened(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    listed = wire.get(f"{REPO}/pulls", json=[pull(8)])
    opened = wire.post(f"{REPO}/pulls", status=201, json=pull(9))
    assert forge.open_draft("acme/rig", "capture/x", "t", "b").number == 8
    assert opened.call_count == 0
    wire.replace(listed.method or "GET", f"{REPO}/pulls", json=[pull(8, state="closed")])
    with_repository(wire)
    assert forge.open_draft("acme/rig", "capture/x", "t", "b").number == 9
    sent = json.loads(opened.calls[0].request.body)
    assert sent == {"title": "t", "body": "b", "head": "capture/x", "base": "main", "draft": True}


def test_a_person_cannot_pass_their_comment_off_as_the_bots(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    marker = "<!-- gitops-bot:ask=1 -->"
    theirs = {"id": 1, "user": {"id": 1001}, "body": marker}
    own = {"id": 2, "user": {"id": BOT}, "body": f"{marker}\n\ntext"}
    wire.get(f"{REPO}/issues/7/comments", json=[theirs, own])
    wire.get(f"{REPO}/issues/8/comments", json=[theirs])
    assert forge.find_comment("acme/rig", 7, marker) == 2
    assert forge.find_comment("acme/rig", 8, marker) is None


@pytest.mark.parametrize("status", [200, 201])
def test_a_reaction_left_twice_is_fine(wire: responses.RequestsMock, forge: GitHubForge, status: int) -> None:
    sent = wire.post(f"{REPO}/issues/comments/1/reactions", status=status, json={"id": 1})
    forge.react("acme/rig", 1, Reaction.EYES)
    assert json.loads(sent.calls[0].request.body) == {"content": "eyes"}


def test_the_bots_id_is_asked_once_unless_it_is_given(wire: responses.RequestsMock) -> None:
    asked = wire.get(f"{API}/user", json={"id": BOT, "login": "bot"})
    forge = GitHubForge(API, TOKEN)
    assert (forge.self_id(), forge.self_id()) == (BOT, BOT)
    assert asked.call_count == 1
    assert asked.calls[0].request.headers["Authorization"].endswith(TOKEN)
    forge.disconnect()


# Branches


def with_branch(wire: responses.RequestsMock, parents: list[str], tree: str, status: str = "ahead") -> None:
    """A branch that exists already, over a default branch at `bbb…`; the request's own tree would be `wanted`."""
    with_repository(wire)
    wire.get(f"{REPO}/git/ref/heads/main", json={"object": {"sha": "b" * 40}})
    wire.get(f"{REPO}/git/ref/heads/capture/x", json={"object": {"sha": "a" * 40}})
    wire.get(
        f"{REPO}/git/commits/{'a' * 40}",
        json={"tree": {"sha": tree}, "parents": [{"sha": parent} for parent in parents]},
    )
    for parent in parents:
        wire.get(f"{REPO}/git/commits/{parent}", json={"tree": {"sha": "before"}, "parents": []})
        wire.get(f"{REPO}/compare/{parent}...{'b' * 40}", json={"status": status})
    wire.post(f"{REPO}/git/blobs", status=201, json={"sha": "blob"})
    wire.post(f"{REPO}/git/trees", status=201, json={"sha": "wanted"})


@pytest.mark.parametrize("parent", ["b" * 40, "c" * 40])
def test_a_branch_published_before_the_default_one_moved_on_is_known_again(
    wire: responses.RequestsMock, forge: GitHubForge, parent: str
) -> None:
    with_branch(wire, [parent], "wanted")
    created = wire.post(f"{REPO}/git/refs", status=201, json={})
    assert forge.publish_branch("acme/rig", "capture/x", {"f": b"x"}, "m") == "a" * 40
    assert created.call_count == 0


@pytest.mark.parametrize(
    ("parents", "tree", "status"),
    [
        (["b" * 40], "more than asked", "ahead"),
        (["c" * 40], "wanted", "diverged"),
        (["c" * 40], "wanted", "behind"),
        (["b" * 40, "c" * 40], "wanted", "ahead"),
        ([], "wanted", "ahead"),
    ],
)
def test_a_branch_that_holds_anything_else_is_not_taken_for_the_bots(
    wire: responses.RequestsMock, forge: GitHubForge, parents: list[str], tree: str, status: str
) -> None:
    with_branch(wire, parents, tree, status)
    with pytest.raises(Unavailable, match="another content"):
        forge.publish_branch("acme/rig", "capture/x", {"f": b"x"}, "m")


def test_a_branch_that_somebody_created_meanwhile_is_compared_too(
    wire: responses.RequestsMock, forge: GitHubForge
) -> None:
    wire.get(f"{REPO}/git/ref/heads/capture/x", status=404, json={"message": "Not Found"})
    with_branch(wire, ["b" * 40], "wanted")
    wire.get(f"{REPO}/git/commits/{'b' * 40}", json={"tree": {"sha": "before"}, "parents": []})
    wire.post(f"{REPO}/git/commits", status=201, json={"sha": "d" * 40})
    wire.post(f"{REPO}/git/refs", status=422, json={"message": "Reference already exists"})
    assert forge.publish_branch("acme/rig", "capture/x", {"f": b"x"}, "m") == "a" * 40


def test_a_file_that_changed_meanwhile_is_not_forced(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    """GitHub compares the blob's id that was read; a 409 is looked at again, not overridden."""
    wire.get(f"{REPO}/contents/f", json={"sha": "b" * 40})
    put = wire.put(f"{REPO}/contents/f", status=409, json={"message": "f does not match"})
    with pytest.raises(Unavailable) as caught:
        forge.commit_file("acme/rig", "capture/x", "f", b"x", "m")
    assert not caught.value.refused
    sent = json.loads(put.calls[0].request.body)
    assert sent == {"message": "m", "branch": "capture/x", "content": "eA==", "sha": "b" * 40}


@pytest.mark.parametrize(("meanwhile", "refused"), [({"sha": "b" * 40}, False), (None, True)])
def test_a_file_that_an_attempt_without_reply_wrote_is_looked_at_again(
    wire: responses.RequestsMock, forge: GitHubForge, meanwhile: dict[str, str] | None, refused: bool
) -> None:
    """GitHub asks for the id of a file that is there (422). One that came since the look is seen by the next attempt;
    where none came, the forge's no stands."""
    wire.get(f"{REPO}/contents/f", status=404, json={"message": "Not Found"})
    wire.put(f"{REPO}/contents/f", status=422, json={"message": 'Invalid request.\n\n"sha" wasn\'t supplied.'})
    if meanwhile is not None:
        wire.get(f"{REPO}/contents/f", json=meanwhile)
    with pytest.raises(Unavailable) as caught:
        forge.commit_file("acme/rig", "capture/x", "f", b"x", "m")
    assert caught.value.refused is refused


@pytest.mark.parametrize(("status", "refused"), [(403, True), (404, True), (422, True), (409, False), (502, False)])
def test_a_no_is_told_from_a_fault(
    wire: responses.RequestsMock, forge: GitHubForge, status: int, refused: bool
) -> None:
    """A locked thread or a text too long is refused again however often it is sent; a 502 is not."""
    wire.post(f"{REPO}/issues/7/comments", status=status, json={"message": "no"})
    with pytest.raises(Unavailable) as caught:
        forge.create_comment("acme/rig", 7, "text")
    assert (caught.value.refused, caught.value.retry_after) == (refused, None)


def test_nothing_is_sent_while_a_limit_stands(
    wire: responses.RequestsMock, forge: GitHubForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits are obeyed by whoever asks next, not by sleeping; a limit without a time grows while it lasts."""
    now = [1000.0]
    monkeypatch.setattr("gitops_bot.forge.transport.time.monotonic", lambda: now[0])
    limited = {"status": 403, "json": {"message": "You have exceeded a secondary rate limit."}}
    wire.get(f"{REPO}/pulls/7", **limited, headers={"Retry-After": "7"})
    for expected in (7.0, 7.0):
        with pytest.raises(Unavailable) as caught:
            forge.pull_request("acme/rig", 7)
        assert (caught.value.retry_after, caught.value.refused) == (expected, False)
    assert len(wire.calls) == 1
    now[0] += 8
    wire.replace("GET", f"{REPO}/pulls/7", **limited)
    for expected in (60.0, 120.0, 240.0):
        with pytest.raises(Unavailable) as caught:
            forge.pull_request("acme/rig", 7)
        assert caught.value.retry_after == expected
        now[0] += expected + 1
    assert len(wire.calls) == 4


def test_a_listing_without_an_end_is_not_read_for_ever(wire: responses.RequestsMock, forge: GitHubForge) -> None:
    """I20; and not having found it is not the same as it not being there."""
    more = {"Link": '<https://forge.invalid/x>; rel="next"'}
    asked = wire.get(f"{REPO}/issues/7/comments", json=[], headers=more)
    with pytest.raises(Unavailable, match="pages"):
        forge.find_comment("acme/rig", 7, "mark")
    assert asked.call_count == 100
