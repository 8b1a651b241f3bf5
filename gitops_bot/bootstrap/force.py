"""Which policy is in force here: the one that the trust file pins, its bytes from disk or from the stored bundle.

Files on disk are a proposal when they are not the pinned bundle: a process with a database that holds the pinned bytes
starts under those, and says so; without them nothing starts under an unpinned bundle.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gitops_bot.bootstrap.bundle import load_files, read_bundle
from gitops_bot.bootstrap.trust import Trust, pinned_policy, read_trust
from gitops_bot.config import Settings
from gitops_bot.core.canonical import Digest, bundle_digest
from gitops_bot.core.errors import ConfigError, Malformed
from gitops_bot.policy.bundles import unpack
from gitops_bot.policy.model import Policy
from gitops_bot.store import bundles
from gitops_bot.store.engine import Database


@dataclass(frozen=True, slots=True)
class InForce:
    """The policy in force with the files it was loaded from; `proposal` is the digest of other files on disk."""

    policy: Policy
    files: Mapping[str, bytes]
    trust: Trust
    proposal: Digest | None


def in_force(settings: Settings, database: Database) -> InForce:
    """Load the pinned policy.

    Raises:
        ConfigError: nothing is pinned, or the pinned bytes are neither on disk nor stored, or do not load.
    """
    trust = read_trust(settings.trust_file)
    wanted = trust.policy_digest
    files, found = _on_disk(settings)
    if found == wanted:
        return InForce(_load(files, wanted), files, trust, None)
    kept = stored(database, wanted)
    if kept is None:
        pinned = pinned_policy(settings.policies, settings.trust_file)  # says what is wrong and how to mend it
        raise RuntimeError(f"{pinned.digest} was another bundle a moment ago")
    return InForce(_load(kept, wanted), kept, trust, found)


def stored(database: Database, digest: str) -> Mapping[str, bytes] | None:
    """Read a stored bundle's files; None where they are not stored.

    Raises:
        ConfigError: what is stored under the digest does not have it.
    """
    with database.read() as tx:
        bundle = bundles.get(tx, digest)
    if bundle is None:
        return None
    try:
        files = unpack(bundle.content)
    except Malformed as error:
        raise ConfigError(f"the stored bundle {digest} is damaged", fix="restore the database") from error
    if bundle_digest(files) != digest:
        raise ConfigError(f"the stored bundle {digest} has other bytes", fix="restore the database")
    return files


def _on_disk(settings: Settings) -> tuple[Mapping[str, bytes], Digest | None]:
    try:
        files = read_bundle(settings.policies)
    except ConfigError:
        return {}, None
    return files, bundle_digest(files)


def _load(files: Mapping[str, bytes], digest: str) -> Policy:
    try:
        return load_files(files)
    except Malformed as error:
        raise ConfigError(
            f"the pinned policy {digest} does not load: {error}", fix="gitops-bot policy check"
        ) from error
