"""A passkey in software, for the automatic demo and for tests: real bytes, as a browser with an authenticator gives.

ES256, attestation "none", presence and user verification, a counter. It proves nothing about a person: whatever runs
this program has the key. The product has no special way for it.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from gitops_bot.authority.authenticators import encode

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AAGUID: Final = bytes(16)
PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40
"""Flags of authenticator data (WebAuthn Level 3, section 6.1)."""


@dataclass
class Credential:
    """One key of the passkey. `sign_count` stays 0 where nothing is counted."""

    id: str
    rp_id: str
    key: "EllipticCurvePrivateKey"
    user_handle: str
    sign_count: int = 0


@dataclass
class SoftwarePasskey:
    """An authenticator and its browser, at one origin. `verifies`, `present`, `counts` and `client` are for tests of
    what must be refused: without them it does as an honest one."""

    origin: str
    verifies: bool = True
    present: bool = True
    counts: bool = True
    client: dict[str, Any] = field(default_factory=dict)
    credentials: dict[str, Credential] = field(default_factory=dict)

    def create(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Make a key, as `navigator.credentials.create` with PublicKeyCredentialCreationOptionsJSON does.

        Raises:
            LookupError: the options exclude a key that is here, or accept no ES256.
        """
        from cryptography.hazmat.primitives.asymmetric import ec
        from webauthn.helpers import encode_cbor

        excluded = {str(one["id"]) for one in options.get("excludeCredentials", [])}
        if excluded & set(self.credentials):
            raise LookupError("this authenticator holds an excluded passkey")
        if -7 not in [one["alg"] for one in options["pubKeyCredParams"]]:
            raise LookupError("ES256 is not accepted")
        rp_id = str(options["rp"].get("id") or urlsplit(self.origin).hostname)
        key = ec.generate_private_key(ec.SECP256R1())
        raw = secrets.token_bytes(32)
        made = Credential(encode(raw), rp_id, key, str(options["user"]["id"]))
        self.credentials[made.id] = made
        numbers = key.public_key().public_numbers()
        cose = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")}
        attested = AAGUID + len(raw).to_bytes(2, "big") + raw + encode_cbor(cose)
        data = self._authenticator_data(made, ATTESTED) + attested
        return {
            "id": made.id,
            "rawId": made.id,
            "type": "public-key",
            "authenticatorAttachment": "platform",
            "clientExtensionResults": {},
            "response": {
                "clientDataJSON": encode(self._client_data("webauthn.create", options["challenge"])),
                "attestationObject": encode(encode_cbor({"fmt": "none", "attStmt": {}, "authData": data})),
                "transports": ["internal"],
            },
        }

    def get(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Sign a challenge, as `navigator.credentials.get` with PublicKeyCredentialRequestOptionsJSON does: with a key
        that is allowed, else with the newest one here for the site.

        Raises:
            LookupError: there is none.
        """
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        used = self._choose(options)
        if self.counts:
            used.sign_count += 1
        client_data = self._client_data("webauthn.get", options["challenge"])
        data = self._authenticator_data(used, 0)
        signature = used.key.sign(data + hashlib.sha256(client_data).digest(), ec.ECDSA(hashes.SHA256()))
        return {
            "id": used.id,
            "rawId": used.id,
            "type": "public-key",
            "authenticatorAttachment": "platform",
            "clientExtensionResults": {},
            "response": {
                "clientDataJSON": encode(client_data),
                "authenticatorData": encode(data),
                "signature": encode(signature),
                "userHandle": used.user_handle,
            },
        }

    def _choose(self, options: Mapping[str, Any]) -> Credential:
        rp_id = options.get("rpId") or urlsplit(self.origin).hostname
        allowed = [str(one["id"]) for one in options.get("allowCredentials", [])]
        found = [one for one in self.credentials.values() if one.rp_id == rp_id and (not allowed or one.id in allowed)]
        if not found:
            raise LookupError("this authenticator has no passkey that is asked for")
        return found[-1]

    def _client_data(self, kind: str, challenge: str) -> bytes:
        said = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False, **self.client}
        return json.dumps(said, separators=(",", ":")).encode("utf-8")

    def _authenticator_data(self, used: Credential, flags: int) -> bytes:
        flags |= (PRESENT if self.present else 0) | (VERIFIED if self.verifies else 0)
        return hashlib.sha256(used.rp_id.encode("utf-8")).digest() + bytes([flags]) + used.sign_count.to_bytes(4, "big")
