"""What the host is shown of turns: why each began, what it came to, capsule and text; what is due and what holds it."""

import json
import sys
from pathlib import Path

import pytest

from gitops_bot.bootstrap.holders import Holders, living
from gitops_bot.bootstrap.rules import rules_of
from gitops_bot.core.principals import PrincipalName
from gitops_bot.fleet import tick
from gitops_bot.store import agents as rows
from gitops_bot.store import lanes
from gitops_bot.store.due_agents import Opened
from gitops_bot.store.roles import Role
from tests.fleet_stage import FleetStage
from tests.unit.cli.conftest import Host
from tests.unit.cli.test_agent_fleet import AS, COMMAND

LANE = "command:local"


def stage_of(host: Host) -> FleetStage:
    return FleetStage(host.open(Role.BROKER), rules_of(host.settings))


def dispatched(host: Host, slug: str = "linter") -> tuple[FleetStage, Opened]:
    """Add an agent, wake it, and open its run as a broker does."""
    host.bot("agent", "add", slug, *AS, *COMMAND)
    assert host.bot("agent", "tick", slug)[0] == 0
    stage = stage_of(host)
    (opened,) = stage.write(lambda tx: tick.dispatch(tx, LANE, 4, "a" * 32, 60_000))
    return stage, opened


def test_a_turn_is_shown_with_why_it_began_and_what_it_came_to(host: Host) -> None:
    stage, opened = dispatched(host)
    stage.settle(opened, "I looked at everything.\nASK: Shall I go on?\n")
    document = json.loads(host.bot("agent", "show", "linter", "--json")[1])
    (turn,) = document["turns"]
    assert (turn["run"], turn["version"], turn["reason"]) == (opened.dispatch.run, 1, "person")
    assert (turn["stop"], turn["took_ms"] >= 0) == ("ended", True)
    assert (len(document["open_asks"]), document["needs_person"]) == (1, True)
    out = host.bot("agent", "show", "linter")[1]
    assert "last turns:" in out
    assert "open asks:" in out
    assert "yes" in host.bot("agent", "list")[1].splitlines()[1]


def test_a_running_turn_shows_its_text_so_far_and_a_settled_one_what_landed(host: Host) -> None:
    stage, opened = dispatched(host)
    stage.say(opened, "half a line \x1b[2J and \u202emore\n")
    out = host.bot("agent", "text", "linter")[1]
    assert out.splitlines()[0] == "half a line \\x1b[2J and \\u202emore"
    assert json.loads(host.bot("agent", "text", opened.dispatch.run, "--json")[1])["text"].startswith(
        "half a line \x1b"
    )
    assert host.bot("agent", "show", "linter")[1].splitlines()[-1].split()[-3:] == ["runs", "-", "-"]
    stage.settle(opened, "It is done.\n")
    out = host.bot("agent", "text", "linter")[1]
    assert "report by the agent:" in out
    assert "It is done." in out
    assert json.loads(host.bot("agent", "text", "linter", "--json")[1])["text"] is None


def test_a_capsule_is_shown_word_for_word_by_agent_run_and_version(host: Host) -> None:
    _, opened = dispatched(host)
    run = opened.dispatch.run
    for name in ("linter", run, f"{run}.1"):
        document = json.loads(host.bot("agent", "capsule", name, "--json")[1])
        assert document["capsule"] == opened.dispatch.capsule
    assert host.bot("agent", "capsule", "linter")[1].startswith(opened.dispatch.capsule.splitlines()[0])
    for wrong in (f"{run}.2", f"{run}.x", "nobody", "\x00", f"{run}."):
        status, _, err = host.bot("agent", "capsule", wrong)
        assert status == 4
        assert "agent show SLUG" in err


def test_what_was_not_told_yet_is_named(host: Host) -> None:
    host.bot("agent", "add", "linter", *AS, *COMMAND)
    stage = stage_of(host)
    with host.open().read() as tx:
        agent = rows.by_slug(tx, "linter")
    assert agent is not None
    stage.message(agent, "Look at the tests, too.", who=PrincipalName("demo-user"))
    (item,) = json.loads(host.bot("agent", "show", "linter", "--json")[1])["untold"]
    assert item["kind"] == "message"


def test_who_is_due_is_told_with_what_holds_it(host: Host, tmp_path: Path) -> None:
    assert host.bot("agent", "tick")[1] == "nobody is due\n"
    host.bot("agent", "add", "linter", *AS, *COMMAND)
    host.bot("agent", "tick", "linter")

    def why() -> str:
        (item,) = json.loads(host.bot("agent", "tick", "--json")[1])["items"]
        return str(item["why"])

    assert "gitops-bot serve" in why()
    holders = Holders(host.settings.state / "brokers")
    assert why() == "a broker starts it now"
    holders.close()
    stage = stage_of(host)
    stage.write(lambda tx: lanes.close(tx, LANE, tx.now + 60_000, 1, "a limit"))
    assert "lane is closed" in why()
    stage.write(lambda tx: lanes.close(tx, LANE, tx.now - 1, 1, "over"))


def test_a_due_agent_whose_turn_runs_is_said_to_follow_it(host: Host) -> None:
    dispatched(host)
    assert json.loads(host.bot("agent", "tick", "--json")[1])["items"] == []
    host.bot("agent", "tick", "linter")
    (item,) = json.loads(host.bot("agent", "tick", "--json")[1])["items"]
    assert item["why"].startswith("its turn runs")


def test_living_brokers_are_counted_and_gone_ones_are_not(tmp_path: Path) -> None:
    assert living(tmp_path / "none") == 0
    holders = Holders(tmp_path / "brokers")
    (tmp_path / "brokers" / ("0" * 32)).touch()
    assert living(tmp_path / "brokers") == 1
    holders.close()
    assert living(tmp_path / "brokers") == 0


def test_a_watched_list_tells_each_change_in_a_line_and_leaves_with_ctrl_c(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain lines where nothing is a terminal; what did not change is not said again."""
    host.bot("agent", "add", "linter", *AS, *COMMAND)
    stage = stage_of(host)
    looks: list[float] = []

    def wait(_hint: object, seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            with host.open().read() as tx:
                agent = rows.by_slug(tx, "linter")
            assert agent is not None
            stage.wake(agent)
        if len(looks) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("gitops_bot.bootstrap.hints.DatagramHint.wait", wait)
    status, out, err = host.bot("agent", "list", "--watch")
    assert (status, err) == (0, "\n")
    assert [line.split(":")[1] for line in out.splitlines()] == [" WAITING_EVENT", " DUE"]
    looks.clear()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert "\x1b[H\x1b[2J" in host.bot("agent", "list", "--watch")[1]
