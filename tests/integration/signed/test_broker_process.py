"""The broker as a real process over a `file://` remote: requests go out, votes come in, once, whenever it is killed.

Agents and people are others than the broker: the ask is opened in the workspace's role, the vote is pushed with git.
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.bootstrap.broker import build
from gitops_bot.process import run
from gitops_bot.signed import by_hand
from gitops_bot.signed.openpgp.engine import OpenPgpKeys
from gitops_bot.signed.openpgp.gpg import Gpg
from gitops_bot.signed.sshsig.keygen import SshKeygen
from gitops_bot.signed.sshsig.verifier import SshKeys
from gitops_bot.store import ledger, signed_commits, signed_votes
from gitops_bot.store.states import CommitState
from tests import signed_keys as keys
from tests.signed_host import SignedHost
from tests.store_fixtures import FreshDatabase

REQUESTS = "refs/heads/gated/production/requests"
PATIENCE = 180.0


def until(seen: Callable[[], Any], what: str, *, of: subprocess.Popen[bytes]) -> Any:
    """Wait for a condition while a broker runs; the machine may be busy."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and of.poll() is None:
        if found := seen():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not in time: {what}; the broker's status is {of.poll()}")


@contextmanager
def running(host: SignedHost) -> Iterator[subprocess.Popen[bytes]]:
    """Run the broker until the end of the block; what it said is in broker.log."""
    command = [sys.executable, "-m", "gitops_bot.cli", "broker", "--config", str(host.folder / "gitops-bot.toml")]
    log = host.folder / "broker.log"
    before = log.stat().st_size if log.exists() else 0
    with log.open("ab") as file:
        process = subprocess.Popen(command, cwd=host.folder, stdout=file, stderr=file)
    try:
        until(lambda: b"broker: ready" in log.read_bytes()[before:], "ready", of=process)
        yield process
    finally:
        process.kill()
        process.wait(60)


def published(host: SignedHost, path: str) -> bytes | None:
    """Give a file of the requests branch; None while it is not there."""
    done = run(("git", "cat-file", "blob", f"{REQUESTS}:{path}"), cwd=host.stage.folder, timeout=60)
    return done.stdout if done.returncode == 0 else None


def standing(host: SignedHost, ask: str) -> str:
    """Say what `approval list` says of an ask."""
    items = json.loads(host.bot("approval", "list", "--json")[1])["items"]
    return next((str(item["standing"]) for item in items if item["ask"] == ask), "")


def counted(host: SignedHost, ask: str) -> tuple[int, int]:
    """Count alice's votes on an ask, and the ledger's entries about them."""
    with host.database.read() as tx:
        votes = [vote for vote in signed_votes.of_ask(tx, ask) if vote.principal == "alice"]
        told = [entry for entry in ledger.of_ask(tx, ask) if entry["kind"] == "vote.counted"]
    return len(votes), len(told)


@pytest.fixture
def apart(sqlite_database: FreshDatabase) -> Iterator[SignedHost]:
    """A host whose broker is a process of its own; its folder's path must fit into that of a socket."""
    with tempfile.TemporaryDirectory(prefix="gb-") as name:
        host = SignedHost(Path(name) / "host", sqlite_database, apart=True)
        yield host
        host.close()


def test_a_request_goes_out_and_a_vote_pushed_with_git_comes_back_as_a_receipt(
    apart: SignedHost, tmp_path: Path
) -> None:
    host = apart
    with running(host) as process:
        ask = host.ask()
        folder = f"{ask[-2:]}/{ask}"
        request = until(lambda: published(host, f"asks/{folder}/request.json"), "the request", of=process)
        assert json.loads(request)["ask"] == ask
        (tmp_path / "allowed").write_text(f'bot namespaces="git" {keys.ssh_line("bot")}\n')
        check = ("git", "-c", "gpg.format=ssh", "-c", f"gpg.ssh.allowedSignersFile={tmp_path / 'allowed'}")
        verified = run((*check, "verify-commit", REQUESTS), cwd=host.stage.folder, timeout=60)
        assert verified.returncode == 0, verified.stderr
        (tmp_path / "key").touch(mode=0o600)
        (tmp_path / "key").write_bytes(keys.ssh_path("alice").read_bytes())
        shown = json.loads(host.bot("approval", "show", ask, "--person", "alice", "--json")[1])["file"]["commands"]
        variables, _, rest = shown.partition("git fetch")
        setup = f"""
            git init --quiet --bare signing.git && cd signing.git
            git config user.name alice && git config user.email alice@example.org
            git config gpg.format ssh && git config user.signingKey {tmp_path / "key"}
        """
        script = "\n".join((variables, setup, by_hand.ROOT, "git fetch" + rest))
        done = run(("sh", "-eu", "-c", script), cwd=tmp_path, env={"HOME": str(tmp_path)}, timeout=120)
        assert done.returncode == 0, done.stderr
        until(lambda: standing(host, ask) == "1 of 2, missing bob", "the vote", of=process)
        receipt = json.loads(until(lambda: published(host, f"receipts/{folder}/alice.json"), "the receipt", of=process))
        (said,) = receipt["receipts"]
        assert (said["code"], said["votes"], said["missing"]) == ("counted", ["alice"], ["bob"])
        assert counted(host, ask) == (1, 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_killed_in_the_middle_it_loses_nothing_and_counts_nothing_twice(
    apart: SignedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = apart
    with running(host) as process:
        asks = [host.ask(amount_minor=amount) for amount in (1, 2, 3, 4)]
        until(
            lambda: all(published(host, f"asks/{ask[-2:]}/{ask}/request.json") for ask in asks),
            "the requests",
            of=process,
        )
    commits = []
    for place, ask in enumerate(asks):
        with running(host):
            commits.append(host.vote("alice", ask))
            commits.append(host.vote("alice", ask))
            # Each time a little later: before the look, in it, and while the receipt is published.
            time.sleep(0.4 * place)
    with running(host) as process:
        until(lambda: all(counted(host, ask)[0] for ask in asks), "all votes", of=process)
        paths = [f"receipts/{ask[-2:]}/{ask}/alice.json" for ask in asks]
        until(lambda: all(len(receipts(published(host, path))) == 2 for path in paths), "all receipts", of=process)
    assert [counted(host, ask) for ask in asks] == [(1, 1)] * 4
    with host.database.read() as tx:
        judged = [signed_commits.get(tx, "alice", commit) for commit in commits]
    assert all(one is not None and one.state is CommitState.JUDGED for one in judged)
    assert Counter(one.code for one in judged if one is not None) == {"counted": 4, "duplicate": 4}
    restart_verifies_nothing(host, monkeypatch)


def receipts(content: bytes | None) -> list[Any]:
    found: list[Any] = [] if content is None else json.loads(content)["receipts"]
    return found


def restart_verifies_nothing(host: SignedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start anew with nothing new, and see that no engine is asked; a vote more is asked of both, once."""
    asked: Counter[str] = Counter()

    def count(engine: Any) -> None:
        real = engine.verify

        def verify(self: Any, *arguments: Any) -> Any:
            asked[engine.__name__] += 1
            return real(self, *arguments)

        monkeypatch.setattr(engine, "verify", verify)

    for engine in (OpenPgpKeys, Gpg, SshKeys, SshKeygen):
        count(engine)
    ask = host.ask(verb="note.publish", params={"title": "one more"})
    broker = build(host.settings)
    assert broker.signed is not None and broker.signed.announcer is not None
    looked = [broker.signed.looker.look() for _ in range(2)]
    assert [(one.judged, one.held) for one in looked] == [(0, 0), (0, 0)]
    assert asked == {}
    broker.signed.announcer.step()
    asked.clear()
    host.vote("alice", ask)
    assert broker.signed.looker.look().judged == 1
    assert asked == {"OpenPgpKeys": 1, "Gpg": 1}
    broker.close()
