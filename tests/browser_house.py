"""A set-up of the product that runs for browser tests: files, a pinned policy, two agents, broker and workspace.

What people do in it is for `tests.browser_stage`.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import text

from gitops_bot.api.client import Client
from gitops_bot.bootstrap import letting_in, trust
from gitops_bot.bootstrap.rules import rules_of
from gitops_bot.bootstrap.workspace import site_of
from gitops_bot.cli.host import host_database
from gitops_bot.store import schema
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from tests.ports import free_port

ROOT: Final = Path(__file__).parents[1]
START_SECONDS: Final = 90.0
KEYS: Final = ROOT / "tests" / "vectors" / "signed"

AGENTS: Final = {"agent-1": "agent-1", "agent-2": "agent-2"}
"""Agents by slug, and the services of the policy that they act as."""

POLICY: Final = """
schema = "gitops-bot/policy/v1"
version = 1

[people.alice]
kind = "human"
github = 1001

[people.bob]
kind = "human"
github = 1002
openpgp = ["keys/bob.asc"]

[people.carol]
kind = "human"
github = 1003
openpgp = ["keys/carol.asc"]

[people.bot]
kind = "service"
role = "requests"
openpgp = ["keys/bot.asc"]

[people.agent-1]
kind = "service"
owner = "alice"

[people.agent-2]
kind = "service"
owner = "alice"

[asks.question]
channels = ["workspace"]
voters = { owner = true, people = ["alice", "bob"] }

[verbs."service.deploy"]
channels = ["workspace"]
summary = "Deploy {service} in {region}"
voters = { people = ["alice", "bob"] }
approve = 1
expires = "7d"
params = { service = { match = "[a-z-]{1,40}" }, region = { one_of = ["eu-west", "us-east"] } }

[verbs."service.delete"]
channels = ["workspace"]
summary = "Delete {service} for good"
voters = { people = ["alice", "bob"] }
approve = 1
expires = "7d"
risk = "high"
params = { service = { match = "[a-z-]{1,40}" } }

[verbs."note.publish"]
channels = ["workspace"]
summary = "Publish a note"
voters = { people = ["alice", "bob"] }
approve = 1
expires = "7d"
params = { text = { match = ".{1,500}" } }

[verbs."service.restart"]
channels = ["workspace"]
summary = "Restart {service}"
voters = { people = ["alice", "bob"] }
approve = 1
expires = "7d"
risk = "low"
params = { service = { match = "[a-z-]{1,40}" } }

[verbs."payments.transfer"]
gated = true
summary = "Transfer {amount_minor:money(currency)} to {to}"
voters = { people = ["bob", "carol"] }
keys = "any"
approve = 2
accept_no_spare = true
expires = "24h"
params = { amount_minor = { integer = true, ge = 1, le = 10_000_000 }, currency = { one_of = ["EUR", "USD"] }, \
to = { match = "[A-Z0-9]{15,34}" } }
executor = { process = ["/bin/true"], sha256 = "%s" }

[verbs."policy.adopt"]
voters = { people = ["bob", "carol"] }
keys = "any"
approve = 2
accept_no_spare = true
"""


@dataclass(repr=False)
class House:
    """One set-up that runs. `tokens` are the agents' by slug; `passkeys` what each person's authenticator holds."""

    root: Path
    port: int
    tokens: dict[str, str] = field(default_factory=dict)
    passkeys: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        return f"http://localhost:{self.port}"

    @property
    def config(self) -> Path:
        return self.root / "gitops-bot.toml"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.root / '.gitops-bot' / 'gitops-bot.db'}"

    def argv(self, *arguments: str) -> list[str]:
        """Give the words of a command of the product."""
        return [sys.executable, "-P", "-m", *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        """Give the environment of a command."""
        return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **more}

    def command(self, *arguments: str) -> str:
        """Run a command on this host that must succeed; gives what it printed."""
        argv = self.argv("gitops_bot.cli", *arguments, "--config", str(self.config))
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, cwd=self.root, env=self.environment())
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *argv: str) -> None:
        """Start a process of the product that runs until the house ends, or is stopped."""
        with (self.root / f"{argv[-1]}.log").open("ab") as log:
            words = [*self.argv(*argv), "--config", str(self.config)]
            child = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.root, env=self.environment())
        self.children[argv[-1]] = child

    def stop(self, name: str) -> None:
        """End one of the processes."""
        child = self.children.pop(name)
        child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def restart(self, *argv: str) -> None:
        """Start the workspace again and wait until it answers."""
        self.start(*argv)
        wait_for(self)

    def agent(self, slug: str = "agent-1") -> Client:
        """Give the API as an agent has it."""
        return Client(f"http://127.0.0.1:{self.port}", self.tokens[slug])

    def question(self, words: str, *options: str, why: str = "", slug: str = "agent-1", **more: Any) -> str:
        """Have an agent ask a plain question; its id."""
        body = {"question": words, "options": list(options), "why": why, **more}
        return str(self.agent(slug).post("/asks", body)["id"])

    def request(self, verb: str, *, why: str = "", slug: str = "agent-1", **params: Any) -> str:
        """Have an agent ask for an action; the ask's id."""
        return str(self.agent(slug).post(f"/verbs/{verb}/requests", {"params": params, "why": why})["id"])

    def ask(self, ask: str, slug: str = "agent-1") -> dict[str, Any]:
        """Read an ask as its agent sees it."""
        return self.agent(slug).get(f"/asks/{ask}")

    def state(self, ask: str, slug: str = "agent-1") -> str:
        """Read how an ask stands, as its agent sees it."""
        return str(self.ask(ask, slug)["state"])

    def code(self, person: str) -> str:
        """Make a code by which somebody enrols a passkey, as the host's command does."""
        with host_database(self.config) as (settings, database):
            return letting_in.enrol(database, rules_of(settings, database), site_of(settings), person).code

    def ledger(self, kind: str) -> list[dict[str, Any]]:
        """Read the entries of one kind, oldest first."""
        with closing(Database.open(self.url, Role.HOST)) as database, database.read() as tx:
            rows = tx.execute(text("SELECT * FROM ledger WHERE kind = :kind ORDER BY id"), {"kind": kind})
            return [dict(row._mapping) for row in rows]


@contextmanager
def running(agents: Mapping[str, str] = AGENTS, *, name: str = "ops") -> Iterator[House]:
    """Let a house stand: made, with broker and workspace running; all of it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="house-", ignore_cleanup_errors=True) as root:
        house = build(Path(root), agents, name)
        try:
            house.start("gitops_bot.cli", "broker")
            house.start("workspace")
            wait_for(house)
            yield house
        finally:
            tear_down(house)


def build(root: Path, agents: Mapping[str, str], name: str) -> House:
    """Write the files, migrate, pin, add the agents by slug and principal; nothing runs yet."""
    house = House(root, free_port())
    policies = root / "policies"
    (policies / "keys").mkdir(parents=True)
    program = hashlib.sha256(Path("/bin/true").read_bytes()).hexdigest()
    (policies / "policy.toml").write_text(POLICY % program)
    for person in ("bob", "carol", "bot"):
        shutil.copy(KEYS / "openpgp" / f"{person}.asc", policies / "keys" / f"{person}.asc")
    house.config.write_text(
        f'repository = "github.com/acme/ops"\n[asks]\nmax_open_bound = 200\nmax_open_gated = 50\n'
        f'[signed]\nenvironment = "demo"\nshared_uid = "accepted"\n'
        f'remote = "file://{root / "approvals.git"}"\nrepository_id = 7001\nbot_key_file = "bot.key"\npoll = "1s"\n'
        f'[workspace]\nbind = "127.0.0.1:{house.port}"\nname = "{name}"\npasskey_rest = "0"\n'
    )
    house.config.chmod(0o600)
    shutil.copy(KEYS / "openpgp" / "bot.key", root / "bot.key")
    (root / "bot.key").chmod(0o600)
    subprocess.run(["git", "init", "-q", "--bare", str(root / "approvals.git")], check=True)
    state = root / ".gitops-bot"
    state.mkdir(mode=0o700)
    owner = Database.open(house.url, Role.OWNER)
    schema.upgrade(owner.engine)
    owner.close()
    trust.pin(policies, state / "trust.json")
    for slug, principal in agents.items():
        file = root / f"{slug}.token"
        house.command("agent", "add", slug, "--principal", principal, "--token-file", str(file))
        house.tokens[slug] = file.read_text().strip()
    return house


def wait_for(house: House) -> None:
    """Wait until the workspace answers."""
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{house.port}/readyz", timeout=5) as answer:
                assert answer.status == 200
                return
        except OSError:
            logs = "\n".join(path.read_text()[-1500:] for path in house.root.glob("*.log"))
            assert time.monotonic() < until, logs
            time.sleep(0.1)


def tear_down(house: House) -> None:
    """End the processes."""
    for child in house.children.values():
        child.terminate()
    for name in list(house.children):
        house.stop(name)
