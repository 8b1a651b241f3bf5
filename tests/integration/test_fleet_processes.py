"""A broker as a process with bodies as processes: what a person answers is in the next body's hands, and what is killed
in the middle is dispatched again with the same capsule, each marker landing once.
"""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.bootstrap.rules import rules_of
from gitops_bot.bootstrap.trust import pin
from gitops_bot.config import load
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.store import agents, asks
from gitops_bot.store.roles import Role
from tests.due_stage import DueStage
from tests.served_stage import BOT, POLICIES
from tests.store_fixtures import FreshDatabase

pytestmark = pytest.mark.xdist_group("fleet")
BODY = """
import os, pathlib, sys, time
capsule = sys.stdin.read()
told = pathlib.Path("told")
told.mkdir(exist_ok=True)
(told / f"{len(list(told.iterdir()))}").write_text(capsule)
(pathlib.Path("env")).write_text("\\n".join(f"{key}={value}" for key, value in sorted(os.environ.items())))
if "slowly" in capsule:
    print("REPORT: half way", flush=True)
    (told / "../begun").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    print("REPORT: done\\nOUTCOME: WORK_DONE")
elif "option: o2" in capsule:
    print("REPORT: going south\\nOUTCOME: WORK_DONE")
else:
    print("ASK: Which way?\\nOPTIONS: north | south")
"""
SETTINGS = """\
[database]
url_file = "url"
[fleet]
isolation = "none"
lease = "3s"
drain = "2s"
"""


def until(seen: Callable[[], Any], what: Callable[[], object], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := seen():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not in time: {what()}")


@dataclass
class House:
    """A broker's host over one database, with the folder that its agents work in."""

    folder: Path
    stage: DueStage
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def broker(self) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            command = [*BOT, "broker", "--config", str(self.folder / "gitops-bot.toml")]
            self.processes.append(subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log))
        return self.processes[-1]

    def log(self) -> str:
        return (self.folder / "log").read_text()[-3000:]

    def agent(self, slug: str) -> agents.Agent:
        command = (sys.executable, "-u", str(self.folder / "body.py"))
        return self.stage.member(slug, principal="demo-agent", command=command, folder=str(self.work))

    def open_ask(self, agent: agents.Agent) -> Ask | None:
        found = self.stage.read(lambda tx: asks.page(tx, "", 10, only_open=True, agent=agent.id))
        return self.stage.get(found[0].id) if found else None

    def lines(self, agent: agents.Agent) -> list[str]:
        return [line.text for line in self.stage.reports(agent)]

    def capsules(self) -> list[str]:
        told = self.work / "told"
        return [path.read_text() for path in sorted(told.iterdir(), key=lambda path: int(path.name))]


ENGINES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]


@pytest.fixture
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    database: FreshDatabase = request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_database")
    folder = Path(tempfile.mkdtemp(prefix="gb-fleet-"))  # short: the hints of a broker are a socket
    shutil.copytree(POLICIES, folder / "policies")
    for name, mode in ((".gitops-bot", 0o700), ("work", 0o755)):
        (folder / name).mkdir(mode=mode)
    (folder / "url").touch(mode=0o600)
    (folder / "url").write_text(database.url(Role.BROKER))
    (folder / "gitops-bot.toml").write_text(SETTINGS)
    (folder / "body.py").write_text(BODY)
    pin(folder / "policies", folder / ".gitops-bot" / "trust.json")
    opened = database.open(Role.BROKER)
    rules = rules_of(load(folder / "gitops-bot.toml"))
    made = House(folder, DueStage(opened, rules))
    yield made
    for process in made.processes:
        process.kill()
        process.wait()
    shutil.rmtree(folder)


@pytest.mark.parametrize("house", ENGINES, indirect=True)
def test_an_answer_starts_a_new_body_with_the_verdict_in_its_capsule(house: House) -> None:
    """The body asks and is gone; nothing waits; the person's answer starts another that reads the verdict itself."""
    house.broker()
    agent = house.agent("walker")
    house.stage.say(agent, "take a walk")
    ask = until(lambda: house.open_ask(agent), house.log)
    assert ask.text == "Which way?" and [option.label for option in ask.options] == ["north", "south"]
    until(lambda: [state for _, _, state in house.stage.runs(agent)] == ["parked"], house.log)
    house.stage.answer(ask, "alice", "o2", "the path is dry")
    until(lambda: "going south" in house.lines(agent), house.log)
    until(lambda: [state for _, _, state in house.stage.runs(agent)] == ["ended", "ended"], house.log)
    first, second = house.capsules()
    assert "take a walk" in first and "take a walk" not in second
    for part in ("option: o2", "state: ANSWERED", "by: alice", "the path is dry"):
        assert part in second, second
    assert house.stage.get(ask).state is AskState.ANSWERED


def test_a_body_finds_its_runs_token_and_nothing_else_of_ours(house: House) -> None:
    """What a body has of ours is the address and the token of its run, which is dead once the run has ended."""
    house.broker()
    agent = house.agent("walker")
    house.stage.wake(agent)
    ask = until(lambda: house.open_ask(agent), house.log)
    env = dict(line.split("=", 1) for line in (house.work / "env").read_text().splitlines())
    ours = {name for name in env if "GITOPS" in name or str(house.folder / ".gitops-bot") in env[name]}
    assert ours == {"GITOPS_BOT_URL", "GITOPS_BOT_TOKEN"}
    assert house.stage.read(lambda tx: agents.bearer(tx, env["GITOPS_BOT_TOKEN"])) is None
    house.stage.withdraw(ask, by="alice")


def test_a_killed_broker_loses_no_turn_and_lands_no_marker_twice(house: House) -> None:
    """Killed in the middle of a turn: the body dies with it, the next broker dispatches the same run once more."""
    broker = house.broker()
    agent = house.agent("walker")
    house.stage.say(agent, "walk slowly")
    until(lambda: "half way" in house.lines(agent), house.log)
    broker.send_signal(signal.SIGKILL)
    broker.wait()
    (house.work / "go").touch()
    house.broker()
    # The first retry of an error waits; a person's word makes it due at once.
    until(lambda: house.stage.standing(agent).again, house.log)
    house.stage.wake(agent)
    until(lambda: "done" in house.lines(agent), house.log)
    runs = until(lambda: [run for run in house.stage.runs(agent) if run[2] == "ended"], house.log)
    assert [(version, state) for _, version, state in runs] == [(2, "ended")]
    assert [line for line in house.lines(agent) if line == "half way"] == ["half way"]
    first, second = house.capsules()
    assert first == second and "walk slowly" in first


def test_a_stopped_broker_lets_a_turn_end_by_itself(house: House) -> None:
    """Told to stop, it starts nothing more and waits for what ends in time; the turn is settled as it ended."""
    broker = house.broker()
    agent = house.agent("walker")
    house.stage.say(agent, "walk slowly")
    until((house.work / "begun").exists, house.log)
    broker.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    (house.work / "go").touch()
    assert broker.wait(30) == 0, house.log()
    assert "done" in house.lines(agent)
    assert [(version, state) for _, version, state in house.stage.runs(agent)] == [(1, "ended")]
    assert list((house.folder / ".gitops-bot" / "brokers").iterdir()) == []


def test_a_stopped_broker_ends_what_does_not_end_and_the_next_goes_on(house: House) -> None:
    """What takes longer than the drain is ended, and dispatched again at once by the next broker."""
    broker = house.broker()
    agent = house.agent("walker")
    house.stage.say(agent, "walk slowly")
    until((house.work / "begun").exists, house.log)
    broker.send_signal(signal.SIGTERM)
    assert broker.wait(30) == 0, house.log()
    standing = house.stage.standing(agent)
    assert standing.again == house.stage.runs(agent)[0][0] and standing.due_at is not None
    (house.work / "go").touch()
    house.broker()
    until(lambda: "done" in house.lines(agent), house.log)
    runs = until(lambda: [run for run in house.stage.runs(agent) if run[2] == "ended"], house.log)
    assert [(version, state) for _, version, state in runs] == [(2, "ended")]
