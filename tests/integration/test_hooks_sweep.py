"""What a webhook failed to deliver is asked for again, by the duty and by hand, a little at a time and not for ever."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from gitops_bot.authority.duties import RowDuty
from gitops_bot.broker import hooks_sweep
from gitops_bot.broker.hooks_sweep import Sweep
from gitops_bot.cli.webhook import webhook
from gitops_bot.core.errors import Unavailable
from gitops_bot.forge.deliveries import Asked, ask_again, failed
from gitops_bot.forge.transport import Transport
from gitops_bot.sandbox.http import Sandbox
from gitops_bot.store import deliveries, due
from gitops_bot.store.roles import Role
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
    first = failed(wire, REPOSITORY, made_hook, 0)
    assert [one.event for one in first] == ["ping"]
    assert failed(wire, REPOSITORY, made_hook, first[0].at + 60_000) == (), "what is older is left alone"
    assert ask_again(wire, REPOSITORY, address + "/other", 0, 10) == ()
    assert ask_again(wire, REPOSITORY, address, 0, 0) == ()
    for _ in range(4):
        ask_again(wire, REPOSITORY, address, 0, 10)
        assert made.wait_for_deliveries()
    sent = made.deliveries(REPOSITORY, made_hook)
    assert len(sent) == 3
    assert {one.guid for one in sent} == {first[0].guid}
    wire.close()


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
    from gitops_bot.bootstrap import sweeping

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
