"""The judge is just: what GitHub publishes as an example passes, what differs from it is blamed."""

import json
from dataclasses import replace

import pytest

from gitops_bot.sandbox.http import routes
from tests.contract.described import FILE, IN_WORDS, Exchange, Judge, description, operation

COMMENT = "/repos/{owner}/{repo}/issues/comments/{comment_id}"
pytestmark = pytest.mark.slow  # `make test` installs the descriptions, `make check` does without


def test_the_descriptions_are_installed() -> None:
    """Elsewhere nothing is judged without them; here that is a failure."""
    assert FILE.exists(), "make need"


def _published() -> Exchange:
    """GitHub's own example of a comment."""
    read = json.loads(FILE.read_bytes())["components"]["examples"]["issue-comment"]["value"]
    return Exchange("GET", COMMENT, {}, b"", 200, json.dumps(read).encode())


def test_a_published_example_passes() -> None:
    assert Judge().faults(_published(), of_request=True) == ()


@pytest.mark.parametrize(
    ("name", "value"), [("id", "7"), ("created_at", "yesterday"), ("user", {}), ("url", "no address"), ("news", 1)]
)
def test_a_wrong_member_is_blamed(name: str, value: object) -> None:
    """A wrong type, a time that is none, an object that lacks members, and a member that nobody described."""
    read = {**json.loads(_published().answer), name: value}
    assert Judge().faults(replace(_published(), answer=json.dumps(read).encode()), of_request=True)


@pytest.mark.parametrize(
    "change",
    [
        {"query": {"colour": "red"}},
        {"route": "/repos/{owner}/{repo}/issues/remarks"},
        {"method": "PATCH", "body": b'{"text": "x"}'},
        {"method": "PATCH"},
        {"status": 418},
        {"status": 404, "answer": b'{"error": 1, "message": 2}'},
    ],
)
def test_a_wrong_request_or_status_is_blamed(change: dict) -> None:
    assert Judge().faults(replace(_published(), **change), of_request=True)


def test_what_can_be_null_may_be_null_and_nothing_else() -> None:
    read = json.loads(_published().answer)
    for value, fine in ((None, True), (3, False)):
        made = replace(_published(), answer=json.dumps({**read, "performed_via_github_app": value}).encode())
        assert (Judge().faults(made, of_request=True) == ()) is fine


def test_every_route_of_the_local_github_is_described() -> None:
    """It invents no address, but for its own GraphQL one, which has a schema of its own."""
    unknown = [f"{r.method} {r.path}" for r in routes() if r.path != "/graphql" and not operation(r.method, r.path)]
    # Two addresses with one answer: `git/refs/` is what the real client sends for reading a single ref.
    assert unknown == ["GET /repos/{owner}/{repo}/git/refs/{ref...}"]


def test_a_route_that_stands_in_words_is_named_by_its_operation() -> None:
    for route, path in IN_WORDS.items():
        assert route in description()["paths"][path]["get"]["description"]
