"""Webhooks: deliveries verified, deduplicated and durably stored a second, beside Probot, which verifies and stores
nothing, with the same signed payloads from the same sender in one run.

Probot is no dependency: `tools/need.sh probot` installs it, with the Node that it needs, into `benchmarks/probot` from
the lock file there; this runs that, and leaves Probot out where there is no network. Bounds: at least half of Probot's
rate, and a p99 under 50 ms at a steady pace.
"""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import func, select

from benchmarks.bench_server import resident
from gitops_bot.bootstrap.trust import pin
from gitops_bot.forge.signature import sign
from gitops_bot.store import schema
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.work_tables import hook_deliveries
from tests.contract.described import NODE
from tests.ports import free_port

DELIVERIES: Final = 3_000
WARM: Final = 300
CONNECTIONS: Final = 32
STEADY: Final = 500
PACE: Final = 0.01
SHARE: Final = 0.5
BOUND_MS: Final = 50.0
SECRET: Final = "between us and the forge"
POLICIES: Final = Path(__file__).parent.parent / "policies"
PROBOT: Final = Path(__file__).parent / "probot"
NEED: Final = Path(__file__).parent.parent / "tools" / "need.sh"


def bodies(count: int, begin: int) -> list[bytes]:
    """Give comments on pull requests as GitHub describes them, each of another id."""
    kinds = json.loads((NODE / "webhooks-examples" / "api.github.com" / "index.json").read_text(encoding="utf-8"))
    example = next(kind for kind in kinds if kind["name"] == "issue_comment")["examples"][0]
    made = []
    for number in range(begin, begin + count):
        issue = {**example["issue"], "pull_request": {"url": "u"}}
        comment = {**example["comment"], "id": 1_000_000 + number}
        made.append(json.dumps({**example, "action": "created", "issue": issue, "comment": comment}).encode())
    return made


async def _one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, body: bytes) -> int:
    head = (
        f"POST /hooks/github HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
        f"X-GitHub-Event: issue_comment\r\nX-GitHub-Delivery: {uuid.uuid4()}\r\nUser-Agent: GitHub-Hookshot/x\r\n"
        f"X-Hub-Signature-256: {sign(SECRET.encode(), body)}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode("ascii") + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    length, lower = 0, answer.lower()
    if b"content-length:" in lower:
        length = int(lower.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        await reader.readexactly(length)
    elif b"chunked" in lower:
        await reader.readuntil(b"0\r\n\r\n")
    return int(answer.split(b" ", 2)[1])


async def send(port: int, given: list[bytes], connections: int, pace: float = 0.0) -> list[float]:
    """Deliver bodies over so many connections; the milliseconds of each."""
    waiting = iter(given)
    spent: list[float] = []

    async def sender() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for body in waiting:
            begun = time.perf_counter()
            status = await _one(reader, writer, port, body)
            spent.append((time.perf_counter() - begun) * 1000)
            assert status in (200, 202), status
            if pace:
                await asyncio.sleep(pace)
        writer.close()

    await asyncio.gather(*(sender() for _ in range(connections)))
    return spent


@contextmanager
def ours() -> Iterator[tuple[int, int, Database]]:
    """Run a workspace over an empty database."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        url = f"sqlite:///{folder / 'db'}"
        owner = Database.open(url, Role.OWNER)
        schema.upgrade(owner.engine)
        shutil.copytree(POLICIES, folder / "policies")
        (folder / ".gitops-bot").mkdir(mode=0o700)
        for file, text in (("url", url), ("secret", SECRET)):
            (folder / file).touch(mode=0o600)
            (folder / file).write_text(text, encoding="utf-8")
        pin(folder / "policies", folder / ".gitops-bot" / "trust.json")
        config = folder / "gitops-bot.toml"
        config.write_text(
            f'[database]\nurl_file = "url"\n[workspace]\nbind = "127.0.0.1:{port}"\n'
            '[forge]\nwebhook_secret_files = ["secret"]\n',
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "workspace", "--config", str(config)]
        with subprocess.Popen(command, cwd=POLICIES.parent) as process:
            try:
                yield port, process.pid, owner
            finally:
                process.terminate()
        owner.close()


@contextmanager
def probot() -> Iterator[tuple[int, int]]:
    """Run Probot with a handler that does nothing."""
    port = free_port()
    environment = {**os.environ, "SECRET": SECRET, "PORT": str(port), "NODE_ENV": "production"}
    node = PROBOT / "node_modules" / ".bin" / "node"
    with subprocess.Popen([str(node), "serve.mjs"], cwd=PROBOT, env=environment) as process:
        try:
            yield port, process.pid
        finally:
            process.terminate()


def wait_for(port: int) -> None:
    """Wait until somebody listens."""

    async def once() -> None:
        for _ in range(600):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
                continue
            writer.close()
            return
        raise AssertionError("nobody listens")

    asyncio.run(once())


def measure(name: str, port: int, pid: int) -> tuple[float, float]:
    """Give deliveries a second as fast as they go, and the p99 in ms at a steady pace."""
    wait_for(port)
    asyncio.run(send(port, bodies(WARM, 0), CONNECTIONS))
    given = bodies(DELIVERIES, WARM)
    begun = time.perf_counter()
    asyncio.run(send(port, given, CONNECTIONS))
    rate = DELIVERIES / (time.perf_counter() - begun)
    spent = asyncio.run(send(port, bodies(STEADY, WARM + DELIVERIES), 1, PACE))
    p99 = statistics.quantiles(spent, n=100)[98]
    print(f"{name}: {rate:.0f} a second, p99 {p99:.1f} ms at {1 / PACE:.0f} a second at most, {resident(pid):.0f} MB")
    return rate, p99


def main() -> bool:
    """Measure both; tell whether the bounds hold."""
    with ours() as (port, pid, owner):
        rate, p99 = measure("gitops-bot", port, pid)
        with owner.read() as tx:
            stored = tx.execute(select(func.count()).select_from(hook_deliveries)).scalar_one()
        assert stored == 2 * (WARM + DELIVERIES + STEADY), stored
    held = p99 < BOUND_MS
    if subprocess.run([str(NEED), "probot"], check=False).returncode != 0:
        print("Probot is not installed; left out")
        return held
    with probot() as (port, pid):
        other, _ = measure("Probot", port, pid)
    print(f"{rate / other:.2f} of Probot's rate, bound {SHARE}; p99 bound {BOUND_MS:.0f} ms")
    return held and rate >= SHARE * other
