"""What was read from one OpenPGP certificate, as values: keys, dates, revocations. Times are ms since 1970 UTC.

Whoever holds a `CertificateFacts` from `read_certificate` knows that dates, capabilities and revocations are under
self-signatures that verified. Whether a key counts at some moment is asked with these values elsewhere.
"""

from dataclasses import dataclass

from gitops_bot.policy.model import KeyFacts


@dataclass(frozen=True, slots=True)
class Revocation:
    """The key of a certificate that was taken back, from `at`, and whether for ever before as well (`hard`).

    Soft are the reasons *superseded* and *retired* alone (RFC 4880 §5.2.3.23); no reason given is hard. A revocation
    of the primary key is one of the whole certificate.
    """

    fingerprint: str
    hard: bool
    at: int
    reason: int | None


@dataclass(frozen=True, slots=True)
class KeyDates:
    """When one key of a certificate may sign. `since` is the later of its making and its first binding; `expires` None
    is never. Without a valid binding (`bound`) it belongs to nobody; `signs` says that its owner lets it sign data."""

    fingerprint: str
    since: int
    expires: int | None
    signs: bool
    bound: bool


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """A certificate. `facts` is for the policy; `keys` has the dates of the same keys in the same order, the primary
    first; `content` is the certificate without armor; `packets` names each of its packets, for `only_adds`."""

    facts: KeyFacts
    keys: tuple[KeyDates, ...]
    revocations: tuple[Revocation, ...]
    content: bytes
    packets: frozenset[bytes]

    @property
    def fingerprint(self) -> str:
        """Give the full primary fingerprint in upper-case hex."""
        return self.facts.fingerprint

    def only_adds(self, before: "CertificateFacts") -> bool:
        """Tell whether this is the same certificate as an earlier one with nothing taken out of it."""
        return self.fingerprint == before.fingerprint and before.packets <= self.packets
