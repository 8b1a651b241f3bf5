"""How a person signs, from their global git configuration alone, and whose key that is under the pinned policy.

After `find_signer` the key is one of the person's own in the policy, proves what the verb demands as far as its kind
can, and has not ended; nothing was signed with it. No repository's configuration is read: an agent may have written it.
A key of its own for approvals is named by `gitops-bot.signingKey` there; without one git's `user.signingKey` is taken.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitops_bot import process
from gitops_bot.core.errors import ConfigError, Reason, Refusal, Refused, Unavailable, refuse
from gitops_bot.policy.model import KeyKind, Person, SshKey
from gitops_bot.signed.evidence import SignatureKind
from gitops_bot.signed.openpgp.facts import CertificateFacts

TIMEOUT: Final = 30.0
NEAR_END: Final = 30 * 86_400_000
_MAX_KEY: Final = 64 * 1024
_LINE: Final = re.compile(
    r"(?:key::)?((?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]{1,60} [A-Za-z0-9+/]{16,4000}={0,2})(?:[ \t].*)?", re.ASCII
)
_FINGERPRINT: Final = re.compile(r"[0-9A-F]{40}|[0-9A-F]{64}", re.ASCII)
_KEY_ID: Final = re.compile(r"(?:0x)?[0-9A-Fa-f]{16,64}!?", re.ASCII)
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f<>]{1,200}")
_MAIL: Final = re.compile(r"[^\x00-\x20\x7f<>]{1,200}")
_OWN: Final = "gitops-bot.signingkey"
_KEYS: Final = (
    _OWN, "user.signingkey", "gitops-bot.format", "gpg.format", "gpg.program", "gpg.openpgp.program",
    "gpg.ssh.program", "user.name", "user.email", "commit.gpgsign",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Signer:
    """A person's key and how git signs with it: `settings` and `environment` are git's. `identity` is its value in the
    policy, `shown` its short name, `proves` the most that its kind can prove. `warnings` are for the person."""

    kind: SignatureKind
    identity: str
    shown: str
    proves: KeyKind
    settings: tuple[str, ...]
    environment: Mapping[str, str]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Key:
    kind: SignatureKind
    identity: str
    used: str
    """What `user.signingKey` must be for git to take it."""


def read_global(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Read what the global git configuration says of signing; the last value of a key stands, as for git.

    Raises:
        ConfigError: git cannot read it.
        Unavailable: git is not there.
    """
    asked = {name: environment[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in environment}
    done = process.run(
        ["git", "config", "--global", "--includes", "--null", "--list"],
        cwd=Path("/"),  # in no repository, whose place a conditional include could ask for
        env={**asked, "GIT_CONFIG_NOSYSTEM": "1"},
        timeout=TIMEOUT,
    )
    if done.returncode != 0 and done.stdout == b"" and b"unable to read" not in done.stderr:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ConfigError(
            f"git cannot read your global configuration: {ascii(said[0])[1:-1][:200] if said else done.returncode}",
            fix="git config --global --list",
        )
    pairs = (entry.partition("\n") for entry in done.stdout.decode("utf-8", "replace").split("\0") if entry)
    return {name: value for name, _, value in pairs if name in _KEYS}


def find_signer(
    person: Person,
    certificates: Mapping[str, CertificateFacts],
    demanded: KeyKind,
    environment: Mapping[str, str],
    *,
    home: Path,
    now: int,
) -> Signer:
    """Find the person's key in their global git configuration and hold it against the policy, at `now` in ms.

    Raises:
        ConfigError: no key is set, or it cannot be read.
        Refusal: it is none of the person's keys (`unknown_key`), of too weak a kind, has ended or does not count yet.
        Unavailable: git, gpg or ssh-keygen is not there.
    """
    said = read_global(environment)
    name = person.principal.name
    key = _key(said, environment, home)
    if key.kind is SignatureKind.SSH:
        found = next((one for one in person.ssh if one.line == key.identity), None)
        if found is None:
            raise Refusal(_unknown(name, key, person))
        shown, proves = found.key.fingerprint, KeyKind.VERIFIED if found.security_key else KeyKind.ANY
        ended, warnings = _ssh_dates(found, now)
    else:
        certificate = certificates.get(key.identity)
        if certificate is None or key.identity not in {one.facts.fingerprint for one in person.openpgp}:
            raise Refusal(_unknown(name, key, person))
        shown, proves = key.identity, KeyKind.ANY
        ended, warnings = _openpgp_dates(certificate, now)
    if ended is not None:
        raise Refusal(ended)
    if proves.strength < demanded.strength:
        detail = f'The verb demands keys = "{demanded.value}", and {shown} can prove only "{proves.value}".'
        raise Refusal(refuse(Reason.WEAK_KEY_KIND, f"{detail} {_HOW}", demanded=demanded.value))
    warnings += _everyday(said, environment, home, key)
    settings = (*_settings(said, key), f"user.name={_named(said, name)}", f"user.email={_mail(said, name)}")
    return Signer(key.kind, key.identity, shown, proves, settings, _signing(environment), warnings)


_HOW: Final = (
    "Name another key: `git config --global gitops-bot.signingKey KEY`, and for SSH `git config --global"
    " gitops-bot.format ssh`."
)


def _key(said: Mapping[str, str], environment: Mapping[str, str], home: Path) -> _Key:
    own = said.get(_OWN)
    text = own or said.get("user.signingkey")
    if not text:
        raise ConfigError("no key to sign with is set in your global git configuration", fix=_HOW)
    form = (said.get("gitops-bot.format") if own else None) or said.get("gpg.format") or "openpgp"
    return _read_key(form, text, said, environment, home)


def _read_key(form: str, text: str, said: Mapping[str, str], environment: Mapping[str, str], home: Path) -> _Key:
    if form == "ssh":
        return _ssh_key(text, home)
    if form == "openpgp":
        return _openpgp_key(text, said, environment)
    raise ConfigError(f"the format {ascii(form)[:40]} cannot sign approvals", fix='gpg.format = "openpgp" or "ssh"')


def _ssh_key(text: str, home: Path) -> _Key:
    literal = _LINE.fullmatch(text)
    if literal is not None:
        return _Key(SignatureKind.SSH, literal[1], f"key::{literal[1]}")
    path = home / text.removeprefix("~/") if text.startswith("~/") else Path(text)
    if not path.is_absolute():
        raise ConfigError(f"the key {ascii(text)[:120]} is no absolute path", fix=_HOW)
    for candidate in (path, path.with_name(f"{path.name}.pub")):
        found = _LINE.fullmatch(_first_line(candidate))
        if found is not None:
            return _Key(SignatureKind.SSH, found[1], str(path))
    done = process.run(["ssh-keygen", "-y", "-P", "", "-f", str(path)], cwd=Path("/"), timeout=TIMEOUT)
    found = _LINE.fullmatch(done.stdout.decode("ascii", "replace").strip())
    if done.returncode != 0 or found is None:
        raise ConfigError(f"no public SSH key at {path} or {path.name}.pub beside it", fix=_HOW)
    return _Key(SignatureKind.SSH, found[1], str(path))


def _first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_KEY).decode("utf-8", "replace").partition("\n")[0].strip()
    except OSError:
        return ""


def _openpgp_key(text: str, said: Mapping[str, str], environment: Mapping[str, str]) -> _Key:
    if _KEY_ID.fullmatch(text) is None and _MAIL.fullmatch(text) is None and _NAME.fullmatch(text) is None:
        raise ConfigError(f"no name of an OpenPGP key: {ascii(text)[:120]}", fix=_HOW)
    done = process.run(
        [_gpg(said), "--batch", "--no-tty", "--with-colons", "--list-secret-keys", "--", text.rstrip("!")],
        cwd=Path("/"),
        env=_signing(environment) | {"LC_ALL": "C"},
        timeout=TIMEOUT,
    )
    found: list[str] = []
    last = ""
    for line in done.stdout.decode("ascii", "replace").splitlines():
        fields = line.split(":")
        if fields[0] == "fpr" and last == "sec" and len(fields) > 9 and _FINGERPRINT.fullmatch(fields[9]):
            found.append(fields[9])
        last = fields[0] if fields[0] in ("sec", "ssb", "fpr") else last
    if len(set(found)) != 1:
        what = "no secret OpenPGP key" if not found else "more than one secret OpenPGP key"
        raise ConfigError(f"gpg has {what} {ascii(text)[1:-1][:120]}", fix=_HOW)
    return _Key(SignatureKind.OPENPGP, found[0], text)


def _gpg(said: Mapping[str, str]) -> str:
    return said.get("gpg.openpgp.program") or said.get("gpg.program") or "gpg"


def _settings(said: Mapping[str, str], key: _Key) -> tuple[str, ...]:
    if key.kind is SignatureKind.SSH:
        program = said.get("gpg.ssh.program") or "ssh-keygen"
        return ("gpg.format=ssh", f"gpg.ssh.program={program}", f"user.signingKey={key.used}")
    return ("gpg.format=openpgp", f"gpg.program={_gpg(said)}", f"user.signingKey={key.used}")


def _named(said: Mapping[str, str], person: str) -> str:
    name = said.get("user.name", "").strip()
    return name if _NAME.fullmatch(name) else person


def _mail(said: Mapping[str, str], person: str) -> str:
    mail = said.get("user.email", "")
    return mail if _MAIL.fullmatch(mail) else f"{person}@localhost"


def _signing(environment: Mapping[str, str]) -> dict[str, str]:
    """Give what the signing programs may see of the person's environment; nothing of git's own is among it."""
    return {name: value for name, value in environment.items() if not name.startswith(("XDG_STATE", "GIT_"))}


def _everyday(said: Mapping[str, str], environment: Mapping[str, str], home: Path, key: _Key) -> tuple[str, ...]:
    """Warn of a key that also signs other commits: a rebase would sign somebody else's commit with it."""
    usual = said.get("user.signingkey")
    if not usual:
        return ()
    try:
        # Without a key of its own it is the same one.
        form = said.get("gpg.format") or "openpgp"
        same = not said.get(_OWN) or _read_key(form, usual, said, environment, home).identity == key.identity
    except (ConfigError, Unavailable):
        return ()
    if not same:
        return ()
    always = said.get("commit.gpgsign", "").lower() in ("true", "yes", "on", "1")
    how = "signs each of your commits (commit.gpgSign)" if always else "is also your git signing key (user.signingKey)"
    return (f"This key {how}: rebasing somebody else's commit could sign an approval. {_HOW}",)


def _ssh_dates(key: SshKey, now: int) -> tuple[Refused | None, tuple[str, ...]]:
    if now < key.not_before:
        return refuse(Reason.KEY_NOT_YET_VALID, key=key.key.fingerprint), ()
    if now >= key.not_after:
        return refuse(Reason.KEY_EXPIRED, "The policy's dates for it are over.", key=key.key.fingerprint), ()
    return None, _near(key.not_after, now)


def _openpgp_dates(certificate: CertificateFacts, now: int) -> tuple[Refused | None, tuple[str, ...]]:
    revoked = {one.fingerprint for one in certificate.revocations if one.hard or one.at <= now}
    if certificate.fingerprint in revoked:
        return refuse(Reason.KEY_REVOKED, key=certificate.fingerprint), ()
    primary = certificate.keys[0]
    able = [key for key in certificate.keys if key.signs and key.bound and key.fingerprint not in revoked]
    ends = [min(key.expires or _NEVER, primary.expires or _NEVER) for key in able]
    if not ends or max(ends) <= now:
        detail = "No key of the policy's certificate can sign any more."
        return refuse(Reason.KEY_EXPIRED, detail, key=certificate.fingerprint), ()
    return None, _near(max(ends), now)


_NEVER: Final = 1 << 60


def _near(end: int, now: int) -> tuple[str, ...]:
    if end - now >= NEAR_END:
        return ()
    days = max(0, (end - now) // 86_400_000)
    return (f"This key ends in {days} days; have the policy adopt another or a prolonged one before.",)


def _unknown(name: str, key: _Key, person: Person) -> Refused:
    known = [one.key.fingerprint for one in person.ssh] + [one.facts.fingerprint for one in person.openpgp]
    named = ", ".join(known) or "none"
    detail = f"The pinned policy does not name it for {name}; it names {named}. Nothing was signed. {_HOW}"
    return refuse(Reason.UNKNOWN_KEY, detail, key=key.identity[:100])
