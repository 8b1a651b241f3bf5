"""A real broker with 10,000 open asks beside one with none, at rest: threads, database connections, resident memory.

Bound: not a thread more, no connection beyond the pool that both have, and resident memory within 30 MB. Both brokers
are the product's own process with a configuration of its own; each is measured once it has come to rest.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import make_url

from benchmarks.bench_answer import many
from gitops_bot.bootstrap.trust import pin
from gitops_bot.store import schema
from gitops_bot.store.roles import Role
from tests.decisions import Stage
from tests.postgres import postgres_superuser_url
from tests.store_fixtures import Cluster, FreshDatabase

ASKS: Final = 10_000
BOUND_MB: Final = 30.0
REST_SECONDS: Final = 4.0
POOL: Final = 12
"""What a broker's pool may hold at most, whatever is open; how many it opened depends on what met by chance."""
ROOT: Final = Path(__file__).parent.parent


@dataclass(frozen=True)
class Held:
    """What a process at rest holds; memory in MB."""

    threads: int
    connections: int
    resident: float


def wait_ready(process: "subprocess.Popen[str]") -> None:
    """Wait until the broker says that it runs."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "ready" in line:
            return
    raise RuntimeError("the broker did not start: " + "".join(lines)[-500:])


def measure(fresh: FreshDatabase, folder: Path) -> Held:
    """Start a broker, let it come to rest, and read what it holds."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    command = [sys.executable, "-m", "gitops_bot.cli", "broker", "--config", str(folder / "gitops-bot.toml")]
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        wait_ready(process)
        time.sleep(REST_SECONDS)
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        return Held(_number(status, "Threads"), _connections(fresh, process.pid), _number(status, "VmRSS") / 1024)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def _number(status: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)
    assert found is not None
    return int(found[1])


def _connections(fresh: FreshDatabase, pid: int) -> int:
    """Count the sessions at the server, or the open files of the database."""
    if fresh.kind == "postgresql":
        import psycopg

        url = make_url(fresh.owner_url)
        with psycopg.connect(host=str(url.query["host"]), dbname=url.database, user=url.username) as connection:
            asked = (
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gitops-bot broker' AND datname = %s"
            )
            row = connection.execute(asked, (url.database,)).fetchone()
            return int(row[0]) if row else 0
    # A descriptor may close between the listing and the look.
    targets = [os.path.realpath(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    return targets.count(str(fresh.path))


@contextmanager
def house(fresh: FreshDatabase) -> Iterator[Path]:
    """Make the folder that a broker runs from: settings, policy, trust file."""
    with tempfile.TemporaryDirectory(prefix="gb-idle-") as name:
        folder = Path(name)
        (folder / ".gitops-bot").mkdir(mode=0o700)
        (folder / "url").touch(mode=0o600)
        (folder / "url").write_text(fresh.url(Role.BROKER), encoding="utf-8")
        policies = str(ROOT / "policies")
        text = f'policies = "{policies}"\n[database]\nurl_file = "url"\n'
        (folder / "gitops-bot.toml").write_text(text, encoding="utf-8")
        pin(ROOT / "policies", folder / ".gitops-bot" / "trust.json")
        yield folder


@contextmanager
def databases() -> Iterator[Iterator[FreshDatabase]]:
    """Give a database on each engine that there is."""
    with tempfile.TemporaryDirectory(prefix="gitops-bot-bench-") as folder:

        def each() -> Iterator[FreshDatabase]:
            fresh = FreshDatabase("sqlite", f"sqlite:///{Path(folder) / 'bench.db'}")
            schema.upgrade(fresh.open(Role.OWNER).engine)
            yield fresh
            fresh.close()
            try:
                cluster = Cluster(make_url(postgres_superuser_url()))
            except LookupError as error:
                print(f"  postgresql: not measured ({error})")
                return
            clone = cluster.clone()
            yield clone
            clone.close()
            cluster.release(clone)
            cluster.close()

        yield each()


def main() -> bool:
    """Measure on each engine, print both sides, and tell whether the bound holds."""
    held = True
    with databases() as engines:
        for fresh in engines:
            with house(fresh) as folder:
                empty = measure(fresh, folder)
                many(Stage(fresh.open(Role.BROKER)), ASKS)
                fresh.close()
                full = measure(fresh, folder)
            more = full.resident - empty.resident
            print(
                f"  {fresh.kind}: empty {empty.threads} threads, {empty.connections} connections, "
                f"{empty.resident:.1f} MB; {ASKS} open asks {full.threads} threads, {full.connections} connections, "
                f"{full.resident:.1f} MB; {more:+.1f} MB (bound {BOUND_MB:.0f})"
            )
            held = held and more <= BOUND_MB and full.threads <= empty.threads
            held = held and full.connections <= POOL
    return held
