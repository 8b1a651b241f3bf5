"""Agents of the fleet on the broker's host: added with a command, listed with what they do, paused, woken, retired."""

import json

import pytest

from gitops_bot.core.asks import AskState
from gitops_bot.store import agents as rows
from gitops_bot.store import asks, fleet
from gitops_bot.store.states import AgentKind, WakePolicy
from tests.unit.cli.conftest import Host

AS = ("--principal", "demo-agent", "--folder", "/srv/linter")
COMMAND = ("/srv/linter/run", "once")


def standing(host: Host, slug: str) -> fleet.Standing:
    with host.open().read() as tx:
        agent = rows.by_slug(tx, slug)
        assert agent is not None and agent.kind is AgentKind.AGENT
        found = fleet.get(tx, agent.id)
    assert found is not None
    return found


def test_an_agent_with_a_command_is_run_by_the_fleet_and_has_no_token(host: Host) -> None:
    status, out, err = host.bot("agent", "add", "linter", *AS, "--turns-a-day", "9", *COMMAND)
    assert (status, out) == (0, "")
    assert "its first turn: when somebody wakes it" in err
    setup = standing(host, "linter").setup
    assert (setup.command, setup.folder, setup.lane) == (("/srv/linter/run", "once"), "/srv/linter", "command:local")
    assert (setup.policy, setup.turns_a_day, setup.turn_limit) == (WakePolicy.EVENT, 9, 1_800_000)


def test_a_scheduled_agent_is_due_by_its_schedule(host: Host) -> None:
    given = ("--wake", "scheduled", "--cron", "30 7 * * *", "--zone", "Europe/Berlin")
    assert host.bot("agent", "add", "daily", *AS, *given, *COMMAND)[0] == 0
    assert standing(host, "daily").due_reason == "schedule"
    (row,) = json.loads(host.bot("agent", "list", "--json")[1])["items"]
    assert (row["status"], row["needs_person"]) == ("SCHEDULED", False)


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (("--wake", "scheduled", "--cron", "61 * * * *"), 4, "no schedule"),
        (("--wake", "scheduled"), 4, "cron expression"),
        (("--cron", "30 7 * * *"), 4, "no other has one"),
        (("--provider", "Not A Lane"), 4, "A lane is"),
        (("--turn-limit", "long"), 64, "--turn-limit"),
        (("--turn-limit", "25h"), 4, "one second to a day"),
        (("--token-file", "t"), 64, "no token of its own"),
        (("--loop",), 64, "no token of its own"),
        (("--harness", "shell"), 64, "shell"),
    ],
)
def test_a_setup_that_cannot_be_is_refused_with_what_is_wrong(
    host: Host, given: tuple[str, ...], status: int, said: str
) -> None:
    found, _, err = host.bot("agent", "add", "linter", *AS, *given, *COMMAND)
    assert found == status
    assert said in err
    assert host.bot("agent", "add", "linter", *AS, *COMMAND)[0] == 0


def test_a_paused_agent_is_not_woken_and_a_resumed_one_is_due(host: Host) -> None:
    host.bot("agent", "add", "linter", *AS, *COMMAND)
    assert host.bot("agent", "pause", "linter", "--reason", "look first")[1] == "linter is paused\n"
    assert host.bot("agent", "pause", "linter")[1] == "linter is paused already\n"
    status, _, err = host.bot("agent", "tick", "linter")
    assert status == 4
    assert "agent resume linter" in err
    assert standing(host, "linter").resting
    assert host.bot("agent", "resume", "linter")[1] == "linter runs again\n"
    assert standing(host, "linter").due_reason == "resumed"
    assert host.bot("agent", "tick", "linter")[0] == 0
    assert standing(host, "linter").due_reason == "person"


def test_a_retired_agent_is_told_with_what_was_withdrawn_and_stays_so(host: Host) -> None:
    host.bot("agent", "add", "linter", *AS, *COMMAND)
    document = json.loads(host.bot("agent", "retire", "linter", "--json")[1])
    assert document == {"slug": "linter", "repeated": False, "withdrawn": []}
    assert host.bot("agent", "resume", "linter")[0] == 4
    assert host.bot("agent", "retire", "linter")[1] == "linter is retired already\n"
    (row,) = json.loads(host.bot("agent", "list", "--json")[1])["items"]
    assert row["status"] == "RETIRED"


def test_who_is_not_there_is_told_so(host: Host) -> None:
    for command in ("pause", "resume", "retire", "tick", "show"):
        assert host.bot("agent", command, "nobody")[0] == 4
    host.bot("agent", "add", "linter", *AS, *COMMAND)
    assert host.bot("agent", "show", "linter")[0] == 0


def test_approval_files_are_taken_over_once(host: Host) -> None:
    """`agent import`: a dry run writes nothing, a refused file is exit status 4; the others are taken."""
    host.bot("agent", "add", "linter", *AS, *COMMAND)
    folder = host.folder / "approvals"
    folder.mkdir()
    assert host.bot("agent", "import", str(folder), "--agent", "linter")[1].startswith("no Markdown files")
    (folder / "a.md").write_text("---\nquestion: Ship it?\noptions: [yes, no]\nstate: open\n---\n", "utf-8")
    for dry in (("--dry-run",), ()):
        status, out, _ = host.bot("agent", "import", str(folder), "--agent", "linter", *dry, "--json")
        assert (status, json.loads(out)["counts"]) == (0, {"asked": 1})
    (folder / "b.md").write_text("no front matter", "utf-8")
    status, out, _ = host.bot("agent", "import", str(folder), "--agent", "linter")
    assert status == 4
    assert "a.md: known already" in out
    assert "b.md: REFUSED: line 1" in out
    with host.open().read() as tx:
        agent = rows.by_slug(tx, "linter")
        assert agent is not None
        (ask,) = asks.page(tx, "", 10, only_open=True, agent=agent.id)
    assert (ask.text, ask.state) == ("Ship it?", AskState.OPEN)
