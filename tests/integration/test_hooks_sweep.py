"""What a webhook failed to deliver is asked for again, by the duty and by hand, a little at a time and not for ever."""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from gitops_bot.authority.duties import RowDuty
from gitops_bot.bootstrap import sweeping
from gitops_bot.broker import hooks_sweep
from gitops_bot.broker.hooks_sweep import Sweep
from gitops_bot.cli.webhook import webhook
from gitops_bot.config import load
from gitops_bot.core.errors import Unavailable
from gitops_bot.forge.deliveries import Asked, ask_again, failed
from gitops_bot.forge.surroundings import log_of
from gitops_bot.forge.transport import Transport
from gitops_bot.sandbox.http import Sandbox
from gitops_bot.sandbox.records import App
from gitops_bot.store import deliveries, due
from gitops_bot.store.roles import Role
from tests.app_keys import APP, keys
from tests.forge_stage import BOT, accounts, populate
from tests.ports import free_port
from tests.store_fixtures import FreshDatabase

REPOSITORY = "acme/ops"


@pytest.fixture
def github(tmp_path: Path) -> Iterator[tuple[Sandbox, str]]:
    with Sandbox.start(tmp_path / "github") as made:
        token = accounts(made)
        populate(made, REPOSITORY)
        yield made, token


def test_what_failed_is_asked_for_again_three_times_at_most(github: tuple[Sandbox, str]) -> None:
    made, token = github
    made.grant(REPOSITORY, BOT, "admin")
    wire = Transport(made.url, token)
    origin = f"http://localhost:{free_port()}"
    made_hook = wire.send(
        "POST",
        f"/repos/{REPOSITORY}/hooks",
        body={
            "config": {"url": f"{origin}/hooks/github", "content_type": "json", "secret": "s"},
            "events": ["issue_comment"],
        },
    ).data["id"]
    address = f"{origin}/hooks/github"
    assert made.wait_for_deliveries()
    first = failed(wire, log_of(REPOSITORY, made_hook), 0)
    assert [one.event for one in first] == ["ping"]
    assert failed(wire, log_of(REPOSITORY, made_hook), first[0].at + 60_000) == (), "what is older is left alone"
    assert ask_again(wire, REPOSITORY, address + "/other", 0, 10) == ()
    assert ask_again(wire, REPOSITORY, address, 0, 0) == ()
    for _ in range(4):
        ask_again(wire, REPOSITORY, address, 0, 10)
        assert made.wait_for_deliveries()
    sent = made.deliveries(REPOSITORY, made_hook)
    assert len(sent) == 3
    assert {one.guid for one in sent} == {first[0].guid}
    wire.close()


def test_a_log_is_read_back_to_its_time_and_no_further(
    github: tuple[Sandbox, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, also where other deliveries push what failed off the first page; so many pages at most."""
    made, token = github
    made.grant(REPOSITORY, BOT, "admin")
    hook = made.add_hook(REPOSITORY, f"http://localhost:{free_port()}/hooks/github", "s")
    for number in range(5):
        made.comment(REPOSITORY, made.issue(REPOSITORY, "alice", "t"), "alice", f"{number}")
    assert made.wait_for_deliveries()
    wire = Transport(made.url, token)
    monkeypatch.setattr("gitops_bot.forge.deliveries.PER_PAGE", 2)
    log = log_of(REPOSITORY, hook)
    assert [one.event for one in failed(wire, log, 0)] == ["ping", *["issue_comment"] * 5]
    asked = made.count_requests()[("GET", "/repos/{owner}/{repo}/hooks/{hook_id}/deliveries")]
    assert asked == 3
    assert len(failed(wire, log, 4_000_000_000_000)) == 0
    assert made.count_requests()[("GET", "/repos/{owner}/{repo}/hooks/{hook_id}/deliveries")] == asked + 1
    monkeypatch.setattr("gitops_bot.forge.deliveries.MOST_PAGES", 2)
    assert len(failed(wire, log, 0)) == 4
    wire.close()


@dataclass
class AsApp:
    """A host whose bot is an App with a webhook to its workspace, where nobody listens yet."""

    github: Sandbox
    app: App
    folder: Path
    port: int

    @property
    def config(self) -> Path:
        return self.folder / "gitops-bot.toml"

    @property
    def address(self) -> str:
        return f"http://localhost:{self.port}/hooks/github"

    def said(self) -> list[str]:
        """The actions that were sent, oldest first; each attempt once."""
        assert self.github.wait_for_deliveries()
        return [one.action or one.event for one in reversed(self.github.app_deliveries(APP))]


@pytest.fixture
def as_app(tmp_path: Path) -> Iterator[AsApp]:
    with Sandbox.start(tmp_path / "github") as made:
        accounts(made)
        populate(made, REPOSITORY)
        app = made.add_app("desk", APP, 902, keys("ours")[1])
        made.grant(REPOSITORY, "desk[bot]", "write")
        host = AsApp(made, app, tmp_path, free_port())
        for name, text in (("app.pem", keys("ours")[0]), ("hook", "s" * 32)):
            (tmp_path / name).touch(mode=0o600)
            (tmp_path / name).write_text(text)
        host.config.write_text(
            f'[workspace]\nbind = "127.0.0.1:{host.port}"\n[forge]\nrepositories = ["{REPOSITORY}"]\n'
            f'api_url = "{made.url}"\napp_id = {APP}\nprivate_key_file = "app.pem"\nwebhook_secret_files = ["hook"]\n'
        )
        made.set_app_hook(app, host.address, "s" * 32)
        assert made.wait_for_deliveries()
        yield host


def test_an_app_asks_for_its_own_again_by_hand(as_app: AsApp) -> None:
    """Under its JWT and three times at most; the lines say which event, and name no repository."""
    for _ in range(4):
        ran = CliRunner().invoke(webhook, ["redeliver", "--json", "--config", str(as_app.config)])
        assert ran.exit_code == 0, ran.output
        as_app.said()
    assert as_app.said() == ["ping"] * 3
    assert json.loads(ran.stdout) == {"asked": []}
    as_app.github.comment(REPOSITORY, as_app.github.issue(REPOSITORY, "alice", "t"), "alice", "x")
    as_app.said()
    ran = CliRunner().invoke(webhook, ["redeliver", "--config", str(as_app.config)])
    assert ran.exit_code == 0, ran.output
    assert "issue_comment" in ran.output


def test_an_app_whose_webhook_goes_elsewhere_is_left_alone(as_app: AsApp) -> None:
    as_app.github.set_app_hook(as_app.app, f"http://localhost:{as_app.port}/other", "s")
    as_app.said()
    settings = load(as_app.config)
    assert sweeping.redeliver(settings, (), 3_600_000, 10) == ()
    as_app.github.set_app_hook(as_app.app, as_app.address, "s")
    as_app.said()
    assert len(sweeping.redeliver(settings, (), 3_600_000, 2)) == 2, "so many at most"


def test_the_broker_sweeps_the_app_s_webhook_and_forgets_what_a_token_armed(
    as_app: AsApp, sqlite_database: FreshDatabase
) -> None:
    database = sqlite_database.open(Role.BROKER)
    with database.write() as tx:
        due.ensure(tx, hooks_sweep.DUTY, REPOSITORY)
    (duty,) = sweeping.duties(load(as_app.config), database)
    for _ in range(3):
        duty.step()
    assert as_app.said() == ["ping"] * 2
    with database.write() as tx:
        due.set_due(tx, hooks_sweep.DUTY, sweeping.APP, tx.now)
        wait = (due.next_due(tx, hooks_sweep.DUTY) or 0) - tx.now
    assert wait <= 0
    as_app.github.fail_next("GET /app/hook/config", 502)
    duty.step()
    duty.step()
    with database.write() as tx:
        due.set_due(tx, hooks_sweep.DUTY, sweeping.APP, tx.now)
    duty.step()
    assert as_app.said() == ["ping"] * 3, "a forge that failed is asked again"


def test_a_key_that_the_forge_does_not_know_is_said_once(
    as_app: AsApp, sqlite_database: FreshDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    (as_app.folder / "app.pem").write_text(keys("theirs")[0])
    database = sqlite_database.open(Role.BROKER)
    (duty,) = sweeping.duties(load(as_app.config), database)
    with caplog.at_level(logging.WARNING, logger="gitops_bot"):
        duty.step()
    (record,) = [one for one in caplog.records if one.name.startswith("gitops_bot")]
    assert "private_key_file" in record.getMessage()


def test_without_the_right_the_forge_refuses(github: tuple[Sandbox, str]) -> None:
    made, token = github
    wire = Transport(made.url, token)
    with pytest.raises(Unavailable) as told:
        ask_again(wire, REPOSITORY, "http://localhost/hooks/github", 0, 10)
    assert told.value.refused
    wire.close()


def test_the_duty_says_once_that_it_may_not_and_forgets_old_deliveries(
    sqlite_database: FreshDatabase, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = sqlite_database.open(Role.BROKER)
    with database.write() as tx:
        assert deliveries.take(tx, "old", "ping", None, None)
    calls: list[str] = []

    def refuse(repository: str) -> int:
        calls.append(repository)
        raise Unavailable("GET: 404", refused=True)

    sweep = Sweep(database, refuse)
    sweep.arm((REPOSITORY,))
    duty = RowDuty(hooks_sweep.DUTY, database, sweep.one)
    monkeypatch.setattr(hooks_sweep, "KEPT_MS", -60_000)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            duty.step()
            with database.write() as tx:
                due.set_due(tx, hooks_sweep.DUTY, REPOSITORY, tx.now)
    assert calls == [REPOSITORY] * 2
    assert len(caplog.records) == 1
    with database.write() as tx:
        assert deliveries.take(tx, "old", "ping", None, None), "it was forgotten"


def test_the_duty_keeps_what_is_young_and_comes_again(sqlite_database: FreshDatabase) -> None:
    database = sqlite_database.open(Role.BROKER)
    with database.write() as tx:
        assert deliveries.take(tx, "young", "ping", None, None)
    sweep = Sweep(database, lambda _repository: 0)
    sweep.arm((REPOSITORY,))
    RowDuty(hooks_sweep.DUTY, database, sweep.one).step()
    with database.write() as tx:
        assert not deliveries.take(tx, "young", "ping", None, None)
        wait = (due.next_due(tx, hooks_sweep.DUTY) or 0) - tx.now
    assert 0 < wait <= hooks_sweep.EVERY_MS


def test_by_hand_it_lists_what_it_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = Asked(REPOSITORY, 1, 2, "g", "ping")
    seen: list[int] = []

    def redeliver(_settings: object, _names: object, back: int, _most: int) -> tuple[Asked, ...]:
        seen.append(back)
        return (one,)

    monkeypatch.setattr(sweeping, "redeliver", redeliver)
    config = tmp_path / "gitops-bot.toml"
    config.write_text("")
    ran = CliRunner().invoke(webhook, ["redeliver", "--since", "2h", "--json", "--config", str(config)])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.output)["asked"][0]["guid"] == "g"
    assert seen == [7_200_000]
