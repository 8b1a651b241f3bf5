"""`POST /hooks/actions` of a running workspace, with an issuer on loopback: a run of the one workflow leaves a hint."""

import itertools
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from sqlalchemy import func, select

from gitops_bot.core.captures import CaptureState
from gitops_bot.core.ledger import EventKind
from gitops_bot.sandbox.events import Event
from gitops_bot.sandbox.http import Sandbox
from gitops_bot.sandbox.payloads import event_payload
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.tables import claims
from gitops_bot.store.work_tables import used_tokens
from tests.decisions import rules_of
from tests.forge_stage import APPROVE, WITH_WRITE, ForgeStage, accounts, populate
from tests.hook_stage import post, secret_file
from tests.served_stage import BOT, Served, serve
from tests.store_fixtures import SqliteTemplates
from tests.workflow_runs import BRANCH, REPOSITORY, REPOSITORY_ID, WORKFLOW, Issuer, start

pytestmark = pytest.mark.xdist_group("served")
SETTINGS = (
    '[forge]\nrepositories = ["{repository}"]\nactions_issuer = "{issuer}"\nwebhook_secret_files = ["{secret}"]\n'
)


@dataclass
class Scene:
    """A workspace, the broker's duties over the same rows, the local GitHub, and the issuer of runs' tokens."""

    served: Served
    stage: ForgeStage
    issuer: Issuer
    reader: Database

    @property
    def audience(self) -> str:
        """The workspace's origin."""
        return f"http://localhost:{self.served.port}"

    def token(self, **changes: Any) -> str:
        """Issue the token of a run."""
        return self.issuer.token(self.audience, **changes)

    def hand_in(self, token: str | None, comment: int, number: int | None, **changes: Any) -> requests.Response:
        """Hand a hint in, as a run does."""
        hint = {"repository_id": REPOSITORY_ID, "comment_id": comment, "pull_request": number, **changes}
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return requests.post(f"{self.served.url}/hooks/actions", json=hint, headers=headers, timeout=60)

    def rows(self) -> int:
        """Count the claims."""
        with self.stage.database.read() as tx:
            found: int = tx.execute(select(func.count()).select_from(claims)).scalar_one()
            return found

    def used(self) -> int:
        """Count the tokens that were used up."""
        with self.reader.read() as tx:
            found: int = tx.execute(select(func.count()).select_from(used_tokens)).scalar_one()
            return found


def build(home: Path, templates: SqliteTemplates) -> Iterator[Scene]:
    """Set everything up."""
    issuer = start()
    settings = SETTINGS.format(repository=REPOSITORY, issuer=issuer.url, secret=secret_file(home))
    with Sandbox.start(home / "github") as github:
        token = accounts(github)
        populate(github)
        for served in serve(home, templates, settings):
            folder = home / "stage"
            folder.mkdir()
            broker = served.database.open(Role.BROKER)
            stage = ForgeStage(broker, rules_of(WITH_WRITE), folder=folder, github=github, token=token)
            yield Scene(served, stage, issuer, served.database.open(Role.WORKSPACE))
            stage.adapter.disconnect()
    issuer.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, sqlite_templates: SqliteTemplates) -> Iterator[Scene]:
    yield from build(tmp_path_factory.mktemp("scene"), sqlite_templates)


@pytest.fixture
def whole(tmp_path: Path, sqlite_templates: SqliteTemplates) -> Iterator[Scene]:
    """A scene of a test's own."""
    yield from build(tmp_path, sqlite_templates)


@pytest.fixture(scope="module")
def capture(scene: Scene) -> Capture:
    """A capture whose pull request is open."""
    return scene.stage.opened()


def told(response: requests.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    document: dict[str, Any] = response.json()
    return document


def test_a_run_leaves_a_hint_and_nothing_else(scene: Scene, capture: Capture) -> None:
    """The ask is open before and after: only the broker, which reads the comment anew, decides."""
    comment = scene.stage.say(capture, "mallory", "/capture-status")
    before = scene.rows()
    first = told(scene.hand_in(scene.token(), comment, capture.pull_request))
    assert first == {"decision": "pending", "reason": "new", "ask": capture.ask}
    assert scene.rows() == before + 1
    again = told(scene.hand_in(scene.token(), comment, capture.pull_request))
    assert (again, scene.rows()) == (first, before + 1)


ATTACKS: dict[str, dict[str, Any]] = {
    "another repository": {"repository": "mallory/ops", "repository_id": "666"},
    "another repository under our name": {"repository_id": "666"},
    "a fork": {
        "repository": "mallory/ops",
        "repository_id": "78",
        "workflow_ref": f"mallory/ops/{WORKFLOW}@{BRANCH}",
        "job_workflow_ref": f"mallory/ops/{WORKFLOW}@{BRANCH}",
    },
    "a fork under our name": {"repository_id": "78"},
    "another workflow": {"workflow_ref": f"{REPOSITORY}/.github/workflows/agent.yml@{BRANCH}"},
    "a workflow that is called": {"job_workflow_ref": f"mallory/tools/{WORKFLOW}@{BRANCH}"},
    "another branch": {"ref": "refs/heads/agent"},
    "a branch's own workflow": {"workflow_ref": f"{REPOSITORY}/{WORKFLOW}@refs/heads/agent"},
    "a pull request's merge": {
        "ref": "refs/pull/1/merge",
        "workflow_ref": f"{REPOSITORY}/{WORKFLOW}@refs/pull/1/merge",
    },
    "another event": {"event_name": "push"},
    "pull_request_target": {"event_name": "pull_request_target"},
    "expired": {"iat": 1_700_000_000, "nbf": 1_700_000_000, "exp": 1_700_000_300},
    "another issuer": {"iss": "https://token.actions.githubusercontent.com"},
    "another audience": {"aud": "https://github.com/acme"},
    "another key": {"signer": "two", "kid": "one"},
}


@pytest.mark.parametrize("name", ATTACKS)
def test_the_token_of_anything_else_is_refused(scene: Scene, capture: Capture, name: str) -> None:
    before, used = scene.rows(), scene.used()
    response = scene.hand_in(scene.token(**ATTACKS[name]), 4_000_000, capture.pull_request)
    assert response.status_code in (401, 403), response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    assert (scene.rows(), scene.used()) == (before, used)
    assert told(scene.hand_in(scene.token(), 1, None, pull_request=9_999)) == {
        "decision": "ignored", "reason": "no_ask", "ask": None,
    }  # fmt: skip


def test_without_a_token_or_with_one_of_ours_nobody_comes_in(scene: Scene, capture: Capture) -> None:
    before = scene.rows()
    for token in (None, "", "x", scene.served.token, scene.served.loop_token, scene.served.person("alice")[1]):
        assert scene.hand_in(token, 5, capture.pull_request).status_code == 401
    cookie = {"Cookie": f"__Host-gitops-bot={scene.served.person('alice')[1]}"}
    sent = requests.post(f"{scene.served.url}/hooks/actions", json={}, headers=cookie, timeout=60)
    assert sent.status_code in (401, 403)
    assert scene.rows() == before


def test_a_token_is_good_once(scene: Scene, capture: Capture) -> None:
    token = scene.token()
    one, other = (scene.stage.say(capture, "carol", "/capture-help") for _ in range(2))
    assert told(scene.hand_in(token, one, capture.pull_request))["decision"] == "pending"
    before = scene.rows()
    for comment in (one, other):
        response = scene.hand_in(token, comment, capture.pull_request)
        assert (response.status_code, response.json()["reason"]) == (403, "not_authorised")
    assert scene.rows() == before
    assert told(scene.hand_in(scene.token(), other, capture.pull_request))["decision"] == "pending"


def test_a_hint_is_of_the_run_s_own_repository(scene: Scene, capture: Capture) -> None:
    before = scene.rows()
    response = scene.hand_in(scene.token(), 5, capture.pull_request, repository_id=78)
    assert (response.status_code, scene.rows()) == (403, before)


def test_what_is_no_hint_is_refused(scene: Scene, capture: Capture) -> None:
    before = scene.rows()
    headers = {"Authorization": f"Bearer {scene.token()}"}
    url = f"{scene.served.url}/hooks/actions"
    form = requests.post(url, data={"comment_id": 5}, headers=headers, timeout=60)
    large = requests.post(url, data=b"x" * 70_000, headers={**headers, "Content-Type": "application/json"}, timeout=60)
    more = scene.hand_in(scene.token(), 5, capture.pull_request, decision="approve")
    text = scene.hand_in(scene.token(), 5, capture.pull_request, comment_id="5; rm")
    got = requests.get(url, headers=headers, timeout=60)
    assert [one.status_code for one in (form, large, more, text, got)] == [415, 413, 422, 422, 405]
    assert scene.rows() == before


def test_a_rotated_key_is_taken_without_a_restart(scene: Scene, capture: Capture) -> None:
    assert scene.hand_in(scene.token(), 1, 9_999).status_code == 200
    scene.issuer.published = ["two", "one"]
    assert scene.hand_in(scene.token(signer="two"), 1, 9_999).status_code == 200
    assert scene.hand_in(scene.token(signer="three", kid="two"), 1, 9_999).status_code == 401


def test_the_run_the_poll_and_the_repetition_are_one_claim_and_one_answer(scene: Scene, capture: Capture) -> None:
    """One comment by a run, by the poll, by a second run: one claim, one vote, one reaction; then how it ended."""
    stage = scene.stage
    comment = stage.say(capture, "alice", APPROVE)
    first = told(scene.hand_in(scene.token(), comment, capture.pull_request))
    assert first["decision"] == "pending"
    stage.look()
    assert told(scene.hand_in(scene.token(), comment, capture.pull_request)) == {
        "decision": "approve", "reason": "settled", "ask": capture.ask,
    }  # fmt: skip
    stage.look()
    assert sorted(stage.reactions(comment)) == ["eyes", "rocket"]
    seen = [one for one in stage.ledger() if one["kind"] == EventKind.COMMENT_SEEN]
    assert [one["facts"]["comment_id"] for one in seen].count(comment) == 1
    late = stage.say(capture, "bob", APPROVE)
    assert told(scene.hand_in(scene.token(), late, capture.pull_request))["decision"] == "pending"
    stage.look()
    after = told(scene.hand_in(scene.token(), late, capture.pull_request))
    assert (after["decision"], after["reason"]) == ("approve", "already_settled")
    assert stage.replies(capture.pull_request or 0) != []


def event_of(scene: Scene, comment: int) -> bytes:
    """Write the event as the forge does, whole."""
    github = scene.stage.github
    with github.world.lock:
        model = github.world.model
        said = model.comments.comment(model.directory.repositories[REPOSITORY_ID], comment)
        there = Event("issue_comment", "created", REPOSITORY_ID, said.number, said.author_id, said)
        return event_payload(github.world, there)


def handled(scene: Scene, folder: Path, raw: bytes, **changes: str) -> dict[str, str]:
    """Run the command over an event, as a step of a workflow; give what it says."""
    (folder / "event.json").write_bytes(raw)
    environment = {
        "PATH": os.environ["PATH"],
        "GITHUB_EVENT_NAME": "issue_comment",
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        **scene.issuer.environment(),
        **changes,
    }
    command = [*BOT, "handle-event", "--broker", scene.audience]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=True)
    return dict(part.split("=", 1) for part in done.stdout.split())


def test_the_whole_way_from_a_comment_to_the_answer(whole: Scene, tmp_path: Path) -> None:
    """A comment, the run as a process, the workspace, the broker that reads it anew; the poll saw it as well, before
    and after, and a re-run too: one claim, one vote, one reply to a near miss, one reaction of each kind."""
    stage, capture = whole.stage, whole.stage.opened()
    number = capture.pull_request
    assert number is not None
    near = stage.say(capture, "alice", "/aprove-capture")
    assert handled(whole, tmp_path, event_of(whole, near)) == {
        "decision": "pending", "reason": "new", "ask": capture.ask,
    }  # fmt: skip
    stage.look()
    assert handled(whole, tmp_path, event_of(whole, near))["reason"] == "near_miss"
    stage.look()
    assert len(stage.replies(number)) == 1
    comment = stage.say(capture, "alice", APPROVE)
    stage.look()
    raw = event_of(whole, comment)
    assert handled(whole, tmp_path, raw) == {"decision": "approve", "reason": "settled", "ask": capture.ask}
    assert handled(whole, tmp_path, raw)["decision"] == "approve"
    stage.look()
    assert (whole.rows(), sorted(stage.reactions(comment))) == (2, ["eyes", "rocket"])
    assert len(stage.replies(number)) == 1


def test_by_hook_by_run_and_by_poll_in_every_order_it_is_one_claim(whole: Scene) -> None:
    """Two processes hear of a comment in three ways; the run's re-run and the hook's replay come on top."""
    stage, capture = whole.stage, whole.stage.opened()

    def by_run(comment: int) -> None:
        told(whole.hand_in(whole.token(), comment, capture.pull_request))

    def by_hook(comment: int) -> None:
        assert post(whole.served.url, "issue_comment", event_of(whole, comment)).status_code == 202

    def by_poll(_comment: int) -> None:
        stage.look(pulls_too=False)

    for count, order in enumerate(itertools.permutations((by_run, by_hook, by_poll)), 1):
        comment = stage.say(capture, "alice", "/capture-status")
        for way in (*order, by_run, by_hook):
            way(comment)
        stage.look()
        assert whole.rows() == count
        assert stage.reactions(comment).count("eyes") <= 1
    seen = [one["facts"]["comment_id"] for one in stage.ledger() if one["kind"] == EventKind.COMMENT_SEEN]
    assert len(seen) == len(set(seen)) == 6


def test_a_hint_of_a_deleted_or_rewritten_comment_does_nothing(whole: Scene, tmp_path: Path) -> None:
    """The event says approve; what counts is what the forge says now."""
    stage, capture = whole.stage, whole.stage.opened()
    gone, edited = (stage.say(capture, "alice", APPROVE) for _ in range(2))
    events = [event_of(whole, one) for one in (gone, edited)]
    stage.github.delete_comment(REPOSITORY, gone, "alice")
    stage.github.edit_comment(REPOSITORY, edited, "bob", f"{APPROVE} ")
    for raw in events:
        assert handled(whole, tmp_path, raw)["decision"] == "pending"
    stage.settle()
    assert [handled(whole, tmp_path, raw)["decision"] for raw in events] == ["ignored", "refused"]
    assert stage.capture(capture).state is CaptureState.REQUESTED


def test_without_the_workspace_the_poll_does_it_all(whole: Scene, tmp_path: Path) -> None:
    stage, capture = whole.stage, whole.stage.opened()
    whole.served.process.kill()
    whole.served.process.wait()
    comment = stage.say(capture, "alice", APPROVE)
    said = handled(whole, tmp_path, event_of(whole, comment))
    assert (said["decision"], said["reason"], whole.rows()) == ("pending", "unreachable", 0)
    assert stage.by_bot(capture.pull_request or 0) != []
    stage.look()
    assert sorted(stage.reactions(comment)) == ["eyes", "rocket"]


def test_nothing_of_a_token_is_in_the_log(scene: Scene) -> None:
    token = scene.token()
    scene.hand_in(token, 1, 9_999)
    scene.hand_in(token, 1, 9_999)
    assert token.rpartition(".")[2] not in scene.served.log


def test_a_workspace_without_a_forge_has_no_such_door(tmp_path: Path, sqlite_templates: SqliteTemplates) -> None:
    for served in serve(tmp_path, sqlite_templates):
        hint = {"repository_id": 1, "comment_id": 1, "pull_request": 1}
        headers = {"Authorization": "Bearer a.b.c"}
        sent = requests.post(f"{served.url}/hooks/actions", json=hint, headers=headers, timeout=60)
        assert (sent.status_code, sent.json()["reason"]) == (404, "not_found")
