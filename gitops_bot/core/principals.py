"""Who somebody is: one principal, with every identity that stands for them. Two keys of one person are one person."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

PrincipalName = NewType("PrincipalName", str)


class PrincipalKind(StrEnum):
    """A service never votes (I15)."""

    HUMAN = "human"
    SERVICE = "service"


class IdentityKind(StrEnum):
    """What can stand for a principal. Values: numeric account id in decimal, credential id, `issuer subject`,
    full fingerprint in upper-case hex, key as `type base64`."""

    GITHUB = "github"
    PASSKEY = "passkey"
    OIDC = "oidc"
    OPENPGP = "openpgp"
    SSH = "ssh"


@dataclass(frozen=True, slots=True)
class Identity:
    """One identity of a principal; (kind, value) belongs to exactly one principal."""

    kind: IdentityKind
    value: str


@dataclass(frozen=True, slots=True)
class Principal:
    """A person or service known to the policy."""

    name: PrincipalName
    kind: PrincipalKind
    identities: tuple[Identity, ...] = ()
    owner: PrincipalName | None = None
    role: str | None = None
    suspended: bool = False
