"""What each step of the signed channel hands to the next: whoever holds a value holds what passed the steps before.

Times are milliseconds since 1970 UTC. A step that says no gives a `Refused` instead; a tool that failed raises
`Unavailable`, which holds the commit and neither counts nor refuses it (I14).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from gitops_bot.core.asks import AskId
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.model import KeyKind

ObjectId = NewType("ObjectId", str)
"""A full object id of git in lower-case hex: 40 digits, or 64 in a SHA-256 repository."""


class SignatureKind(StrEnum):
    """How a commit is signed."""

    OPENPGP = "openpgp"
    SSH = "ssh"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit whose form is the strict one (step 3). `payload` is what was signed: the raw bytes without `gpgsig`.

    `parent` is None for a root. `committed_at` is the committer's own date: chosen by the signer, evidence of nothing.
    `armor` is the signature as it stood, unfolded; that it is a signature is *not* checked.
    """

    id: ObjectId
    raw: bytes
    tree: ObjectId
    parent: ObjectId | None
    committed_at: int
    message: bytes
    payload: bytes
    armor: bytes
    kind: SignatureKind


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit adds (step 4): one file whose path names a person, an ask and a decision; `blob` is its object."""

    path: str
    person: PrincipalName
    ask: AskId
    decision: Decision
    suffix: str
    blob: ObjectId


@dataclass(frozen=True, slots=True)
class Window:
    """When a signature may have been made: from `opened_at - skew` to `received_at + skew`, in ms; without an ask
    (`opened_at` None) there is no beginning. Keys are judged at `received_at`."""

    received_at: int
    skew: int
    opened_at: int | None = None

    def holds(self, at: int) -> bool:
        """Tell whether a time falls into it, ends included."""
        early = self.opened_at is not None and at < self.opened_at - self.skew
        return not early and at <= self.received_at + self.skew


@dataclass(frozen=True, slots=True)
class Signed:
    """A signature that an engine verified (step 5). `key` is the identity's value in the policy: the full primary
    fingerprint of a certificate, or an SSH key's `type base64`; `component` is the key that signed (a subkey's
    fingerprint, or SHA256:… of the SSH key). `proof` is what it proves about touch and PIN; `counter` a security
    key's. Whose key it is, and whether that suffices, is *not* said."""

    kind: SignatureKind
    key: str
    component: str
    signed_at: int
    proof: KeyKind
    counter: int | None = None
