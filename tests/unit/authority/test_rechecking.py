"""`ledger verify` re-checks the evidence of every bound answer, not only that it is there (I19)."""

import pytest

from gitops_bot.authority.proofs import evidence_of
from gitops_bot.authority.rechecking import verify_assertions
from gitops_bot.core.statements import hash_text
from gitops_bot.store import evidence as evidence_rows
from gitops_bot.store.roles import Role
from tests.people_stage import People, given_for, got, people_of
from tests.store_fixtures import FreshDatabase
from tests.unit.authority.test_proofs import Signer


@pytest.fixture
def people(database: FreshDatabase) -> People:
    return people_of(database)


@pytest.fixture
def answered(sqlite_database: FreshDatabase) -> People:
    """Two votes on one ask, a batch of three, and a revocation."""
    return answer_all(people_of(sqlite_database))


def answer_all(people: People) -> People:
    alice, bob, carol = (people.person(name) for name in ("alice", "bob", "carol"))
    asks = [people.stage.ask(params={"version": str(number)}) for number in range(4)]
    got(people.answer(alice, given_for(asks[0])))
    got(people.answer(bob, given_for(asks[0], text="fine")))
    got(people.answer(carol, given_for(asks[0], "deny", "stop")))
    got(people.answer(alice, *[given_for(ask) for ask in asks[1:]]))
    people.stage.answer(people.stage.question(), "alice", None, "left")
    return people


def faults(people: People) -> tuple[int, list[str]]:
    checked, found = verify_assertions(people.fresh.open(Role.HOST))
    return checked, [fault.what for fault in found]


def test_everything_that_was_asserted_stands(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """The accepting twin; plain questions need none. Read page by page, nothing is left out."""
    answer_all(people)
    assert faults(people) == (6, [])
    monkeypatch.setattr("gitops_bot.authority.rechecking.PAGE", 1)
    assert faults(people) == (6, [])
    monkeypatch.setattr("gitops_bot.authority.rechecking.PAGE", 2)
    assert faults(people) == (6, [])


def test_a_removed_or_suspended_person_leaves_what_they_asserted(answered: People) -> None:
    answered.suspend("alice")
    answered.execute("UPDATE passkeys SET revoked_at = 9999999999999, revoked_by = 'host'")
    assert faults(answered) == (6, [])


@pytest.mark.parametrize(
    ("table", "change", "what"),
    [
        ("votes", "evidence = CAST('{}' AS BLOB)", "it is no assertion"),
        ("votes", "option = 'deny'", "it is over another ask, person or answer"),
        ("votes", "text = 'never said'", "it is over another ask, person or answer"),
        ("votes", "run_version = 9", "it binds another action, policy or run"),
        ("votes", "evidence = (SELECT evidence FROM votes WHERE principal = 'bob')", "another ask, person or answer"),
        ("revocations", "evidence = (SELECT evidence FROM votes WHERE principal = 'bob')", "another ask, person"),
        ("revocations", "text = 'never said'", "it is over another ask, person or answer"),
        ("passkeys", "principal = 'mallory'", "the row of its passkey was changed"),
        ("passkeys", "public_key = CAST('x' AS BLOB)", "the row of its passkey was changed"),
        ("passkeys", "revoked_at = 1, revoked_by = 'x'", "its passkey rested, or was revoked"),
        ("passkeys", "rests_until = 9999999999999", "its passkey rested, or was revoked"),
    ],
)
def test_what_was_changed_is_found(answered: People, table: str, change: str, what: str) -> None:
    unlock(answered, table)
    answered.execute(f"UPDATE {table} SET {change}")
    checked, found = faults(answered)
    assert checked == 6
    assert found
    assert all(what in one for one in found)


def unlock(people: People, table: str) -> None:
    """Take off what keeps rows as they are; whoever does so has the file or the owner's login."""
    from sqlalchemy import text

    with people.fresh.open(Role.OWNER).write() as tx:
        triggers = tx.execute(
            text("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :of"), {"of": table}
        )
        for name in triggers.scalars().all():
            tx.execute(text(f'DROP TRIGGER "{name}"'))


def test_a_vote_forged_with_a_key_of_ones_own_is_found(answered: People) -> None:
    """Evidence that stands by itself, by a key that its person never enrolled."""
    signer = Signer()
    (vote,) = [one for one in _votes(answered) if one.principal == "bob"]
    statement = signer.statement(
        person="bob",
        ask=vote.ask,
        text_hash=hash_text("fine"),
        action_hash=vote.action_hash,
        policy=vote.policy,
        run_version=vote.run_version,
    )
    forged = evidence_of("localhost", [statement], 0, signer.sign(statement), signer.public_key)
    unlock(answered, "votes")
    answered.execute("UPDATE votes SET evidence = :forged WHERE principal = 'bob'", forged=forged)
    assert faults(answered)[1] == ["the assertion of bob does not stand: the ledger tells of no such passkey of theirs"]


def test_a_second_entry_for_a_passkey_makes_no_other_of_it(answered: People) -> None:
    answered.execute(
        "INSERT INTO ledger (kind, at, principal, facts) SELECT kind, at, 'mallory', facts FROM ledger "
        "WHERE kind = 'passkey.enrolled'"
    )
    assert faults(answered) == (6, [])


def _votes(people: People) -> list[evidence_rows.Kept]:
    return people.stage.read(lambda tx: list(evidence_rows.bound_votes(tx, 10)))
