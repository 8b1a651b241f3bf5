"""What an authenticator returned is read within bounds, then verified by the `webauthn` library: a new key, or its use.

Presence and user verification are demanded always, the origin and the challenge compared exactly, and a ceremony inside
a frame of another origin is refused. Counters and whose key it is are left to `authority.challenges`.
"""

import base64
import binascii
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gitops_bot.authority.authenticator_data import is_key, is_of_a_use, is_verified, wrong_in_attestation
from gitops_bot.core.errors import Malformed
from gitops_bot.core.strictjson import loads

if TYPE_CHECKING:
    from webauthn.helpers.structs import AuthenticatorTransport

LEAST_ID: Final = 16
MOST_ID: Final = 1023
"""Bytes of a credential id (WebAuthn Level 3, section 4)."""
_MOST: Final[Mapping[str, int]] = {
    "clientDataJSON": 4096,
    "authenticatorData": 2048,
    "signature": 1024,
    "attestationObject": 16_384,
    "userHandle": 64,
}
_TRANSPORTS: Final = frozenset({"usb", "nfc", "ble", "smart-card", "hybrid", "internal", "cable"})
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*\Z")
_ES256, _EDDSA, _RS256 = -7, -8, -257
_RSA_BITS: Final = (2048, 4096)


@dataclass(frozen=True, slots=True)
class Unfit:
    """What was returned does not stand for what it should; `why` in words for the ledger, without any of its bytes."""

    why: str


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that an authenticator made. `id` in base64url without padding, `public_key` in COSE."""

    id: str
    public_key: bytes
    sign_count: int
    transports: tuple[str, ...]
    aaguid: str
    backed_up: bool


@dataclass(frozen=True, slots=True)
class Assertion:
    """What an authenticator returned for a use, within bounds and not verified yet."""

    id: str
    client_data: bytes
    authenticator_data: bytes
    signature: bytes
    user_handle: bytes | None


@dataclass(frozen=True, slots=True)
class Used:
    """A use that was verified: present, user verified, over the challenge, by the key."""

    sign_count: int
    backed_up: bool


def encode(raw: bytes) -> str:
    """Give bytes in base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def decode(text: object, most: int) -> bytes | None:
    """Read base64url without padding of at most `most` bytes; None for anything else, another spelling included."""
    if not isinstance(text, str) or len(text) > most * 4 // 3 + 4 or _BASE64URL.match(text) is None:
        return None
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return None
    return raw if len(raw) <= most and encode(raw) == text else None


def read_assertion(credential: object) -> Assertion | Unfit:
    """Read a PublicKeyCredential with an AuthenticatorAssertionResponse in its JSON form."""
    found = _read(credential, ("clientDataJSON", "authenticatorData", "signature"))
    if isinstance(found, Unfit):
        return found
    passkey, response, fields = found
    handle = response.get("userHandle")
    user = None if handle in (None, "") else decode(handle, _MOST["userHandle"])
    if handle not in (None, "") and user is None:
        return Unfit("a user handle that is none")
    return Assertion(passkey, fields["clientDataJSON"], fields["authenticatorData"], fields["signature"], user)


def _read(credential: object, names: Sequence[str]) -> tuple[str, Mapping[str, Any], dict[str, bytes]] | Unfit:
    if not isinstance(credential, Mapping) or credential.get("type") != "public-key":
        return Unfit("no public-key credential")
    passkey, response = credential.get("id"), credential.get("response")
    if not decode(passkey, MOST_ID) or passkey != credential.get("rawId") or not isinstance(response, Mapping):
        return Unfit("a credential without id or response")
    fields = {name: decode(response.get(name), _MOST[name]) for name in names}
    if not all(fields.values()):
        return Unfit("a response that lacks a part, or is too large")
    return str(passkey), response, {name: raw for name, raw in fields.items() if raw is not None}


def _client_data(raw: bytes, kind: str, challenge: bytes, origin: str) -> Unfit | None:
    """Compare what the browser says it asked for (WebAuthn Level 3, section 7.2, steps 7 to 11)."""
    try:
        said = loads(raw, limit=_MOST["clientDataJSON"], where="clientDataJSON")
    except Malformed:
        return Unfit("client data that is no JSON object")
    if not isinstance(said, dict) or said.get("type") != kind:
        return Unfit("another kind of ceremony")
    if said.get("challenge") != encode(challenge):
        return Unfit("another challenge")
    if said.get("origin") != origin:
        return Unfit("another origin")
    if said.get("crossOrigin", False) is not False or "topOrigin" in said:
        return Unfit("inside a frame of another origin")
    return None


def _library_errors() -> tuple[type[Exception], ...]:
    """Name what the library lets out for hostile bytes: its own errors, and those of what it parses and computes with
    (a fuzzing test holds the list to account)."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from webauthn.helpers.exceptions import WebAuthnException

    plain = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, struct.error)
    return (WebAuthnException, InvalidSignature, UnsupportedAlgorithm, *plain)


def verify_use(assertion: Assertion, *, challenge: bytes, origin: str, rp_id: str, public_key: bytes) -> Used | Unfit:
    """Verify that a key signed a challenge at an origin, with presence and user verification. Its counter is *not*
    compared."""
    from webauthn import verify_authentication_response

    unfit = _client_data(assertion.client_data, "webauthn.get", challenge, origin)
    if unfit is not None:
        return unfit
    if not (is_of_a_use(assertion.authenticator_data) and is_key(public_key)):
        return Unfit("authenticator data or a key that cannot be read")
    if not is_verified(assertion.authenticator_data):
        return Unfit("without user verification")
    try:
        verified = verify_authentication_response(
            credential={
                "id": assertion.id,
                "rawId": assertion.id,
                "type": "public-key",
                "response": {
                    "clientDataJSON": encode(assertion.client_data),
                    "authenticatorData": encode(assertion.authenticator_data),
                    "signature": encode(assertion.signature),
                },
            },
            expected_challenge=challenge,
            expected_rp_id=rp_id,
            expected_origin=origin,
            credential_public_key=public_key,
            credential_current_sign_count=0,
            require_user_verification=True,
        )
    except _library_errors():
        return Unfit("the signature or what it covers does not hold")
    return Used(verified.new_sign_count, verified.credential_backed_up)


def verify_creation(credential: object, *, challenge: bytes, origin: str, rp_id: str) -> NewKey | Unfit:
    """Verify that an authenticator made a new key for a challenge at an origin, with presence and user verification.

    Who made the authenticator is *not* asked: nothing is decided by it.
    """
    from webauthn import verify_registration_response
    from webauthn.helpers.cose import COSEAlgorithmIdentifier

    found = _read(credential, ("clientDataJSON", "attestationObject"))
    if isinstance(found, Unfit):
        return found
    passkey, response, fields = found
    unfit = _client_data(fields["clientDataJSON"], "webauthn.create", challenge, origin)
    if unfit is not None:
        return unfit
    wrong = wrong_in_attestation(fields["attestationObject"])
    if wrong is not None:
        return Unfit(wrong)
    try:
        verified = verify_registration_response(
            credential={
                "id": passkey,
                "rawId": passkey,
                "type": "public-key",
                "response": {name: encode(raw) for name, raw in fields.items()},
            },
            expected_challenge=challenge,
            expected_rp_id=rp_id,
            expected_origin=origin,
            require_user_presence=True,
            require_user_verification=True,
            supported_pub_key_algs=[COSEAlgorithmIdentifier(alg) for alg in (_EDDSA, _ES256, _RS256)],
        )
        sound = _is_sound(verified.credential_public_key)
    except _library_errors():
        return Unfit("the new key does not hold")
    if not sound:
        return Unfit("a key of a kind that is not accepted")
    if encode(verified.credential_id) != passkey or len(verified.credential_id) < LEAST_ID:
        return Unfit("another id than the key's, or one that could be guessed")
    return NewKey(
        passkey,
        verified.credential_public_key,
        verified.sign_count,
        _transports(response.get("transports")),
        verified.aaguid,
        verified.credential_backed_up,
    )


def _is_sound(public_key: bytes) -> bool:
    """Accept Ed25519, P-256 with SHA-256 and RSA of a usual size; a key that no signature of could be verified with
    must not be enrolled."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from webauthn.helpers import decode_credential_public_key, decoded_public_key_to_cryptography

    decoded = decode_credential_public_key(public_key)
    key = decoded_public_key_to_cryptography(decoded)
    match key:
        case Ed25519PublicKey():
            return decoded.alg == _EDDSA
        case EllipticCurvePublicKey():
            return decoded.alg == _ES256 and isinstance(key.curve, SECP256R1)
        case RSAPublicKey():
            return decoded.alg == _RS256 and _RSA_BITS[0] <= key.key_size <= _RSA_BITS[1]
        case _:
            return False


def _transports(said: object) -> tuple[str, ...]:
    if not isinstance(said, list):
        return ()
    return tuple(sorted({one for one in said[:16] if isinstance(one, str) and one in _TRANSPORTS}))


def transports_of(known: Sequence[str]) -> "list[AuthenticatorTransport]":
    """Give stored transports as the library wants them."""
    from webauthn.helpers.structs import AuthenticatorTransport

    return [AuthenticatorTransport(one) for one in known if one in _TRANSPORTS]
