"""The database is held against this host's trust file before anything gated is decided, and the file against the head.

A database that is missing, behind the trust file, of another epoch, under another policy, or whose schema another hand
changed keeps the signed channel closed, until somebody on the host re-pins (I18). Ordinary asks go on.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from gitops_bot.authority.sealing import DUTY as SEAL
from gitops_bot.bootstrap.trust import LedgerHead, Trust, locked, read_trust, write_trust
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import ConfigError, Reason, Refused, Unavailable, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.model import Policy
from gitops_bot.store import branches, bundles, grants_read, ledger, schema, turns
from gitops_bot.store import settings as stored
from gitops_bot.store.engine import Database, Tx

MOST_SEALED: Final = 5_000
FIX: Final = "find out why, then `gitops-bot trust repin` on the host (docs/incidents.md)"


def behind(tx: Tx, trust: Trust) -> Refused | None:
    """Say in what a database is behind what this host pinned; None when it is not."""
    refused = older(tx, trust)
    if refused is not None:
        return refused
    force = bundles.in_force(tx)
    if force is not None and force[0] != trust.policy_digest:
        return refuse(Reason.EPOCH, f"The database has {force[0]} in force, this host's pin {trust.policy_digest}.")
    return None


def older(tx: Tx, trust: Trust) -> Refused | None:
    """Say in what a database is older than what this host saw, whichever policy it has in force."""
    epoch = stored.fact(tx, "epoch")
    if epoch != str(trust.epoch):
        return refuse(Reason.EPOCH, f"The database is of epoch {epoch}, this host's pin of {trust.epoch}.")
    head = trust.ledger_head
    if head is None and grants_read.exist(tx):
        return refuse(Reason.EPOCH, "The database has grants that this host's trust file never saw: it is a new file.")
    if head is not None and ledger.seal_at(tx, head.seq) != head.hash:
        detail = f"The database's ledger does not hold entry {head.seq} as this host saw it: it is an older copy."
        return refuse(Reason.EPOCH, detail)
    tips = {branch.person: branch.tip for branch in branches.every(tx)}
    lost = sorted(person for person in trust.branch_tips if tips.get(PrincipalName(person)) is None)
    if lost:
        return refuse(Reason.EPOCH, f"The database forgot the branch of {lost[0]}.")
    return None


def closed(database: Database, tx: Tx, trust_file: Path) -> Refused | None:
    """Say why the signed channel is closed on this host, or None where it is open.

    Raises:
        Unavailable: the database cannot be asked.
    """
    try:
        trust = read_trust(trust_file)
        schema.check(database.engine)
    except ConfigError as error:
        return refuse(Reason.EPOCH, f"{error.message[:1].upper()}{error.message[1:]}.")
    return behind(tx, trust)


class Gate:
    """Opens and closes the signed channel of one process, which decides by one policy in one epoch."""

    def __init__(self, database: Database, trust_file: Path, policy: Policy, epoch: int) -> None:
        self._database = database
        self._file = trust_file
        self._policy = policy
        self._epoch = epoch
        self._sealed = 0

    def sound(self, tx: Tx) -> None:
        """Let nothing gated be decided on a database that is not to be trusted.

        Raises:
            Unavailable: it is not; the message says in what, and how to open the channel again.
        """
        refused = closed(self._database, tx, self._file)
        if refused is not None:
            raise Unavailable(f"the signed channel is closed: {refused.reason.value}. {refused.detail} Fix: {FIX}")
        if not self.is_own(read_trust(self._file)):
            raise Unavailable("the signed channel is closed: this process decides by another policy than is pinned")

    def is_own(self, trust: Trust) -> bool:
        """Tell whether a trust file pins what this process decides by."""
        return (trust.policy_digest, trust.epoch) == (self._policy.digest, self._epoch)

    def begin(self) -> None:
        """Let this host see the ledger's head before the first grant, so that a newer trust file can be told.

        Raises:
            Unavailable: the trust file cannot be kept.
        """
        with self._database.read() as tx:
            fresh = not grants_read.exist(tx)
        if fresh:
            self.note()

    def note(self) -> None:
        """Write the newest sealed head and the stored tips into the trust file.

        Raises:
            Unavailable: it cannot be written.
        """
        with self._database.write() as tx:
            # What was just decided must be below the head, or a copy from before it would not be behind.
            turns.take(tx, SEAL)
            after = max(0, self._sealed - ledger.LOOK_BACK)
            _, self._sealed = ledger.seal_next(tx, MOST_SEALED, after)
        self.see()

    def see(self) -> None:
        """Write the newest head that is sealed already, where it is newer than the one that this host saw.

        Raises:
            Unavailable: it cannot be written.
        """
        self._keep(None)

    def repin(self, digest: str) -> None:
        """Move the pin to a policy whose adoption this process just carried out, itself.

        Raises:
            Unavailable: the trust file cannot be kept.
        """
        with self._database.write() as tx:
            turns.take(tx, SEAL)
            ledger.seal_next(tx, MOST_SEALED)
        self._keep(digest)

    def _keep(self, digest: str | None) -> None:
        # The file's lock comes before the database's: a reader that waits for it would keep a writer from committing.
        try:
            with locked(self._file), self._database.read() as tx:
                trust = read_trust(self._file)
                # Whoever moved the pin since knows better; and on a database that is behind, what shows it stays.
                if not self.is_own(trust) or older(tx, trust) is not None:
                    return
                head, kept = ledger.head(tx), trust
                if head.seq and (trust.ledger_head is None or trust.ledger_head.seq < head.seq):
                    tips: Mapping[str, str] = {one.person: one.tip for one in branches.every(tx) if one.tip is not None}
                    kept = replace(kept, branch_tips=tips, ledger_head=LedgerHead(head.seq, head.hash))
                bundle = None if digest is None else bundles.get(tx, digest)
                if bundle is not None:
                    kept = replace(kept, policy_digest=Digest(bundle.digest), policy_version=bundle.version)
                if kept != trust:
                    write_trust(self._file, kept)
        except ConfigError as error:
            raise Unavailable(f"the trust file cannot be kept: {error.message}") from error
