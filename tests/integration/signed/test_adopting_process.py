"""A broker that runs goes on under the policy that people adopted, in the same process, and replaces what was open."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.bootstrap.database import open_database
from gitops_bot.bootstrap.workspace import Pinned
from gitops_bot.store import asks, requests
from gitops_bot.store.roles import Role
from tests.signed_pin import PinHost
from tests.store_fixtures import FreshDatabase

PATIENCE = 180.0


@pytest.fixture
def apart(sqlite_database: FreshDatabase, gpg_homes: Path) -> Iterator[PinHost]:
    """A host whose broker is a process of its own; its folder's path must fit into that of a socket."""
    with tempfile.TemporaryDirectory(prefix="gb-") as name:
        host = PinHost(Path(name) / "host", sqlite_database, apart=True, homes=gpg_homes)
        yield host
        host.close()


def test_a_running_broker_follows_what_people_adopted_without_a_restart(apart: PinHost) -> None:
    """And a killed one that missed the trust file by a moment does the same when it starts."""
    host = apart
    command = [sys.executable, "-m", "gitops_bot.cli", "broker", "--config", str(host.folder / "gitops-bot.toml")]
    log = host.folder / "broker.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=host.folder, stdout=file, stderr=file, env=dict(os.environ))
    reader = open_database(host.fresh.url(Role.WORKSPACE), Role.WORKSPACE)

    def until(seen: Callable[[], Any], what: str) -> Any:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and process.poll() is None:
            if found := seen():
                return found
            time.sleep(0.1)
        raise AssertionError(f"not in time: {what}; status {process.poll()}; {log.read_text()[-2000:]}")

    def requested(ask: str) -> bool:
        with reader.read() as tx:
            return requests.get(tx, ask) is not None

    def replaced(ask: str) -> str | None:
        with reader.read() as tx:
            found = asks.get(tx, ask)
        return None if found is None else found.superseded_by

    try:
        until(lambda: b"broker: ready" in log.read_bytes(), "ready")
        workspace = Pinned(host.settings, reader)
        transfer = host.ask()
        status, out, err = host.bot("policy", "propose", str(_next_bundle(host)), "--json")
        assert status == 0, err
        proposed = json.loads(out)
        until(lambda: requested(proposed["ask"]) and requested(transfer), "the requests")
        for person in ("alice", "carol"):
            host.vote(person, proposed["ask"])
        until(lambda: host.trust.policy_digest == proposed["digest"], "the pin")
        successor = until(lambda: replaced(transfer), "the successor")
        assert workspace.now().policy.digest == proposed["digest"]
        until(lambda: requested(successor), "the successor's request, by the broker under the new policy")
        assert host.request(successor).policy == proposed["digest"]
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()
            reader.close()


def _next_bundle(host: PinHost) -> Path:
    """Write the next bundle beside the pinned one."""
    from tests.signed_bundle import bundle, write_bundle

    def change(tables: dict[str, Any]) -> None:
        tables["version"] = 2
        tables["verbs"]["payments.transfer"]["expires"] = "12h"

    return write_bundle(bundle(change), host.folder / "next")
