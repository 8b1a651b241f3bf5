"""What an approver's machine works with: a repository of its own, and the engines over the keys of a bundle.

After `own_repository` everything lies in one folder that this person alone may enter. A bundle from `load` is one that
loads; whether it is the pinned one is *not* checked.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from gitops_bot.bootstrap.approver_profile import Profile
from gitops_bot.bootstrap.bundle import certificates_of
from gitops_bot.core.errors import ConfigError
from gitops_bot.policy.grammar import parse_bundle
from gitops_bot.signed.approving.judging import Bundle
from gitops_bot.signed.evidence import SignatureKind
from gitops_bot.signed.keys import Keys, Pair, key_set_hash
from gitops_bot.signed.openpgp import engine, keyring
from gitops_bot.signed.openpgp.gpg import Gpg
from gitops_bot.signed.repository import Remote, Repository
from gitops_bot.signed.sshsig import keygen, verifier


def own_repository(profile: Profile, environment: Mapping[str, str]) -> Repository:
    """Open this machine's copy, made where there is none. It may use the keys of the person's ssh-agent to fetch and
    push unless the profile names a key.

    Raises:
        ConfigError: the folder or a secret is not this person's alone.
        Unavailable: it cannot be written.
    """
    _own_folder(profile.state)
    socket = environment.get("SSH_AUTH_SOCK", "")
    agent = Path(socket) if profile.ssh_key is None and socket.startswith("/") and '"' not in socket else None
    remote = Remote(
        profile.remote,
        token_file=profile.token_file,
        ssh_key=profile.ssh_key,
        known_hosts=profile.known_hosts,
        agent=agent,
    )
    repository = Repository(profile.state / "approvals.git", remote)
    repository.create()
    return repository


def load(files: Mapping[str, bytes], homes: Path) -> Bundle:
    """Load a bundle with both engines for each kind of key; `homes` is gpg's, ours alone.

    Raises:
        Malformed: it does not load.
    """
    certificates = certificates_of(files)
    policy = parse_bundle(files, {path: found.facts for path, found in certificates.items()})
    facts = tuple(certificates.values())
    ssh = [key for person in policy.people.values() for key in person.ssh]
    homes.mkdir(mode=0o700, parents=True, exist_ok=True)
    pairs = {
        SignatureKind.OPENPGP: Pair(engine.OpenPgpKeys(facts), Gpg(facts, folder=homes), keyring.agree),
        SignatureKind.SSH: Pair(verifier.SshKeys(ssh), keygen.SshKeygen(ssh), keygen.agree),
    }
    named = key_set_hash(policy, {found.fingerprint: found.content for found in facts}, ())
    return Bundle(policy, files, Keys(named, pairs))


def _own_folder(folder: Path) -> None:
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.stat()
    except OSError as error:
        raise ConfigError(f"cannot make {folder}: {error.strerror}", fix="see who may write there") from error
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise ConfigError(f"others may enter {folder}", fix=f"see what is in it, then chmod 700 {folder}")
