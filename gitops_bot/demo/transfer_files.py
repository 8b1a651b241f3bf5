"""The files of the transfer demo: its policy, its settings, its empty repository of approvals."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitops_bot.demo.files import private
from gitops_bot.demo.people import OPENPGP, Signer, days, do, environment_of

REPOSITORY: Final = "github.com/acme/ops"
REPOSITORY_ID: Final = 7001
ENVIRONMENT: Final = "demo"
VERB: Final = "payments.transfer"
AGENT: Final = "demo-agent"
FIRST: Final[Mapping[str, Any]] = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}
SECOND: Final[Mapping[str, Any]] = {"amount_minor": 100_000, "currency": "EUR", "to": "FR7630006000011234567890189"}
LIMIT: Final = 1_000_000
LOWERED: Final = 200_000
"""Cents that may go out in 24 hours: less than both transfers together."""

_POLICY: Final = """\
schema = "gitops-bot/policy/v1"
version = {version}
{people}
[verbs."payments.transfer"]
gated = true
summary = "Transfer {{amount_minor:money(currency)}} to {{to}}"
voters = {{ people = ["alice", "bob", "carol"] }}
keys = "any"               # whatever runs as the signer can sign; "verified" would demand a security key
approve = 2
accept_no_spare = true     # carol owns the agent and is excluded, so alice and bob must both sign
expires = "24h"
params = {{ amount_minor = {{ integer = true, ge = 1, le = 10_000_000 }}, currency = {{ one_of = ["EUR", "USD"] }}, \
to = {{ match = "[A-Z0-9]{{15,34}}" }} }}
limits = {{ sum = {{ amount_minor = {{ per = "24h", by = ["currency"], le = {limit} }} }} }}
executor = {{ http = "{payee}", idempotent = true, token_file = "bank" }}

[verbs."policy.adopt"]
voters = {{ people = ["alice", "bob", "carol"] }}
keys = "any"
approve = 2
accept_no_spare = true
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything of one transfer demo lies."""

    root: Path

    @property
    def config(self) -> Path:
        """The settings of broker and workspace."""
        return self.root / "gitops-bot.toml"

    @property
    def policies(self) -> Path:
        """The bundle."""
        return self.root / "policies"

    @property
    def state(self) -> Path:
        """The state of broker and workspace."""
        return self.root / ".gitops-bot"

    @property
    def trust_file(self) -> Path:
        """The host's pin."""
        return self.state / "trust.json"

    @property
    def approvals(self) -> Path:
        """The repository that people and the bot push to."""
        return self.root / "approvals.git"

    @property
    def remote(self) -> str:
        """The same, as its address."""
        return f"file://{self.approvals}"

    @property
    def books(self) -> Path:
        """What the payee wrote down."""
        return self.root / "payee" / "books.jsonl"

    @property
    def bank_token(self) -> Path:
        """The bearer by which the broker pays; the payee lets nobody else in."""
        return self.state / "keys" / "bank"

    @property
    def agent_token(self) -> Path:
        """The token by which the agent asks."""
        return self.root / "agent.token"

    def home(self, name: str) -> Path:
        """The home of somebody."""
        return self.root / name

    def transfer(self, name: str, params: Mapping[str, Any]) -> Path:
        """Write an agent's parameters into a file of its own."""
        file = self.root / f"{name}.json"
        file.write_text(json.dumps(params, sort_keys=True) + "\n", "utf-8")
        return file


def begin(place: Place) -> None:
    """Make the folders, the payee's token and the repository of approvals."""
    for folder in (place.state, place.state / "keys", place.books.parent):
        folder.mkdir(mode=0o700)
    private(place.bank_token, secrets.token_urlsafe(24) + "\n")
    do(("git", "init", "--quiet", "--bare", str(place.approvals)), place.root, environment_of(place.root))


def write_policy(place: Place, signers: Mapping[str, Signer], payee: str, *, version: int, limit: int) -> None:
    """Write the bundle: who signs with which key, and what a transfer takes."""
    (place.policies / "keys").mkdir(mode=0o700, parents=True, exist_ok=True)
    people = "".join(_person(place, number, signer) for number, signer in enumerate(signers.values(), 1001))
    text = _POLICY.format(version=version, people=people, limit=limit, payee=payee)
    (place.policies / "policy.toml").write_text(text, "utf-8")


def _person(place: Place, number: int, signer: Signer) -> str:
    kinds = {AGENT: 'kind = "service"\nowner = "carol"\n', "bot": 'kind = "service"\nrole = "requests"\n'}
    told = kinds.get(signer.name, f'kind = "human"\ngithub = {number}\n')
    if signer.kind == OPENPGP:
        (place.policies / "keys" / f"{signer.name}.asc").write_text(signer.public, "ascii")
        key = f'openpgp = ["keys/{signer.name}.asc"]\n'
    else:
        first, last = days()
        key = f'ssh = [{{ key = "{signer.public}", not_before = {first}, not_after = {last} }}]\n'
    return f"\n[people.{signer.name}]\n{told}{key}"


def write_settings(place: Place, bot: Signer, port: int) -> None:
    """Write the settings of broker and workspace."""
    text = f"""\
policies = "policies"
repository = "{REPOSITORY}"

[signed]
environment = "{ENVIRONMENT}"
remote = "{place.remote}"
repository_id = {REPOSITORY_ID}
bot_key_file = "{bot.key}"
keys_dir = ".gitops-bot/keys"
poll = "1s"
shared_uid = "accepted"    # everything here runs as one user; SECURITY.md says what that means

[workspace]
bind = "127.0.0.1:{port}"
name = "demo"
"""
    private(place.config, text)
