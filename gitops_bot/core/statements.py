"""What a person signs with a passkey when they answer a bound ask, and the challenge that stands for it.

The statement names everything that the answer binds, so that an assertion over one ask, option, person or workspace is
none over another. Its challenge is SHA-256 over a tag, a zero byte and its RFC 8785 form (`vectors/verdict.json`); a
batch is the ordered list of its statements under a tag of its own. Nothing here checks a signature.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gitops_bot.core.canonical import Digest, canonical

ONE: Final = "gitops-bot/verdict/v1"
BATCH: Final = "gitops-bot/verdict-batch/v1"
MOST_IN_BATCH: Final = 20


@dataclass(frozen=True, slots=True)
class Statement:
    """One answer as it is signed. `issued_at` in ms since 1970 UTC, shown in whole seconds; `nonce` and `credential`
    in base64url without padding; `text_hash` as `hash_text` gives it."""

    origin: str
    workspace: str
    person: str
    credential: str
    ask: str
    verb: str | None
    option: str | None
    text_hash: Digest | None
    action_hash: Digest
    policy: Digest
    run_version: int
    issued_at: int
    nonce: str

    def document(self) -> dict[str, object]:
        """Give the statement as the object that is hashed, stored and shown."""
        return {
            "origin": self.origin,
            "workspace": self.workspace,
            "person": self.person,
            "credential": self.credential,
            "ask": self.ask,
            "verb": self.verb,
            "option": self.option,
            "text_hash": self.text_hash,
            "action_hash": self.action_hash,
            "policy": self.policy,
            "run_version": self.run_version,
            "issued_at": _utc(self.issued_at),
            "nonce": self.nonce,
        }

    def challenge(self) -> bytes:
        """Give the 32 bytes that an authenticator signs for this statement alone."""
        return _challenge(ONE, self.document())


def batch_challenge(statements: Sequence[Statement]) -> bytes:
    """Give the 32 bytes for a list of statements, whose order counts."""
    return _challenge(BATCH, [statement.document() for statement in statements])


def hash_text(text: str | None) -> Digest | None:
    """Hash the words that go with an answer; None when there are none."""
    return None if text is None else Digest("sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest())


@dataclass(frozen=True, slots=True)
class Asserted:
    """A statement over which a passkey's assertion was verified, user verification included; made by
    `authority.assertions` alone, never from what a request says of itself. `evidence` holds all that was verified."""

    statement: Statement
    evidence: bytes


def _challenge(tag: str, value: object) -> bytes:
    return hashlib.sha256(tag.encode("ascii") + b"\0" + canonical(value)).digest()


def _utc(at: int) -> str:
    return datetime.fromtimestamp(at // 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
