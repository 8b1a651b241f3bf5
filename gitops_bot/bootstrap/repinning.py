"""A person on the host pins this host anew: another epoch, in which nothing of before may be acted on any more.

After it the trust file and the database say the same policy and epoch; every ask that was open is withdrawn to the
backlog, every grant that was not spent lapsed, in one transaction with the ledger's entry and one for each person, who
must be told. Votes of before are of another epoch and count nowhere. It is the way back after a lost or restored
database, a lost trust file, or keys so lost that no quorum is left; whoever has a shell here can do it, and the ledger
says no more than that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from gitops_bot.authority.closing import withdraw
from gitops_bot.authority.sealing import DUTY as SEAL
from gitops_bot.bootstrap.bundle import load_files, read_bundle
from gitops_bot.bootstrap.force import stored
from gitops_bot.bootstrap.gate import MOST_SEALED
from gitops_bot.bootstrap.trust import LedgerHead, Trust, locked, read_trust, write_trust
from gitops_bot.config import Settings
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import ConfigError, Fact, Malformed, Reason, Refusal, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalKind
from gitops_bot.policy.bundles import pack
from gitops_bot.policy.diff import difference
from gitops_bot.policy.model import Policy
from gitops_bot.store import asks, branches, bundles, due, grants_read, ledger, turns
from gitops_bot.store import settings as facts_of
from gitops_bot.store.engine import Database, Tx

Source = Literal["disk", "database"]
_PAGE: Final = 500
_PUBLISH: Final = "signed.publish"


@dataclass(frozen=True, slots=True)
class Plan:
    """What pinning anew would do. `before` is what is pinned now, None without a trust file; `lost` says why there is
    none that can be read. `changes` are the sentences of the difference to what is in force now."""

    before: Trust | None
    lost: str | None
    database_epoch: int
    epoch: int
    policy: Policy
    files: Mapping[str, bytes]
    changes: tuple[str, ...]
    open_asks: int
    grants: int


def plan(settings: Settings, database: Database, source: Source) -> Plan:
    """Say what pinning this host anew would do; nothing is changed.

    Raises:
        ConfigError: there is no such bundle, it does not load, or the trust file is there and not this user's alone.
    """
    before, lost = _pinned(settings.trust_file)
    files = read_bundle(settings.policies) if source == "disk" else _in_force(database)
    try:
        policy = load_files(files)
    except Malformed as error:
        raise ConfigError(f"the bundle does not load: {error}", fix="gitops-bot policy check") from error
    with database.read() as tx:
        epoch = int(facts_of.fact(tx, "epoch") or "0")
        force = bundles.in_force(tx)
        opened, grants = _count_open(tx), len(grants_read.minted(tx))
    of = before.policy_digest if before is not None else None if force is None else force[0]
    old = None if of is None else _loaded(database, of)
    changes = () if old is None else difference(old, policy)
    highest = max(epoch, 0 if before is None else before.epoch)
    return Plan(before, lost, epoch, highest + 1, policy, files, changes, opened, grants)


def repin(settings: Settings, database: Database, decided: Plan) -> None:
    """Do what a plan says: the database first, in one transaction, then the trust file. A crash between the two leaves
    the channel closed, and doing it again is the way on.

    Raises:
        Refusal: somebody moved the pin or the epoch since the plan was made.
        ConfigError: the trust file cannot be written.
    """
    with locked(settings.trust_file):
        before, _ = _pinned(settings.trust_file)
        if before != decided.before:
            raise Refusal(refuse(Reason.STALE_POLICY, "The pin moved since; look at it again."))
        with database.write() as tx:
            if int(facts_of.fact(tx, "epoch") or "0") != decided.database_epoch:
                raise Refusal(refuse(Reason.EPOCH, "The epoch moved since; look at it again."))
            _begin_anew(tx, decided, settings)
            turns.take(tx, SEAL)
            while ledger.seal_next(tx, MOST_SEALED)[0] == MOST_SEALED:
                continue
            head = ledger.head(tx)
            tips: dict[str, str] = {one.person: one.tip for one in branches.every(tx) if one.tip is not None}
        policy = decided.policy
        seen = LedgerHead(head.seq, head.hash)
        write_trust(settings.trust_file, Trust(decided.epoch, policy.digest, policy.version, tips, seen))


def _begin_anew(tx: Tx, decided: Plan, settings: Settings) -> None:
    from gitops_bot.signed.spend import lapse_all

    policy, force = decided.policy, bundles.in_force(tx)
    bundles.keep(tx, bundles.Bundle(policy.digest, policy.version, pack(decided.files)))
    bundles.put_in_force(tx, policy.digest, None)
    facts_of.set_fact(tx, "epoch", str(decided.epoch))
    facts_of.set_fact_once(tx, "environment", settings.environment)
    why = f"{Reason.EPOCH.value}: this host was pinned anew; epoch {decided.epoch} began"
    withdrawn = _withdraw_all(tx, why)
    lapsed = lapse_all(tx, refuse(Reason.EPOCH, "This host was pinned anew.", now=decided.epoch))
    facts: dict[str, Fact] = {
        "by": "host",
        "epoch": decided.epoch,
        "digest": Digest(policy.digest),
        "version": policy.version,
        "from_epoch": None if decided.before is None else decided.before.epoch,
        "from_digest": None if decided.before is None else decided.before.policy_digest,
        "was_in_force": None if force is None else force[0],
        "withdrawn": withdrawn,
        "lapsed": lapsed,
    }
    ledger.append(tx, Entry(EventKind.TRUST_REPINNED, tx.now, channel="signed", reason=Reason.EPOCH, facts=facts))
    about: dict[str, Fact] = {"about": EventKind.TRUST_REPINNED.value, "epoch": decided.epoch, "digest": policy.digest}
    for name, person in policy.people.items():
        if person.principal.kind is PrincipalKind.HUMAN:
            ledger.append(tx, Entry(EventKind.PERSON_TOLD, tx.now, principal=name, channel="signed", facts=about))
    due.ensure(tx, _PUBLISH, f"bundle:{policy.digest}")
    due.ensure(tx, _PUBLISH, "head")


def _withdraw_all(tx: Tx, why: str) -> int:
    ended, after = 0, ""
    while page := asks.page(tx, after, _PAGE, only_open=True):
        for ask in page:
            withdraw(tx, ask.id, "host", why, to_backlog=True)
            ended += 1
        after = page[-1].id
    return ended


def _count_open(tx: Tx) -> int:
    counted, after = 0, ""
    while page := asks.page(tx, after, _PAGE, only_open=True):
        counted, after = counted + len(page), page[-1].id
    return counted


def _pinned(path: Path) -> tuple[Trust | None, str | None]:
    """Read the trust file; without one there is none to keep. One that others may have touched is looked at first."""
    if not path.is_symlink() and not path.exists():
        return None, f"there is no trust file {path}"
    return read_trust(path), None


def _in_force(database: Database) -> Mapping[str, bytes]:
    with database.read() as tx:
        force = bundles.in_force(tx)
    files = None if force is None else stored(database, force[0])
    if files is None:
        raise ConfigError("the database has no bundle in force", fix="gitops-bot trust repin --from disk")
    return files


def _loaded(database: Database, digest: str) -> Policy | None:
    files = stored(database, digest)
    try:
        return None if files is None else load_files(files)
    except Malformed:
        return None
