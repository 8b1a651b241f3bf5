"""What a token of an installation may do: each refusal beside what the same token may."""

from pathlib import Path

import pytest

from gitops_bot.sandbox import kept, scopes
from gitops_bot.sandbox.control import Control
from gitops_bot.sandbox.http import routes
from gitops_bot.sandbox.model import Model
from gitops_bot.sandbox.records import Session
from gitops_bot.sandbox.refusals import Rejected

ROUTES = {f"{route.method} {route.path}": route for route in routes()}
HERE = {"owner": "acme", "repo": "rig"}


@pytest.fixture
def people(tmp_path: Path) -> Control:
    made = Control(tmp_path, lambda: 1_767_225_600)
    made.add_repository("acme/rig", 5)
    made.add_repository("acme/open", 6)
    made.add_repository("acme/closed", 7, private=True)
    return made


def ask(people: Control, name: str, path: dict[str, str], **held: str) -> int:
    """Ask under a token for `acme/rig` with these permissions; the status, 200 where it passes."""
    session = Session(1, None, None, 7, repositories=(5,), permissions=tuple(held.items()))
    try:
        scopes.require(people.world.model, ROUTES[name], path, session)
    except Rejected as no:
        return no.status
    return 200


@pytest.mark.parametrize(
    ("name", "permission"),
    [
        ("POST /repos/{owner}/{repo}/check-runs", "checks"),
        ("POST /repos/{owner}/{repo}/git/refs", "contents"),
        ("POST /repos/{owner}/{repo}/pulls", "pull_requests"),
        ("POST /repos/{owner}/{repo}/issues/{issue_number}/comments", "issues"),
    ],
)
def test_a_write_takes_its_permission_and_reading_is_not_enough(people: Control, name: str, permission: str) -> None:
    assert ask(people, name, HERE, **{permission: "write"}) == 200
    assert ask(people, name, HERE, **{permission: "read"}) == 403
    assert ask(people, name, HERE, metadata="read") == 403


def test_teams_take_the_permission_for_members(people: Control) -> None:
    name = "GET /organizations/{org_id}/team/{team_id}/memberships/{username}"
    assert ask(people, name, {}, members="read") == 200
    assert ask(people, name, {}, contents="write") == 403


def test_another_repository_is_read_where_it_is_public_and_else_is_not_there(people: Control) -> None:
    read, write = "GET /repos/{owner}/{repo}", "POST /repos/{owner}/{repo}/pulls"
    held = {"pull_requests": "write"}
    assert ask(people, write, HERE, **held) == 200
    there, hidden = {"owner": "acme", "repo": "open"}, {"owner": "acme", "repo": "closed"}
    assert (ask(people, read, there, **held), ask(people, write, there, **held)) == (200, 403)
    assert (ask(people, read, hidden, **held), ask(people, write, hidden, **held)) == (404, 404)
    assert ask(people, read, {"repository_id": "7"}, **held) == 404


def test_installations_outlive_a_process(people: Control) -> None:
    app = people.add_app("desk", 70, 900)
    people.install(app, "acme", 71, repositories=("acme/rig",), permissions={"checks": "write"})
    people.suspend_installation(71)
    again = Model()
    for path, value in kept.entries(people.world.model.tables()):
        kept.put(again.tables(), path, kept.read(kept.shown(value)))
    assert again.apps.installations == people.world.model.apps.installations
    assert list(again.apps.installations) == [71]
