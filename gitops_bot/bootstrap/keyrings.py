"""The signed channel's place, its repository and its engines, as every process on the host names them.

Nothing here decides: whoever explains a commit uses these, and so does the broker that counts it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gitops_bot.bootstrap.bundle import certificates_of
from gitops_bot.config import Settings
from gitops_bot.core.errors import ConfigError
from gitops_bot.policy.model import Policy
from gitops_bot.policy.people import REQUESTS_ROLE
from gitops_bot.store.signatures import KeyRevocation

if TYPE_CHECKING:
    from gitops_bot.signed.channel import Place
    from gitops_bot.signed.keys import Keys
    from gitops_bot.signed.openpgp.facts import CertificateFacts
    from gitops_bot.signed.repository import Repository

FOLDER: Final = "signed"
"""In the state folder: the bot's repository of approvals, gpg's homes."""


def place_of(settings: Settings, repository_id: int, epoch: int = 1) -> "Place":
    """Name the place of the channel, as each signed file has it."""
    from gitops_bot.signed.channel import Place

    return Place(settings.repository, repository_id, settings.environment, epoch, settings.signed.skew)


def repository_of(settings: Settings) -> "Repository":
    """Name the bot's own repository of approvals; nothing is made or asked.

    Raises:
        ConfigError: no address, a wrong one, or a secret that others may read.
    """
    from gitops_bot.signed.repository import Remote, Repository

    if settings.signed.remote is None:
        fix = '[signed] remote = "https://…", "ssh://…" or "file:///…"'
        raise ConfigError("no repository of approvals is set, so there is no signed channel", fix=fix)
    keys = settings.signed.keys_dir

    def present(name: str) -> Path | None:
        return keys / name if (keys / name).is_file() else None

    remote = Remote(
        settings.signed.remote,
        token_file=present("approvals-token"),
        ssh_key=present("approvals-ssh"),
        known_hosts=present("known_hosts"),
    )
    return Repository(settings.state / FOLDER / "approvals.git", remote)


def keys_of(
    policy: Policy,
    certificates: "Mapping[str, CertificateFacts]",
    remembered: tuple[KeyRevocation, ...],
    homes: Path,
    *,
    gpg: str = "gpg",
) -> "Keys":
    """Make the engines over the keys of a policy and the remembered revocations; `homes` is gpg's, ours alone."""
    from gitops_bot.signed.evidence import SignatureKind
    from gitops_bot.signed.keys import Keys, Pair, key_set_hash
    from gitops_bot.signed.openpgp import engine, keyring
    from gitops_bot.signed.openpgp.facts import Revocation
    from gitops_bot.signed.openpgp.gpg import Gpg
    from gitops_bot.signed.proving.grammar import Ring, TakenBack
    from gitops_bot.signed.sshsig import keygen, verifier

    facts = tuple(certificates.values())
    components = {key.fingerprint for found in facts for key in found.keys}
    revoked = [Revocation(one.key, one.hard, one.at or 0, None) for one in remembered if one.key in components]
    lines = [one.key for one in remembered if " " in one.key]
    ssh = [key for person in policy.people.values() for key in person.ssh]
    homes.mkdir(mode=0o700, parents=True, exist_ok=True)
    openpgp = Pair(engine.OpenPgpKeys(facts, revoked), Gpg(facts, revoked, folder=homes, program=gpg), keyring.agree)
    sshsig = Pair(verifier.SshKeys(ssh, lines), keygen.SshKeygen(ssh, lines), keygen.agree)
    named = key_set_hash(policy, {found.fingerprint: found.content for found in facts}, remembered)
    ring = Ring(
        tuple(found.content for found in facts),
        tuple(TakenBack(one.fingerprint, one.hard, one.at) for one in revoked),
        tuple((key.line, key.not_before, key.not_after) for key in ssh),
        tuple(lines),
    )
    return Keys(named, {SignatureKind.OPENPGP: openpgp, SignatureKind.SSH: sshsig}, ring)


def engines_in(settings: Settings) -> "Callable[[Policy, Mapping[str, bytes], tuple[KeyRevocation, ...]], Keys]":
    """Make what makes engines over any bundle's keys, with gpg's homes in this host's state folder."""
    homes = settings.state / FOLDER / "gpg"
    return lambda policy, files, remembered: keys_of(policy, certificates_of(files), remembered, homes)


def requests_identities(policy: Policy) -> frozenset[str]:
    """Give the identities of the service that signs the requests branch."""
    return frozenset(
        identity.value
        for one in policy.people.values()
        if one.principal.role == REQUESTS_ROLE
        for identity in one.principal.identities
    )
