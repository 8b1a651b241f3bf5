"""The webhook of an app: who is told what, in GitHub's shape, and its log under the app's own JWT."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitops_bot.core.errors import Unavailable
from gitops_bot.forge.app import App as OurApp
from gitops_bot.sandbox.hooks import Delivery
from gitops_bot.sandbox.records import App
from tests.app_keys import APP, app_at, keys
from tests.integration.sandbox.test_webhooks import Receiver, _check

REPOSITORY = "acme/judge"
LOG = "/app/hook/deliveries"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()
    made.thread.join()


@pytest.fixture
def app(forge, receiver: Receiver, tmp_path: Path) -> App:
    """An app with a webhook, its ping taken."""
    forge.now = int(time.time())
    made = forge.sandbox.add_app("desk", APP, 2002, keys("ours")[1])
    forge.sandbox.grant(REPOSITORY, "desk[bot]", "write")
    forge.sandbox.set_app_hook(made, receiver.url, "s")
    assert forge.sandbox.wait_for_deliveries()
    ((headers, ping),) = receiver.all()
    assert headers["x-github-hook-installation-target-type"] == "integration"
    assert ping["hook"]["app_id"] == APP
    _check("ping$event", ping)
    return made


@pytest.fixture
def ours(forge, app: App) -> Iterator[OurApp]:
    made = app_at(forge.sandbox, lambda: forge.now)
    yield made
    made.close()


def told(forge, receiver: Receiver) -> list[tuple[str, dict]]:
    assert forge.sandbox.wait_for_deliveries()
    return [(headers["x-github-event"], body) for headers, body in receiver.all()]


def check_of(forge, app: App, actions: tuple[str, ...] = ("refresh",)) -> int:
    from gitops_bot.sandbox.checks import Wish

    number = forge.draft(f"capture/{app.slug}").number
    head = forge.sandbox.thread(REPOSITORY, number).pull.head_sha
    buttons = tuple({"label": one, "description": one, "identifier": one} for one in actions)
    with forge.sandbox.world.lock:
        repository = forge.sandbox.world.model.directory.repositories[501]
        wish = Wish(name="n", external_id="e", output=("t", "s", None), actions=buttons)
        return forge.sandbox.world.model.checks.create(repository, app, head, wish, forge.now).id


def test_an_app_is_told_of_its_repositories_with_its_installation(forge, app: App, receiver: Receiver) -> None:
    number = forge.draft().number
    forge.sandbox.comment(REPOSITORY, number, "carol", "text")
    made = forge.sandbox.review(REPOSITORY, number, "carol", "text")
    forge.sandbox.edit_review(REPOSITORY, number, made, "carol", "other")
    heard = told(forge, receiver)
    names = [f"{name}${body['action']}" for name, body in heard]
    assert names == [
        *("pull_request$opened", "issue_comment$created", "pull_request_review$submitted", "pull_request_review$edited")
    ]
    for name, (_, body) in zip(names, heard, strict=True):
        assert body["installation"]["id"] == APP
        _check(name, body)
    assert heard[2][1]["review"]["state"] == "commented"
    assert heard[3][1]["changes"] == {"body": {"from": "text"}}


def test_a_pressed_button_is_told_to_its_own_app_alone(forge, app: App, receiver: Receiver) -> None:
    other = forge.sandbox.add_app("other", 78, 2003)
    hook = forge.sandbox.add_hook(REPOSITORY, receiver.url, "s")
    check, foreign = check_of(forge, app), check_of(forge, other)
    told(forge, receiver)
    forge.sandbox.press(REPOSITORY, check, "carol", "refresh")
    forge.sandbox.press(REPOSITORY, foreign, "carol", "refresh")
    ((name, body),) = told(forge, receiver)
    assert (name, body["action"], body["requested_action"]) == (
        "check_run",
        "requested_action",
        {"identifier": "refresh"},
    )
    assert (body["check_run"]["id"], body["check_run"]["external_id"], body["sender"]["login"]) == (check, "e", "carol")
    _check("check_run$requested_action", body)
    assert [one.event for one in forge.sandbox.deliveries(REPOSITORY, hook)].count("check_run") == 0


def test_what_becomes_of_an_installation_is_told_and_while_suspended_nothing_else(
    forge, app: App, receiver: Receiver
) -> None:
    number = forge.draft().number
    told(forge, receiver)
    forge.sandbox.suspend_installation(APP)
    forge.sandbox.comment(REPOSITORY, number, "carol", "unheard")
    forge.sandbox.suspend_installation(APP, suspended=False)
    forge.sandbox.comment(REPOSITORY, number, "carol", "heard")
    forge.sandbox.remove_installation(APP)
    forge.sandbox.comment(REPOSITORY, number, "carol", "unheard")
    forge.sandbox.install(app, "acme", 9_001)
    heard = told(forge, receiver)
    assert [f"{name}${body['action']}" for name, body in heard] == [
        *("installation$suspend", "installation$unsuspend", "issue_comment$created"),
        *("installation$deleted", "installation$created"),
    ]
    for name, body in heard:
        if name == "installation":
            _check(f"installation${body['action']}", body)
            assert (body["installation"]["app_id"], body["repositories"][0]["full_name"]) == (APP, REPOSITORY)


def test_its_log_is_read_page_by_page_and_sent_again(forge, app: App, ours: OurApp, receiver: Receiver) -> None:
    receiver.status = 500
    number = forge.draft().number
    for body in ("one", "two"):
        forge.sandbox.comment(REPOSITORY, number, "carol", body)
    told(forge, receiver)
    newest: tuple[Delivery, ...] = forge.sandbox.app_deliveries(APP)
    first = ours.wire.send("GET", LOG, query={"per_page": 3})
    assert [row["id"] for row in first.data] == [one.id for one in newest[:3]]
    assert {(row["repository_id"], row["installation_id"]) for row in first.data} == {(501, APP)}
    assert f"cursor={newest[2].id}" in first.headers["link"]
    last = ours.wire.send("GET", LOG, query={"per_page": 3, "cursor": str(newest[2].id)})
    assert [row["event"] for row in last.data] == ["ping"]
    assert "link" not in last.headers
    failures = ours.wire.send("GET", LOG, query={"status": "failure"})
    assert len(failures.data) == 3
    shown = ours.wire.send("GET", f"{LOG}/{newest[0].id}")
    assert json.loads(newest[0].payload) == shown.data["request"]["payload"]
    receiver.status = 202
    ours.wire.send("POST", f"{LOG}/{newest[0].id}/attempts")
    ((name, body),) = told(forge, receiver)
    assert (name, body["comment"]["body"]) == ("issue_comment", "two")
    again = forge.sandbox.app_deliveries(APP)[0]
    assert (again.guid, again.redelivery, again.installation_id) == (newest[0].guid, True, APP)
    assert ours.wire.send("GET", "/app").data["events"] == [
        "check_run", "issue_comment", "pull_request", "pull_request_review",
    ]  # fmt: skip
    assert ours.wire.send("GET", "/app/hook/config").data == {
        **{"url": receiver.url, "content_type": "json", "insecure_ssl": "0", "secret": "********"}
    }


def test_another_apps_log_is_not_seen(forge, app: App, ours: OurApp) -> None:
    forge.sandbox.add_app("other", 78, 2003, keys("theirs")[1])
    theirs = OurApp(forge.sandbox.url, 78, keys("theirs")[0], lambda: forge.now, lambda: 0.0)
    assert theirs.wire.send("GET", LOG).data == []
    (ping,) = forge.sandbox.app_deliveries(APP)
    with pytest.raises(Unavailable):
        theirs.wire.send("POST", f"{LOG}/{ping.id}/attempts")
    assert ours.wire.send("GET", f"{LOG}/{ping.id}").data["event"] == "ping"
    theirs.close()
