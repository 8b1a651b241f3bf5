"""What is done to SSH signatures: blobs, namespaces, hashes, flags, numbers, and whose key it is."""

import base64
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.interop.damages import COMMON, blob_drawn
from tests.interop.damages import HARMLESS as COMMON_HARMLESS
from tests.interop.damages_openpgp import ED25519_ORDER, ORDERS
from tests.interop.drafts import Damage, Draft, Edit, flipped
from tests.signed_keys import field, ssh_keygen, ssh_line, ssh_mpint
from tests.sshsig_stage import Blob, strings


def option(**changes: Any) -> Damage:
    """Have the signature made otherwise."""
    return lambda draft, _rng: draft.option(**changes)


def taken_apart(raw: bytes) -> Blob:
    """Take a blob apart."""
    parts, after = strings(raw[10:], 5)
    return Blob(raw[:6], raw[6:10], *parts, after)


def having(**parts: bytes) -> Damage:
    """Replace parts of the blob."""
    return lambda draft, _rng: replace(draft, blob=lambda raw: replace(taken_apart(raw), **parts).raw)


def making(change: Any) -> Edit:
    """Rebuild the signature's own blob from its name, its value and what follows."""

    def edit(raw: bytes) -> bytes:
        blob = taken_apart(raw)
        (name, value), rest = strings(blob.made, 2)
        return replace(blob, made=change(name, value, rest)).raw

    return edit


def on_made(change: Any) -> Damage:
    """Do that to a draft."""
    return lambda draft, _rng: replace(draft, blob=making(change))


def signed_by(key: str, ring: str = "sound") -> Damage:
    """Have another key sign, judged by another set of keys."""
    return lambda draft, _rng: replace(draft, key=key, ring=ring)


def _digest(draft: Draft, rng: Random) -> Draft:
    return draft.option(digest=rng.choice(("sha256", "sha512")))


def _security(draft: Draft, key: str, **options: Any) -> Draft:
    """A software key becomes a security key for what only those can do."""
    chosen = draft if "-sk" in draft.key else replace(draft, key=key)
    return chosen.option(**options)


def _flags(value: int) -> Damage:
    return lambda draft, _rng: _security(draft, "alice-sk", flags=value)


def _counter(draft: Draft, rng: Random) -> Draft:
    return _security(draft, "alice-sk-ecdsa", counter=rng.choice((0, 1, 2**31, 2**32 - 1)))


def _application(draft: Draft, _rng: Random) -> Draft:
    return _security(draft, "alice-sk", application=b"ssh:other")


def _other_half(name: bytes, value: bytes, rest: bytes) -> bytes:
    if name.startswith((b"ecdsa", b"sk-ecdsa")):
        order = ORDERS[{b"384": "p384", b"521": "p521"}.get(name[-3:], "carol")]
        (r, s), _ = strings(value, 2)
        value = field(r) + ssh_mpint(order - int.from_bytes(s, "big"))
    elif b"ed25519" in name:
        value = value[:32] + (int.from_bytes(value[32:], "little") + ED25519_ORDER).to_bytes(32, "little")
    else:
        value = (int.from_bytes(value, "big") ^ 2).to_bytes(len(value), "big")
    return field(name) + field(value) + rest


def _padded(name: bytes, value: bytes, rest: bytes) -> bytes:
    if b"ecdsa" in name:
        (r, s), _ = strings(value, 2)
        value = field(b"\0" + r) + field(s)
    else:
        value = b"\0" + value
    return field(name) + field(value) + rest


def _shortened(name: bytes, value: bytes, rest: bytes) -> bytes:
    return field(name) + field(value.removeprefix(b"\0")[:-1]) + rest


def _named(key: str) -> bytes:
    return base64.b64decode(ssh_line(key).split()[1])


def _long_key(draft: Draft, _rng: Random) -> Draft:
    def edit(raw: bytes) -> bytes:
        blob = taken_apart(raw)
        return replace(blob, key=blob.key + bytes(4)).raw

    return replace(draft, blob=edit)


def _program(draft: Draft, _rng: Random) -> Draft:
    """Have the program itself sign; it cannot with a security key that is not here."""
    return draft if "-sk" in draft.key else draft.commit(signer=ssh_keygen(draft.key))


def _rsa(algorithm: str) -> Damage:
    return lambda draft, _rng: replace(draft, key="bob").option(algorithm=algorithm)


DAMAGES: Final[dict[str, Damage]] = {
    **COMMON,
    "digest": _digest,
    "made by ssh-keygen": _program,
    "RSA over SHA-256": _rsa("rsa-sha2-256"),
    "RSA over SHA-1": _rsa("ssh-rsa"),
    "namespace file": option(namespace=b"file"),
    "namespace email": option(namespace=b"email"),
    "no namespace": option(namespace=b""),
    "namespace with a NUL": option(namespace=b"git\0"),
    "namespace in capitals": option(namespace=b"GIT"),
    "hash SHA-1": option(digest="sha1"),
    "hash SHA-384": option(digest="sha384"),
    "hash in capitals": option(digest="SHA512"),
    "hash said to be another": having(hash_name=b"sha256"),
    "reserved and signed": option(reserved=b"x"),
    "reserved, unsigned": having(reserved=b"x"),
    "version 2": option(version=2),
    "version 0": option(version=0),
    "octets after": option(trailing=b"\0"),
    "other magic": having(magic=b"SSHSIH"),
    "another key named": option(public=_named("outsider")),
    "octets after the key": _long_key,
    "scheme of another kind": on_made(lambda _, value, rest: field(b"ssh-dss") + field(value) + rest),
    "other half": on_made(_other_half),
    "value with a zero before": on_made(_padded),
    "value one octet short": on_made(_shortened),
    "octets after the value": on_made(lambda name, value, rest: field(name) + field(value) + rest + b"\0"),
    "octet inside the value": on_made(lambda name, value, rest: field(name) + field(value + b"\0") + rest),
    "no touch": _flags(0),
    "touch and PIN": _flags(5),
    "PIN without touch": _flags(4),
    "every flag": _flags(0xFF),
    "counter": _counter,
    "other application": _application,
    "bit of the blob": blob_drawn(flipped),
    "bit of the last octets": blob_drawn(lambda blob, rng: flipped(blob, rng, len(blob) - 8)),
    "unknown key": signed_by("outsider"),
    "unknown security key": signed_by("outsider-sk"),
    "weak RSA": signed_by("weak-rsa2048"),
    "key not valid yet": signed_by("alice", "not yet"),
    "key past its end": signed_by("alice", "ended"),
    "key revoked": signed_by("alice", "revoked"),
}
HARMLESS: Final = frozenset(
    {*COMMON_HARMLESS, "digest", "RSA over SHA-256", "touch and PIN", "counter", "made by ssh-keygen"}
)
"""What must count: the accepting twins."""
SOUND: Final = ("alice", "bob", "carol", "carol-384", "carol-521", "alice-sk", "alice-sk-ecdsa")
WEAK: Final = ("weak-rsa2048",)
"""What the programs are told to take beside; no policy with it would load."""
RINGS: Final = ("ended", "not yet", "revoked", "sound")
