"""What an authenticator sent has the form that it must have, to its last byte, before a library takes it apart.

The library follows CBOR's tags, and takes whatever stands for authenticator data for bytes, a number too. Nothing here
checks a signature, a hash or a flag but that of user verification.
"""

from collections.abc import Mapping
from typing import Final

from gitops_bot.core import cbor
from gitops_bot.core.errors import Malformed

_STATEMENTS: Final[Mapping[str, frozenset[int | str]]] = {"none": frozenset(), "packed": frozenset({"alg", "sig"})}
"""Nobody is asked for an attestation; some clients give one by the new key itself all the same. No other is parsed, and
no certificate."""
_FLAGS_AT: Final = 32
_VERIFIED, _ATTESTED, _EXTENDED = 0x04, 0x40, 0x80
_HEADER: Final = 37


def is_verified(data: bytes) -> bool:
    """Tell whether authenticator data of a right form says that the user was verified."""
    return bool(data[_FLAGS_AT] & _VERIFIED)


def is_of_a_use(data: bytes) -> bool:
    """Tell whether this is the authenticator data of an assertion: no new key in it, and nothing after its end."""
    return _has_form(data, of_new_key=False)


def is_key(public_key: bytes) -> bool:
    """Tell whether this is a COSE key by its form: a map of numbers and bytes."""
    try:
        return _is_cose(cbor.loads(public_key))
    except Malformed:
        return False


def wrong_in_attestation(raw: bytes) -> str | None:
    """Say what is wrong with the form of an attestation object and of all that is in it; None when nothing is."""
    try:
        found = cbor.loads(raw)
    except Malformed:
        return "an attestation object that cannot be read"
    if not isinstance(found, dict) or set(found) != {"fmt", "attStmt", "authData"}:
        return "an attestation object of another form"
    kind, statement, data = found["fmt"], found["attStmt"], found["authData"]
    members = _STATEMENTS.get(kind) if isinstance(kind, str) else None
    if members is None or not isinstance(statement, dict) or set(statement) != members:
        return "an attestation that nobody asked for"
    if not isinstance(statement.get("alg", 0), int) or not isinstance(statement.get("sig", b""), bytes):
        return "an attestation that nobody asked for"
    if not isinstance(data, bytes) or not _has_form(data, of_new_key=True):
        return "authenticator data that cannot be read"
    return None


def _has_form(data: bytes, *, of_new_key: bool) -> bool:
    """Read authenticator data (WebAuthn Level 3, section 6.1) to its end."""
    if len(data) < _HEADER or bool(data[_FLAGS_AT] & _ATTESTED) is not of_new_key:
        return False
    at = _HEADER
    try:
        if of_new_key:
            found, at = cbor.read(data, at + 18 + int.from_bytes(data[at + 16 : at + 18], "big"))
            if not _is_cose(found):
                return False
        if data[_FLAGS_AT] & _EXTENDED:
            extensions, at = cbor.read(data, at)
            if not isinstance(extensions, dict):
                return False
    except Malformed:
        return False
    return at == len(data)


def _is_cose(found: cbor.Item) -> bool:
    return isinstance(found, dict) and all(isinstance(part, int | bytes) for part in found.values())
