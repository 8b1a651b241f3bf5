"""Every assertion that was kept as the evidence of an answer is verified again, and held against the answer itself.

The signature and what it covers from the evidence alone (`authority.proofs`); that the key was the person's, from the
rows of passkeys and from what the ledger said when it was enrolled, which is in the sealed chain.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Final

from gitops_bot.authority.enrolling import key_digest
from gitops_bot.authority.proofs import recheck, stated
from gitops_bot.authority.sealing import Fault
from gitops_bot.core.statements import hash_text
from gitops_bot.store import evidence, passkeys
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.evidence import Kept

PAGE: Final = 200

Enrolled = Mapping[str, tuple[str, str]]
"""By credential id: whose it is and the digest of its key, as the ledger told when it was enrolled."""


def verify_assertions(database: Database) -> tuple[int, tuple[Fault, ...]]:
    """Verify the evidence of every bound answer through the workspace again; give how many and what is wrong (I19)."""
    faults: list[Fault] = []
    checked = 0
    with database.read() as tx:
        enrolled: dict[str, tuple[str, str]] = {}
        for person, facts in evidence.enrolments_told(tx):
            # The first entry counts: a later one for the same passkey can only be somebody else's hand.
            enrolled.setdefault(str(facts.get("passkey")), (person, str(facts.get("key"))))
        for kept in chain(evidence.bound_votes(tx, PAGE), evidence.bound_revocations(tx, PAGE)):
            checked += 1
            wrong = recheck(kept.evidence) or _differs(tx, enrolled, kept)
            if wrong is not None:
                faults.append(Fault(f"the assertion of {kept.principal} does not stand: {wrong}", ask=kept.ask))
    return checked, tuple(faults)


def _differs(tx: Tx, enrolled: Enrolled, kept: Kept) -> str | None:
    """Compare the statement with the answer beside it, and the key with the one that its person enrolled."""
    statement, public_key = stated(kept.evidence)
    said = (statement["ask"], statement["person"], statement["verb"], statement["option"], statement["text_hash"])
    if said != (kept.ask, kept.principal, kept.verb, kept.option, hash_text(kept.text)):
        return "it is over another ask, person or answer"
    if (statement["action_hash"], statement["policy"], statement["run_version"]) != (
        kept.action_hash,
        kept.policy,
        kept.run_version,
    ):
        return "it binds another action, policy or run"
    credential = str(statement["credential"])
    if enrolled.get(credential) != (kept.principal, key_digest(public_key)):
        return "the ledger tells of no such passkey of theirs"
    row = passkeys.get(tx, credential)
    if row is None or (row.principal, row.public_key) != (kept.principal, public_key):
        return "the row of its passkey was changed"
    if kept.at < row.rests_until or (row.revoked_at is not None and kept.at > row.revoked_at):
        return "its passkey rested, or was revoked, when it was given"
    return None
