"""Whatever arrives at any route: a refusal of the forge, never a crash, and nothing outside its folder (I20)."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitops_bot.sandbox.control import Control
from gitops_bot.sandbox.dispatch import Request, dispatch
from gitops_bot.sandbox.records import Node, node_id
from gitops_bot.sandbox.routes import accounts, comments, contents, gitdata, graphql, pulls
from gitops_bot.sandbox.skin import Route

REPOSITORY = "acme/judge"
ROUTES = [route for module in (accounts, comments, contents, gitdata, graphql, pulls) for route in module.ROUTES]
FIELDS = ("body", "content", "title", "head", "base", "draft", "state", "ref", "sha", "force", "tree", "base_tree")
FIELDS += ("message", "parents", "author", "branch", "encoding", "query", "variables", "path", "mode", "date", "name")

texts = st.text(max_size=12) | st.sampled_from(
    [
        "main",
        "refs/heads/x",
        "heads/main",
        "acme:topic",
        "topic",
        "a/../b",
        "1",
        "²",
        "base64",
        "utf-8",
        "f" * 40,
        "\ud800",
    ]
    + [
        "eyes",
        "open",
        "closed",
        "all",
        "{ viewer { login } }",
        "{ node(id: $id) { __typename } }",
        "2020-01-01T00:00:00Z",
    ]
    + [node_id(kind, 501, part) for kind in Node for part in (1, "²")]
)
leaves = st.none() | st.booleans() | st.integers() | texts
objects = st.dictionaries(st.sampled_from(FIELDS) | st.just("id"), leaves, max_size=5)
bodies = st.dictionaries(st.sampled_from(FIELDS), leaves | objects | st.lists(objects | leaves, max_size=3), max_size=6)


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    """One forge without a server, with an open pull request that has a comment."""
    made = Control(tmp_path_factory.mktemp("forge"), lambda: 1_800_000_000.0)
    made.add_account("alice", 1001, token="token-of-alice")
    made.add_repository(REPOSITORY, 501)
    made.grant(REPOSITORY, "alice", "admin")
    made.world.model.limits.hourly = 10**9
    made.push(REPOSITORY, "topic", {"a": b"x"}, "alice")
    yield made


def _send(control: Control, route: Route, path: dict[str, str], query: dict[str, str], body: bytes) -> int:
    headers = {"authorization": "token token-of-alice"}
    return dispatch(control.world, route, Request(route.method, "/", path, query, headers, body)).status


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(route=st.sampled_from(ROUTES), last=texts, body=bodies, query=st.dictionaries(texts, texts, max_size=3))
def test_nothing_crashes_a_route(
    control: Control, route: Route, last: str, body: dict[str, object], query: dict[str, str]
) -> None:
    """Any path, query and fields give an answer of the 200s or 400s."""
    names = ("username", "account_id", "issue_number", "comment_id", "pull_number", "sha", "ref", "branch", "path")
    known = query | {"sort": last, "since": last} if len(query) == 1 else query
    given_path = {"owner": "acme", "repo": "judge"} | dict.fromkeys(names, last.encode("utf-8", "replace").decode())
    status = _send(control, route, given_path, known, json.dumps(body).encode())
    assert status < 500


@given(body=st.binary(max_size=40))
def test_a_body_of_any_bytes_is_answered(control: Control, body: bytes) -> None:
    """JSON or not."""
    route = next(route for route in ROUTES if (route.method, route.path) == ("POST", "/graphql"))
    assert _send(control, route, {}, {}, body) < 500


@pytest.mark.parametrize(("content", "status"), [("\x80", 422), ("a", 422), ("eA==", 201), ("e\nA==\n", 201)])
def test_content_that_is_no_base64_is_422(control: Control, content: str, status: int) -> None:
    """Text beyond ASCII and broken padding are refused; line ends are allowed, as GitHub's own answers have them."""
    route = next(route for route in ROUTES if route.path.endswith("/git/blobs"))
    body = json.dumps({"content": content, "encoding": "base64"}).encode()
    assert _send(control, route, {"owner": "acme", "repo": "judge"}, {}, body) == status


def test_deep_json_is_refused_and_flat_json_is_not(control: Control) -> None:
    """A nesting bomb costs one refusal."""
    route = next(route for route in ROUTES if route.path == "/graphql")
    assert _send(control, route, {}, {}, b"[" * 200_000) == 400
    assert _send(control, route, {}, {}, b'{"query": "{ viewer { login } }"}') == 200


def test_nothing_is_written_beside_the_repository(control: Control) -> None:
    """After all of the above the root holds the one bare repository."""
    assert [entry.name for entry in control.world.root.iterdir()] == ["501.git"]
    assert not (Path(control.git_folder(REPOSITORY)) / "sandbox.index").exists()


def test_a_request_beyond_the_cap_is_413(forge) -> None:
    """Over 8 MB nothing is read into the forge; a file of 4 MB in base64 fits."""
    there = f"{forge.sandbox.url}/repos/{REPOSITORY}/git/blobs"
    headers = {"Authorization": f"token {forge.tokens['alice']}"}
    fits = requests.post(there, json={"content": "x" * 4_194_304}, headers=headers, timeout=120)
    assert fits.status_code == 201
    larger = requests.post(there, json={"content": "x" * 4_194_305}, headers=headers, timeout=120)
    assert larger.status_code == 422
    beyond = requests.post(there, data=b"x" * (8 * 1024 * 1024 + 1), headers=headers, timeout=120)
    assert beyond.status_code == 413


def test_many_at_once_leave_one_reaction_and_every_comment(forge) -> None:
    """Eight clients at one instant: one 201, seven 200, eight comments with their own ids."""
    number = forge.draft().number
    written = forge.sandbox.comment(REPOSITORY, number, "carol", "text")
    here = f"{forge.sandbox.url}/repos/{REPOSITORY}/issues"
    headers = {"Authorization": f"token {forge.tokens['alice']}"}
    statuses: list[int] = []
    gate = threading.Barrier(8)

    def act() -> None:
        gate.wait(60)
        reaction = f"{here}/comments/{written}/reactions"
        answer = requests.post(reaction, json={"content": "eyes"}, headers=headers, timeout=120)
        statuses.append(answer.status_code)
        requests.post(f"{here}/{number}/comments", json={"body": "mine"}, headers=headers, timeout=120)

    threads = [threading.Thread(target=act) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(statuses) == [200] * 7 + [201]
    assert len(forge.sandbox.reactions(written)) == 1
    assert len({comment.id for comment in forge.sandbox.comments(REPOSITORY, number)}) == 9
