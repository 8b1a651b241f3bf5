"""The database is held against this host's trust file before anything gated is decided, and the file against the head.

A database that is missing, behind the trust file, of another epoch, under another policy, or whose schema another hand
changed keeps the signed channel closed, until somebody on the host re-pins (I18). Ordinary asks go on.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from gitops_bot.authority.sealing import DUTY as SEAL
from gitops_bot.bootstrap.trust import LedgerHead, Trust, read_trust, write_trust
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import ConfigError, Reason, Refused, Unavailable, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.model import Policy
from gitops_bot.store import branches, bundles, ledger, schema, turns
from gitops_bot.store import settings as stored
from gitops_bot.store.engine import Database, Tx

MOST_SEALED: Final = 5_000


def behind(tx: Tx, trust: Trust) -> Refused | None:
    """Say in what a database is behind what this host pinned; None when it is not."""
    epoch = stored.fact(tx, "epoch")
    if epoch != str(trust.epoch):
        return refuse(Reason.EPOCH, f"The database is of epoch {epoch}, this host's pin of {trust.epoch}.")
    force = bundles.in_force(tx)
    if force is not None and force[0] != trust.policy_digest:
        return refuse(Reason.EPOCH, f"The database has {force[0]} in force, this host's pin {trust.policy_digest}.")
    head = trust.ledger_head
    if head is not None and ledger.seal_at(tx, head.seq) != head.hash:
        detail = f"The database's ledger does not hold entry {head.seq} as this host saw it: it is an older copy."
        return refuse(Reason.EPOCH, detail)
    tips = {branch.person: branch.tip for branch in branches.every(tx)}
    lost = sorted(person for person in trust.branch_tips if tips.get(PrincipalName(person)) is None)
    if lost:
        return refuse(Reason.EPOCH, f"The database forgot the branch of {lost[0]}.")
    return None


class Gate:
    """Opens and closes the signed channel of one process."""

    def __init__(self, database: Database, trust_file: Path, policy: Policy) -> None:
        self._database = database
        self._file = trust_file
        self._policy = policy

    def sound(self, tx: Tx) -> None:
        """Let nothing gated be decided on a database that is not to be trusted.

        Raises:
            Unavailable: it is not; the message says in what, and how to open the channel again.
        """
        try:
            trust = read_trust(self._file)
            schema.check(self._database.engine)
        except ConfigError as error:
            raise Unavailable(f"the signed channel is closed: {error.message}") from error
        if trust.policy_digest != self._policy.digest:
            raise Unavailable("the signed channel is closed: this process decides by another policy than is pinned")
        refused = behind(tx, trust)
        if refused is not None:
            fix = "find out why, then `gitops-bot trust repin` on the host"
            raise Unavailable(f"the signed channel is closed: {refused.reason.value}. {refused.detail} Fix: {fix}")

    def note(self) -> None:
        """Write the newest sealed head and the stored tips into the trust file.

        Raises:
            Unavailable: it cannot be written.
        """
        with self._database.write() as tx:
            # What was just decided must be below the head, or a copy from before it would not be behind.
            turns.take(tx, SEAL)
            ledger.seal_next(tx, MOST_SEALED)
            head = ledger.head(tx)
            tips: Mapping[str, str] = {one.person: one.tip for one in branches.every(tx) if one.tip is not None}
        try:
            trust = read_trust(self._file)
            if head.seq == 0 or (trust.ledger_head is not None and trust.ledger_head.seq > head.seq):
                return
            write_trust(self._file, replace(trust, branch_tips=tips, ledger_head=LedgerHead(head.seq, head.hash)))
        except ConfigError as error:
            raise Unavailable(f"the trust file cannot be kept: {error.message}") from error

    def repin(self) -> None:
        """Move the pin to the policy that the database has in force, whose adoption this process just carried out.

        Raises:
            Unavailable: the trust file cannot be kept.
        """
        with self._database.read() as tx:
            force = bundles.in_force(tx)
            bundle = None if force is None else bundles.get(tx, force[0])
        assert bundle is not None
        try:
            trust = read_trust(self._file)
            write_trust(self._file, replace(trust, policy_digest=Digest(bundle.digest), policy_version=bundle.version))
        except ConfigError as error:
            raise Unavailable(f"the trust file cannot be kept: {error.message}") from error
        self.note()
