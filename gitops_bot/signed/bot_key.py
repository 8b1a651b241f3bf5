"""The bot's own key signs what the bot publishes; after `open_key` it is known to work, or the start ends with the fix.

The key comes from one file of mode 0600 and is never in argv, environment or log. An SSH key is used where it lies. An
OpenPGP key is taken into a private home of gpg, made anew at each start, which `close` removes with its agent. Whether
the policy knows the key as a service for requests is *not* checked: compare `identity`.
"""

import contextlib
import itertools
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitops_bot import process
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.signed.evidence import SignatureKind

MAX_FILE: Final = 64 * 1024
TIMEOUT: Final = 30.0
_SETTING: Final = "[signed] bot_key_file"
_PGP: Final = b"-----BEGIN PGP PRIVATE KEY BLOCK-----"
_SSH: Final = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_FINGERPRINT: Final = re.compile(r"[0-9A-F]{40}|[0-9A-F]{64}", re.ASCII)
_PUBLIC: Final = re.compile(r"([a-z0-9@.-]{1,64} [A-Za-z0-9+/]{16,4000}={0,2})(?: .*)?", re.ASCII)
_GPG_CONF: Final = (
    "batch\nno-tty\nno-auto-key-retrieve\ndisable-dirmngr\nno-auto-check-trustdb\ntrust-model always\nno-emit-version\n"
    "no-comments\npersonal-digest-preferences SHA512 SHA384 SHA256\n"
)
_MARK: Final = "gpg-agent.conf"
_AGENT_CONF: Final = "disable-scdaemon\npinentry-program /bin/false\n"


@dataclass(frozen=True, slots=True)
class BotKey:
    """How git signs with the bot's key. `identity` is its value in the policy: a full primary fingerprint, or
    `type base64`; `settings` and `environment` are git's. `folders` are what `close` removes."""

    kind: SignatureKind
    identity: str
    settings: tuple[str, ...]
    environment: Mapping[str, str]
    folders: tuple[Path, ...]

    def close(self) -> None:
        """End gpg's agent and remove the copy of the key; the key's own file stays."""
        if self.kind is SignatureKind.OPENPGP:
            _end_agent(self.environment)
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


def open_key(file: Path, home: Path) -> BotKey:
    """Read the bot's key and try it once. `home` is a folder of ours alone; what was in it is lost.

    Raises:
        ConfigError: others may read the file, it holds no key for signing, or the key wants a passphrase or has ended.
        Unavailable: gpg or ssh-keygen is not there.
    """
    file = file.absolute()
    content = _private(file)
    scratch = Path(tempfile.mkdtemp(prefix="gitops-bot-"))
    with contextlib.ExitStack() as failed:
        failed.callback(shutil.rmtree, scratch, ignore_errors=True)
        if content.lstrip().startswith(_SSH):
            key = _open_ssh(file, scratch)
        elif content.lstrip().startswith(_PGP):
            key = _open_pgp(content, home.absolute(), scratch)
        else:
            raise ConfigError(
                "the bot's key is neither an OpenSSH private key nor an armored OpenPGP one",
                fix=f"{_SETTING}: a file from `ssh-keygen -t ed25519` or `gpg --armor --export-secret-keys`",
            )
        failed.pop_all()
        return key


def _private(file: Path) -> bytes:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigError(f"cannot read the bot's key {file}: {error.strerror}", fix=_SETTING) from error
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077 or about.st_uid not in (os.getuid(), 0):
            raise ConfigError(f"{file} is no file that its owner alone may read", fix=f"chmod 600 {file}")
        with os.fdopen(os.dup(descriptor), "rb") as opened:
            content = opened.read(MAX_FILE + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_FILE:
        raise ConfigError(f"{file} is no key: it is larger than {MAX_FILE} bytes", fix=_SETTING)
    return content


def _open_ssh(file: Path, scratch: Path) -> BotKey:
    # -P "" says that there is no passphrase; with one, this fails instead of asking.
    done = process.run(["ssh-keygen", "-y", "-P", "", "-f", str(file)], cwd=scratch, timeout=TIMEOUT)
    found = _PUBLIC.fullmatch(done.stdout.decode("ascii", "replace").strip())
    if done.returncode != 0 or found is None:
        raise ConfigError("the bot's SSH key cannot be used", fix=f"{_SETTING}: a key without a passphrase")
    settings = ("gpg.format=ssh", "gpg.ssh.program=ssh-keygen", f"user.signingKey={file}")
    return BotKey(SignatureKind.SSH, found[1], settings, {"TMPDIR": str(scratch)}, (scratch,))


def _open_pgp(content: bytes, home: Path, scratch: Path) -> BotKey:
    # A socket's path has at most 107 bytes, so that gpg gets the home by a short name.
    short = scratch / "h"
    short.symlink_to(home)
    environment = {"GNUPGHOME": str(short), "TMPDIR": str(scratch), "LC_ALL": "C"}
    if home.exists():
        if not _is_ours(home):
            raise ConfigError(f"{home} is there and was not made for the bot's key", fix="move it away")
        _end_agent(environment)
        shutil.rmtree(home)
    home.mkdir(mode=0o700, parents=True)
    (home / _MARK).write_text(_AGENT_CONF)
    (home / "gpg.conf").write_text(_GPG_CONF)
    key = BotKey(SignatureKind.OPENPGP, "", (), environment, (home, scratch))
    with contextlib.ExitStack() as failed:
        failed.callback(key.close)
        fingerprint = _take_in(content, environment, scratch)
        failed.pop_all()
    settings = ("gpg.format=openpgp", "gpg.program=gpg", f"user.signingKey={fingerprint}")
    return BotKey(key.kind, fingerprint, settings, environment, key.folders)


def _is_ours(home: Path) -> bool:
    """Tell whether a folder was made here: it is removed with all that is in it."""
    mark = home / _MARK
    return not any(home.iterdir()) or (mark.is_file() and mark.read_text(errors="replace") == _AGENT_CONF)


def _take_in(content: bytes, environment: Mapping[str, str], scratch: Path) -> str:
    """Import the one certificate of the file, sign something with it, and give its primary fingerprint."""
    taken = _gpg(environment, scratch, "--import", stdin=content)
    listed = _gpg(environment, scratch, "--with-colons", "--list-secret-keys").stdout.decode("ascii", "replace")
    lines = [line.split(":") for line in listed.splitlines()]
    primaries = [after for line, after in itertools.pairwise(lines) if line[0] == "sec" and after[0] == "fpr"]
    fingerprints = [line[9] for line in primaries if len(line) > 9 and _FINGERPRINT.fullmatch(line[9])]
    if taken.returncode not in (0, 2) or len(fingerprints) != 1:
        raise ConfigError("the bot's key file holds not exactly one OpenPGP key", fix=_SETTING)
    tried = _gpg(environment, scratch, "--detach-sign", "--armor", "--local-user", fingerprints[0], stdin=b"try")
    if tried.returncode != 0:
        raise ConfigError(
            "the bot's OpenPGP key cannot sign", fix=f"{_SETTING}: a key that has not ended, without a passphrase"
        )
    return fingerprints[0]


def _gpg(environment: Mapping[str, str], cwd: Path, *arguments: str, stdin: bytes = b"") -> process.Completed:
    return process.run(["gpg", "--batch", *arguments], cwd=cwd, env=environment, stdin=stdin, timeout=TIMEOUT)


def _end_agent(environment: Mapping[str, str]) -> None:
    """Let gpg's agent end; one that is gone, or a home that is, ends nothing."""
    # Without gpgconf the agent ends by itself, as soon as its home is removed.
    with contextlib.suppress(Unavailable):
        process.run(["gpgconf", "--kill", "gpg-agent"], cwd=Path("/"), env=environment, timeout=TIMEOUT)
