"""The sealer gives ledger entries a gapless order and a hash chain; verification recomputes both, and the evidence."""

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.duties import Again, Outcome
from gitops_bot.core.asks import VERDICT_STATES, Ask, AskKind, AskState
from gitops_bot.core.canonical import action_hash, question_hash
from gitops_bot.core.ledger import GENESIS, seal
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.store import asks, due, ledger, signed_votes, turns, votes
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx

DUTY: Final = "seal"
BATCH: Final = 500
PERIOD_MS: Final = 1_000


class Sealer:
    """Seals what was committed; one lease and one turn, so one sealer at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._highest = 0

    def arm(self) -> None:
        """Make sure that the sealer's one row exists."""
        with self._database.write() as tx:
            due.ensure(tx, DUTY, "ledger")

    def step(self, _claimed: Claimed) -> Outcome:
        """Seal a batch. Looks back for entries whose transaction committed late."""
        return Again(0 if self.seal() == BATCH else PERIOD_MS)

    def is_behind(self) -> bool:
        """Tell whether something was written since it last sealed; a transaction that committed late may be missed."""
        with self._database.read() as tx:
            return ledger.newest(tx) > self._highest

    def seal(self) -> int:
        """Seal a batch; give how many entries."""
        with self._database.write() as tx:
            turns.take(tx, DUTY)
            after = max(0, self._highest - ledger.LOOK_BACK)
            sealed, highest = ledger.seal_next(tx, BATCH, after)
        self._highest = max(self._highest, highest)
        return sealed


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in the ledger or the evidence that is not as it was written; `seq` where it is about a seal."""

    what: str
    seq: int | None = None
    ask: str | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """What was re-checked: sealed entries, entries not sealed yet, asks; and every fault found."""

    sealed: int
    unsealed: int
    asks: int
    head: str
    faults: tuple[Fault, ...]


def verify(database: Database) -> Verification:
    """Recompute the chain from its genesis, and each ask's end from its votes and bytes (I19)."""
    faults: list[Fault] = []
    with database.read() as tx:
        seq, previous = 0, GENESIS
        while batch := ledger.sealed(tx, seq, BATCH):
            for entry in batch:
                seq += 1
                if entry.seq != seq:
                    faults.append(Fault(f"a gap: {seq} is missing", seq))
                    seq = entry.seq
                if seal(previous, entry.seq, entry.document) != entry.hash:
                    faults.append(Fault("the entry or one before it was changed", entry.seq))
                previous = entry.hash
        unsealed = ledger.count(tx) - seq
        counted, after = 0, ""
        while page := asks.page(tx, after, BATCH):
            for short in page:
                whole = asks.get(tx, short.id)
                assert whole is not None
                faults += _check_ask(tx, whole)
            counted, after = counted + len(page), page[-1].id
    return Verification(seq, unsealed, counted, previous, tuple(faults))


def _check_ask(tx: Tx, ask: Ask) -> list[Fault]:
    """Re-check one ask: its bytes against its binding, its end against its verdict, its verdict against its votes."""
    found: list[str] = []
    if ask.action is not None:
        bound = action_hash(ask.action)
    else:
        bound = question_hash(ask.text, [(option.id, option.label) for option in ask.options])
    if bound != ask.binding.action_hash:
        found.append("its bytes do not hash to what was bound")
    verdict = votes.verdict(tx, ask.id)
    if (verdict is not None) != (ask.state in VERDICT_STATES):
        found.append(f"it ended as {ask.state.value} and has {'a' if verdict else 'no'} verdict")
    if ask.kind is AskKind.GATED:
        voters_for, strange = _signed_voters(tx, ask)
        found += strange
    else:
        voters_for, strange = _voters(tx, ask)
        found += strange
    if verdict is not None:
        wanted = {
            AskState.APPROVED: Decision.APPROVE,
            AskState.DENIED: Decision.DENY,
            AskState.ANSWERED: Decision.ANSWER,
        }[verdict.state]
        voters = {name for name, decision in voters_for.items() if decision is wanted}
        if verdict.state is not ask.state or not verdict.by or not set(verdict.by) <= voters:
            found.append("its verdict names people whose votes are not there")
    kinds = {document["kind"] for document in ledger.of_ask(tx, ask.id)}
    if "ask.opened" not in kinds:
        found.append("the ledger does not tell how it opened")
    if ask.state is not AskState.OPEN and not kinds & {
        "ask.answered",
        "ask.withdrawn",
        "ask.expired",
        "ask.superseded",
    }:
        found.append("the ledger does not tell how it ended")
    return [Fault(what, ask=ask.id) for what in found]


def _voters(tx: Tx, ask: Ask) -> tuple[dict[PrincipalName, Decision], list[str]]:
    """Give who said what on an ordinary ask, and what is wrong with their votes."""
    found: list[str] = []
    cast = votes.of_ask(tx, ask.id)
    for vote in cast:
        echoed = (vote.action_hash, vote.policy, vote.run_version)
        if echoed != (ask.binding.action_hash, ask.binding.policy, ask.binding.run_version):
            found.append(f"the vote of {vote.principal} binds something else")
        if not _is_document(vote.evidence):
            found.append(f"the evidence of {vote.principal} cannot be read")
    return {vote.principal: vote.decision for vote in votes.standing(cast)}, found


def _signed_voters(tx: Tx, ask: Ask) -> tuple[dict[PrincipalName, Decision], list[str]]:
    """Give who said what on a gated ask. Each stored commit must cover the stored file by its SHA-256; the signatures
    themselves are verified by `signed.standing`, which needs the keys."""
    found = [f"a vote of {vote.principal} came in through no signature" for vote in votes.of_ask(tx, ask.id)]
    cast = signed_votes.of_ask(tx, ask.id)
    for vote in cast:
        named = f"Approval-SHA256: {hashlib.sha256(vote.raw_blob).hexdigest()}\n".encode("ascii")
        if not vote.raw_commit.endswith(named):
            found.append(f"the commit of {vote.principal} does not cover the stored file")
    return dict(signed_votes.decisions(cast)), found


def _is_document(evidence: bytes) -> bool:
    try:
        return isinstance(json.loads(evidence), dict)
    except ValueError:
        return False
