"""A policy bundle that loads, as a value that tests break in one place, and the writer that turns it into TOML."""

import base64
import copy
import datetime
from collections.abc import Mapping
from typing import Any

from gitops_bot.policy.grammar import parse_bundle
from gitops_bot.policy.model import ComponentKey, KeyFacts, Policy

GONE = object()
Patch = dict[str, Any]


def toml(value: object) -> str:
    """Write a value as inline TOML; the reader under test never sees a writer's mistakes silently."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case int():
            return str(value)
        case datetime.datetime() | datetime.date():
            return value.isoformat()
        case list():
            return "[" + ", ".join(toml(item) for item in value) + "]"
        case dict():
            return "{ " + ", ".join(f"{toml(str(key))} = {toml(item)}" for key, item in value.items()) + " }"
    raise AssertionError(value)


def document(tables: Mapping[str, Any]) -> bytes:
    """Write tables two levels deep as headers, everything below inline, so that no line grows with the bundle."""
    lines: list[str] = []
    for top, value in tables.items():
        if not isinstance(value, dict):
            lines.append(f"{top} = {toml(value)}")
    for top, value in tables.items():
        if isinstance(value, dict):
            for name, table in value.items():
                if not isinstance(table, dict):
                    lines.append(f"{top} = {toml(value)}")
                    break
                lines.append(f"[{top}.{toml(name)}]")
                lines += [f"{toml(key)} = {toml(item)}" for key, item in table.items()]
    return "\n".join(lines).encode()


def blob(*fields: bytes) -> str:
    return base64.b64encode(b"".join(len(field).to_bytes(4, "big") + field for field in fields)).decode()


def sk(seed: int) -> str:
    kind = "sk-ssh-ed25519@openssh.com"
    return f"{kind} {blob(kind.encode(), bytes([seed]) * 32, b'ssh:')}"


def ed25519(seed: int) -> str:
    return f"ssh-ed25519 {blob(b'ssh-ed25519', bytes([seed]) * 32)}"


def rsa(bits: int) -> str:
    modulus = ((1 << (bits - 1)) + 1).to_bytes(bits // 8 + 1, "big")
    return f"ssh-rsa {blob(b'ssh-rsa', bytes([1, 0, 1]), modulus)}"


def ssh(line: str) -> list[dict[str, Any]]:
    return [{"key": line, "not_before": datetime.date(2026, 1, 1), "not_after": datetime.date(2027, 1, 1)}]


def facts(algorithm: str, bits: int, curve: str | None = None, *, fingerprint: str = "A" * 40) -> KeyFacts:
    return KeyFacts(fingerprint, (ComponentKey(fingerprint, algorithm, bits, curve, f"test:{fingerprint}"),))


ED = facts("eddsa", 256, "ed25519")
GOOD: dict[str, Any] = {
    "schema": "gitops-bot/policy/v1",
    "version": 3,
    "people": {
        "alice": {"kind": "human", "github": 1001, "ssh": ssh(sk(1)), "passkey": ["cGFzc2tleTE"]},
        "bob": {"kind": "human", "github": 1002, "ssh": ssh(sk(2))},
        "carol": {"kind": "human", "github": 1003, "ssh": ssh(sk(3))},
        "dave": {"kind": "human", "github": 1004, "ssh": ssh(sk(4))},
        "agent": {"kind": "service", "owner": "alice"},
        "bot": {"kind": "service", "role": "requests", "ssh": ssh(ed25519(9))},
    },
    "asks": {"question": {"channels": ["workspace", "operator"], "voters": {"owner": True}}},
    "verbs": {
        "capture.approve": {
            "channels": ["forge", "workspace"],
            "voters": {"people": ["alice", "bob"], "github_permission": "write"},
            "approve": 1,
            "expires": "7d",
        },
        "payments.transfer": {
            "gated": True,
            "summary": "Transfer {amount_minor:money(currency)} to {to}",
            "voters": {"people": ["alice", "bob", "carol", "dave"]},
            "keys": "verified",
            "approve": 2,
            "expires": "24h",
            "params": {
                "amount_minor": {"integer": True, "ge": 1, "le": 10_000_000},
                "currency": {"one_of": ["EUR", "USD"]},
                "to": {"match": "[A-Z0-9]{15,34}"},
            },
            "limits": {"sum": {"amount_minor": {"per": "24h", "by": ["currency"], "le": 50_000_000}}},
            "tiers": [{"where": {"amount_minor": {"gt": 1_000_000}}, "delay": "1h"}],
            "executor": {"http": "https://bank.internal/transfers", "idempotent": True, "token_file": "bank"},
        },
        "policy.adopt": {
            "voters": {"people": ["alice", "bob", "carol", "dave"]},
            "keys": "verified",
            "approve": 2,
            "delay": "1h",
        },
    },
}


def patched(patch: Patch) -> dict[str, Any]:
    bundle = copy.deepcopy(GOOD)
    for path, value in patch.items():
        *parents, last = path.split("/")
        table = bundle
        for name in parents:
            table = table[int(name)] if isinstance(table, list) else table[name]
        if value is GONE:
            del table[last]
        else:
            table[last] = value
    return bundle


def load(patch: Patch) -> Policy:
    """Load the good bundle with a patch; `+path` adds a certificate file, and its value is what was read from it."""
    certificates = {path[1:]: value for path, value in patch.items() if path.startswith("+")}
    bundle = patched({path: value for path, value in patch.items() if not path.startswith("+")})
    files = {"policy.toml": document(bundle), **dict.fromkeys(certificates, b"certificate")}
    return parse_bundle(files, {path: value for path, value in certificates.items() if value is not None})


TRANSFER = "verbs/payments.transfer"
ADOPT = "verbs/policy.adopt"
CAPTURE = "verbs/capture.approve"
