"""Webhooks as a forge sends them to a workspace that runs: signed posts, and processes over a database of a stage."""

import contextlib
import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import requests
from sqlalchemy import func, select

from gitops_bot.bootstrap.trust import pin
from gitops_bot.forge.signature import sign
from gitops_bot.store.roles import Role
from gitops_bot.store.tables import metadata
from tests.ports import free_port
from tests.served_stage import BOT, POLICIES, until_ready
from tests.store_fixtures import FreshDatabase

SECRET: Final = b"between us and the forge"
NEXT_SECRET: Final = b"what comes after it"


def secret_file(folder: Path, name: str = "webhook", secret: bytes = SECRET) -> Path:
    """Write a secret as its owner keeps it."""
    path = folder / name
    path.touch(mode=0o600)
    path.write_bytes(secret)
    return path


def post(
    url: str, event: str, body: bytes, *, secret: bytes | None = SECRET, guid: str = "", **headers: str
) -> requests.Response:
    """Deliver a body as the forge does; `headers` with `_` for `-` replace what it would send."""
    sent = {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": guid or str(uuid.uuid4()),
    }
    if secret is not None:
        sent["X-Hub-Signature-256"] = sign(secret, body)
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    return requests.post(f"{url}/hooks/github", data=body, headers=sent, timeout=60)


def comment_body(repository: int, number: int, comment: int, body: str, **more: Any) -> bytes:
    """Write what of a comment's payload is read."""
    document: dict[str, Any] = {
        "action": "created",
        "issue": {"number": number, "pull_request": {"url": "u"}},
        "comment": {"id": comment, "body": body, "updated_at": "2026-01-01T00:00:00Z"},
        "repository": {"id": repository},
    }
    return json.dumps(document | more, ensure_ascii=False).encode("utf-8")


def counts(database: FreshDatabase) -> dict[str, int]:
    """Count the rows of every table."""
    with database.open(Role.OWNER).read() as tx:
        return {
            name: tx.execute(select(func.count()).select_from(table)).scalar_one()
            for name, table in metadata.tables.items()
        }


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Say which tables have how many rows more or fewer."""
    return {name: after[name] - count for name, count in before.items() if after[name] != count}


@contextlib.contextmanager
def workspace_over(home: Path, database_url: str, secrets: list[Path]) -> Iterator[str]:
    """Run the workspace over a database that a stage has; its address."""
    home.mkdir(mode=0o700)
    shutil.copytree(POLICIES, home / "policies")
    (home / ".gitops-bot").mkdir(mode=0o700)
    (home / "url").touch(mode=0o600)
    (home / "url").write_text(database_url)
    port = free_port()
    config = home / "gitops-bot.toml"
    config.write_text(
        f'[database]\nurl_file = "url"\n[workspace]\nbind = "127.0.0.1:{port}"\n'
        f"[forge]\nwebhook_secret_files = {json.dumps([str(path) for path in secrets])}\n"
    )
    pin(home / "policies", home / ".gitops-bot" / "trust.json")
    url, log = f"http://127.0.0.1:{port}", home / "log"
    with log.open("wb") as written:
        process = subprocess.Popen([*BOT, "workspace", "--config", str(config)], cwd=home, stderr=written)
        try:
            until_ready(url, process, log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
