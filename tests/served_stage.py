"""A workspace as it runs: a process over a database of its own, with tokens, people who are signed in, and the sealer
in the test's hand; and a reader of its event stream on a bare socket.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import requests

from gitops_bot.authority.sealing import Sealer
from gitops_bot.authority.sessions import open_session
from gitops_bot.authority.site import Site
from gitops_bot.bootstrap.trust import pin
from gitops_bot.core.ledger import Entry
from gitops_bot.core.principals import Principal, PrincipalKind, PrincipalName
from gitops_bot.store import ledger
from gitops_bot.store.engine import Database
from gitops_bot.store.person_tables import SessionKind, SessionMethod
from gitops_bot.store.roles import Role
from tests.ports import free_port
from tests.store_fixtures import FreshDatabase, SqliteTemplates

POLICIES: Final = Path(__file__).parents[1] / "policies"
BOT: Final = (sys.executable, "-m", "gitops_bot.cli")
SITE: Final = Site("http://localhost", "localhost", "gitops-bot", 0, 12 * 3_600_000, 168 * 3_600_000)
PATIENCE: Final = 60.0


@dataclass
class Served:
    """A running workspace, with the token of an application and of a loop."""

    url: str
    port: int
    folder: Path
    host: Database
    database: FreshDatabase
    process: subprocess.Popen[bytes]
    token: str
    loop_token: str
    sealer: Sealer = field(init=False)

    def __post_init__(self) -> None:
        self.sealer = Sealer(self.database.open(Role.BROKER))

    @property
    def log(self) -> str:
        """What it wrote."""
        return (self.folder / "log").read_text()

    def bot(self, *arguments: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command line against it."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GITOPS_BOT")},
            "GITOPS_BOT_URL": self.url,
            "GITOPS_BOT_TOKEN": token or self.token,
        }
        return subprocess.run([*BOT, *arguments], capture_output=True, text=True, env=environment, timeout=120)

    def call(self, method: str, path: str, **more: Any) -> requests.Response:
        """Call the API as the application."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return requests.request(method, f"{self.url}/api/v1{path}", headers=headers, timeout=120, **more)

    def person(self, name: str, kind: SessionKind = SessionKind.BROWSER) -> tuple[str, str]:
        """Let somebody be signed in; give the session's id and secret."""
        principal = Principal(PrincipalName(name), PrincipalKind.HUMAN)
        with self.database.open(Role.WORKSPACE).write() as tx:
            made, secret = open_session(tx, SITE, principal, kind, SessionMethod.PASSKEY, credential="k")
        return made.id, secret

    def tell(self, *kinds: str, ask: str | None = None) -> None:
        """Write entries, each in a transaction of its own, and seal them."""
        for kind in kinds:
            with self.host.write() as tx:
                ledger.append(tx, Entry(kind, tx.now, ask=ask))
        self.seal()

    def seal(self) -> None:
        """Seal everything that was written."""
        while self.sealer.seal():
            continue


HURRIED: Final = """
import sys
from workspace import __main__, behind, server
server.HEAD_SECONDS, server.IDLE_SECONDS, server.MOST_CONNECTIONS, behind.BODY_SECONDS = 1.0, 2, 20, 1.0
sys.exit(__main__.main(sys.argv[1:]))
"""
"""A workspace whose limits of time and number are small, so that a test sees them."""


def serve(
    home: Path, templates: SqliteTemplates, settings: str = "", program: str = "", policies: Path = POLICIES
) -> Iterator[Served]:
    """Set a host up over an empty database and run its workspace. `settings` go into its section; `program` is run in
    place of the command."""
    sqlite_database = templates.copy("sqlite")
    folder = home / "host"
    folder.mkdir(mode=0o700)
    shutil.copytree(policies, folder / "policies")
    (folder / ".gitops-bot").mkdir(mode=0o700)
    (folder / "url").touch(mode=0o600)
    (folder / "url").write_text(sqlite_database.owner_url)
    port = free_port()
    config = folder / "gitops-bot.toml"
    config.write_text(f'[database]\nurl_file = "url"\n[workspace]\nbind = "127.0.0.1:{port}"\n{settings}')
    pin(folder / "policies", folder / ".gitops-bot" / "trust.json")
    tokens = []
    for slug, more in (("shell", ()), ("tuner", ("--loop",))):
        added = subprocess.run(
            [*BOT, "agent", "add", slug, "--principal", "demo-agent", *more, "--config", str(config)],
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        tokens.append(added.stdout.strip())
    # A module of its name in the current folder must not be what is run.
    (folder / "workspace.py").write_text("raise SystemExit('the wrong workspace')")
    log = (folder / "log").open("wb")
    command = [sys.executable, "-P", "-c", program] if program else [*BOT, "workspace"]
    process = subprocess.Popen([*command, "--config", str(config)], cwd=folder, stderr=log, stdout=log)
    url = f"http://127.0.0.1:{port}"
    try:
        until_ready(url, process, folder / "log")
        host = sqlite_database.open(Role.HOST)
        yield Served(url, port, folder, host, sqlite_database, process, tokens[0], tokens[1])
    finally:
        process.kill()
        process.wait()
        log.close()
        sqlite_database.close()


def until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a workspace answers."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(requests.RequestException):
            if requests.get(f"{url}/readyz", timeout=30).status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def raw(port: int, sent: bytes, *, close: bool = True) -> bytes:
    """Send bytes and read everything until the server closes; with `close` ours is no longer open for more."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(sent)
        if close:
            connection.shutdown(socket.SHUT_WR)
        return everything(connection)


def everything(connection: socket.socket) -> bytes:
    """Read until the other side closes or cuts the connection."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65_536):
            found += part
    return found


def status_of(answer: bytes) -> int:
    """Give the status of an answer; 0 where there is none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else 0


class Stream:
    """One reader of the event stream. `status` is the answer's; `lines` go on until the server ends it."""

    def __init__(self, port: int, headers: dict[str, str], query: str = "", host: str | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        sent = {"Host": host or f"localhost:{port}", **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        self.socket.sendall(f"GET /api/v1/events{query} HTTP/1.1\r\n{head}\r\n".encode("latin-1"))
        self._file = self.socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        self.headers: dict[str, str] = {}
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.decode("latin-1").partition(": ")
            self.headers[name] = value
        self._text = ""

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Go away."""
        self._file.close()
        self.socket.close()

    def _chunk(self) -> bool:
        size = int(self._file.readline() or b"0", 16)
        self._text += self._file.read(size).decode("utf-8")
        self._file.readline()
        return size > 0

    def next(self) -> tuple[str, int | None, dict[str, Any]] | None:
        """Give the next event as (name, id, data); None when the stream ended. A minute of heartbeats is a fault."""
        until = time.monotonic() + 60.0
        while True:
            assert time.monotonic() < until, "nothing but heartbeats"
            while "\n\n" not in self._text:
                if not self._chunk():
                    return None
            block, _, self._text = self._text.partition("\n\n")
            fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
            if "data" in fields:
                place = int(fields["id"]) if "id" in fields else None
                return fields.get("event", "message"), place, json.loads(fields["data"])

    def take(self, count: int) -> list[dict[str, Any]]:
        """Give the data of the next so many messages."""
        found = []
        while len(found) < count:
            event = self.next()
            assert event is not None, f"the stream ended after {len(found)} of {count}"
            if event[0] == "message":
                assert event[1] == event[2]["seq"]
                found.append(event[2])
        return found

    def to_end(self) -> list[tuple[str, int | None, dict[str, Any]]]:
        """Give everything until the server ends the stream."""
        found = []
        while (event := self.next()) is not None:
            found.append(event)
        return found


def cookie(secret: str) -> dict[str, str]:
    """Give the header of a browser that is signed in."""
    return {"Cookie": f"__Host-gitops-bot={secret}"}


def bearer(secret: str) -> dict[str, str]:
    """Give the header of a shell, or an agent."""
    return {"Authorization": f"Bearer {secret}"}
