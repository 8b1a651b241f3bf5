"""The people of the transfer demo: a home each with a key made for this demo alone, and how they sign.

Their keys have no passphrase and end with the demo's folder. A home holds a global git configuration that names the
key for approvals, as docs/signing.md has it, and a bare repository for whoever signs with git alone.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitops_bot.bootstrap.clock import wall_seconds
from gitops_bot.core.errors import Unavailable
from gitops_bot.process import Completed, run

OPENPGP, SSH = "openpgp", "ssh"
DAY: Final = 86_400
VALID_DAYS: Final = 90
SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Signer:
    """Somebody with a key, under `home`. `kind` is `openpgp` or `ssh`; `public` is the armored certificate or the
    public line; `key` is what git's `user.signingKey` is."""

    name: str
    kind: str
    home: Path
    key: str
    public: str

    @property
    def environment(self) -> dict[str, str]:
        """What their programs find in their environment; nothing of who runs the demo is in it."""
        return environment_of(self.home)

    @property
    def clone(self) -> Path:
        """Their own bare repository, to sign with git alone."""
        return self.home / "signing.git"

    def git(self, script: str) -> Completed:
        """Run commands of docs/signing.md in their repository, as a POSIX shell does."""
        return run(("/bin/sh", "-eu", "-c", script), cwd=self.clone, env=self.environment, timeout=SECONDS)


def end_agent(home: Path, kind: str) -> None:
    """End the agent that gpg started in a home, where there is one."""
    if kind == OPENPGP and (home / "gnupg").is_dir():
        run(("gpgconf", "--kill", "all"), cwd=home, env=environment_of(home), timeout=SECONDS)


def environment_of(home: Path) -> dict[str, str]:
    """Give the environment of somebody whose home is there."""
    return {"HOME": str(home), "GNUPGHOME": str(home / "gnupg"), "TERM": "dumb", "GIT_CONFIG_NOSYSTEM": "1"}


def make(home: Path, name: str, kind: str) -> Signer:
    """Make somebody's home and key.

    Raises:
        Unavailable: gpg, ssh-keygen or git fails.
    """
    home.mkdir(mode=0o700, parents=True)
    environment = environment_of(home)
    key, public = _openpgp(home, name, environment) if kind == OPENPGP else _ssh(home, name, environment)
    signer = Signer(name, kind, home, key, public)
    settings = {"user.name": name.title(), "user.email": f"{name}@example.org"}
    settings |= {"gitops-bot.signingKey": key, "gitops-bot.format": kind}
    for setting, value in settings.items():
        do(("git", "config", "--global", setting, value), home, environment)
    do(("git", "init", "--quiet", "--bare", str(signer.clone)), home, environment)
    for setting, value in {"user.signingKey": key, "gpg.format": kind}.items():
        do(("git", "-C", str(signer.clone), "config", setting, value), home, environment)
    return signer


def days() -> tuple[datetime.date, datetime.date]:
    """Give the first and the last day on which the demo's SSH keys count."""
    now = wall_seconds()
    first, last = (datetime.datetime.fromtimestamp(now + days * DAY, datetime.UTC).date() for days in (-1, VALID_DAYS))
    return first, last


def _openpgp(home: Path, name: str, environment: Mapping[str, str]) -> tuple[str, str]:
    (home / "gnupg").mkdir(mode=0o700)
    gpg = ("gpg", "--batch", "--no-tty", "--quiet")
    who = f"{name.title()} <{name}@example.org>"
    quick = (
        "--pinentry-mode",
        "loopback",
        "--passphrase",
        "",
        "--quick-generate-key",
        who,
        "ed25519",
        "sign",
        f"{VALID_DAYS}d",
    )
    do((*gpg, *quick), home, environment)
    listed = do((*gpg, "--with-colons", "--list-secret-keys"), home, environment).splitlines()
    fingerprint = next(line.split(":")[9] for line in listed if line.startswith("fpr:"))
    return fingerprint, do((*gpg, "--armor", "--export", fingerprint), home, environment)


def _ssh(home: Path, name: str, environment: Mapping[str, str]) -> tuple[str, str]:
    file = home / "approvals_key"
    do(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(file)), home, environment)
    line = (home / "approvals_key.pub").read_text("ascii")
    return str(file), " ".join(line.split()[:2])


def do(argv: tuple[str, ...], home: Path, environment: Mapping[str, str]) -> str:
    """Run a program that must succeed; gives what it printed.

    Raises:
        Unavailable: it fails, or cannot be started.
    """
    done = run(argv, cwd=home, env=environment, timeout=SECONDS)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise Unavailable(f"{argv[0]} failed with {done.returncode}: {said}")
    return done.stdout.decode("utf-8")
