"""Real Chromium before the real processes: broker and workspace on loopback, passkeys by a virtual authenticator.

A `House` is one set-up with its processes; a `Seat` is one person's browser window in it. The authenticator is
Chromium's own (WebAuthn over the DevTools protocol), so that the ceremonies are those of a browser.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

from gitops_bot.api.client import Client
from gitops_bot.bootstrap import trust
from gitops_bot.store import schema
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from tests.ports import free_port

ROOT: Final = Path(__file__).parents[2]
CHROMIUM: Final = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), "chromium"
)
FLAGS: Final = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
AXE: Final = ROOT / "tests" / "node" / "node_modules" / "axe-core" / "axe.min.js"
WIDE: Final = {"width": 1280, "height": 900}
NARROW: Final = {"width": 390, "height": 844}
START_SECONDS: Final = 60.0
KEYS: Final = ROOT / "tests" / "vectors" / "signed"

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


@dataclass
class House:
    """One set-up that runs. `tokens` are the agents' by slug."""

    root: Path
    port: int
    tokens: dict[str, str] = field(default_factory=dict)
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return f"http://localhost:{self.port}"

    @property
    def config(self) -> Path:
        return self.root / "gitops-bot.toml"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.root / '.gitops-bot' / 'gitops-bot.db'}"

    def command(self, *arguments: str) -> str:
        """Run a command on this host that must succeed; gives what it printed."""
        argv = [sys.executable, "-m", "gitops_bot.cli", *arguments, "--config", str(self.config)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, cwd=self.root)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *argv: str) -> None:
        """Start a process of the product that runs until the house ends."""
        log = (self.root / f"{argv[-1]}.log").open("ab")
        words = [sys.executable, "-P", "-m", *argv, "--config", str(self.config)]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        self.children.append(subprocess.Popen(words, stdout=log, stderr=log, cwd=self.root, env=env))
        log.close()

    def agent(self, slug: str = "agent-1") -> Client:
        """Give the API as an agent has it."""
        return Client(f"http://127.0.0.1:{self.port}", self.tokens[slug])

    def question(self, text: str, *options: str, why: str = "", slug: str = "agent-1", **more: Any) -> str:
        """Have an agent ask a plain question; its id."""
        body = {"question": text, "options": list(options), "why": why, **more}
        return str(self.agent(slug).post("/asks", body)["id"])

    def request(self, verb: str, *, why: str = "", slug: str = "agent-1", **params: Any) -> str:
        """Have an agent ask for an action; the ask's id."""
        return str(self.agent(slug).post(f"/verbs/{verb}/requests", {"params": params, "why": why})["id"])

    def state(self, ask: str, slug: str = "agent-1") -> str:
        """Read how an ask stands, as its agent sees it."""
        return str(self.agent(slug).get(f"/asks/{ask}")["state"])

    def code(self, person: str) -> str:
        """Have the host print a code by which somebody enrols a passkey."""
        return str(json.loads(self.command("person", "enrol", person, "--json"))["code"])

    def database(self) -> Database:
        """Open the database as the host does; the caller closes it."""
        return Database.open(self.url, Role.HOST)


@dataclass
class Seat:
    """One person's window. `authenticator` is its virtual one, whose keys can be taken over into another window."""

    house: House
    context: BrowserContext
    page: Page
    authenticator: str
    devtools: Any

    def open(self, path: str) -> None:
        """Go to a page of the workspace."""
        self.page.goto(f"{self.house.origin}{path}")

    def enrol(self, person: str) -> "Seat":
        """Come in as somebody by the host's code, with this window's authenticator."""
        code = self.house.code(person)
        self.open("/enrol")
        self.page.get_by_label("Code").fill(code)
        self.page.get_by_label("Name of this key").fill("laptop")
        self.page.get_by_role("button", name="Create the passkey").click()
        self.page.wait_for_url("**/enrol/second")
        self.open("/needs-you")
        return self

    def keys(self) -> list[dict[str, Any]]:
        """Give the authenticator's credentials."""
        found = self.devtools.send("WebAuthn.getCredentials", {"authenticatorId": self.authenticator})
        return list(found["credentials"])

    def forget(self) -> None:
        """Let the authenticator lose its keys."""
        self.devtools.send("WebAuthn.clearCredentials", {"authenticatorId": self.authenticator})

    def violations(self) -> list[str]:
        """Have axe-core look at the page; what it finds wrong, in one line each."""
        self.page.evaluate(AXE.read_text("utf-8"))
        result = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {one['help']} ({node['html'][:120]})"
            for one in result["violations"]
            for node in one["nodes"]
        ]


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """A house for the tests of one module."""
    with ExitStack() as ended:
        root = Path(ended.enter_context(tempfile.TemporaryDirectory(prefix="house-", ignore_cleanup_errors=True)))
        made = build(root)
        ended.callback(tear_down, made)
        made.start("gitops_bot.cli", "broker")
        made.start("workspace")
        wait_for(made)
        yield made


@pytest.fixture
def seat(chromium: Browser, house: House) -> Iterator[Callable[..., Seat]]:
    """Make windows; each is a browser profile of its own with an authenticator of its own."""
    opened: list[BrowserContext] = []

    def make(**options: Any) -> Seat:
        context = chromium.new_context(**{"viewport": WIDE, "reduced_motion": "reduce", **options})
        opened.append(context)
        page = context.new_page()
        devtools, authenticator = authenticate(context, page)
        return Seat(house, context, page, authenticator, devtools)

    yield make
    for context in opened:
        context.close()


def authenticate(context: BrowserContext, page: Page) -> tuple[Any, str]:
    """Give a window an authenticator that verifies its user and answers by itself."""
    devtools = context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    made = devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return devtools, str(made["authenticatorId"])


def build(root: Path) -> House:
    """Write the files, migrate, pin, add the agents; nothing runs yet."""
    import hashlib

    house = House(root, free_port())
    policies = root / "policies"
    (policies / "keys").mkdir(parents=True)
    program = hashlib.sha256(Path("/bin/true").read_bytes()).hexdigest()
    (policies / "policy.toml").write_text(POLICY % program)
    for name in ("bob", "carol", "bot"):
        shutil.copy(KEYS / "openpgp" / f"{name}.asc", policies / "keys" / f"{name}.asc")
    house.config.write_text(
        f'repository = "github.com/acme/ops"\n[signed]\nenvironment = "demo"\nshared_uid = "accepted"\n'
        f'remote = "file://{root / "approvals.git"}"\nrepository_id = 7001\nbot_key_file = "bot.key"\npoll = "1s"\n'
        f'[workspace]\nbind = "127.0.0.1:{house.port}"\nname = "ops"\npasskey_rest = "0"\n'
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
    for slug in ("agent-1", "agent-2"):
        file = root / f"{slug}.token"
        house.command("agent", "add", slug, "--principal", slug, "--token-file", str(file))
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
    for child in reversed(house.children):
        child.terminate()
    for child in house.children:
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
