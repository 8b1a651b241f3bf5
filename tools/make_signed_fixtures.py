"""Make the keys that the tests of the signed channel sign with: OpenPGP by gpg, SSH by ssh-keygen, with fixed dates.

What a key *is* (its numbers) is random; everything else is fixed: names, dates, reasons. Files that are there already
are not touched without `--force`, because commits of other test data may be signed with them.
"""

import base64
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import pysequoia
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from pysequoia.packet import PacketPile

from gitops_bot.process import run

FOLDER: Final = Path(__file__).resolve().parent.parent / "tests" / "vectors" / "signed"
MADE: Final = "20200101T000000"
CHANGED: Final = "20200601T000000"
REVOKED: Final = "20230101T000000"
REVOKED_LATER: Final = "20400101T000000"
ENDED: Final = "2021-01-01"
ENDS: Final = "2096-01-01"
APPLICATION: Final = b"ssh:"

PRIMARY_ALONE: Final = {
    "bob": "rsa3072",
    "bot": "ed25519",
    "worker": "ed25519",
    "outsider": "ed25519",
    "forge-web": "rsa3072",
    "weak-rsa1024": "rsa1024",
    "weak-rsa2048": "rsa2048",
    "weak-dsa2048": "dsa2048",
    "p384": "nistp384",
    "p521": "nistp521",
    "brainpool256": "brainpoolP256r1",
}
WITH_SUBKEY: Final = {"alice": ("ed25519", "ed25519"), "carol": ("nistp256", "nistp256/ecdsa")}
NO_REASON, COMPROMISED, SUPERSEDED, RETIRED = "0", "1", "2", "3"
REVOCATIONS: Final = {
    "alice.revoked-hard": (COMPROMISED, REVOKED),
    "alice.revoked-unexplained": (NO_REASON, REVOKED),
    "alice.revoked-superseded": (SUPERSEDED, REVOKED),
    "alice.revoked-retired": (RETIRED, REVOKED),
    "alice.revoked-retired-later": (RETIRED, REVOKED_LATER),
}
SUBKEY_REVOCATIONS: Final = {
    "alice.subkey-revoked-hard": (COMPROMISED, REVOKED),
    "alice.subkey-revoked-retired": (RETIRED, REVOKED),
}
SSH: Final = {
    "alice": ("ed25519", 256),
    "bob": ("rsa", 3072),
    "carol": ("ecdsa", 256),
    "carol-384": ("ecdsa", 384),
    "carol-521": ("ecdsa", 521),
    "bot": ("ed25519", 256),
    "worker": ("ed25519", 256),
    "outsider": ("ed25519", 256),
    "weak-rsa2048": ("rsa", 2048),
    "weak-dsa1024": ("dsa", 1024),
}
SECURITY_KEYS: Final = {
    "alice-sk": "ed25519",
    "alice-sk-ecdsa": "ecdsa",
    "bob-sk": "ecdsa",
    "carol-sk": "ed25519",
    "outsider-sk": "ed25519",
}


@dataclass(frozen=True, slots=True)
class Home:
    """A gpg home of its own; the agent that it starts is ended with it."""

    path: Path

    def gpg(self, *arguments: str, at: str = MADE, stdin: str = "") -> bytes:
        """Run gpg at a frozen time, without a passphrase, and give what it prints."""
        fixed = ("--batch", "--yes", "--no-tty", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "")
        return self._run((*fixed, *arguments), at, stdin.encode())

    def asked(self, *arguments: str, at: str, answers: Sequence[str]) -> bytes:
        """Run gpg and answer its questions one by one."""
        lines = "".join(f"{answer}\n" for answer in answers).encode()
        fixed = ("--no-tty", "--quiet", "--command-fd", "0", "--pinentry-mode", "loopback")
        return self._run((*fixed, *arguments), at, lines)

    def _run(self, arguments: Sequence[str], at: str, stdin: bytes) -> bytes:
        argv = ["gpg", "--no-options", "--faked-system-time", f"{at}!", *arguments]
        done = run(argv, cwd=self.path, env={"GNUPGHOME": str(self.path)}, stdin=stdin, timeout=120)
        if done.returncode != 0:
            raise click.ClickException(f"{' '.join(argv)}: {done.stderr.decode(errors='replace')}")
        return done.stdout

    def fingerprints(self) -> list[str]:
        """Give the fingerprints of the one certificate in it, the primary first."""
        listed = self.gpg("--with-colons", "--list-keys").decode()
        return [line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:")]

    def certificate(self) -> bytes:
        """Export the certificate."""
        return self.gpg("--armor", "--export-options", "no-export-attributes", "--export", self.fingerprints()[0])

    def secret(self) -> bytes:
        """Export the secret keys, which have no passphrase."""
        return self.gpg("--armor", "--export-secret-keys", self.fingerprints()[0])


@contextmanager
def home(secret: bytes | None = None) -> Iterator[Home]:
    """Open a new home, with a secret key in it if one is given."""
    path = Path(tempfile.mkdtemp(prefix="keys-"))
    path.chmod(0o700)
    try:
        opened = Home(path)
        if secret is not None:
            opened.gpg("--import", stdin=secret.decode())
        yield opened
    finally:
        run(["gpgconf", "--kill", "all"], cwd=path, env={"GNUPGHOME": str(path)}, timeout=20)
        shutil.rmtree(path, ignore_errors=True)


def user_id(name: str) -> str:
    """Give the name under which a key is made; it says what the key is for."""
    return f"{name} (test data of gitops-bot) <{name}@example.com>"


def openpgp() -> Iterator[tuple[str, bytes]]:
    """Make every OpenPGP file: `<name>.asc` is a certificate, `<name>.key` its secret keys."""
    alone = {name: (algorithm, None) for name, algorithm in PRIMARY_ALONE.items()}
    for name, (algorithm, subkey) in (WITH_SUBKEY | alone).items():
        with home() as place:
            place.gpg("--quick-gen-key", user_id(name), algorithm, "cert" if subkey else "cert,sign", "never")
            if subkey is not None:
                place.gpg("--quick-add-key", place.fingerprints()[0], subkey, "sign", "never")
            certificate, secret = place.certificate(), place.secret()
        yield f"{name}.asc", certificate
        yield f"{name}.key", secret
        if name == "alice":
            yield from variants(secret)
    with home() as place:
        place.gpg(
            "--cert-digest-algo", "SHA1", "--quick-gen-key", user_id("sha1-bound"), "rsa3072", "cert,sign", "never"
        )
        yield "sha1-bound.asc", place.certificate()
        yield "sha1-bound.key", place.secret()
    newest = pysequoia.Tsk.generate(user_id=user_id("v6"), profile=pysequoia.Profile.RFC9580)
    yield "v6.asc", str(newest.extract_certificate()).encode()
    yield "v6.key", str(newest).encode()


def variants(secret: bytes) -> Iterator[tuple[str, bytes]]:
    """Make alice's certificate again with one thing different each time; the keys in it stay the same."""
    for name, (reason, at) in REVOCATIONS.items():
        with home(secret) as place:
            answers = ("y", reason, "", "y")
            revocation = place.asked("--gen-revoke", place.fingerprints()[0], at=at, answers=answers)
            place.gpg("--import", stdin=revocation.decode(), at=at)
            yield f"{name}.asc", place.certificate()
    for name, (reason, at) in SUBKEY_REVOCATIONS.items():
        with home(secret) as place:
            steps = ("key 1", "revkey", "y", reason, "", "y", "save")
            place.asked("--edit-key", place.fingerprints()[0], at=at, answers=steps)
            yield f"{name}.asc", place.certificate()
    for name, end, which in (
        ("alice.expired", ENDED, ("", "*")),
        ("alice.expires", ENDS, ("", "*")),
        ("alice.subkey-expired", ENDED, ("*",)),
    ):
        with home(secret) as place:
            for keys in which:
                place.gpg("--quick-set-expire", place.fingerprints()[0], end, *([keys] if keys else []), at=CHANGED)
            yield f"{name}.asc", place.certificate()
    with home(secret) as place:
        place.gpg("--quick-add-key", place.fingerprints()[0], "ed25519", "sign", "never", at=CHANGED)
        yield "alice.second-subkey.asc", place.certificate()
        yield "alice.second-subkey.key", place.secret()
        # The last packet of an export is what binds the newest subkey.
        unbound = b"".join(bytes(part) for part in list(PacketPile.from_bytes(place.certificate()))[:-1])
        yield "alice.unbound-subkey.asc", pysequoia.armor(unbound, pysequoia.ArmorKind.PublicKey).encode()
    with home(secret) as place:
        place.gpg("--quick-add-uid", place.fingerprints()[0], user_id("alice-again"), at=CHANGED)
        yield "alice.second-name.asc", place.certificate()


def ssh_lines() -> Iterator[tuple[str, bytes]]:
    """Make every SSH file: `<name>` is the private key in OpenSSH's form, `<name>.pub` the public line."""
    for name, (kind, bits) in SSH.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "key"
            sized = [] if kind == "ed25519" else ["-b", str(bits)]
            argv = ["ssh-keygen", "-q", "-t", kind, *sized, "-N", "", "-C", f"{name}@test-data", "-f", str(path)]
            done = run(argv, cwd=path.parent, timeout=120)
            if done.returncode != 0:
                raise click.ClickException(done.stderr.decode(errors="replace"))
            yield name, path.read_bytes()
            yield f"{name}.pub", path.with_suffix(".pub").read_bytes()
    for name, kind in SECURITY_KEYS.items():
        yield from security_key(name, kind)


def security_key(name: str, kind: str) -> Iterator[tuple[str, bytes]]:
    """Make the key of a security key in software: no hardware is needed to produce what one would (PROTOCOL.u2f)."""
    if kind == "ed25519":
        secret = ed25519.Ed25519PrivateKey.generate()
        public = secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        label, fields = b"sk-ssh-ed25519@openssh.com", [public]
        private = secret.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    else:
        curve = ec.generate_private_key(ec.SECP256R1())
        point = curve.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        label, fields = b"sk-ecdsa-sha2-nistp256@openssh.com", [b"nistp256", point]
        private = curve.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    parts = (label, *fields, APPLICATION)
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    yield name, private
    yield f"{name}.pub", b"%s %s %s@test-data\n" % (label, base64.b64encode(blob), name.encode())


@click.command()
@click.option("--into", type=click.Path(path_type=Path), default=FOLDER, show_default=False, help="The folder to fill.")
@click.option("--force", is_flag=True, help="Replace keys that are there already.")
def main(into: Path, force: bool) -> None:
    """Make every key of tests/vectors/signed anew. Needs gpg 2.2 or later and ssh-keygen."""
    for kind, made in (("openpgp", openpgp), ("ssh", ssh_lines)):
        place = into / kind
        if place.exists() and any(place.iterdir()) and not force:
            raise click.ClickException(f"{place} holds keys already; --force replaces them")
        found = list(made())
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name, content in found:
            (place / name).write_bytes(content)
        click.echo(f"{place}: {len(found)} files")


if __name__ == "__main__":
    main()
