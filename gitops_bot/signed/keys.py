"""The keys that may sign, and the two engines for each kind: one in process for every commit, one before it counts.

A key set is named by the hash of all that its engines judge by, so that a result found under it can be kept for ever.
Whose key it is, is the policy's to say (step 6).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from gitops_bot.core.canonical import Digest, canonical, digest
from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import Identity, IdentityKind, Principal
from gitops_bot.policy.lookup import principal_of
from gitops_bot.policy.model import Policy
from gitops_bot.signed.evidence import Commit, SignatureKind, Signed, Window
from gitops_bot.signed.proving.grammar import Ring

if TYPE_CHECKING:
    # An approver's machine has these engines and no database.
    from gitops_bot.store.signatures import KeyRevocation

_KINDS: Final[Mapping[SignatureKind, IdentityKind]] = {
    SignatureKind.OPENPGP: IdentityKind.OPENPGP,
    SignatureKind.SSH: IdentityKind.SSH,
}


class Engine(Protocol):
    """Whatever verifies a commit's signature. A tool that failed raises `Unavailable`."""

    def verify(self, commit: Commit, window: Window) -> Signed | Refused:
        """Verify a commit's one signature in its window."""


class FirstEngine(Engine, Protocol):
    """The engine in process, which also knows when its keys count."""

    def accept(self, commit: Commit, window: Window, proven: Signed) -> Signed | Refused:
        """Verify a commit as `verify` does, but for the cryptography take the word of a verifying process."""

    def standing(self, component: str, at: int) -> Refused | None:
        """Tell why a key, named as in `Signed.component`, does not count at a time (ms), or None."""


Agree = Callable[[Signed, Signed | Refused], Signed | Refused]
"""Compares what the two engines said; `engines_disagree` unless it is the same."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The two independent engines for one kind of signature."""

    first: FirstEngine
    second: Engine
    agree: Agree


@dataclass(frozen=True, slots=True)
class Keys:
    """The engines over one key set, and the name of that set; `ring` is what processes of their own need to verify
    many commits under it (None: everything is verified in this one)."""

    hash: Digest
    pairs: Mapping[SignatureKind, Pair]
    ring: Ring | None = None

    def verify(self, commit: Commit, window: Window, proven: Signed | None = None) -> Signed | Refused:
        """Have the engine in process verify a commit; `proven` is what a verifying process found of it."""
        first = self.pairs[commit.kind].first
        return first.verify(commit, window) if proven is None else first.accept(commit, window, proven)

    def standing(self, signed: Signed, at: int) -> Refused | None:
        """Tell why the key that made a signature does not count at another time (ms), or None."""
        return self.pairs[signed.kind].first.standing(signed.component, at)

    def confirm(self, commit: Commit, window: Window, found: Signed) -> Signed | Refused:
        """Have the second engine verify a commit that the first accepted; both must say the same.

        Raises:
            Unavailable: the second engine is missing, was killed, or takes too long.
        """
        pair = self.pairs[commit.kind]
        return pair.agree(found, pair.second.verify(commit, window))


def key_set_hash(policy: Policy, certificates: Mapping[str, bytes], revoked: "tuple[KeyRevocation, ...]") -> Digest:
    """Name a key set: certificates by fingerprint, SSH keys with their dates, and every remembered revocation."""
    content = {
        "openpgp": {name: digest("gitops-bot/certificate/v1", content) for name, content in certificates.items()},
        "ssh": sorted(
            [key.line, key.not_before, key.not_after] for person in policy.people.values() for key in person.ssh
        ),
        "revoked": [[one.key, one.hard, one.at] for one in sorted(revoked, key=lambda one: one.key)],
    }
    return digest("gitops-bot/key-set/v1", canonical(content))


def holder_of(policy: Policy, signed: Signed) -> Principal | None:
    """Find whose key signed; None when it is nobody's in the policy."""
    return principal_of(policy, Identity(_KINDS[signed.kind], signed.key))
