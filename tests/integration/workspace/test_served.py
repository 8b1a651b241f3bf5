"""The workspace as it runs: a process with its own edge, called by the command line and by an HTTP library."""

import concurrent.futures
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from gitops_bot.store import agents, asks
from tests.served_stage import BOT, Served, serve
from tests.store_fixtures import SqliteTemplates

pytestmark = pytest.mark.xdist_group("served")
TRACE = "model=Qwen/Qwen3-0.6B;c=48;p=8;mt=8;lt=0;lf=0.0000"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, sqlite_templates: SqliteTemplates) -> Iterator[Served]:
    """One workspace for all tests that leave it as it was."""
    yield from serve(tmp_path_factory.mktemp("shared"), sqlite_templates)


@pytest.fixture
def served(tmp_path: Path, sqlite_templates: SqliteTemplates) -> Iterator[Served]:
    """A workspace of a test's own, to be ended or damaged."""
    yield from serve(tmp_path, sqlite_templates)


def test_the_command_line_asks_and_withdraws(shared: Served) -> None:
    opened = shared.bot("ask", "open", "Which?", "--option", "a", "--option", "b")
    assert opened.returncode == 0, opened.stderr
    ask = opened.stdout.strip()
    waited = shared.bot("ask", "show", ask, "--wait", "1")
    assert (waited.returncode, "OPEN" in waited.stdout) == (3, True)
    assert shared.bot("ask", "cancel", ask).returncode == 0
    late = shared.bot("ask", "show", ask, "--wait", "30", "--json")
    assert (late.returncode, json.loads(late.stdout)["state"]) == (0, "WITHDRAWN")
    refused = shared.bot("ask", "open", " ")
    assert (refused.returncode, refused.stderr.startswith("gitops-bot: empty: ")) == (4, True)
    stranger = shared.bot("ask", "list", token="gbt_" + "x" * 43)
    assert stranger.returncode == 4


def test_a_loop_registers_and_its_run_asks_for_a_capture(shared: Served) -> None:
    body = {"id": "tuner", "address": "127.0.0.1:4711", "broker_token": "b" * 32}
    headers = {"Authorization": f"Bearer {shared.loop_token}"}
    registered = requests.post(f"{shared.url}/api/v1/loops", json=body, headers=headers, timeout=30)
    assert registered.status_code == 201
    token = registered.json()["agent_token"]
    asked = shared.bot("capture", "request", TRACE, "--why", "w", token=token)
    assert asked.returncode == 0, asked.stderr
    shown = shared.bot("capture", "show", asked.stdout.strip(), "--json", token=token)
    assert json.loads(shown.stdout)["state"] == "pending"
    assert shared.bot("capture", "show", asked.stdout.strip()).returncode == 4, "another agent's"
    assert shared.bot("capture", "cancel", asked.stdout.strip(), token=token).stdout.endswith("is CANCELLED\n")


def test_long_polls_leave_threads_to_others(shared: Served) -> None:
    """More polls than seats: the surplus is answered at once, and cancelling still goes through and ends the rest."""
    ask = shared.call("POST", "/asks", json={"question": "?"}).json()["id"]
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        polls = [pool.submit(shared.call, "GET", f"/asks/{ask}?wait=30") for _ in range(40)]
        done, _ = concurrent.futures.wait(polls, 60, concurrent.futures.FIRST_COMPLETED)
        assert done
        assert shared.call("POST", f"/asks/{ask}/cancel", json={}).status_code == 200
        answers = [poll.result(60).json()["state"] for poll in polls]
    assert answers.count("WITHDRAWN") >= 1
    assert set(answers) <= {"OPEN", "WITHDRAWN"}


def test_i11_a_long_poll_holds_no_connection(shared: Served) -> None:
    """I11: sixteen poll, and eight connections still serve everybody."""
    ask = shared.call("POST", "/asks", json={"question": "?"}).json()["id"]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        polls = [pool.submit(shared.call, "GET", f"/asks/{ask}?wait=20") for _ in range(16)]
        time.sleep(1)
        for number in range(10):
            assert shared.call("POST", "/asks", json={"question": f"{number}?"}).status_code == 201
        shared.call("POST", f"/asks/{ask}/cancel", json={})
        assert all(poll.result(60).status_code == 200 for poll in polls)


def test_bodies_beyond_every_cap_are_refused(shared: Served) -> None:
    for size in (70_000, 2_000_000):
        response = shared.call("POST", "/asks", data=b"x" * size)
        assert (response.status_code, response.headers["Content-Type"]) == (413, "application/problem+json")
    response = shared.call("POST", "/asks", data=b"{}")
    assert response.status_code == 415


def test_nothing_secret_is_in_the_log_or_the_process_list(shared: Served) -> None:
    shared.call("GET", "/asks")
    shared.bot("ask", "list")
    log = (shared.folder / "log").read_text()
    line = Path(f"/proc/{shared.process.pid}/cmdline")
    arguments = line.read_bytes() if line.exists() else b""
    for token in (shared.token, shared.loop_token):
        assert token not in log
        assert token.encode() not in arguments


def test_it_ends_when_told(served: Served) -> None:
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(60) == 0


def test_a_revoked_token_is_refused_at_once(served: Served) -> None:
    assert served.call("GET", "/asks").status_code == 200
    with served.host.write() as tx:
        bearer = agents.bearer(tx, served.token)
        assert bearer is not None
        agents.set_state(tx, bearer.agent.id, agents.AgentState.RETIRED)
    assert served.call("GET", "/asks").status_code == 401


def test_a_workspace_without_a_pin_does_not_start(served: Served) -> None:
    (served.folder / ".gitops-bot" / "trust.json").unlink()
    config = str(served.folder / "gitops-bot.toml")
    done = subprocess.run([*BOT, "workspace", "--config", config], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "trust file" in done.stderr
    with served.host.read() as tx:
        assert asks.page(tx, "", 1) == []
