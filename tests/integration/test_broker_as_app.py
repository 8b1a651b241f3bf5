"""Broker and workspace as they run, as a GitHub App: told by its webhook, writing as its installation, suspended and
removed in mid-flight, and pressed by its buttons. The forge is the local one; people act on it as in a browser.

No poll comes round while a test runs: what happens, happens by a delivery.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from gitops_bot.bootstrap.trust import pin
from gitops_bot.core.asks import AskState
from gitops_bot.core.captures import CaptureState
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Channel, ClaimState
from gitops_bot.sandbox.checks import Check, Wish
from gitops_bot.sandbox.hooks import Delivery
from gitops_bot.sandbox.http import Sandbox
from gitops_bot.sandbox.records import App
from gitops_bot.store import agents, asks, captures, claims
from gitops_bot.store import ledger as store_ledger
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind, TokenScope
from tests.app_keys import APP, keys
from tests.capture_stage import REPOSITORY
from tests.forge_stage import BOT_ID, PEOPLE, REPOSITORY_ID
from tests.ports import free_port
from tests.served_stage import BOT, PATIENCE, POLICIES, until_ready
from tests.store_fixtures import SqliteTemplates

pytestmark = pytest.mark.xdist_group("served")
INSTALLATION = 501
LOGIN = "gitops-bot[bot]"
SECRET = "s" * 40
BROKER = """
import sys
from gitops_bot.broker import pacing
from gitops_bot.cli import main
from gitops_bot.forge import app
app.AGAIN, pacing.WINDOWS = 1.0, ()
main(sys.argv[1:])
"""
"""A broker that looks again for an installation after a second and not after a minute, and whose writes are not paced:
these tests write in a minute what elsewhere is written in hours."""
CAPTURE = """
import json, pathlib, sys
pathlib.Path("trace.jsonl").write_text(json.dumps(json.load(sys.stdin)))
pathlib.Path("knobs.json").write_text(json.dumps({"v": 1, "knobs": {"MOCK_TTFT_MS": "1.5"}}))
"""


def until(seen: Callable[[], Any], what: Callable[[], object] = str) -> Any:
    end = time.monotonic() + 2 * PATIENCE
    while time.monotonic() < end:
        if found := seen():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not in time: {what()}")


@dataclass
class House:
    """The two processes, the forge, and the hands of an agent and of people."""

    folder: Path
    url: str
    github: Sandbox
    app: App
    database: Database
    token: str
    regimes: int = 0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            arguments = [*command, "--config", str(self.folder / "gitops-bot.toml")]
            self.processes.append(subprocess.Popen(arguments, cwd=self.folder, stdout=log, stderr=log))
        return self.processes[-1]

    def said(self) -> str:
        return (self.folder / "broker.log").read_text()[-3000:]

    def asked(self) -> Capture:
        """Ask for a new trace as an agent; the capture once its pull request, status and check run are there."""
        self.regimes += 1
        regime = {"model": "acme/tiny", "concurrency": self.regimes, "prefixes": 2, "max_tokens": 8}
        body = {**regime, "long_tokens": 0, "long_frac": "0.0000", "why": "to see"}
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = requests.post(f"{self.url}/api/v1/captures", json=body, headers=headers, timeout=60)
        assert answer.status_code in (200, 201, 202), answer.text
        handle = answer.json()["handle"]
        until(lambda: self.capture(handle).status_comment and self.checks(handle), self.said)
        return self.capture(handle)

    def capture(self, handle: str) -> Capture:
        with self.database.read() as tx:
            found = captures.get(tx, handle)
        assert found is not None
        return found

    def ask_state(self, of: Capture) -> AskState:
        with self.database.read() as tx:
            found = asks.get(tx, self.capture(of.id).ask or "")
        assert found is not None
        return found.state

    def checks(self, handle: str) -> list[Check]:
        """The check runs of our App on the pull request's head."""
        head = self.capture(handle).head
        found = () if head is None else self.github.checks(REPOSITORY, head)
        return [check for check in found if check.app.id == APP and check.name == "capture request"]

    def approve(self, of: Capture, login: str = "alice") -> int:
        assert of.pull_request is not None
        return self.github.comment(REPOSITORY, of.pull_request, login, f"/approve-capture {of.trace_id}")

    def claim(self, comment: int) -> ClaimState | None:
        with self.database.read() as tx:
            found = claims.by_source(tx, Channel.FORGE, f"{REPOSITORY_ID}:{comment}")
        return None if found is None else found.state

    def until_measured(self, of: Capture) -> None:
        """Wait until a capture is ready, shown so, and recorded."""
        until(lambda: self.capture(of.id).state is CaptureState.READY, self.said)
        until(lambda: [check.conclusion for check in self.checks(of.id)] == ["success"], self.said)
        until(lambda: not self.is_draft(of), self.said)

    def is_draft(self, of: Capture) -> bool:
        pull = self.github.thread(REPOSITORY, of.pull_request or 0).pull
        return pull is not None and pull.draft

    def written(self, of: Capture) -> dict[int, str]:
        """What the bot wrote on a pull request, by the comment's id."""
        every = self.github.comments(REPOSITORY, of.pull_request or 0)
        return {one.id: one.body for one in every if one.author_id == BOT_ID}

    def delivered(self) -> tuple[Delivery, ...]:
        """What was delivered to the App, newest first."""
        assert self.github.wait_for_deliveries()
        return self.github.app_deliveries(APP)

    def doctor(self) -> dict[str, Any]:
        command = [*BOT, "doctor", "--json", "--config", str(self.folder / "gitops-bot.toml")]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=self.folder, check=False)
        found: dict[str, Any] = json.loads(ran.stdout)
        assert ran.returncode == (0 if found["ok"] else 1)
        return found

    def changes(self) -> list[object]:
        """What the ledger says became of the installation."""
        with self.database.read() as tx:
            found = [entry.document for entry in store_ledger.sealed(tx, 0, 100_000)]
        return [one["facts"]["action"] for one in found if one["kind"] == "forge.installation_changed"]

    def press(self, of: Capture, check: Check, login: str, identifier: str) -> int:
        """Press a button on the forge's page; the answer's status."""
        form = {"login": login, "check": str(check.id), "identifier": identifier}
        url = f"{self.github.url}/{REPOSITORY}/pull/{of.pull_request}/press"
        return requests.post(url, form, headers={"Origin": self.github.url}, timeout=60).status_code


def settings_of(folder: Path, github: Sandbox, port: int) -> str:
    program = json.dumps([sys.executable, str(folder / "capture.py")])
    return f"""\
[database]
url_file = "url"
[forge]
repositories = ["{REPOSITORY}"]
api_url = "{github.url}"
app_id = {APP}
installation = {INSTALLATION}
private_key_file = "app.pem"
webhook_secret_files = ["hook"]
poll_fast = "30m"
poll_slow = "30m"
[workspace]
bind = "127.0.0.1:{port}"
[capture]
program = {program}
"""


@pytest.fixture(scope="module")
def house(sqlite_templates: SqliteTemplates) -> Iterator[House]:
    rows = sqlite_templates.copy("sqlite")
    folder = Path(tempfile.mkdtemp(prefix="gb-app-"))  # short: the hints of a broker are a socket
    shutil.copytree(POLICIES, folder / "policies")
    (folder / ".gitops-bot").mkdir(mode=0o700)
    for name, text in (("url", rows.owner_url), ("app.pem", keys("ours")[0]), ("hook", SECRET)):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    (folder / "capture.py").write_text(CAPTURE)
    port = free_port()
    with Sandbox.start(folder / "github") as github:
        for login, number in PEOPLE.items():
            github.add_account(login, number)
        app = github.add_app("gitops-bot", APP, BOT_ID, keys("ours")[1])
        github.add_repository(REPOSITORY, REPOSITORY_ID)
        for login in (LOGIN, "alice", "bob"):
            github.grant(REPOSITORY, login, "write")
        github.install(app, "acme", INSTALLATION, repositories=(REPOSITORY,))
        (folder / "gitops-bot.toml").write_text(settings_of(folder, github, port))
        pin(folder / "policies", folder / ".gitops-bot" / "trust.json")
        database = rows.open(Role.HOST)
        with database.write() as tx:
            agent = agents.add(tx, "shell", AgentKind.AGENT, PrincipalName("demo-agent"), PrincipalName("alice"), "")
            token = agents.issue_token(tx, agent.id, TokenScope.AGENT)
        made = House(folder, f"http://127.0.0.1:{port}", github, app, rows.open(Role.BROKER), token)
        try:
            workspace = made.start("workspace", *BOT, "workspace")
            made.start("broker", sys.executable, "-c", BROKER, "broker")
            until_ready(made.url, workspace, folder / "workspace.log")
            until(lambda: "ready" in made.said(), made.said)
            github.set_app_hook(app, f"http://localhost:{port}/hooks/github", SECRET)
            yield made
        finally:
            for process in made.processes:
                process.kill()
                process.wait()
            rows.close()
            shutil.rmtree(folder, ignore_errors=True)


def test_a_comment_that_the_app_s_webhook_tells_of_approves_and_the_check_run_mirrors_it(house: House) -> None:
    capture = house.asked()
    (waits,) = house.checks(capture.id)
    assert (waits.status, waits.external_id) == ("in_progress", capture.ask)
    house.approve(capture)
    house.until_measured(capture)
    assert house.checks(capture.id)[0].id == waits.id, "one check run, brought up to date"
    told = house.delivered()
    assert {one.status_code for one in told} == {202}, "each was taken"
    assert "issue_comment" in {one.event for one in told}
    assert {one.installation_id for one in told if one.event != "ping"} == {INSTALLATION}
    (written,) = [
        one for one in house.github.comments(REPOSITORY, capture.pull_request or 0) if one.author_id == BOT_ID
    ]
    assert written.app == house.app, "the status comment is the App's"
    assert house.github.count_requests()[("GET", "/user")] == 0


def test_doctor_is_green(house: House) -> None:
    house.delivered()
    found = house.doctor()
    assert [one for one in found["findings"] if not one["ok"]] == []
    by_name = {one["name"]: one["detail"] for one in found["findings"]}
    assert f"installation {INSTALLATION}" in by_name["forge"]
    assert "the App sends to" in by_name["webhook"]


def test_a_command_in_a_review_is_told_where_it_counts(house: House) -> None:
    capture = house.asked()
    number = capture.pull_request or 0
    house.github.review(REPOSITORY, number, "alice", f"/approve-capture {capture.trace_id}", "APPROVE")
    until(lambda: len(house.written(capture)) == 2, house.said)
    (reply,) = [body for body in house.written(capture).values() if "reply=review-" in body]
    assert "never in a review" in reply
    assert house.ask_state(capture) is AskState.OPEN


@pytest.mark.parametrize("how", ["suspended", "removed"])
def test_an_installation_that_goes_away_in_mid_flight_holds_what_was_said_and_counts_it_when_it_is_back(
    house: House, how: str
) -> None:
    """The comment is heard of and cannot be read: held, never refused; and doctor says what to click meanwhile."""
    capture, before = house.asked(), len(house.changes())
    house.github.hold_deliveries()
    comment = house.approve(capture)
    if how == "suspended":
        house.github.suspend_installation(INSTALLATION)
    else:
        house.github.remove_installation(INSTALLATION)
    house.github.release_deliveries()
    until(lambda: house.claim(comment) is ClaimState.HELD, house.said)
    found = house.doctor()
    wrong = " | ".join(f"{one['detail']} {one['fix']}" for one in found["findings"] if not one["ok"])
    assert not found["ok"]
    assert ("suspended" if how == "suspended" else "not installed") in wrong
    time.sleep(2.5)
    assert house.claim(comment) is ClaimState.HELD, "tried again, and still not refused"
    assert house.ask_state(capture) is AskState.OPEN
    assert [check.conclusion for check in house.checks(capture.id)] == [None]
    if how == "suspended":
        house.github.suspend_installation(INSTALLATION, suspended=False)
    else:
        house.github.install(house.app, "acme", INSTALLATION, repositories=(REPOSITORY,))
    house.until_measured(capture)
    assert house.claim(comment) is ClaimState.COUNTED
    expected = ["suspend", "unsuspend"] if how == "suspended" else ["deleted", "created"]
    until(lambda: house.changes()[before:] == expected, house.changes)
    assert house.doctor()["ok"]
    assert all(process.poll() is None for process in house.processes)


# Buttons of a check run


def pressed(house: House) -> int:
    return sum(one.event == "check_run" and one.status_code == 202 for one in house.delivered())


@pytest.mark.parametrize("identifier", ["refresh", "help"])
def test_a_button_shows_the_status_again_whoever_presses_and_decides_nothing(house: House, identifier: str) -> None:
    """From the page of the forge through its delivery to the broker's next write of comment and check run."""
    capture, before = house.asked(), pressed(house)
    (check,) = house.checks(capture.id)
    assert capture.status_comment is not None
    house.github.edit_comment(REPOSITORY, capture.status_comment, "alice", "overwritten")
    assert house.written(capture) == {capture.status_comment: "overwritten"}
    assert house.press(capture, check, "mallory", identifier) == 200
    until(lambda: "overwritten" not in house.written(capture).values(), house.said)
    assert pressed(house) == before + 1
    assert (house.capture(capture.id).state, house.ask_state(capture)) == (CaptureState.REQUESTED, AskState.OPEN)
    assert [one.conclusion for one in house.checks(capture.id)] == [None]


@pytest.mark.parametrize("login", ["alice", "mallory"])
def test_a_button_press_that_poses_as_an_approval_is_refused(house: House, login: str) -> None:
    """Attack: a check run that looks like the bot's own, of its own App, for the same ask, whose buttons say approve;
    and one that ends as a success. Pressed by a person who may vote, too."""
    capture, before = house.asked(), pressed(house)
    (own,) = house.checks(capture.id)
    identifiers = ("approve", f"approve {capture.ask}"[:20], "approve-capture")
    actions = tuple({"label": "Approve", "description": "Approve it", "identifier": one} for one in identifiers)
    with house.github.world.lock:
        wish = Wish(name="approved", external_id=own.external_id, conclusion="success", actions=actions)
        there = house.github.world.model.directory.repositories[REPOSITORY_ID]
        posing = house.github.world.model.checks.create(there, house.app, own.head_sha, wish, int(time.time()))
    for identifier in identifiers:
        assert house.press(capture, posing, login, identifier) == 200
    assert house.press(capture, own, login, "approve") == 404, "the bot's own has no such button"
    assert pressed(house) == before + len(identifiers), "delivered, acknowledged, and dropped"
    assert house.press(capture, own, login, "refresh") == 200
    until(lambda: pressed(house) == before + len(identifiers) + 1, house.said)
    time.sleep(0.5)
    assert (house.capture(capture.id).state, house.ask_state(capture)) == (CaptureState.REQUESTED, AskState.OPEN)
    house.approve(capture)
    house.until_measured(capture)
