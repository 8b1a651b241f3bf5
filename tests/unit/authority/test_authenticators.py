"""Whatever bytes come for an authenticator's, a word says what is wrong with them and nothing is raised (I20)."""

import json
from typing import Any

import pytest
from hypothesis import given as cases
from hypothesis import strategies as st
from webauthn.helpers import encode_cbor

from gitops_bot.authority.authenticators import (
    Assertion,
    NewKey,
    Unfit,
    Used,
    decode,
    encode,
    read_assertion,
    verify_creation,
    verify_use,
)
from gitops_bot.demo.passkey import ATTESTED, PRESENT, VERIFIED, SoftwarePasskey
from tests.people_stage import ORIGIN, altered

CHALLENGE = b"c" * 32
ID = b"i" * 32
CREATION = {
    "rp": {"id": "localhost", "name": "gitops-bot"},
    "user": {"id": "YWxpY2U", "name": "alice"},
    "challenge": encode(CHALLENGE),
    "pubKeyCredParams": [{"alg": -7, "type": "public-key"}],
}
CLIENT = json.dumps({"type": "webauthn.create", "challenge": encode(CHALLENGE), "origin": ORIGIN}).encode()
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.binary(max_size=40) | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.integers(-4, 4) | st.text(max_size=8), inner, max_size=5)
    ),
    max_leaves=10,
)


def create(credential: object) -> NewKey | Unfit:
    return verify_creation(credential, challenge=CHALLENGE, origin=ORIGIN, rp_id="localhost")


def use(credential: object, public_key: bytes) -> Used | Unfit:
    found = read_assertion(credential)
    if isinstance(found, Unfit):
        return found
    return verify_use(found, challenge=CHALLENGE, origin=ORIGIN, rp_id="localhost", public_key=public_key)


def authenticator_data(cose: bytes, passkey: bytes = ID, flags: int = PRESENT | VERIFIED | ATTESTED) -> bytes:
    import hashlib

    hashed = hashlib.sha256(b"localhost").digest()
    return hashed + bytes([flags]) + bytes(4) + bytes(16) + len(passkey).to_bytes(2, "big") + passkey + cose


def credential_of(data: object, fmt: object = "none", statement: object = None, passkey: bytes = ID) -> dict[str, Any]:
    attestation = {"fmt": fmt, "attStmt": {} if statement is None else statement, "authData": data}
    response = {"clientDataJSON": encode(CLIENT), "attestationObject": encode(encode_cbor(attestation))}
    return {"id": encode(passkey), "rawId": encode(passkey), "type": "public-key", "response": response}


def cose_of(key: Any) -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = key.public_key()
    if isinstance(public, ed25519.Ed25519PublicKey):
        return encode_cbor({1: 1, 3: -8, -1: 6, -2: public.public_bytes(Encoding.Raw, PublicFormat.Raw)})
    if isinstance(public, rsa.RSAPublicKey):
        numbers = public.public_numbers()
        return encode_cbor({1: 3, 3: -257, -1: numbers.n.to_bytes(public.key_size // 8, "big"), -2: b"\1\0\1"})
    assert isinstance(public, ec.EllipticCurvePublicKey)
    point, size = public.public_numbers(), (public.curve.key_size + 7) // 8
    curve = {"secp256r1": 1, "secp384r1": 2}[public.curve.name]
    return encode_cbor({1: 2, 3: -7, -1: curve, -2: point.x.to_bytes(size, "big"), -3: point.y.to_bytes(size, "big")})


def test_the_software_passkey_makes_what_the_library_accepts() -> None:
    """The accepting twin; and the library itself, without us between."""
    from webauthn import verify_registration_response

    made = SoftwarePasskey(ORIGIN).create(CREATION)
    key = create(made)
    assert isinstance(key, NewKey)
    verified = verify_registration_response(
        credential=made,
        expected_challenge=CHALLENGE,
        expected_origin=ORIGIN,
        expected_rp_id="localhost",
        require_user_verification=True,
    )
    assert (encode(verified.credential_id), verified.credential_public_key) == (key.id, key.public_key)
    assert (key.sign_count, key.transports, key.backed_up) == (0, ("internal",), False)


def test_the_software_passkey_signs_what_the_library_accepts() -> None:
    from webauthn import verify_authentication_response

    passkey = SoftwarePasskey(ORIGIN)
    key = create(passkey.create(CREATION))
    assert isinstance(key, NewKey)
    used = passkey.get({"challenge": encode(CHALLENGE), "rpId": "localhost"})
    verified = verify_authentication_response(
        credential=used,
        expected_challenge=CHALLENGE,
        expected_origin=ORIGIN,
        expected_rp_id="localhost",
        credential_public_key=key.public_key,
        credential_current_sign_count=0,
        require_user_verification=True,
    )
    assert verified.new_sign_count == 1
    assert use(used, key.public_key) == Used(1, False)


def test_the_software_passkey_does_as_an_authenticator_where_it_cannot() -> None:
    passkey = SoftwarePasskey(ORIGIN)
    with pytest.raises(LookupError):
        passkey.get({"challenge": "AAAA", "rpId": "localhost"})
    made = passkey.create(CREATION)
    with pytest.raises(LookupError):
        passkey.create({**CREATION, "excludeCredentials": [{"id": made["id"], "type": "public-key"}]})
    with pytest.raises(LookupError):
        passkey.create({**CREATION, "pubKeyCredParams": [{"alg": -257, "type": "public-key"}]})
    with pytest.raises(LookupError):
        passkey.get({"challenge": "AAAA", "rpId": "localhost", "allowCredentials": [{"id": "AAAA"}]})
    passkey.get({"challenge": "AAAA", "rpId": "localhost", "allowCredentials": [{"id": made["id"]}]})


def test_only_keys_of_accepted_kinds_are_enrolled() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    good = [
        ec.generate_private_key(ec.SECP256R1()),
        ed25519.Ed25519PrivateKey.generate(),
        rsa.generate_private_key(65537, 2048),
    ]
    for key in good:
        assert isinstance(create(credential_of(authenticator_data(cose_of(key)))), NewKey), key
    bad = [
        cose_of(ec.generate_private_key(ec.SECP384R1())),
        cose_of(rsa.generate_private_key(65537, 1024)),
        encode_cbor({1: 2, 3: -7, -1: 1, -2: b"x" * 32, -3: b"y" * 32}),
        encode_cbor({1: 1, 3: -7, -1: 6, -2: b"x" * 32}),
        encode_cbor({1: 7, 3: -48, -1: b"x"}),
        encode_cbor({}),
        encode_cbor([]),
        b"\x04" + b"x" * 64,
    ]
    for cose in bad:
        assert isinstance(create(credential_of(authenticator_data(cose))), Unfit), cose


@pytest.mark.parametrize("fmt", ["tpm", "android-key", "android-safetynet", "apple", "fido-u2f", "none ", "", None, 5])
def test_an_attestation_that_nobody_asked_for_is_refused(fmt: object) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    data = authenticator_data(cose_of(ec.generate_private_key(ec.SECP256R1())))
    assert isinstance(create(credential_of(data, fmt=fmt)), Unfit)
    assert isinstance(create(credential_of(data, statement={"sig": b"x", "alg": -7})), Unfit)
    assert isinstance(create(credential_of(data)), NewKey)


def test_a_client_may_attest_by_the_new_key_itself() -> None:
    """Some do, though nobody asked; the signature is then held against the key."""
    import hashlib

    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    data = authenticator_data(cose_of(key))
    signature = key.sign(data + hashlib.sha256(CLIENT).digest(), ec.ECDSA(hashes.SHA256()))
    good = {"alg": -7, "sig": signature}
    assert isinstance(create(credential_of(data, "packed", good)), NewKey)
    for bad in ({"alg": -7}, {**good, "sig": b"x"}, {**good, "alg": -8}, {**good, "x5c": []}, {**good, "alg": None}):
        assert isinstance(create(credential_of(data, "packed", bad)), Unfit)


def test_extensions_are_read_and_change_nothing() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    cose = cose_of(ec.generate_private_key(ec.SECP256R1()))
    flags = PRESENT | VERIFIED | ATTESTED | 0x80
    said = encode_cbor({"credProtect": 2})
    assert isinstance(create(credential_of(authenticator_data(cose, flags=flags) + said)), NewKey)
    assert isinstance(create(credential_of(authenticator_data(cose, flags=flags))), Unfit)
    assert isinstance(create(credential_of(authenticator_data(cose, flags=flags) + said + b"\0")), Unfit)
    assert isinstance(create(credential_of(authenticator_data(cose, flags=flags) + encode_cbor([1]))), Unfit)


def test_the_id_is_that_of_the_key_and_cannot_be_guessed() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    cose = cose_of(ec.generate_private_key(ec.SECP256R1()))
    assert isinstance(create(credential_of(authenticator_data(cose), passkey=b"o" * 32)), Unfit)
    assert isinstance(create(credential_of(authenticator_data(cose, b"short"), passkey=b"short")), Unfit)
    assert isinstance(create(credential_of(authenticator_data(cose, ID[:16]), passkey=ID[:16])), NewKey)
    assert isinstance(create(credential_of(authenticator_data(cose) + b"\0")), Unfit)


@pytest.mark.parametrize("size", [10**9, 10**12, 2**64 - 1, -1, True, None, "x", [], {}])
def test_a_number_for_authenticator_data_makes_no_memory(size: object) -> None:
    """The library takes whatever stands there for bytes; `bytes(n)` of a number is n zeros."""
    assert isinstance(create(credential_of(size)), Unfit)


def test_a_key_of_doubling_references_is_not_followed() -> None:
    import cbor2

    shared: list[Any] = []
    for _ in range(60):
        shared = [shared, shared]
    for hostile in (shared, {1: shared}, {1: 2, 3: -7, -1: 1, -2: shared, -3: b""}):
        cose = cbor2.dumps(hostile, value_sharing=True)
        assert isinstance(create(credential_of(authenticator_data(cose))), Unfit)
        extended = authenticator_data(cose, flags=PRESENT | VERIFIED | 0x80)[:37] + cose
        assertion = {"clientDataJSON": encode(CLIENT), "authenticatorData": encode(extended), "signature": encode(b"s")}
        credential = {"id": encode(ID), "rawId": encode(ID), "type": "public-key", "response": assertion}
        assert isinstance(use(credential, cose), Unfit)


@pytest.mark.parametrize("text", ["AA==", "A", "AB", "A A", "A+", "A/", "\n", "AA\n", "é", None, 5, b"AA", "A" * 100])
def test_base64url_has_one_spelling(text: object) -> None:
    assert decode(text, 16) is None
    assert decode("AA", 16) == b"\0"


@pytest.mark.parametrize(
    "client",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        CLIENT[:-1] + b',"origin":"x"}',
        CLIENT[:-1] + b',"crossOrigin":1}',
        CLIENT[:-1] + b',"crossOrigin":"false"}',
        CLIENT[:-1] + b',"topOrigin":null}',
        CLIENT.replace(b"8480", b"8481"),
        CLIENT.replace(b"http:", b"https:"),
        CLIENT[:-1] + b',"x":"' + b"x" * 5000 + b'"}',
    ],
)
def test_client_data_is_compared_exactly(client: bytes) -> None:
    made = SoftwarePasskey(ORIGIN).create(CREATION)
    assert isinstance(create(altered(made, "clientDataJSON", lambda _: client)), Unfit)
    said_more = CLIENT[:-1] + b',"crossOrigin":false,"other_keys_can_be_added_here":"do not compare"}'
    assert isinstance(create(altered(made, "clientDataJSON", lambda _: said_more)), NewKey)


@cases(JUNK)
def test_nothing_is_raised_for_any_credential(value: Any) -> None:
    assert isinstance(create(value), Unfit)
    assert isinstance(read_assertion(value), Unfit)
    good = credential_of(b"x")
    for name in ("id", "type", "response"):
        assert isinstance(create({**good, name: value}), Unfit)
    if isinstance(value, str | bytes):
        return
    assert isinstance(read_assertion({**good, "response": {"clientDataJSON": value}}), Unfit)


@cases(JUNK, JUNK, JUNK)
def test_nothing_is_raised_for_any_attestation(data: Any, fmt: Any, statement: Any) -> None:
    for credential in (
        credential_of(data),
        credential_of(authenticator_data(encode_cbor(data))),
        credential_of(authenticator_data(encode_cbor(data)), fmt="packed", statement=statement),
        credential_of(data, fmt, statement),
    ):
        assert isinstance(create(credential), Unfit)


@cases(st.binary(max_size=200), st.binary(max_size=100), st.binary(max_size=120))
def test_nothing_is_raised_for_any_assertion_or_key(data: bytes, signature: bytes, key: bytes) -> None:
    said = json.dumps({"type": "webauthn.get", "challenge": encode(CHALLENGE), "origin": ORIGIN}).encode()
    assertion = Assertion(encode(ID), said, data, signature, None)
    for flagged in (data, authenticator_data(key)[:37], authenticator_data(key)):
        for public_key in (key, encode_cbor({1: 2, 3: -7, -1: 1, -2: data, -3: signature})):
            found = verify_use(
                Assertion(assertion.id, said, flagged, signature, None),
                challenge=CHALLENGE,
                origin=ORIGIN,
                rp_id="localhost",
                public_key=public_key,
            )
            assert isinstance(found, Unfit)


@cases(st.data())
def test_no_changed_byte_of_a_creation_raises(data: st.DataObject) -> None:
    made = SoftwarePasskey(ORIGIN).create(CREATION)
    part = data.draw(st.sampled_from(["clientDataJSON", "attestationObject"]))
    size = len(decode(made["response"][part], 65_536) or b"")
    place, mask = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, 255))
    create(altered(made, part, lambda raw: raw[:place] + bytes([raw[place] ^ mask]) + raw[place + 1 :]))
