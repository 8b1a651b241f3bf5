"""A policy bundle whose people hold the keys of `tests/vectors/signed`, as files, as a folder and as a `Policy`.

Four gated verbs: `payments.transfer` (any key, two approvals), `payments.refund` (a touch), `payments.close` (a touch
and a PIN), `note.publish` (any key; alice and carol alone vote). Everybody is a human but the bot (role `requests`)
and the worker, an agent whose owner is carol.
"""

import copy
import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gitops_bot.policy.grammar import parse_bundle
from gitops_bot.policy.model import KeyFacts, Policy
from tests.policy_bundles import document
from tests.signed_keys import certificate, ssh_line

NOT_BEFORE, NOT_AFTER = datetime.date(2020, 1, 1), datetime.date(2096, 1, 1)


def ssh_keys(*names: str, start: datetime.date = NOT_BEFORE, end: datetime.date = NOT_AFTER) -> list[dict[str, Any]]:
    """Write SSH keys as the policy holds them."""
    return [{"key": ssh_line(name), "not_before": start, "not_after": end} for name in names]


def _gated(summary: str, keys: str, approve: int, params: dict[str, Any], voters: list[str]) -> dict[str, Any]:
    return {
        "gated": True,
        "summary": summary,
        "voters": {"people": voters},
        "keys": keys,
        "approve": approve,
        "accept_no_spare": True,
        "expires": "24h",
        "params": params,
        "executor": {"http": "https://bank.internal/transfers", "idempotent": True, "token_file": "bank"},
    }


_ALL: Final = ["alice", "bob", "carol"]
_MONEY: Final[dict[str, Any]] = {
    "amount_minor": {"integer": True, "ge": 1, "le": 10_000_000},
    "currency": {"one_of": ["EUR", "USD"]},
    "to": {"match": "[A-Z0-9]{15,34}"},
}
_MOVE: Final = "{amount_minor:money(currency)} to {to}"
TABLES: Final[dict[str, Any]] = {
    "schema": "gitops-bot/policy/v1",
    "version": 1,
    "people": {
        "alice": {
            "kind": "human",
            "github": 1001,
            "openpgp": ["keys/alice.asc"],
            "ssh": ssh_keys("alice", "alice-sk", "alice-sk-ecdsa"),
        },
        "bob": {"kind": "human", "github": 1002, "openpgp": ["keys/bob.asc"], "ssh": ssh_keys("bob", "bob-sk")},
        "carol": {
            "kind": "human",
            "github": 1003,
            "openpgp": ["keys/carol.asc"],
            "ssh": ssh_keys("carol", "carol-384", "carol-521", "carol-sk"),
        },
        "bot": {"kind": "service", "role": "requests", "openpgp": ["keys/bot.asc"], "ssh": ssh_keys("bot")},
        "worker": {"kind": "service", "owner": "carol", "openpgp": ["keys/worker.asc"], "ssh": ssh_keys("worker")},
    },
    "verbs": {
        "payments.transfer": _gated(f"Transfer {_MOVE}", "any", 2, _MONEY, _ALL),
        "payments.refund": _gated(f"Refund {_MOVE}", "presence", 2, _MONEY, _ALL),
        "payments.close": _gated("Close account {to}", "verified", 2, {"to": _MONEY["to"]}, _ALL),
        "note.publish": _gated("Publish {title}", "any", 1, {"title": {"match": "[ -~]{1,80}"}}, ["alice", "carol"]),
        "policy.adopt": {"voters": {"people": _ALL}, "keys": "verified", "approve": 2, "accept_no_spare": True},
    },
}


def bundle(
    change: Callable[[dict[str, Any]], object] = lambda tables: None, *, certificates: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """Give the bundle's files. `change` edits the tables; `certificates` puts another certificate at a person's path,
    as in `{"alice": "alice.revoked-hard"}`."""
    tables = copy.deepcopy(TABLES)
    change(tables)
    files = {"policy.toml": document(tables) + b"\n"}
    for person in tables["people"].values():
        for path in person.get("openpgp", ()):
            name = path.removeprefix("keys/").removesuffix(".asc")
            files[path] = certificate((certificates or {}).get(name, name))
    return files


def write_bundle(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write a bundle's files into a folder, as `policies/` is laid out."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def key_facts(files: Mapping[str, bytes]) -> dict[str, KeyFacts]:
    """Read every certificate of a bundle as the product does."""
    from gitops_bot.signed.openpgp.certificates import read_certificate

    return {path: read_certificate(files[path], where=path).facts for path in files if path.startswith("keys/")}


def policy(files: Mapping[str, bytes]) -> Policy:
    """Load a bundle."""
    return parse_bundle(files, key_facts(files))
