"""The checks of step 5 that are our own: the form of a signature, whose key, and whether that key counts at receipt.

What `Keyring.admit` lets through has one strict signature by a key that stood at `window.received_at`, inside the
window. Whether it is a signature of these bytes is left to the two engines, each of which asks this first: neither
Sequoia's clock (the signer's) nor gpg's (the host's, with exit 0 for keys that ended) decides about dates.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.policy.model import ComponentKey, KeyKind
from gitops_bot.policy.sshkeys import MIN_RSA
from gitops_bot.signed.evidence import Commit, SignatureKind, Signed, Window
from gitops_bot.signed.openpgp.facts import CertificateFacts, KeyDates, Revocation
from gitops_bot.signed.openpgp.grammar import Signature, read_detached

_STRONG_CURVES: Final = frozenset(
    {"ed25519", "ed448", "nistp256", "nistp384", "nistp521"} | {"brainpoolp256r1", "brainpoolp384r1", "brainpoolp512r1"}
)


@dataclass(frozen=True, slots=True)
class Holder:
    """A key that may be asked for: its certificate, its dates, what took it or its primary back, and whether a
    remembered revocation of them is no longer in the certificate."""

    certificate: CertificateFacts
    key: ComponentKey
    dates: KeyDates
    revocations: tuple[Revocation, ...]
    remembered: bool


@dataclass(frozen=True, slots=True)
class Admitted:
    """A signature that passed our own checks. `packet` is its bytes without armor. `late` says that the certificate
    holds a soft revocation dated after receipt, which does not count yet and which gpg counts always."""

    holder: Holder
    signature: Signature
    packet: bytes
    signed_at: int
    late: bool

    @property
    def signed(self) -> Signed:
        """Give what an engine that verified it says."""
        return Signed(
            kind=SignatureKind.OPENPGP,
            key=self.holder.certificate.fingerprint,
            component=self.holder.key.fingerprint,
            signed_at=self.signed_at,
            proof=KeyKind.ANY,
        )


class Keyring:
    """Every key of some certificates by full fingerprint. Where two hold one key, the one whose primary it is counts,
    else the first; the policy does not load if they belong to two people."""

    def __init__(self, certificates: Iterable[CertificateFacts], remembered: Iterable[Revocation] = ()) -> None:
        """Index certificates; `remembered` are revocations that were ever seen. One that its certificate still holds is
        judged by its date; one that was taken out of it counts always."""
        seen = _by_key(remembered)
        self._holders: dict[str, Holder] = {}
        for certificate in certificates:
            own = _by_key(certificate.revocations)
            for key, dates in zip(certificate.facts.components, certificate.keys, strict=True):
                names = (certificate.fingerprint, key.fingerprint)
                revocations = tuple(item for item in certificate.revocations if item.fingerprint in names)
                gone = any(seen.get(name, set()) - own.get(name, set()) for name in names)
                if key.fingerprint not in self._holders or key.fingerprint == certificate.fingerprint:
                    self._holders[key.fingerprint] = Holder(certificate, key, dates, revocations, gone)

    def standing(self, component: str, at: int) -> Refused | None:
        """Tell why a key does not count at a time (ms), or None: unknown, revoked, expired, not yet valid, weak.

        A hard revocation counts at any time, and so does one that was taken out; a soft one from its date.
        """
        holder = self._holders.get(component)
        if holder is None or _nobodys(holder):
            return refuse(Reason.UNKNOWN_KEY, fingerprint=component)
        return _ended(holder, at) or _begun(holder, at) or _strength(holder)

    def admit(self, commit: Commit, window: Window) -> Admitted | Refused:
        """Run the own checks in their order: form, class, digest, critical notation, whose key, revoked, expired, not
        yet valid, time of the signature, strength, whether the key may sign."""
        if commit.kind is not SignatureKind.OPENPGP:
            return refuse(Reason.BAD_SIGNATURE, "This is no OpenPGP signature.")
        read = read_detached(commit.armor)
        if isinstance(read, Refused):
            return read
        signature, packet = read
        assert signature.issuer is not None and signature.created is not None, "read_detached checks both"
        holder = self._holders.get(signature.issuer)
        if holder is None or _nobodys(holder):
            return refuse(Reason.UNKNOWN_KEY, fingerprint=signature.issuer)
        signed_at = signature.created * 1_000
        latest = max(window.received_at, signed_at)
        earliest = min(window.received_at, signed_at)
        fault = (
            _ended(holder, latest)
            or _begun(holder, earliest)
            or _timely(signature, signed_at, window)
            or _strength(holder)
        )
        if fault is not None:
            return fault
        if not holder.dates.signs:
            return refuse(Reason.BAD_SIGNATURE, "Its owner does not let this key sign.", fingerprint=signature.issuer)
        return Admitted(holder, signature, packet, signed_at, bool(holder.revocations))


def _by_key(revocations: Iterable[Revocation]) -> dict[str, set[tuple[bool, int]]]:
    found: dict[str, set[tuple[bool, int]]] = {}
    for one in revocations:
        found.setdefault(one.fingerprint, set()).add((one.hard, one.at))
    return found


def _nobodys(holder: Holder) -> bool:
    # What is bound to nobody only because its algorithm is not computed here is called weak instead.
    return not holder.dates.bound and _strength(holder) is None


def _ended(holder: Holder, at: int) -> Refused | None:
    fingerprint = holder.key.fingerprint
    if holder.remembered:
        return refuse(Reason.KEY_REVOKED, "Its revocation was taken out of the certificate.", fingerprint=fingerprint)
    for revocation in holder.revocations:
        if revocation.hard or revocation.at <= at:
            return refuse(Reason.KEY_REVOKED, fingerprint=fingerprint, at=revocation.at, hard=revocation.hard)
    primary = holder.certificate.keys[0]
    for dates in (holder.dates, primary):
        if dates.expires is not None and dates.expires <= at:
            return refuse(Reason.KEY_EXPIRED, fingerprint=fingerprint, at=dates.expires)
    return None


def _begun(holder: Holder, at: int) -> Refused | None:
    since = max(holder.dates.since, holder.certificate.keys[0].since)
    if at < since:
        return refuse(Reason.KEY_NOT_YET_VALID, fingerprint=holder.key.fingerprint, at=since)
    return None


def _timely(signature: Signature, signed_at: int, window: Window) -> Refused | None:
    if not window.holds(signed_at):
        return refuse(Reason.SIGNATURE_TIME, at=signed_at)
    # Both engines would ask this at their own clocks, so that a vote would fall by itself when it is verified again.
    if signature.expires:
        return refuse(Reason.SIGNATURE_TIME, "The signature says that it expires; sign without that.", at=signed_at)
    return None


def _strength(holder: Holder) -> Refused | None:
    for key in (holder.key, holder.certificate.facts.components[0]):
        strong = key.algorithm == "rsa" and key.bits >= MIN_RSA if key.curve is None else key.curve in _STRONG_CURVES
        if not strong:
            return refuse(
                Reason.WEAK_KEY, key.curve or f"{key.algorithm}, {key.bits} bits", fingerprint=key.fingerprint
            )
    return None


def agree(in_process: Signed, gpg: Signed | Refused) -> Signed | Refused:
    """Give the one answer of both engines, or `engines_disagree`: gpg must say the same of key, subkey and time."""
    if isinstance(gpg, Refused):
        said = (
            gpg.detail
            if gpg.reason is Reason.ENGINES_DISAGREE
            else f"gpg says {gpg.reason.value}. {gpg.detail}".strip()
        )
        return refuse(Reason.ENGINES_DISAGREE, said)
    if gpg != in_process:
        return refuse(Reason.ENGINES_DISAGREE, "gpg names another key or time.")
    return in_process
