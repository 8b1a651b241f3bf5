"""Loops, their broker and the API as real processes over one SQLite file: a person's word reaches whoever waits, once.

The operator answers at a loop's bridge (channel `operator`), the capture program is instant, and there is no forge.
"""

import contextlib
import json
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
import requests

from gitops_bot.authority.rules import Rules
from gitops_bot.authority.settling import Voice, answer
from gitops_bot.bootstrap.trust import pin, pinned_policy
from gitops_bot.core.captures import CaptureState
from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Answer, Channel
from gitops_bot.store import agents, asks, captures, ledger
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind, TokenScope
from tests.asserted import asserted
from tests.integration.loop.conftest import WANTED, Loop
from tests.ports import free_port
from tests.store_fixtures import FreshDatabase

BOT = (sys.executable, "-m", "gitops_bot.cli")
POLICY = """
schema = "gitops-bot/policy/v1"
version = 1
[people.alice]
kind = "human"
[people.bob]
kind = "human"
[people.demo-agent]
kind = "service"
owner = "alice"
[asks.question]
channels = ["workspace"]
voters = { owner = true }
[verbs."capture.approve"]
channels = ["workspace", "operator"]
voters = { people = ["alice", "bob"] }
approve = 1
expires = "7d"
"""
CAPTURE = """
import json, os, pathlib, sys, time
regime = json.load(sys.stdin)
with open(sys.argv[1], "a") as log:
    log.write(json.dumps(regime) + chr(10))
while pathlib.Path(sys.argv[1] + ".hold").exists():
    time.sleep(0.05)
pathlib.Path("trace.jsonl").write_text(json.dumps(regime))
pathlib.Path("knobs.json").write_text(json.dumps({"v": 1, "knobs": {"MOCK_TTFT_MS": "1.5"}}))
"""
# One turn: request the trace by the product's own command, leave the marker with the handle that it gave.
AGENT = """
import json, os, pathlib, subprocess, sys, time
wanted, mode, hold = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
if os.environ["LOOP_REGIME"] != wanted and os.environ["LOOP_ITERATION"] == "1":
    bot = [sys.executable, "-m", "gitops_bot.cli", "capture", "request", wanted, "--mode", mode, "--why", "to see"]
    asked = subprocess.run(bot, capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    regime = {"model": "Qwen/Qwen3-0.6B", "concurrency": 48, "prefixes": 8, "max_tokens": 8, "long_tokens": 0}
    marker = {"trace_id": wanted, "regime": {**regime, "long_frac": 0.0}, "handle": asked.stdout.strip(), "mode": mode}
    pathlib.Path("PROVISIONING_PENDING.json").write_text(json.dumps(marker))
else:
    while hold.exists():
        time.sleep(0.02)
    value = pathlib.Path("value")
    value.write_text(str(float(value.read_text()) - 1))
"""

# The same turn by the broker's tool, which takes a regime and no mode.
BY_TOOL = """
import json, os, pathlib, sys, time
from gitops_bot.demo.broker_tool import call_tool
wanted, mode, hold = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
if os.environ["LOOP_REGIME"] != wanted and os.environ["LOOP_ITERATION"] == "1":
    regime = {"model": "Qwen/Qwen3-0.6B", "concurrency": 48, "prefixes": 8, "max_tokens": 8, "long_tokens": 0}
    regime["long_frac"] = 0.0
    url, token = os.environ["GITOPS_BOT_URL"], os.environ["GITOPS_BOT_TOKEN"]
    reply = call_tool(url, token, "request_trace", regime, 60)
    assert reply.status == "pending_approval", reply
    marker = {"trace_id": wanted, "regime": regime, "handle": reply.handle, "mode": mode}
    pathlib.Path("PROVISIONING_PENDING.json").write_text(json.dumps(marker))
else:
    while hold.exists():
        time.sleep(0.02)
    value = pathlib.Path("value")
    value.write_text(str(float(value.read_text()) - 1))
"""


def started(command: str, folder: Path) -> subprocess.Popen[bytes]:
    with (folder / f"{command}.log").open("ab") as log:
        return subprocess.Popen(
            [*BOT, command, "--config", str(folder / "gitops-bot.toml")], cwd=folder, stdout=log, stderr=log
        )


def until(seen: Callable[[], Any], what: str = "", timeout: float = 120) -> Any:
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if found := seen():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not in time: {what}")


@dataclass
class House:
    """A broker, its API, and loops that a test adds."""

    folder: Path
    url: str
    database: Database
    rules: Rules
    token_file: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)

    @property
    def measured(self) -> list[dict[str, Any]]:
        """What the capture program was run for."""
        log = self.folder / "measured"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Let captures wait for as long as this lasts."""
        hold = self.folder / "measured.hold"
        hold.touch()
        yield
        hold.unlink()

    def loop(self, name: str, *, mode: str = "block") -> Loop:
        """Make a loop with the agent that asks; a file `hold` in its home keeps later turns from ending."""
        home = self.folder / name
        home.mkdir()
        loop = Loop(home)
        (home / "agent.py").write_text(AGENT)
        loop.agent = [sys.executable, str(home / "agent.py"), WANTED, mode, str(home / "hold")]
        self.loops.append(loop)
        return loop

    def options(self, loop: Loop, *more: str) -> list[str]:
        joined = ["--broker-url", self.url, "--loop-token-file", str(self.token_file), "--id", loop.home.name]
        return [*joined, *more]

    def start(self, loop: Loop, *more: str, iterations: int = 2) -> None:
        loop.start(*self.options(loop, *more), iterations=iterations)

    def broker(self) -> subprocess.Popen[bytes]:
        """Start the broker."""
        process = started("broker", self.folder)
        self.processes.append(process)
        until(lambda: "ready" in (self.folder / "broker.log").read_text(), "a broker")
        return process

    def capture(self) -> Capture:
        """Read the one capture."""
        with self.database.read() as tx:
            (found,) = captures.page(tx, "", 10)
        return found

    def until_capture(self, state: CaptureState) -> Capture:
        until(lambda: self.capture().state is state, f"{state}: {self.said()}")
        return self.capture()

    def said(self) -> str:
        return (self.folder / "broker.log").read_text()[-3000:]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """List the ledger entries of a kind about the one capture's ask."""
        ask = self.capture().ask
        assert ask is not None
        with self.database.read() as tx:
            return [dict(entry) for entry in ledger.of_ask(tx, ask) if entry["kind"] == kind]


@pytest.fixture
def house(sqlite_database: FreshDatabase) -> Iterator[House]:
    folder = Path(tempfile.mkdtemp(prefix="gb-"))  # short: the hints of a broker are a socket
    (folder / ".gitops-bot").mkdir(mode=0o700)
    (folder / "policies").mkdir()
    (folder / "policies" / "policy.toml").write_text(POLICY)
    (folder / "url").touch(mode=0o600)
    (folder / "url").write_text(sqlite_database.owner_url)
    (folder / "capture.py").write_text(CAPTURE)
    port = free_port()
    program = json.dumps([sys.executable, str(folder / "capture.py"), str(folder / "measured")])
    config = folder / "gitops-bot.toml"
    config.write_text(
        f'[database]\nurl_file = "url"\n[workspace]\nbind = "127.0.0.1:{port}"\n'
        f'[signed]\nshared_uid = "accepted"\n[broker]\noperator = "bob"\nresume_grace = "1m"\n'
        f"[capture]\nprogram = {program}\n"
    )
    pin(folder / "policies", folder / ".gitops-bot" / "trust.json")
    host = sqlite_database.open(Role.HOST)
    with host.write() as tx:
        agent = agents.add(tx, "tuner", AgentKind.LOOP, PrincipalName("demo-agent"), PrincipalName("alice"), "")
        token_text = agents.issue_token(tx, agent.id, TokenScope.LOOP)
    token = folder / "loop.token"
    token.touch(mode=0o600)
    token.write_text(token_text)
    policy = pinned_policy(folder / "policies", folder / ".gitops-bot" / "trust.json")
    rules = Rules(policy, "local", "production")
    made = House(folder, f"http://127.0.0.1:{port}", host, rules, token)
    made.processes.append(started("workspace", folder))
    try:
        made.broker()  # both start at once
        until(lambda: ready(made.url), "a workspace")
        yield made
    finally:
        for process in [*made.processes, *(loop.process for loop in made.loops if loop.process is not None)]:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for loop in made.loops:
            for bridge in loop.bridges:
                bridge.close()
        shutil.rmtree(folder)


def ready(url: str) -> bool:
    try:
        return requests.get(f"{url}/readyz", timeout=30).status_code == 200
    except requests.RequestException:
        return False


def approve(loop: Loop, key: str = "press") -> None:
    reply = loop.connect("operator").ask({"cmd": "approve", "trace_id": WANTED, "id": key})
    assert (reply["ok"], reply.get("claimed")) == (True, True), reply


def test_an_operator_at_the_bridge_has_a_trace_measured_and_the_loop_woken(house: House) -> None:
    """The whole way: asked over HTTP, claimed at the bridge, settled as bob, measured, rescoped, one segment."""
    loop = house.loop("one")
    house.start(loop)
    loop.parked()
    assert loop.kinds("approval_wait")[0]["handle"] == house.capture().id
    approve(loop)
    assert loop.end() == 0, loop.log()
    assert [line["regime"] for line in loop.kinds("segment")] == ["default", WANTED]
    house.until_capture(CaptureState.RESCOPED)
    assert len(house.measured) == 1
    (vote,) = house.events("vote.counted")
    assert (vote["principal"], vote["channel"]) == ("bob", "operator")
    (claimed,) = loop.kinds("approval_claimed")
    assert (claimed["decision"], claimed["key"]) == ("approve", "press")
    settled = [json.loads(line) for line in (loop.state / "admissions.jsonl").read_text().splitlines()]
    assert {line["key"]: line.get("outcome") for line in settled if line["kind"] == "settled"}["press"] == "applied"


def test_an_agent_in_bubblewrap_asks_by_the_products_own_command(house: House) -> None:
    loop = house.loop("one")
    house.start(loop, "--bubblewrap")
    loop.parked()
    approve(loop)
    assert loop.end() == 0, loop.log()
    assert len(loop.kinds("segment")) == 2


@pytest.mark.parametrize("operator", ["", "bob"])
def test_without_an_operator_the_bridge_says_so_and_nothing_is_claimed(house: House, operator: str) -> None:
    """The workspace that registers the loop knows who is named; its twin names bob."""
    config = house.folder / "gitops-bot.toml"
    config.write_text(config.read_text().replace('operator = "bob"', f'operator = "{operator}"'))
    served = house.processes[0]
    served.kill()
    served.wait()
    house.processes[0] = started("workspace", house.folder)
    until(lambda: ready(house.url), "a workspace")
    loop = house.loop("one")
    house.start(loop)
    loop.parked()
    reply = loop.connect("operator").ask({"cmd": "approve", "id": "k"})
    if operator:
        assert reply["claimed"] is True
    else:
        assert reply == {"ok": False, "cmd": "approve", "error": "no operator named", "key": "k"}
        assert loop.kinds("approval_claimed") == []


def test_35_a_capture_that_succeeds_while_the_loop_restarts_wakes_it_once(house: House) -> None:
    loop = house.loop("one")
    house.start(loop)
    loop.parked()
    with house.holding():
        approve(loop)
        until(lambda: house.measured, house.said())
        loop.kill(signal.SIGKILL)
    house.until_capture(CaptureState.READY)
    time.sleep(1.0)  # the broker tries a loop that is away
    assert house.capture().state is CaptureState.READY
    house.start(loop, "--resume")
    assert loop.end() == 0, loop.log()
    assert [line["class"] for line in loop.kinds("recovery")] == ["died_awaiting_approval"]
    assert [line["regime"] for line in loop.kinds("segment")] == ["default", WANTED]
    house.until_capture(CaptureState.RESCOPED)
    assert len(house.events("bridge.rescope_acknowledged")) == 1
    assert len(house.measured) == 1


def test_35_a_broker_that_is_killed_while_it_captures_wakes_the_loop_all_the_same(house: House) -> None:
    loop = house.loop("one")
    house.start(loop)
    loop.parked()
    with house.holding():
        approve(loop)
        until(lambda: house.measured, house.said())
        house.processes[-1].kill()
        house.processes[-1].wait()
    (house.folder / "broker.log").write_text("")
    house.broker()
    assert loop.end() == 0, loop.log()
    assert [line["regime"] for line in loop.kinds("segment")] == ["default", WANTED]
    assert len(house.measured) == 1


def test_41_when_max_park_ran_out_a_later_approve_is_refused_and_nothing_is_captured(house: House) -> None:
    loop = house.loop("one")
    house.start(loop, "--max-park", "2s")
    assert loop.end() == 2
    assert [line["outcome"] for line in loop.kinds("approval_resolved")] == ["timeout"]
    capture = house.until_capture(CaptureState.CANCELLED)
    assert capture.ask is not None
    with house.database.write() as tx:
        ask = asks.get(tx, capture.ask)
        assert ask is not None
        bob = house.rules.policy.people[PrincipalName("bob")].principal
        voice = Voice(bob, Channel.WORKSPACE, b"{}", asserted=asserted(ask, "bob", "approve"))
        late = answer(tx, house.rules, ask.id, Answer("approve", None, ask.binding), voice)
    assert isinstance(late, Refused)
    assert (late.reason, late.facts["state"]) == ("withdrawn", "WITHDRAWN")
    assert house.measured == []


def test_41_its_twin_whose_time_has_not_run_out_is_captured(house: House) -> None:
    loop = house.loop("one")
    house.start(loop, "--max-park", "1h")
    loop.parked()
    approve(loop)
    assert loop.end() == 0
    assert len(house.measured) == 1


def test_42_two_loops_that_wait_for_one_trace_get_one_ask_one_capture_and_a_rescope_each(house: House) -> None:
    first, second = house.loop("one"), house.loop("two")
    for loop in (first, second):
        house.start(loop)
    for loop in (first, second):
        loop.parked()
    handles = {loop.kinds("approval_wait")[0]["handle"] for loop in (first, second)}
    assert handles == {house.capture().id}
    approve(second)
    for loop in (first, second):
        assert loop.end() == 0, loop.log()
        assert [line["regime"] for line in loop.kinds("segment")] == ["default", WANTED]
    assert len(house.measured) == 1
    assert len(house.events("ask.opened")) == 1
    house.until_capture(CaptureState.RESCOPED)
    told = {entry["facts"]["loop"] for entry in house.events("bridge.rescope_acknowledged")}
    assert told == {"one", "two"}
    assert len(house.events("bridge.rescope_acknowledged")) == 2


def test_a_deny_at_the_bridge_reaches_every_loop_that_waits(house: House) -> None:
    first, second = house.loop("one"), house.loop("two", mode="continue")
    hold = second.home / "hold"
    hold.touch()  # its second turn lasts until it was told
    house.start(first)
    house.start(second, iterations=8)
    first.parked()
    second.until(lambda: second.kinds("approval_wait"))
    said = first.connect("operator").ask({"cmd": "deny", "reason": "too dear", "id": "d"})
    assert said == {"ok": True, "cmd": "deny", "claimed": True, "reason": "too dear", "key": "d"}
    second.until(lambda: "deny:" in (second.state / "admissions.jsonl").read_text())
    hold.unlink()
    assert first.end() == 2
    assert "too dear" in json.loads((first.workspace / "ESCALATION.json").read_text())["reason"]
    assert second.end() == 0
    assert [line["outcome"] for line in second.kinds("approval_resolved")] == ["denied"]
    assert house.measured == []
    assert house.capture().state is CaptureState.DENIED


@pytest.mark.parametrize("mode", ["block", "continue"])
def test_who_asks_by_the_tool_waits_as_the_marker_says(house: House, mode: str) -> None:
    """The tool takes no mode; the broker hears it from the loop, so that what goes on is not said to stand still (I8).
    An approve wakes the loop in either mode."""
    loop = house.loop("one", mode=mode)
    (loop.home / "agent.py").write_text(BY_TOOL)
    (loop.home / "hold").touch()
    house.start(loop, iterations=6)
    loop.until(lambda: loop.kinds("approval_wait"))

    def heard() -> bool:
        with house.database.read() as tx:
            (seat,) = captures.seats(tx, house.capture().id)
            found = agents.loop(tx, "one")
        assert found is not None
        wait = next(number for number, line in enumerate(loop.log(), 1) if line["kind"] == "approval_wait")
        return found.log_seq >= wait and seat.mode == mode

    until(heard, house.said())
    approve(loop)
    house.until_capture(CaptureState.READY)
    (loop.home / "hold").unlink()
    assert loop.end() == 0, loop.log()
    assert [line["regime"] for line in loop.kinds("segment")] == ["default", WANTED]


def test_a_stop_without_a_resume_in_time_takes_the_wish_away(house: House) -> None:
    config = house.folder / "gitops-bot.toml"
    config.write_text(config.read_text().replace('resume_grace = "1m"', 'resume_grace = "1s"'))
    house.processes[-1].kill()
    house.processes[-1].wait()
    (house.folder / "broker.log").write_text("")
    house.broker()
    loop = house.loop("one")
    house.start(loop)
    loop.parked()
    assert loop.connect("operator").ask({"cmd": "stop"})["ok"] is True
    loop.end()
    house.until_capture(CaptureState.CANCELLED)


def test_the_registration_says_whether_the_agent_shares_its_user(house: House) -> None:
    for name, more in (("shared", ()), ("apart", ("--bubblewrap",))):
        loop = house.loop(name)
        house.start(loop, *more)
        loop.parked()
    with house.database.read() as tx:
        assert {loop.id: loop.shares_user for loop in agents.all_loops(tx)} == {"shared": True, "apart": False}
    looked = subprocess.run(
        [*BOT, "doctor", "--json", "--config", str(house.folder / "gitops-bot.toml")], capture_output=True, text=True
    )
    (finding,) = [one for one in json.loads(looked.stdout)["findings"] if one["name"] == "isolation"]
    assert "can read what their loop can" in finding["detail"]
    assert ": shared (" in finding["detail"]
