"""The policy as frozen values. Whoever holds a `Policy` holds one that loaded: every load rule was checked.

The grammar alone makes a `Policy`; `lookup` and `rules` ask it. Times are milliseconds. What cannot be judged without a
clock or the outside (a key's dates, a permission on the forge) is kept here as data for those who have them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from gitops_bot.core.canonical import Digest
from gitops_bot.core.principals import Principal, PrincipalName
from gitops_bot.core.readings import Permission
from gitops_bot.core.verdicts import Channel
from gitops_bot.policy.params import Condition, ParamSpec
from gitops_bot.policy.summary import Summary

ADOPT: Final = "policy.adopt"
QUESTION: Final = "asks.question"
HOUR: Final = 3_600_000


class KeyKind(StrEnum):
    """What a signature must prove, weakest first: anything, a touch (presence), a touch and a PIN or finger."""

    ANY = "any"
    PRESENCE = "presence"
    VERIFIED = "verified"

    @property
    def strength(self) -> int:
        """Order the kinds; higher proves more."""
        return tuple(KeyKind).index(self)


class Risk(StrEnum):
    """How careful a surface is with a verb: `high` asks for a second key and is never answered in a batch."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class ComponentKey:
    """One key of a certificate. `material` names the public key itself, whatever its wrapping: `rsa:<hex of n>` or
    `<curve>:<hex of the point>`, lower case, so that one key in two wrappings is seen to be one."""

    fingerprint: str
    algorithm: str
    bits: int
    curve: str | None
    material: str


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What a reader of certificates found in one file of `keys/`: the full primary fingerprint in upper-case hex and
    every key in it, the primary first. The policy judges these values; it reads no certificate."""

    fingerprint: str
    components: tuple[ComponentKey, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """An OpenPGP certificate of somebody: its path in the bundle and what was found in it."""

    path: str
    facts: KeyFacts


@dataclass(frozen=True, slots=True)
class SshKey:
    """An SSH key of somebody; `line` is `type base64`. It counts from `not_before` up to before `not_after` (ms)."""

    line: str
    key: ComponentKey
    security_key: bool
    not_before: int
    not_after: int


@dataclass(frozen=True, slots=True)
class Person:
    """A principal with its signing keys."""

    principal: Principal
    openpgp: tuple[Certificate, ...] = ()
    ssh: tuple[SshKey, ...] = ()

    def can_sign(self, demanded: KeyKind) -> bool:
        """Tell whether any key could meet a demand; OpenPGP and software SSH keys prove neither touch nor PIN."""
        if demanded is KeyKind.ANY:
            return bool(self.openpgp or self.ssh)
        return any(key.security_key for key in self.ssh)


@dataclass(frozen=True, slots=True)
class Voters:
    """Who may vote: named people, the asking agent's owner, and with `undeclared` every account on the forge that has
    the permission. `github_permission` and `team` (numeric id) are floors for all of them."""

    people: tuple[PrincipalName, ...] = ()
    owner: bool = False
    undeclared: bool = False
    github_permission: Permission | None = None
    team: int | None = None


@dataclass(frozen=True, slots=True)
class Tier:
    """What differs for some parameters; None keeps the verb's own value. A tier applies when every condition holds;
    of several that apply the first in the file counts."""

    where: tuple[Condition, ...]
    voters: Voters | None = None
    approve: int | None = None
    deny: int | None = None
    delay: int | None = None
    expires: int | None = None


@dataclass(frozen=True, slots=True)
class SumLimit:
    """At most `at_most` of a parameter's sum over a window of `per` ms, apart for each value of the `by` parameters."""

    param: str
    per: int
    by: tuple[str, ...]
    at_most: int


@dataclass(frozen=True, slots=True)
class HttpExecutor:
    """One fixed address; `token_file` is a name in the host's keys folder."""

    url: str
    idempotent: bool
    token_file: str | None


@dataclass(frozen=True, slots=True)
class ProcessExecutor:
    """One program by absolute path, pinned by the hex SHA-256 of its file, with a fixed argument vector."""

    argv: tuple[str, ...]
    sha256: str
    idempotent: bool


@dataclass(frozen=True, slots=True)
class AdoptExecutor:
    """Built in: moves the policy pointer. Only `policy.adopt` has it."""


Executor = HttpExecutor | ProcessExecutor | AdoptExecutor


@dataclass(frozen=True, slots=True)
class VerbRule:
    """How one verb is decided. From `lookup` it holds the values of the tier that its parameters fall in; `tier` is
    that tier's number from 1, or None for the verb's own values. A gated verb's `risk` is always high."""

    name: str
    gated: bool
    channels: frozenset[Channel]
    voters: Voters
    approve: int
    deny: int
    expires: int
    reuse: int
    delay: int = 0
    keys: KeyKind | None = None
    summary: Summary | None = None
    params: Mapping[str, ParamSpec] | None = None
    limits: tuple[SumLimit, ...] = ()
    tiers: tuple[Tier, ...] = ()
    executor: Executor | None = None
    accept_no_spare: bool = False
    owner_may_approve: bool = False
    tier: int | None = None
    risk: Risk = Risk.NORMAL

    def at_tier(self, number: int) -> "VerbRule":
        """Give the rule with the values of one of its tiers, counted from 1."""
        tier = self.tiers[number - 1]
        return replace(
            self,
            voters=self.voters if tier.voters is None else tier.voters,
            approve=self.approve if tier.approve is None else tier.approve,
            deny=self.deny if tier.deny is None else tier.deny,
            delay=self.delay if tier.delay is None else tier.delay,
            expires=self.expires if tier.expires is None else tier.expires,
            tier=number,
        )

    @property
    def every_tier(self) -> tuple["VerbRule", ...]:
        """Give the verb's own rule and that of each tier."""
        return (self, *(self.at_tier(number) for number in range(1, len(self.tiers) + 1)))

    @property
    def question(self) -> bool:
        """Tell whether this is the rule for plain questions."""
        return self.name == QUESTION

    @property
    def spend_within(self) -> int:
        """How long after the mint a grant may still be spent, in ms: the delay and one hour."""
        return self.delay + HOUR


@dataclass(frozen=True, slots=True)
class Policy:
    """A bundle that loaded. `question` is None when nobody may answer plain questions (I13)."""

    version: int
    digest: Digest
    people: Mapping[PrincipalName, Person]
    verbs: Mapping[str, VerbRule]
    question: VerbRule | None

    @property
    def gated(self) -> tuple[VerbRule, ...]:
        """The gated verbs, `policy.adopt` included."""
        return tuple(rule for rule in self.verbs.values() if rule.gated)
