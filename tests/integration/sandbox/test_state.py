"""A forge with a state folder that is killed and started again is the forge that it was, at the address that it had."""

import json
import os
import queue
import signal
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from gitops_bot.core.errors import ConfigError
from gitops_bot.sandbox import state as kept
from gitops_bot.sandbox.http import Sandbox
from gitops_bot.sandbox.remote import RemoteControl
from tests.integration.sandbox.test_remote import REPOSITORY, SECRET, _files
from tests.ports import free_port


@pytest.fixture
def receiver() -> Iterator[tuple[str, "queue.Queue[tuple[str, dict[str, Any]]]"]]:
    """Takes deliveries."""
    got: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            got.put((self.headers["X-GitHub-Delivery"], body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/", got
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], tuple[subprocess.Popen[str], str]]]:
    """Starts the forge of one folder as a process; those that are left are ended."""
    # A port that nobody is given while no process of the forge has it.
    command = [*_files(tmp_path), "--state", str(tmp_path / "state"), "--port", str(free_port())]
    made: list[subprocess.Popen[str]] = []

    def build() -> tuple[subprocess.Popen[str], str]:
        made.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stdout = made[-1].stdout
        assert stdout is not None
        return made[-1], json.loads(stdout.readline())["url"]

    yield build
    for process in made:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def seen(url: str) -> dict[str, Any]:
    """Read everything of a pull request that a client can see."""
    headers = {"Authorization": "token token-of-alice"}
    here = f"{url}/repos/{REPOSITORY}"
    paths = ("", "/pulls/1", "/issues/1/comments", "/issues/comments/{}/reactions", "/branches", "/hooks")
    found: dict[str, Any] = {}
    for path in paths:
        last = found["/issues/1/comments"][-1]["id"] if "{}" in path else ""
        answer = requests.get(here + path.format(last), headers=headers, timeout=60)
        found[path] = answer.json()
    return found


def test_a_killed_forge_comes_back_whole(start: Callable[[], tuple[subprocess.Popen[str], str]]) -> None:
    """Ids, comments with their edits, reactions, tokens, roles, heads, the port; what comes next has the next id."""
    process, url = start()
    remote = RemoteControl(url, SECRET)
    remote.call("grant", full_name=REPOSITORY, login="alice", role_name="admin")
    remote.call("push", full_name=REPOSITORY, branch="b", files={"x": "1"}, login="alice")
    headers = {"Authorization": "token token-of-alice"}
    pull = {"title": "t", "head": "b", "base": "main", "draft": True}
    assert requests.post(f"{url}/repos/{REPOSITORY}/pulls", json=pull, headers=headers, timeout=60).status_code == 201
    first = remote.call("comment", full_name=REPOSITORY, number=1, login="alice", body="one")
    remote.call("edit_comment", full_name=REPOSITORY, comment_id=first, login="alice", body="two …")
    gone = remote.call("comment", full_name=REPOSITORY, number=1, login="alice", body="gone")
    remote.call("delete_comment", full_name=REPOSITORY, comment_id=gone, login="alice")
    remote.call("react", full_name=REPOSITORY, comment_id=first, login="alice", content="eyes")
    before = seen(url)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, again = start()
    assert again == url
    assert seen(again) == before
    assert [comment["body"] for comment in before["/issues/1/comments"]] == ["two …"]
    assert len(before["/issues/comments/{}/reactions"]) == 1
    remote.call("react", full_name=REPOSITORY, comment_id=first, login="alice", content="eyes")
    assert len(remote.call("reactions", comment_id=first)) == 1
    second = remote.call("comment", full_name=REPOSITORY, number=1, login="alice", body="three")
    assert second > gone
    (comment, _) = remote.call("comments", full_name=REPOSITORY, number=1)
    assert [edit["before"] for edit in comment["edits"]] == ["one"]


def test_a_death_while_it_answers_costs_at_most_what_nobody_was_told(
    start: Callable[[], tuple[subprocess.Popen[str], str]],
) -> None:
    """Killed again and again in the middle of writing: every comment that was acknowledged is there, once."""
    process, url = start()
    told: list[int] = []
    for round_ in range(5):
        killer = threading.Timer(0.05 + 0.03 * round_, process.kill)
        remote = RemoteControl(url, SECRET)
        if round_ == 0:
            remote.call("issue", full_name=REPOSITORY, login="alice", title="t")
        killer.start()
        headers = {"Authorization": "token token-of-alice"}
        with requests.Session() as session:
            while True:
                there = f"{url}/repos/{REPOSITORY}/issues/1/comments"
                try:
                    answer = session.post(there, json={"body": f"{len(told)}"}, headers=headers, timeout=60)
                    told.append(answer.json()["id"])
                except requests.RequestException:
                    break
        killer.join()
        process.wait()
        process, again = start()
        assert again == url
    kept = [comment["id"] for comment in RemoteControl(url, SECRET).call("comments", full_name=REPOSITORY, number=1)]
    assert kept == sorted(set(kept))
    assert [one for one in kept if one in set(told)] == told
    assert len(kept) <= len(told) + 5, "at most one a death took effect without its answer"


def test_a_delivery_that_was_not_sent_is_sent_after_the_restart_with_its_guid(
    start: Callable[[], tuple[subprocess.Popen[str], str]], receiver: Any
) -> None:
    """Held back, killed: the next process sends it, signed as before; what had been answered is not repeated."""
    address, got = receiver
    process, url = start()
    remote = RemoteControl(url, SECRET)
    hook = remote.call("add_hook", full_name=REPOSITORY, url=address, secret="s")
    ping, _ = got.get(timeout=60)
    while remote.call("deliveries", full_name=REPOSITORY, hook_id=hook)[0]["status_code"] != 204:
        threading.Event().wait(0.01)
    remote.call("issue", full_name=REPOSITORY, login="alice", title="t")
    remote.call("hold_deliveries")
    remote.call("comment", full_name=REPOSITORY, number=1, login="alice", body="one")
    (waiting, first) = remote.call("deliveries", full_name=REPOSITORY, hook_id=hook)
    assert (waiting["status_code"], first["guid"]) == (0, ping)
    process.kill()
    process.wait()
    assert got.empty()
    start()
    guid, body = got.get(timeout=60)
    assert (guid, body["comment"]["body"]) == (waiting["guid"], "one")
    while remote.call("deliveries", full_name=REPOSITORY, hook_id=hook)[0]["status_code"] != 204:
        threading.Event().wait(0.01)
    assert got.empty()


def test_a_torn_last_line_is_no_turn_and_a_damaged_one_is_said(tmp_path: Path) -> None:
    state, journal = tmp_path / "state", tmp_path / "state" / "journal.jsonl"
    with Sandbox.start(tmp_path / "forge", state=state) as forge:
        forge.add_account("alice", 1001)
        forge.add_account("bob", 1002)
    whole = journal.read_bytes()
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600
    journal.write_bytes(whole[:-5])
    with Sandbox.start(tmp_path / "forge", state=state) as forge:
        assert {account.login for account in forge.world.model.directory.accounts.values()} == {"alice"}
    journal.write_bytes(b'[[["accounts",1],{"record":"Path","has":{}}]]\n' + whole)
    with pytest.raises(ConfigError, match="line 1"):
        Sandbox.start(tmp_path / "forge", state=state)


def test_a_state_is_one_process_s_and_nobody_else_s(tmp_path: Path) -> None:
    """The accepting twin is the start before, and the one after it has ended."""
    state = tmp_path / "state"
    with Sandbox.start(tmp_path / "forge", state=state), pytest.raises(ConfigError, match="another forge"):
        Sandbox.start(tmp_path / "forge", state=state)
    Sandbox.start(tmp_path / "forge", state=state).close()
    state.chmod(0o755)
    with pytest.raises(ConfigError, match="others may use"):
        Sandbox.start(tmp_path / "forge", state=state)


def test_a_set_up_that_failed_leaves_no_half_forge(tmp_path: Path) -> None:
    """Its seed is corrected, and the same command starts it."""
    command = [*_files(tmp_path), "--state", str(tmp_path / "state")]
    seed = tmp_path / "seed.json"
    sound = seed.read_text()
    seed.write_text(sound.replace('"role_name": "write"', '"role_name": "king"'))
    assert subprocess.run(command, capture_output=True, timeout=120).returncode == 2
    seed.write_text(sound)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert "url" in child.stdout.readline()
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(60) == 0


def test_a_journal_that_has_grown_large_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LARGEST", 20_000)
    with Sandbox.start(tmp_path / "forge", state=tmp_path / "state") as forge:
        forge.add_account("alice", 1001)
        forge.add_account("acme", 50, "Organization")
        forge.add_repository(REPOSITORY, 501)
        number = forge.issue(REPOSITORY, "alice", "t")
        comment = forge.comment(REPOSITORY, number, "alice", "0")
        forge.delete_comment(REPOSITORY, comment, "alice")
        for turn in range(200):
            comment = forge.comment(REPOSITORY, number, "alice", f"{turn}" * 50)
            forge.delete_comment(REPOSITORY, comment, "alice")
        assert (tmp_path / "state" / "journal.jsonl").stat().st_size < 40_000
    with Sandbox.start(tmp_path / "forge", state=tmp_path / "state") as forge:
        assert forge.comments(REPOSITORY, number) == ()
        assert forge.comment(REPOSITORY, number, "alice", "next") > comment


def test_a_port_that_was_had_is_taken_again(tmp_path: Path) -> None:
    """Whoever was told the address finds the forge there after a restart, without naming a port."""
    with Sandbox.start(tmp_path / "forge", free_port(), state=tmp_path / "state") as forge:
        url = forge.url
    with Sandbox.start(tmp_path / "forge", state=tmp_path / "state") as forge:
        assert forge.url == url
