"""A broker that a loop started (`BROKER_CONTROL_ADDR`) drives that loop without any registration over HTTP."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.bootstrap.starter import adopt
from gitops_bot.config import Starter
from gitops_bot.core.errors import ConfigError
from gitops_bot.store import agents
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind
from tests.integration.loop.conftest import WANTED
from tests.integration.loop.test_with_broker import BOT, House, house, until
from tests.store_fixtures import FreshDatabase

__all__ = ["house"]

# As AGENT there, with the token that the broker wrote.
AGENT = """
import json, os, pathlib, subprocess, sys, time
wanted, token, url = sys.argv[1:4]
if os.environ["LOOP_REGIME"] != wanted:
    while not pathlib.Path(token).exists():
        time.sleep(0.05)
    bot = [sys.executable, "-m", "gitops_bot.cli", "capture", "request", wanted, "--url", url, "--token-file", token]
    asked = subprocess.run(bot, capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    regime = {"model": "Qwen/Qwen3-0.6B", "concurrency": 48, "prefixes": 8, "max_tokens": 8, "long_tokens": 0}
    marker = {"trace_id": wanted, "regime": {**regime, "long_frac": 0.0}, "handle": asked.stdout.strip()}
    pathlib.Path("PROVISIONING_PENDING.json").write_text(json.dumps(marker))
else:
    pathlib.Path("value").write_text("1")
"""


@pytest.mark.parametrize("bridge", ["with tokens", "open"])
def test_a_broker_that_a_loop_started_reads_and_wakes_it(house: House, bridge: str) -> None:
    house.processes[-1].kill()
    house.processes[-1].wait()
    loop = house.loop("started")
    token = loop.home / "agent.token"
    (loop.home / "agent.py").write_text(AGENT)
    loop.agent = [*loop.agent[:2], WANTED, str(token), house.url]
    loop.start(*(["--insecure-bridge"] if bridge == "open" else []), iterations=2)
    address = loop.state / "control-address"
    loop.until(lambda: address.exists() and loop.kinds("agent_start"))
    environment = {
        **os.environ,
        "BROKER_CONTROL_ADDR": address.read_text().strip(),
        "BROKER_LOOP_ID": "started",
        "BROKER_AGENT_TOKEN_FILE": str(token),
    }
    if bridge != "open":
        environment["BROKER_CONTROL_TOKEN_FILE"] = str(loop.state / "broker.token")
    command = [*BOT, "broker", "--config", str(house.folder / "gitops-bot.toml")]
    with (house.folder / "broker.log").open("wb") as log:
        house.processes.append(subprocess.Popen(command, cwd=house.folder, stdout=log, stderr=log, env=environment))
    loop.parked()
    until((loop.state / "broker-attached").exists, house.said())
    reply = loop.connect("operator" if bridge != "open" else None).ask({"cmd": "approve", "id": "k"})
    if bridge == "open":
        assert reply["error"].startswith("not permitted: the bridge is open")
        assert house.events("vote.counted") == []
        return
    assert reply["claimed"] is True
    assert loop.end() == 0, loop.log()
    assert [line["regime"] for line in loop.kinds("segment")] == ["default", WANTED]
    assert len(house.events("bridge.rescope_acknowledged")) == 1


@pytest.fixture
def rows(sqlite_database: FreshDatabase) -> Iterator[Database]:
    yield sqlite_database.open(Role.BROKER)


def starting(home: Path, **given: Any) -> Starter:
    said: dict[str, Any] = {"address": "127.0.0.1:4711", "token_file": None, "loop": "l", "agent": "", "resume": False}
    return Starter(**{**said, "agent_token_file": home / "agent.token", **given})


def add(rows: Database, slug: str, kind: AgentKind = AgentKind.LOOP) -> None:
    with rows.write() as tx:
        agents.add(tx, slug, kind, agents.PrincipalName("demo-agent"), None, "")


def test_the_only_agent_that_has_loops_needs_no_name(rows: Database, tmp_path: Path) -> None:
    add(rows, "tuner")
    add(rows, "shell", AgentKind.APPLICATION)
    adopt(rows, starting(tmp_path))
    with rows.read() as tx:
        found = agents.loop(tx, "l")
    assert found is not None
    assert (found.open_bridge, found.shares_user) == (True, True)
    token = tmp_path / "agent.token"
    assert token.stat().st_mode & 0o077 == 0
    with rows.read() as tx:
        assert agents.bearer(tx, token.read_text().strip()) is not None


@pytest.mark.parametrize(
    "given",
    [
        {"agent": "nobody"},
        {"address": "nowhere"},
        {"loop": "no such name"},
        {"token_file": Path("/nonexistent")},
        {"agent_token_file": Path("/nonexistent/x")},
    ],
)
def test_what_cannot_be_adopted_is_said_at_start(rows: Database, tmp_path: Path, given: dict[str, Any]) -> None:
    add(rows, "tuner")
    with pytest.raises(ConfigError):
        adopt(rows, starting(tmp_path, **given))


def test_two_agents_that_have_loops_need_a_name(rows: Database, tmp_path: Path) -> None:
    add(rows, "one")
    add(rows, "two")
    with pytest.raises(ConfigError, match="BROKER_LOOP_AGENT"):
        adopt(rows, starting(tmp_path))
    adopt(rows, starting(tmp_path, agent="two"))


def test_a_resume_keeps_the_run_and_a_fresh_start_raises_its_version(rows: Database, tmp_path: Path) -> None:
    add(rows, "tuner")
    versions = []
    for resume in (False, True, False):
        adopt(rows, starting(tmp_path, resume=resume))
        with rows.read() as tx:
            loop = agents.loop(tx, "l")
            assert loop is not None
            run = agents.run(tx, loop.run)
            assert run is not None
            versions.append(run.version)
    assert versions == [1, 1, 2]
