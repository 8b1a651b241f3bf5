"""The pin of this host follows an adoption that another process carried out, by verifying that adoption itself.

A pointer in the database is a claim. For each bundle between the pinned one and the one in force, the ask that adopted
it is judged anew from its raw commits under the bundle before it (steps 3 to 9), with the bundle's bytes and the rules
between the two; then the pin moves by that one step. What does not verify moves nothing, and the channel stays closed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gitops_bot.authority.rules import Rules, params_of
from gitops_bot.bootstrap.bundle import load_files
from gitops_bot.bootstrap.force import stored
from gitops_bot.bootstrap.gate import Gate, older
from gitops_bot.bootstrap.granting import spender_of
from gitops_bot.bootstrap.trust import LedgerHead, Trust, locked, read_trust, write_trust
from gitops_bot.config import Settings
from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import ConfigError, Fact, Malformed, Reason, Refused, Unavailable, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.policy.model import ADOPT, Policy
from gitops_bot.store import asks, bundles, grants_read, ledger, signatures, votes
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.states import GrantState

if TYPE_CHECKING:
    from gitops_bot.signed.adopting import Adoption
    from gitops_bot.signed.channel import Place
    from gitops_bot.signed.keys import Keys
    from gitops_bot.signed.repository import Repository
    from gitops_bot.store.signatures import KeyRevocation

MOST_ADOPTIONS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Followed:
    """The pin moved: to this policy, over so many adoptions."""

    policy: Policy
    steps: int


@dataclass(frozen=True, slots=True)
class Follower:
    """Moves this host's pin after adoptions of others. `rules` gives the domain, whose policy is not used; `engines`
    makes engines over a bundle's keys and the remembered revocations; commits are read from `repository`."""

    settings: Settings
    database: Database
    rules: Rules
    place: "Place"
    repository: "Repository"
    engines: "Callable[[Policy, Mapping[str, bytes], tuple[KeyRevocation, ...]], Keys]"

    def follow(self) -> Followed | Refused | None:
        """Move the pin to the policy in force, adoption by adoption; None where it is there already. What was verified
        before a step that does not verify stays.

        Raises:
            Unavailable: git, an engine, the database or the trust file is not there; nothing is known.
        """
        trust = self._trust()
        with self.database.read() as tx:
            force = bundles.in_force(tx)
            if force is None or force[0] == trust.policy_digest:
                return None
            refused = older(tx, trust)
            way = None if refused is not None else _way(tx, trust.policy_digest, force[0])
        if refused is not None or way is None:
            return refused or refuse(Reason.STALE_POLICY, f"No stored adoption leads from the pin to {force[0]}.")
        policy = None
        for candidates in way:
            found = self._step(trust, candidates)
            if isinstance(found, Refused):
                return found
            ask, adoption = found
            trust = self._move(trust, ask, adoption)
            policy = adoption.new
        assert policy is not None
        return Followed(policy, len(way))

    def _trust(self) -> Trust:
        try:
            return read_trust(self.settings.trust_file)
        except ConfigError as error:
            raise Unavailable(f"the trust file cannot be read: {error.message}") from error

    def _step(self, trust: Trust, candidates: Iterable[AskId]) -> "tuple[AskId, Adoption] | Refused":
        """Find the one ask that adopted the next bundle; with several that say so, the first that verifies."""
        refused = refuse(Reason.BAD_SIGNATURE, "No adoption of it is stored.")
        files = self._files(trust.policy_digest)
        for ask in candidates:
            try:
                found = self._adoption(files, ask)
            except Malformed as error:
                found = refuse(Reason.BYTES_DIFFER, f"What is stored of it cannot be read: {error}")
            if not isinstance(found, Refused):
                return ask, found
            refused = refuse(found.reason, f"The stored adoption {ask} does not verify. {found.detail}".strip())
        return refused

    def _files(self, digest: str) -> Mapping[str, bytes]:
        try:
            files = stored(self.database, digest)
        except ConfigError as error:
            raise Unavailable(error.message) from error
        if files is None:
            raise Unavailable(f"the bytes of the pinned bundle {digest} are not stored")
        return files

    def _adoption(self, files: Mapping[str, bytes], ask_id: AskId) -> "Adoption | Refused":
        from gitops_bot.signed import adopting
        from gitops_bot.signed.objects import Objects
        from gitops_bot.signed.spend import Evidence

        policy = load_files(files)
        with self.database.read() as tx:
            ask, grant = asks.get(tx, ask_id), grants_read.of_ask(tx, ask_id)
            taken_back = bool(votes.revocations_of(tx, ask_id))
            remembered = signatures.revocations(tx)
        if ask is None or grant is None or grant.state is not GrantState.SPENT or grant.ended_at is None:
            return refuse(Reason.BAD_SIGNATURE, "No spent grant stands behind it.")
        if taken_back:
            return refuse(Reason.WITHDRAWN_VOTE)
        gate = Gate(self.database, self.settings.trust_file, policy, self.place.epoch)
        rules = replace(self.rules, policy=policy)
        keys = self.engines(policy, files, remembered)
        with Objects(self.repository) as objects:
            verifier = spender_of(
                self.database, self.settings, rules, self.place, keys, objects, gate, lambda _rule: None
            )
            evidence = verifier.verify(ask, grant, grant.ended_at)
        if not isinstance(evidence, Evidence):
            return evidence.refused
        with self.database.read() as tx:
            return adopting.follows(tx, ask, load_files, policy.digest)

    def _move(self, seen: Trust, ask: AskId, adoption: "Adoption") -> Trust:
        path: Path = self.settings.trust_file
        new = adoption.new
        facts: dict[str, Fact] = {"digest": new.digest, "version": new.version, "from": seen.policy_digest}
        with self.database.write() as tx:
            ledger.append(tx, Entry(EventKind.POLICY_FOLLOWED, tx.now, ask=ask, channel="signed", facts=facts))
            head = ledger.head(tx)
        try:
            with locked(path):
                trust = read_trust(path)
                if (trust.policy_digest, trust.epoch) != (seen.policy_digest, seen.epoch):
                    raise Unavailable("somebody else moved the pin meanwhile")
                moved = replace(trust, policy_digest=Digest(new.digest), policy_version=new.version)
                if head.seq and (trust.ledger_head is None or trust.ledger_head.seq < head.seq):
                    moved = replace(moved, ledger_head=LedgerHead(head.seq, head.hash))
                write_trust(path, moved)
        except ConfigError as error:
            raise Unavailable(f"the trust file cannot be kept: {error.message}") from error
        return moved


def _way(tx: Tx, pinned: str, force: str) -> list[list[AskId]] | None:
    """Find the asks that say to have adopted each bundle from the pinned one to the one in force, by the shortest such
    way; None: there is none."""
    adopting: dict[str, dict[str, list[AskId]]] = {}
    for ask, action in asks.approved_of(tx, ADOPT, MOST_ADOPTIONS):
        try:
            params = params_of(action)
        except Malformed:
            continue
        previous, digest = str(params.get("previous")), str(params.get("digest"))
        adopting.setdefault(previous, {}).setdefault(digest, []).append(ask)
    ways: dict[str, list[list[AskId]]] = {pinned: []}
    next_ones = [pinned]
    for at in next_ones:
        for digest, named in adopting.get(at, {}).items():
            if digest not in ways:
                ways[digest] = [*ways[at], named]
                next_ones.append(digest)
    return ways.get(force)
