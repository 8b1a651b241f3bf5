"""The keys of `tests/vectors/signed` as values, and signers that make any signature with them, sound or not.

A `Signer` takes a payload and a time in seconds and gives an armored signature. `openpgp` and `ssh` are written here,
so that every field can be wrong on purpose; `sequoia`, `gpg` and `ssh_keygen` are the real programs. All times are
seconds since 1970 UTC.
"""

import base64
import datetime
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pysequoia
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from gitops_bot.process import run

KEYS: Final = Path(__file__).parent / "vectors" / "signed"
Signer = Callable[[bytes, int], bytes]
Private = Any
"""A private key of `cryptography`, of whichever kind."""

CURVES: Final[dict[str, type[ec.EllipticCurve]]] = {
    "2a8648ce3d030107": ec.SECP256R1,
    "2b81040022": ec.SECP384R1,
    "2b81040023": ec.SECP521R1,
    "2b2403030208010107": ec.BrainpoolP256R1,
}
RSA, DSA, ECDSA, EDDSA = 1, 17, 19, 22
HASHES: Final[dict[str, tuple[int, Any]]] = {
    "md5": (1, hashes.MD5()),
    "sha1": (2, hashes.SHA1()),
    "sha256": (8, hashes.SHA256()),
    "sha384": (9, hashes.SHA384()),
    "sha512": (10, hashes.SHA512()),
    "sha224": (11, hashes.SHA224()),
}
BINARY, TEXT, STANDALONE = 0x00, 0x01, 0x02


@dataclass(frozen=True, slots=True)
class Secret:
    """One secret key of an OpenPGP certificate; `fingerprint` in upper-case hex."""

    fingerprint: str
    algorithm: int
    private: Private
    primary: bool


def certificate(name: str) -> bytes:
    """Give a certificate's file, as in `alice` or `alice.revoked-hard`."""
    return (KEYS / "openpgp" / f"{name}.asc").read_bytes()


def secret_file(name: str) -> bytes:
    """Give the file with a certificate's secret keys."""
    return (KEYS / "openpgp" / f"{name}.key").read_bytes()


def fingerprint(name: str) -> str:
    """Give a certificate's primary fingerprint in upper-case hex."""
    return next(key.fingerprint for key in secrets(name) if key.primary)


def ssh_path(name: str) -> Path:
    """Give the file of an SSH private key; beside it lies the public line."""
    return KEYS / "ssh" / name


def ssh_line(name: str) -> str:
    """Give a public SSH key as the policy holds it: `type base64`."""
    return " ".join((KEYS / "ssh" / f"{name}.pub").read_text().split()[:2])


def ssh_fingerprint(name: str) -> str:
    """Give `SHA256:…` of a public SSH key."""
    digest = hashlib.sha256(base64.b64decode(ssh_line(name).split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def packets(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Give tag and body of each packet of a binary OpenPGP file as gpg exports it (RFC 4880 section 4.2)."""
    at = 0
    while at < len(content):
        head = content[at]
        if head & 0x40:
            size, at = content[at + 1], at + 2
            if size >= 192:
                size, at = ((size - 192) << 8) + content[at] + 192, at + 1
            tag = head & 0x3F
        else:
            width = 1 << (head & 3)
            size, at = int.from_bytes(content[at + 1 : at + 1 + width], "big"), at + 1 + width
            tag = (head >> 2) & 0x0F
        yield tag, content[at : at + size]
        at += size


@cache
def secrets(name: str) -> tuple[Secret, ...]:
    """Give every secret key of a certificate, the primary first."""
    return tuple(_secret(tag, body) for tag, body in packets(unarmored(secret_file(name))) if tag in (5, 7))


def _secret(tag: int, body: bytes) -> Secret:
    algorithm, at = body[5], 6
    curve = ""
    if algorithm in (ECDSA, EDDSA):
        curve, at = body[7 : 7 + body[6]].hex(), 7 + body[6]
    public = {RSA: 2, DSA: 4, ECDSA: 1, EDDSA: 1}[algorithm]
    numbers: list[int] = []
    end = at
    while len(numbers) < public + {RSA: 4, DSA: 1, ECDSA: 1, EDDSA: 1}[algorithm]:
        if len(numbers) == public:
            end, at = at, at + 1  # one octet says that the secret part is not encrypted
        size = (int.from_bytes(body[at : at + 2], "big") + 7) // 8
        numbers.append(int.from_bytes(body[at + 2 : at + 2 + size], "big"))
        at += 2 + size
    fingerprint = hashlib.sha1(b"\x99" + end.to_bytes(2, "big") + body[:end]).hexdigest().upper()
    return Secret(fingerprint, algorithm, _private(algorithm, curve, numbers), tag == 5)


def _private(algorithm: int, curve: str, numbers: list[int]) -> Private:
    if algorithm == EDDSA:
        return ed25519.Ed25519PrivateKey.from_private_bytes(numbers[1].to_bytes(32, "big"))
    if algorithm == ECDSA:
        return ec.derive_private_key(numbers[1], CURVES[curve]())
    if algorithm == DSA:
        p, q, g, y, x = numbers
        return dsa.DSAPrivateNumbers(x, dsa.DSAPublicNumbers(y, dsa.DSAParameterNumbers(p, q, g))).private_key()
    n, e, d, p, q, _ = numbers
    public = rsa.RSAPublicNumbers(e, n)
    crt = (rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q))
    return rsa.RSAPrivateNumbers(p, q, d, *crt, public).private_key(unsafe_skip_rsa_key_validation=True)


def mpi(number: int) -> bytes:
    """Write a number as OpenPGP does."""
    return number.bit_length().to_bytes(2, "big") + number.to_bytes((number.bit_length() + 7) // 8, "big")


def subpacket(kind: int, body: bytes, *, critical: bool = False) -> bytes:
    """Write one subpacket of a signature (RFC 4880 section 5.2.3.1)."""
    size = len(body) + 1
    length = bytes([size]) if size < 192 else bytes([((size - 192) >> 8) + 192, (size - 192) & 0xFF])
    return length + bytes([kind | (0x80 if critical else 0)]) + body


def notation(name: str, value: str, *, critical: bool = False) -> bytes:
    """Write a notation's subpacket."""
    sizes = len(name).to_bytes(2, "big") + len(value).to_bytes(2, "big")
    return subpacket(20, b"\x80\0\0\0" + sizes + name.encode() + value.encode(), critical=critical)


def signature_packet(
    key: Secret,
    payload: bytes,
    at: int,
    *,
    digest: str = "sha512",
    kind: int = BINARY,
    hashed: bytes = b"",
    unhashed: bytes = b"",
    issuer: str | None = None,
) -> bytes:
    """Make a version 4 signature packet: `hashed` and `unhashed` are further subpackets, `issuer` another fingerprint
    to name as the signer's."""
    named = bytes.fromhex(issuer or key.fingerprint)
    area = subpacket(33, b"\x04" + named) + subpacket(2, at.to_bytes(4, "big")) + hashed
    identifier, algorithm = HASHES[digest]
    head = bytes([4, kind, key.algorithm, identifier]) + len(area).to_bytes(2, "big") + area
    text = payload.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") if kind == TEXT else payload
    summed = hashlib.new(digest, text + head + b"\x04\xff" + len(head).to_bytes(4, "big")).digest()
    rest = subpacket(16, named[-8:]) + unhashed
    body = head + len(rest).to_bytes(2, "big") + rest + summed[:2] + _proof(key, summed, algorithm)
    # An old-format header with a length of two octets.
    return b"\x89" + len(body).to_bytes(2, "big") + body


def _proof(key: Secret, summed: bytes, algorithm: Any) -> bytes:
    if key.algorithm == EDDSA:
        made = key.private.sign(summed)
        return mpi(int.from_bytes(made[:32], "big")) + mpi(int.from_bytes(made[32:], "big"))
    if key.algorithm == RSA:
        return mpi(int.from_bytes(key.private.sign(summed, padding.PKCS1v15(), Prehashed(algorithm)), "big"))
    scheme = ec.ECDSA(Prehashed(algorithm)) if key.algorithm == ECDSA else Prehashed(algorithm)
    return b"".join(mpi(part) for part in decode_dss_signature(key.private.sign(summed, scheme)))


def pgp_armor(content: bytes, *, label: str = "PGP SIGNATURE", headers: str = "") -> bytes:
    """Armor packets as gpg does, with a checksum; `headers` are whole lines."""
    crc = 0xB704CE
    for byte in content:
        crc ^= byte << 16
        for _ in range(8):
            crc = (crc << 1) ^ (0x1864CFB if crc & 0x800000 else 0)
    text = base64.b64encode(content).decode()
    lines = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))
    check = base64.b64encode((crc & 0xFFFFFF).to_bytes(3, "big")).decode()
    return f"-----BEGIN {label}-----\n{headers}\n{lines}\n={check}\n-----END {label}-----\n".encode()


def unarmored(armor: bytes) -> bytes:
    """Take an OpenPGP armor off."""
    return base64.b64decode(armor.split(b"\n\n", 1)[1].split(b"\n=")[0])


def openpgp(name: str = "alice", *, which: int = -1, at: int | None = None, **options: Any) -> Signer:
    """Sign by OpenPGP, by default with the newest signing key; `which` picks a key, `at` dates it otherwise."""
    key = secrets(name)[which]

    def sign(payload: bytes, when: int) -> bytes:
        return pgp_armor(signature_packet(key, payload, when if at is None else at, **options))

    return sign


def sequoia(name: str = "alice") -> Signer:
    """Sign by Sequoia, now: it lets nobody choose the time."""
    signer = pysequoia.Tsk.from_bytes(secret_file(name)).signer()

    def sign(payload: bytes, _when: int) -> bytes:
        return pysequoia.sign(signer, payload, mode=pysequoia.SignatureMode.DETACHED)

    return sign


@contextmanager
def gpg_home(*names: str, secret: bool = False) -> Iterator[Path]:
    """Open a gpg home with certificates, or with secret keys; its agent ends with it."""
    home = Path(tempfile.mkdtemp(prefix="home-"))
    home.chmod(0o700)
    try:
        for name in names:
            run_gpg(home, "--import", stdin=secret_file(name) if secret else certificate(name))
        yield home
    finally:
        run(["gpgconf", "--kill", "all"], cwd=home, env={"GNUPGHOME": str(home)}, timeout=30)
        shutil.rmtree(home, ignore_errors=True)


def run_gpg(home: Path, *arguments: str, stdin: bytes = b"", at: int | None = None) -> bytes:
    """Run gpg in a home, at a frozen time if one is given, and give what it prints."""
    clock = (
        ()
        if at is None
        else ("--faked-system-time", f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y%m%dT%H%M%S}!")
    )
    fixed = ("gpg", "--no-options", "--batch", "--yes", "--no-tty", "--quiet", "--trust-model", "always")
    argv = [*fixed, "--pinentry-mode", "loopback", "--passphrase", "", *clock, *arguments]
    done = run(argv, cwd=home, env={"GNUPGHOME": str(home)}, stdin=stdin, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def gpg(name: str = "alice", *options: str, mode: tuple[str, ...] = ("--detach-sign",)) -> Signer:
    """Sign by gpg with its clock set to the time; `mode` may be `--clear-sign`, `--sign` or text."""

    def sign(payload: bytes, when: int) -> bytes:
        with gpg_home(name, secret=True) as home:
            return run_gpg(home, "--armor", *options, *mode, stdin=payload, at=when)

    return sign


def field(content: bytes) -> bytes:
    """Write a string of the SSH protocols."""
    return len(content).to_bytes(4, "big") + content


def ssh_mpint(number: int) -> bytes:
    """Write a number of the SSH protocols."""
    return field(number.to_bytes(number.bit_length() // 8 + 1, "big"))


def ssh_armor(blob: bytes) -> bytes:
    """Armor an SSH signature as ssh-keygen does."""
    text = base64.b64encode(blob).decode()
    lines = "\n".join(text[at : at + 70] for at in range(0, len(text), 70))
    return f"-----BEGIN SSH SIGNATURE-----\n{lines}\n-----END SSH SIGNATURE-----\n".encode()


@cache
def _ssh_private(name: str) -> Private:
    return load_ssh_private_key(ssh_path(name).read_bytes(), None)


@dataclass(frozen=True, slots=True)
class SshSigner:
    """Sign as PROTOCOL.sshsig says, and for a security key as PROTOCOL.u2f says, with every field to be chosen.

    `flags`: 1 touched, 4 verified by PIN or finger. `public` is another key's blob to name in the signature.
    """

    name: str
    namespace: bytes = b"git"
    digest: str = "sha512"
    flags: int = 1
    counter: int = 1
    reserved: bytes = b""
    version: int = 1
    algorithm: str | None = None
    application: bytes = b"ssh:"
    public: bytes | None = None
    trailing: bytes = b""

    @property
    def kind(self) -> str:
        """The key's type."""
        return ssh_line(self.name).split()[0]

    def __call__(self, payload: bytes, _when: int) -> bytes:
        public = self.public or base64.b64decode(ssh_line(self.name).split()[1])
        purpose = field(self.namespace) + field(self.reserved) + field(self.digest.encode())
        # An unknown name of a hash still needs some hash below it.
        known = self.digest if self.digest in hashlib.algorithms_available else "sha512"
        proof = self._proof(b"SSHSIG" + purpose + field(hashlib.new(known, payload).digest()))
        version = self.version.to_bytes(4, "big")
        return ssh_armor(b"SSHSIG" + version + field(public) + purpose + field(proof) + self.trailing)

    def _proof(self, signed: bytes) -> bytes:
        private, kind = _ssh_private(self.name), self.kind
        tail = b""
        if kind.startswith("sk-"):
            tail = bytes([self.flags]) + self.counter.to_bytes(4, "big")
            application, message = hashlib.sha256(self.application).digest(), hashlib.sha256(signed).digest()
            signed = application + tail + message
        if "ed25519" in kind:
            made, named = private.sign(signed), kind
        elif "ecdsa" in kind:
            by_curve: Any = {"256": hashes.SHA256, "384": hashes.SHA384, "521": hashes.SHA512}
            curve = "256" if kind.startswith("sk-") else kind[-3:]
            r, s = decode_dss_signature(private.sign(signed, ec.ECDSA(by_curve[curve]())))
            made, named = ssh_mpint(r) + ssh_mpint(s), kind
        else:
            named = self.algorithm or "rsa-sha2-512"
            by_name: Any = {"rsa-sha2-512": hashes.SHA512, "rsa-sha2-256": hashes.SHA256, "ssh-rsa": hashes.SHA1}
            made = private.sign(signed, padding.PKCS1v15(), by_name[named]())
        return field((self.algorithm or named).encode()) + field(made) + tail


def ssh(name: str = "alice", **options: Any) -> Signer:
    """Sign by SSH; see `SshSigner` for what can be chosen."""
    return SshSigner(name, **options)


def ssh_keygen(name: str = "alice", *, namespace: str = "git") -> Signer:
    """Sign by the real ssh-keygen."""

    def sign(payload: bytes, _when: int) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "key"
            path.write_bytes(ssh_path(name).read_bytes())
            path.chmod(0o600)
            data = Path(folder) / "data"
            data.write_bytes(payload)
            done = run(["ssh-keygen", "-Y", "sign", "-n", namespace, "-f", "key", "data"], cwd=data.parent, timeout=60)
            assert done.returncode == 0, done.stderr
            return data.with_suffix(".sig").read_bytes()

    return sign
