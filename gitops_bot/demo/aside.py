"""What else waits for a person in the main demo: a plain question, and a transfer that only signed commits answer.

Both are asked by an application's agent as any is, over HTTP with a token. The transfer stays on the screen to the
end: nothing in the workspace can answer it. Keys are made for this folder, by gpg alone.
"""

import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitops_bot.core.errors import Unavailable
from gitops_bot.demo import people
from gitops_bot.demo.files import Layout, private
from gitops_bot.demo.people import OPENPGP, Signer
from gitops_bot.demo.stage import COMMAND, Stage
from gitops_bot.process import run

VERB: Final = "payments.transfer"
PARAMS: Final[Mapping[str, Any]] = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}
QUESTION: Final = "Which region shall the new picker go to first?"
REGIONS: Final = ("eu-west", "us-east")
WHY: Final = """\
Both regions are **ready**. The picker is better in each of them:

- `eu-west` has less traffic, so a mistake costs less
- `us-east` tells us more in a day
"""
SECONDS: Final = 60.0

_POLICY: Final = """
[people.carol]
kind = "human"
github = 1003
openpgp = ["keys/carol.asc"]

[people.bot]
kind = "service"
role = "requests"
openpgp = ["keys/bot.asc"]

[verbs."payments.transfer"]
gated = true
summary = "Transfer {{amount_minor:money(currency)}} to {{to}}"
voters = {{ people = ["bob", "carol"] }}
keys = "any"               # whatever runs as the signer can sign; "verified" would demand a security key
approve = 2
accept_no_spare = true     # alice owns the agent and is excluded anyway, so bob and carol must both sign
expires = "24h"
params = {{ amount_minor = {{ integer = true, ge = 1, le = 10_000_000 }}, currency = {{ one_of = ["EUR", "USD"] }}, \
to = {{ match = "[A-Z0-9]{{15,34}}" }} }}
executor = {{ http = "{payee}", idempotent = true, token_file = "bank" }}

[verbs."policy.adopt"]
voters = {{ people = ["bob", "carol"] }}
keys = "any"
approve = 2
accept_no_spare = true
"""

_SETTINGS: Final = """
remote = "file://{approvals}"
repository_id = {repository}
bot_key_file = "bot.key"
keys_dir = ".gitops-bot/keys"
poll = "2s"
shared_uid = "accepted"    # everything here runs as one user; SECURITY.md says what that means
"""


@dataclass(frozen=True, slots=True)
class Aside:
    """What was made for it: everybody's keys, and the address of the payee."""

    layout: Layout
    signers: Mapping[str, Signer]
    payee: str

    @property
    def token(self) -> Path:
        """The token by which the application's agent asks."""
        return self.layout.root / "payer.token"

    def policy(self, main: str) -> str:
        """Add to the main demo's policy who signs, and what a transfer takes."""
        bob = 'github = 1002\nopenpgp = ["keys/bob.asc"]'
        return main.replace("github = 1002", bob) + _POLICY.format(payee=self.payee)

    def settings(self, repository_id: int) -> str:
        """Give the lines of `[signed]` that open the channel."""
        return _SETTINGS.format(approvals=_approvals(self.layout), repository=repository_id)

    def ask(self, workspace: str) -> None:
        """Let the agent ask both; it ends its turn and holds nothing.

        Raises:
            Unavailable: it was refused.
        """
        file = self.layout.root / "transfer.json"
        file.write_text(json.dumps(PARAMS, sort_keys=True) + "\n", "utf-8")
        options = tuple(word for region in REGIONS for word in ("--option", region))
        by = ("--url", workspace, "--token-file", str(self.token))
        _command("verb", "request", VERB, "--params", str(file), "--why", "Invoice 42 is due on Friday.", *by)
        _command("ask", "open", QUESTION, *options, "--why", WHY, *by)

    def add_agent(self) -> None:
        """Add the application's agent, on this host.

        Raises:
            Unavailable: it was refused.
        """
        named = ("agent", "add", "payer", "--principal", "demo-agent", "--token-file", str(self.token))
        _command(*named, "--config", str(self.layout.config))


def begin(layout: Layout, stage: Stage) -> Aside:
    """Make keys and the empty repository of approvals, and start the payee.

    Raises:
        Unavailable: gpg or git fails, or the payee does not start.
    """
    root = layout.root
    signers = {name: people.make(root / name, name, OPENPGP) for name in ("bob", "carol", "bot")}
    approvals = _approvals(layout)
    people.do(("git", "init", "--quiet", "--bare", str(approvals)), root, people.environment_of(root))
    bank = root / ".gitops-bot" / "keys" / "bank"
    private(bank, secrets.token_urlsafe(24) + "\n")
    books = root / "payee" / "books.jsonl"
    books.parent.mkdir(mode=0o700)
    payee = (sys.executable, "-m", "gitops_bot.demo.payee", "--books", str(books), "--token-file", str(bank))
    _, address = stage.start("payee", payee, says_url=True)
    for name, signer in signers.items():
        private(root / "policies" / "keys" / f"{name}.asc", signer.public)
    bot = signers["bot"]
    exported = ("gpg", "--batch", "--no-tty", "--quiet", "--armor", "--export-secret-keys", bot.key)
    private(root / "bot.key", people.do(exported, bot.home, bot.environment))
    return Aside(layout, signers, address)


def code(layout: Layout, person: str) -> str:
    """Have this host print the code by which somebody enrols a passkey.

    Raises:
        Unavailable: it was refused.
    """
    printed = _command("person", "enrol", person, "--json", "--config", str(layout.config))
    return str(json.loads(printed)["code"])


def end(layout: Layout) -> None:
    """End the agents that gpg started for these keys."""
    for name in ("bob", "carol", "bot"):
        people.end_agent(layout.root / name, OPENPGP)


def _approvals(layout: Layout) -> Path:
    return layout.root / "approvals.git"


def _command(*arguments: str) -> str:
    done = run((*COMMAND, *arguments), cwd=Path.cwd(), timeout=SECONDS)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise Unavailable(f"gitops-bot {arguments[0]} {arguments[1]} failed: {said}")
    return done.stdout.decode("utf-8")
