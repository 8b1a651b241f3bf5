"""The signed channel looked at as the broker will use it: its remote, repository, tools, keys and branches.

Nothing is changed: the remote is asked from a repository in a folder that is removed, and so is the bot's key tried.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gitops_bot.bootstrap.bundle import certificates_of
from gitops_bot.bootstrap.clock import wall_seconds
from gitops_bot.bootstrap.database import Finding, open_database
from gitops_bot.bootstrap.executors import conformance
from gitops_bot.bootstrap.force import InForce, in_force
from gitops_bot.bootstrap.keyrings import repository_of, requests_identities
from gitops_bot.config import Settings
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.policy.model import KeyKind, Policy
from gitops_bot.process import run
from gitops_bot.store import branches
from gitops_bot.store import settings as stored
from gitops_bot.store.roles import Role
from gitops_bot.store.states import BranchState

if TYPE_CHECKING:
    from gitops_bot.signed.repository import Repository

SOON_DAYS: Final = 30
SECONDS: Final = 20.0
_DAY: Final = 86_400_000
_MOST_NAMED: Final = 10
_REACH: Final = "check [signed] remote and the token or key in keys_dir"


def signed_findings(settings: Settings) -> Iterator[Finding]:
    """Look at the signed channel; what cannot be reached says so instead of failing."""
    force = _force(settings)
    if settings.signed.remote is None:
        gated = force is not None and bool(force.policy.gated)
        so = "; the policy's gated asks stay open until they expire" if gated else ""
        yield Finding("signed channel", True, f"none is configured{so}")
        return
    yield from _remote(settings)
    yield _ssh()
    if force is not None:
        yield _bot(settings, force.policy)
        yield from _ending(force)
        yield from _any(force.policy)
    yield from _branches(settings)


def executor_findings(settings: Settings) -> Iterator[Finding]:
    """Call each executor of the policy in force with a check that asks for nothing to be done."""
    force = _force(settings)
    if force is None:
        return
    scratch = settings.state / "executions"
    try:
        yield from conformance(force.policy, settings.signed.keys_dir, scratch, int(wall_seconds() * 1000))
    except ConfigError as error:
        yield Finding("executor", False, error.message, error.fix)


def _force(settings: Settings) -> InForce | None:
    """Find the policy in force; where there is none, other lines of doctor say why."""
    try:
        database = open_database(settings.database_url, Role.HOST, pool_size=1)
    except (ConfigError, Unavailable):
        return None
    try:
        return in_force(settings, database)
    except ConfigError:
        return None
    finally:
        database.close()


def _remote(settings: Settings) -> Iterator[Finding]:
    try:
        own = repository_of(settings)
        with tempfile.TemporaryDirectory(prefix="gitops-bot-doctor-") as name:
            scratch = repository_of(replace(settings, state=Path(name)))
            scratch.create()
            yield from _listed(scratch, settings.environment)
        if not (own.folder / "HEAD").exists():
            yield Finding("approvals repository", True, "none yet; the broker makes it at its first start")
            return
        unsound = own.check()
    except ConfigError as error:
        yield Finding("approvals remote", False, error.message, error.fix or _REACH)
        return
    except Unavailable as error:
        yield Finding("approvals remote", False, str(error), _REACH)
        return
    fix = f"see who changed it, then move {own.folder} away: the broker makes it anew and reads every branch again"
    said = f"{own.folder}, ours alone and unchanged" if unsound is None else unsound.detail
    yield Finding("approvals repository", unsound is None, said, fix)


def _listed(scratch: "Repository", environment: str) -> Iterator[Finding]:
    from gitops_bot.signed.repository import words

    url = scratch.address.url
    done = scratch.run(
        *("ls-remote", "--refs", "--quiet", "--end-of-options", url, f"refs/heads/gated/{environment}/*"),
        network=True,
        timeout=SECONDS,
    )
    if done.returncode != 0:
        yield Finding("approvals remote", False, f"{url}: {words(done) or done.returncode}", _REACH)
        return
    lines = done.stdout.decode("ascii", "replace").splitlines()
    people = sum("/approvals/" in line for line in lines)
    requests = "has" if any(line.endswith("/requests") for line in lines) else "has not yet"
    yield Finding("approvals remote", True, f"{url} answers, with {people} people's branches; it {requests} requests")
    if any(len(line.partition("\t")[0]) == 64 for line in lines):
        fix = "make the approvals repository with --object-format=sha1, and have the branches pushed there"
        yield Finding("object ids", False, "the approvals repository uses SHA-256, and this host's SHA-1", fix)
    elif lines:
        yield Finding("object ids", True, "SHA-1; a vote names its file by SHA-256, and every object is hashed anew")


def _ssh() -> Finding:
    fix = "apt install openssh-client"
    try:
        told = run(("ssh", "-V"), cwd=Path("/"), timeout=SECONDS)
        run(("ssh-keygen", "-?"), cwd=Path("/"), timeout=SECONDS)
    except Unavailable as error:
        return Finding("ssh-keygen", False, str(error), fix)
    version = (told.stderr or told.stdout).decode("utf-8", "replace").splitlines()[:1]
    return Finding("ssh-keygen", told.returncode == 0, version[0] if version else f"exit {told.returncode}", fix)


def _bot(settings: Settings, policy: Policy) -> Finding:
    from gitops_bot.signed.bot_key import open_key

    file = settings.signed.bot_key_file
    if file is None:
        fix = '[signed] bot_key_file = the secret key of the policy\'s service with role = "requests"'
        return Finding("bot key", False, "none is set, so no request is published and nobody can sign one", fix)
    try:
        with tempfile.TemporaryDirectory(prefix="gitops-bot-doctor-") as name:
            bot = open_key(file, Path(name) / "home")
            bot.close()
    except ConfigError as error:
        return Finding("bot key", False, error.message, error.fix)
    except Unavailable as error:
        return Finding("bot key", False, str(error), "apt install gnupg openssh-client")
    known = bot.identity in requests_identities(policy)
    fix = 'name it in the bundle: [people.bot] kind = "service", role = "requests", openpgp or ssh'
    said = "of the policy's service for requests" if known else "none of the policy's service for requests"
    return Finding("bot key", known, f"{bot.kind.value} key, {said}", fix)


def _ending(force: InForce) -> Iterator[Finding]:
    """Name every key that has ended or ends soon, and whose it is."""
    now = wall_seconds() * 1000
    certificates = certificates_of(force.files)
    ends: list[tuple[str, str, int]] = []
    for name, person in force.policy.people.items():
        ends += [(name, key.key.fingerprint, key.not_after) for key in person.ssh]
        for certificate in person.openpgp:
            found = certificates.get(certificate.path)
            if found is not None:
                dated = [key for key in found.keys if key.signs and key.bound]
                ends += [(name, key.fingerprint, key.expires) for key in dated if key.expires is not None]
    soon = sorted((at, whose, key) for whose, key, at in ends if at <= now + SOON_DAYS * _DAY)
    for at, whose, key in soon[:_MOST_NAMED]:
        days = (at - now) // _DAY
        said = f"ends in {days} days" if at > now else "has ended"
        fix = "prolong it, or add another key beside it, and have the policy adopted"
        yield Finding("key", False, f"{key} of {whose} {said}", fix)
    if not soon:
        yield Finding("keys", True, f"none of {len(ends)} with a date ends within {SOON_DAYS} days")


def _any(policy: Policy) -> Iterator[Finding]:
    named = sorted(name for name, rule in policy.verbs.items() if rule.gated and rule.keys is KeyKind.ANY)
    if named:
        verbs = ", ".join(named[:_MOST_NAMED])
        detail = f'keys = "any" in {verbs}: whatever runs as a signer there can approve in their name (SECURITY.md)'
        yield Finding("key kind", True, detail)


def _branches(settings: Settings) -> Iterator[Finding]:
    from gitops_bot.signed.looking import LOOKED_AT

    try:
        database = open_database(settings.database_url, Role.HOST, pool_size=1)
    except (ConfigError, Unavailable):
        return  # the database's own lines say it
    try:
        with database.read() as tx:
            found, looked, now = branches.every(tx), stored.cursor(tx, LOOKED_AT), tx.now
    finally:
        database.close()
    for one in found:
        if one.state is not BranchState.READ:
            detail = f"{one.person} is {one.state.value}: {one.reason}. {one.detail or ''}".strip()
            fix = f"gitops-bot approval list; the person repairs it, or gitops-bot approval thaw {one.person} here"
            yield Finding("branch", False, detail, fix)
    if looked is None:
        yield Finding("last look", True, "the broker has not looked at the branches yet")
        return
    age = max(0, now - int(looked))
    old = age > settings.signed.max_fetch_age
    fix = "is the broker running, and does the remote answer it?"
    said = f"{age // 1000} s ago" + (", too old to spend on" if old else "")
    yield Finding("last look", not old, f"{said}; {len(found)} branches were seen", fix)
