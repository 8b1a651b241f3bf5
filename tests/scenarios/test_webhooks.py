"""A comment by every way at once: the hook, another hook, a redelivery, a replay, the poll; one claim comes of it.

The local GitHub delivers to two workspaces that run over the broker's database.
"""

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from jsonschema import Draft7Validator
from sqlalchemy import select

from gitops_bot.core.captures import CaptureState
from gitops_bot.store.captures import Capture
from gitops_bot.store.tables import claims
from gitops_bot.store.work_tables import due, hook_deliveries
from tests.capture_stage import REPOSITORY
from tests.contract.described import FORMATS, NODE
from tests.forge_stage import APPROVE, REPOSITORY_ID, ForgeStage
from tests.hook_stage import NEXT_SECRET, SECRET, comment_body, counts, grown, post, secret_file, workspace_over
from tests.store_fixtures import FreshDatabase

pytestmark = pytest.mark.xdist_group("webhooks")
SCHEMAS = NODE / "webhooks-schemas" / "schema.json"


@dataclass
class Hooked:
    """A stage whose GitHub delivers to two processes, by a hook of the repository and by one like an App's."""

    stage: ForgeStage
    rows: FreshDatabase
    urls: tuple[str, str]
    hooks: tuple[int, int]

    def claims(self) -> int:
        with self.stage.database.read() as tx:
            return len(tx.execute(select(claims.c.id)).all())

    def due(self, duty: str) -> int:
        """Milliseconds until a duty is due."""
        with self.stage.database.read() as tx:
            at: int = tx.execute(select(due.c.due_at).where(due.c.duty == duty)).scalar_one()
            return at - tx.now

    def delivered(self) -> None:
        assert self.stage.github.wait_for_deliveries()


@pytest.fixture
def hooked(forge: ForgeStage, sqlite_database: FreshDatabase, tmp_path: Path) -> Iterator[Hooked]:
    path = secret_file(tmp_path)
    with ExitStack() as stack:
        urls = [
            stack.enter_context(workspace_over(tmp_path / name, sqlite_database.owner_url, [path]))
            for name in ("one", "two")
        ]
        secret = SECRET.decode()
        hooks = [forge.github.add_hook(REPOSITORY, f"{url}/hooks/github", secret) for url in urls]
        yield Hooked(forge, sqlite_database, (urls[0], urls[1]), (hooks[0], hooks[1]))


def one_of_everything(hooked: Hooked, capture: Capture, comment: int, replies: int) -> None:
    stage = hooked.stage
    stage.look()
    hooked.delivered()
    stage.look()
    assert hooked.claims() == 1
    seen = [entry for entry in stage.ledger() if entry["kind"] == "forge.comment_seen"]
    assert len(seen) == 1
    assert len(stage.replies(1)) == replies
    reactions = stage.reactions(comment)
    assert len(reactions) == len(set(reactions))


def test_a_delivered_approve_acts_without_any_poll(hooked: Hooked) -> None:
    capture = hooked.stage.opened()
    hooked.stage.say(capture, "alice", APPROVE)
    hooked.delivered()
    hooked.stage.settle()
    assert hooked.stage.capture(capture).state is CaptureState.RESCOPED


def test_what_is_delivered_has_the_shape_that_github_describes(hooked: Hooked) -> None:
    """And it is what a delivery of the real one would leave."""
    capture = hooked.stage.opened()
    hooked.stage.say(capture, "alice", "/capture-help")
    hooked.delivered()
    schema = {**json.loads(SCHEMAS.read_text(encoding="utf-8")), "$ref": "#/definitions/issue_comment_event"}
    schema.pop("oneOf", None)
    sent = [one for one in hooked.stage.github.deliveries(REPOSITORY, hooked.hooks[0]) if one.event == "issue_comment"]
    assert sent
    for one in sent:
        Draft7Validator(schema, format_checker=FORMATS).validate(json.loads(one.payload))
        assert one.status_code == 202
    assert hooked.claims() == 1


WAYS = ("repository hook", "app hook", "redelivery", "replay", "poll")


@pytest.mark.parametrize("number", range(3))
def test_one_comment_by_every_way_in_any_order_is_one_claim(hooked: Hooked, number: int) -> None:
    """One claim, one reply, no reaction twice, whichever way it is heard of first."""
    stage = hooked.stage
    capture = stage.opened()
    stage.github.hold_deliveries()
    comment = stage.say(capture, "alice", "/capture-help")
    orders = list(itertools.permutations(WAYS))
    order = orders[number * len(orders) // 3 + number]
    sent = stage.github.deliveries(REPOSITORY, hooked.hooks[0])
    first = next(one for one in sent if one.event == "issue_comment")
    for way in order:
        match way:
            case "repository hook":
                assert post(hooked.urls[0], first.event, first.payload, guid=first.guid).status_code == 202
            case "app hook":
                other = json.loads(first.payload) | {"installation": {"id": 1, "node_id": "x"}}
                assert post(hooked.urls[1], first.event, json.dumps(other).encode()).status_code == 202
            case "redelivery":
                assert post(hooked.urls[1], first.event, first.payload, guid=first.guid).status_code == 202
            case "replay":
                assert post(hooked.urls[number % 2], first.event, first.payload).status_code == 202
            case _:
                stage.look()
    stage.github.release_deliveries(backwards=True)
    one_of_everything(hooked, capture, comment, replies=1)


def test_one_review_by_every_way_is_one_hint(hooked: Hooked) -> None:
    """Delivered by two hooks, sent again, replayed under a new id, edited; and the poll sees none of it."""
    stage = hooked.stage
    stage.opened()
    review = stage.github.review(REPOSITORY, 1, "alice", APPROVE, "APPROVE")
    hooked.delivered()
    sent = stage.github.deliveries(REPOSITORY, hooked.hooks[0])
    first = next(one for one in sent if one.event == "pull_request_review")
    assert first.status_code == 202
    stage.github.redeliver(REPOSITORY, hooked.hooks[0], first.id)
    for url in hooked.urls:
        assert post(url, first.event, first.payload).status_code == 202
        assert post(url, first.event, first.payload + b" ", guid=first.guid).status_code == 202
    stage.settle()
    stage.github.edit_review(REPOSITORY, 1, review, "alice", "/capture-help")
    hooked.delivered()
    stage.look()
    assert hooked.claims() == 1
    assert len(stage.replies(1)) == 1
    assert stage.status(1)
    capture = stage.requested()
    assert stage.capture(capture).state is CaptureState.REQUESTED


def test_a_lost_delivery_is_found_by_the_poll_and_a_doubled_one_changes_nothing(hooked: Hooked) -> None:
    stage = hooked.stage
    capture = stage.opened()
    stage.github.mishap("drop", 2)
    comment = stage.say(capture, "alice", "/capture-help")
    hooked.delivered()
    assert hooked.claims() == 0
    one_of_everything(hooked, capture, comment, replies=1)
    stage.github.mishap("duplicate", 2)
    stage.say(capture, "bob", "/capture-help")
    hooked.delivered()
    stage.look()
    assert hooked.claims() == 2
    assert len(stage.replies(1)) == 2


def test_an_edit_of_a_claimed_comment_is_noted_by_the_poll_that_it_hurries(hooked: Hooked) -> None:
    stage = hooked.stage
    capture = stage.opened()
    comment = stage.say(capture, "alice", "/capture-help")
    hooked.delivered()
    stage.settle()
    assert hooked.due("poll") > 60_000
    body = comment_body(REPOSITORY_ID, 1, comment, "/capture-help", action="edited")
    assert post(hooked.urls[0], "issue_comment", body).status_code == 202
    assert hooked.due("poll") > 60_000, "it is not newer than what was claimed"
    later = json.loads(body)
    later["comment"]["updated_at"] = "2999-01-01T00:00:00Z"
    assert post(hooked.urls[0], "issue_comment", json.dumps(later).encode()).status_code == 202
    assert hooked.due("poll") <= 0
    assert hooked.claims() == 1


def test_what_becomes_of_our_pull_request_hurries_who_reads_it_and_of_another_nobody(hooked: Hooked) -> None:
    stage = hooked.stage
    capture = stage.opened()
    hooked.delivered()
    stage.settle()
    assert hooked.due("pulls") > 60_000

    def told(number: int, repository: int = REPOSITORY_ID) -> bytes:
        pull = {"number": number, "draft": False}
        document = {"action": "closed", "number": number, "pull_request": pull, "repository": {"id": repository}}
        return json.dumps(document).encode()

    assert post(hooked.urls[0], "pull_request", told(99)).status_code == 202
    assert post(hooked.urls[0], "pull_request", told(1, 1)).status_code == 202
    assert hooked.due("pulls") > 60_000
    assert post(hooked.urls[0], "pull_request", told(1)).status_code == 202
    assert hooked.due("pulls") <= 0
    stage.settle()
    assert stage.capture(capture).state is CaptureState.REQUESTED, "the body said closed, the forge did not"


def test_a_pressed_button_shows_the_status_again_and_decides_nothing(hooked: Hooked) -> None:
    """Lifecycle 39: a button of the check run is an update of what is shown, once a minute, whoever presses."""
    stage = hooked.stage
    capture = stage.opened()
    hooked.delivered()
    stage.settle()
    ask = stage.capture(capture).ask
    before = counts(hooked.rows)

    def pressed(identifier: str, external: str | None = ask) -> bytes:
        document = {
            "action": "requested_action",
            "check_run": {"external_id": external},
            "requested_action": {"identifier": identifier},
            "repository": {"id": REPOSITORY_ID},
        }
        return json.dumps(document).encode()

    assert post(hooked.urls[0], "check_run", pressed("approve")).status_code == 202
    assert grown(before, counts(hooked.rows)) == {}
    assert post(hooked.urls[0], "check_run", pressed("refresh", "0" * 26)).status_code == 202
    for number in range(5):
        assert post(hooked.urls[number % 2], "check_run", pressed("refresh") + b" " * number).status_code == 202
    changed = grown(before, counts(hooked.rows))
    assert changed.pop("hook_deliveries") == 12
    changed.pop("due", None)
    assert changed in ({"effects": 1}, {"effects": 2}), "two where a minute began meanwhile"
    stage.settle()
    assert stage.capture(capture).state is CaptureState.REQUESTED
    assert hooked.claims() == 0


def test_a_secret_that_is_not_ours_leaves_nothing(hooked: Hooked) -> None:
    stage = hooked.stage
    capture = stage.opened()
    number = stage.capture(capture).pull_request or 0
    before = counts(hooked.rows)
    body = comment_body(REPOSITORY_ID, number, 5, APPROVE)
    assert post(hooked.urls[0], "issue_comment", body, secret=NEXT_SECRET).status_code == 401
    assert grown(before, counts(hooked.rows)) == {}
    assert post(hooked.urls[0], "issue_comment", body).status_code == 202
    with stage.database.read() as tx:
        kept = tx.execute(select(hook_deliveries.c.subject).where(hook_deliveries.c.subject == "5")).all()
    assert len(kept) == 2
    assert hooked.claims() == 1
