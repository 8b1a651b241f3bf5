"""A passkey comes in by a code of the host's or after a fresh assertion; everything else is refused, and told."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from gitops_bot.authority import enrolling
from gitops_bot.authority.enrolling import ALPHABET, hash_code, plain_code
from gitops_bot.core.errors import Reason, Refusal, Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.demo.passkey import SoftwarePasskey
from gitops_bot.store import notices, passkeys
from gitops_bot.store.roles import Role
from tests.decisions import reason_of
from tests.people_stage import HOUR, People, altered, got, people_of
from tests.store_fixtures import FreshDatabase

HUMANS = ["alice", "bob", "carol", "dave"]


@pytest.fixture
def people(database: FreshDatabase) -> People:
    return people_of(database)


@pytest.fixture
def quick(sqlite_database: FreshDatabase) -> People:
    return people_of(sqlite_database)


def test_a_code_enrols_one_passkey_signs_in_and_everybody_is_told(people: People) -> None:
    """The accepting twin of every refusal below."""
    resting = people.at(rest=24 * HOUR)
    enrolled = resting.enrol("alice")
    assert enrolled.signed_in is not None
    assert enrolled.offer_another
    person = people.authenticate(enrolled.signed_in.secret)
    assert person is not None
    assert (person.principal.name, person.session.credential) == ("alice", enrolled.passkey.id)
    assert enrolled.passkey.rests_until - enrolled.passkey.created_at == 24 * HOUR
    told = [one["principal"] for one in people.ledger("person.told")]
    assert told == HUMANS, "services are told nothing"
    for name in HUMANS:
        (notice,) = people.stage.read(lambda tx, name=name: notices.page(tx, name, 10))
        assert "enrolled for alice" in notice.text
        assert "answers nothing that is bound before" in notice.text
    (entry,) = people.ledger("passkey.enrolled")
    assert entry["facts"]["key"] == enrolling.key_digest(enrolled.passkey.public_key)
    assert [one["kind"] for one in people.ledger()][:2] == ["code.issued", "passkey.enrolled"]


def test_a_code_can_be_read_out_and_is_kept_as_a_hash_only(people: People) -> None:
    code = people.code("alice")
    groups = code.split("-")
    assert [len(one) for one in groups] == [5, 5, 5]
    assert set("".join(groups)) <= set(ALPHABET)
    assert not set(ALPHABET) & set("AEIOUL01"), "no word, and nothing that is read for something else"
    assert len(ALPHABET) ** 15 > 2**60
    with people.fresh.open(Role.OWNER).read() as tx:
        rows = tx.execute(text("SELECT * FROM enrolment_codes")).all()
        told = tx.execute(text("SELECT facts FROM ledger")).scalars().all()
    for spelling in (code, plain_code(code)):
        assert spelling not in repr(rows)
        assert spelling not in repr(told)
    assert hash_code(code.lower().replace("-", " ")) == hash_code(code), "however it is typed"


def test_another_code_ends_the_one_before(people: People) -> None:
    first, second = people.code("alice"), people.code("alice")
    assert reason_of(people.begin_enrolment(first)) == Reason.NOT_AUTHORISED
    got(people.begin_enrolment(second))


def test_a_code_is_for_one_use(people: People) -> None:
    code = people.code("alice")
    begun, other = got(people.begin_enrolment(code)), got(people.begin_enrolment(code))
    got(people.finish_enrolment(begun.id, people.passkey("alice").create(begun.options)))
    late = people.finish_enrolment(other.id, people.passkey("alice", "2").create(other.options))
    assert reason_of(late) == Reason.NOT_AUTHORISED
    assert reason_of(people.begin_enrolment(code)) == Reason.NOT_AUTHORISED
    assert len(people.stage.read(lambda tx: passkeys.of(tx, "alice"))) == 1


def test_a_code_is_over_after_ten_minutes(people: People) -> None:
    code = people.code("alice")
    begun = got(people.begin_enrolment(code))
    people.pass_time(10 * 60_000)
    assert reason_of(people.begin_enrolment(code)) == Reason.NOT_AUTHORISED
    late = people.finish_enrolment(begun.id, people.passkey("alice").create(begun.options))
    assert isinstance(late, Refused)
    assert people.stage.count("passkeys") == 0


def test_a_challenge_is_over_after_five_minutes(quick: People) -> None:
    begun = got(quick.begin_enrolment(quick.code("alice")))
    quick.pass_time(5 * 60_000)
    late = quick.finish_enrolment(begun.id, quick.passkey("alice").create(begun.options))
    assert reason_of(late) == Reason.ASSERTION_INVALID
    assert quick.why() == "the challenge is over"


def test_wrong_codes_are_bounded_and_one_row_each_at_most(quick: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enrolling, "MOST_MISSES", 5)
    assert reason_of(quick.begin_enrolment("23456-23456-23456")) == Reason.NOT_AUTHORISED
    assert quick.ledger("ceremony.failed") == [], "with no code outstanding nothing could be guessed"
    code = quick.code("alice")
    for _ in range(4):
        quick.begin_enrolment("23456-23456-23456")
    got(quick.begin_enrolment(code))
    for wrong in ("", "x" * 10_000, "\x00", "\ud800", "O0O0O", *["BCDFG"] * 20):
        assert reason_of(quick.begin_enrolment(wrong)) == Reason.NOT_AUTHORISED
    assert reason_of(quick.begin_enrolment(code)) == Reason.NOT_AUTHORISED
    assert len(quick.ledger("ceremony.failed")) == 6, "five wrong ones, and the one that came after them"
    got(quick.begin_enrolment(quick.code("alice")))


def test_unknown_used_and_late_codes_are_told_in_the_same_words(quick: People) -> None:
    code = quick.code("alice")
    begun = got(quick.begin_enrolment(code))
    got(quick.finish_enrolment(begun.id, quick.passkey("alice").create(begun.options)))
    used = quick.begin_enrolment(code)
    over = quick.code("bob")
    quick.pass_time(11 * 60_000)
    answers = [used, quick.begin_enrolment(over), quick.begin_enrolment("BCDFG-BCDFG-BCDFG")]
    assert all(answer == answers[0] for answer in answers)
    assert isinstance(answers[0], Refused)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("mallory", Reason.UNKNOWN_PRINCIPAL), ("agent", Reason.SERVICE_IDENTITY), ("bot", Reason.SERVICE_IDENTITY)],
)
def test_no_code_is_made_for_who_is_no_person_of_the_policy(quick: People, name: str, reason: Reason) -> None:
    with pytest.raises(Refusal) as refused:
        quick.code(name)
    assert refused.value.refused.reason is reason


def test_no_code_is_made_for_a_suspended_person(quick: People) -> None:
    quick.suspend("alice")
    with pytest.raises(Refusal) as refused:
        quick.code("alice")
    assert refused.value.refused.reason is Reason.SUSPENDED
    quick.code("bob")


def test_the_code_of_somebody_who_left_opens_nothing(people: People) -> None:
    code = people.code("dave")
    begun = got(people.begin_enrolment(code))
    without = people.without("dave")
    assert reason_of(without.begin_enrolment(code)) == Reason.NOT_AUTHORISED
    late = without.finish_enrolment(begun.id, people.passkey("dave").create(begun.options))
    assert isinstance(late, Refused)
    assert people.stage.count("passkeys") == 0


def test_the_code_of_somebody_suspended_meanwhile_opens_nothing(quick: People) -> None:
    code = quick.code("alice")
    quick.suspend("alice")
    assert reason_of(quick.begin_enrolment(code)) == Reason.NOT_AUTHORISED


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: setattr(one, "verifies", False), "the new key does not hold"),
        (lambda one: setattr(one, "present", False), "the new key does not hold"),
        (lambda one: setattr(one, "origin", "http://localhost:9999"), "another origin"),
        (lambda one: one.client.update(type="webauthn.get"), "another kind of ceremony"),
        (lambda one: one.client.update(challenge="AAAA"), "another challenge"),
        (lambda one: one.client.update(crossOrigin=True), "inside a frame of another origin"),
        (lambda one: one.client.update(topOrigin="https://evil.example"), "inside a frame of another origin"),
    ],
)
def test_a_key_made_otherwise_is_refused_and_uses_the_code_up(
    quick: People, change: Callable[[SoftwarePasskey], Any], why: str
) -> None:
    begun = got(quick.begin_enrolment(quick.code("alice")))
    change(quick.passkey("alice"))
    refused = quick.finish_enrolment(begun.id, quick.passkey("alice").create(begun.options))
    assert reason_of(refused) == Reason.ASSERTION_INVALID
    assert quick.why() == why
    quick.passkeys.clear()
    again = quick.finish_enrolment(begun.id, quick.passkey("alice").create(begun.options))
    assert reason_of(again) == Reason.ASSERTION_INVALID, "one use"
    assert quick.stage.count("passkeys") == 0


def test_a_key_for_another_site_is_refused(quick: People) -> None:
    begun = got(quick.begin_enrolment(quick.code("alice")))
    elsewhere = {**begun.options, "rp": {"id": "evil.example", "name": "gitops-bot"}}
    refused = quick.finish_enrolment(begun.id, quick.passkey("alice").create(elsewhere))
    assert reason_of(refused) == Reason.ASSERTION_INVALID


def test_a_passkey_that_somebody_has_is_nobody_elses(people: People) -> None:
    enrolled = people.enrol("alice")
    begun = got(people.begin_enrolment(people.code("bob")))
    stolen = people.passkey("bob")
    credential = stolen.create(begun.options)
    mine = next(iter(stolen.credentials))
    renamed = altered(
        {**credential, "id": enrolled.passkey.id, "rawId": enrolled.passkey.id},
        "attestationObject",
        lambda raw: raw.replace(_raw(mine), _raw(enrolled.passkey.id)),
    )
    assert reason_of(people.finish_enrolment(begun.id, renamed)) == Reason.ASSERTION_INVALID
    assert people.why() == "this passkey was enrolled before"
    row = people.stage.read(lambda tx: passkeys.get(tx, enrolled.passkey.id))
    assert row == enrolled.passkey


def _raw(passkey: str) -> bytes:
    import base64

    return base64.urlsafe_b64decode(passkey + "=" * (-len(passkey) % 4))


def test_a_passkey_that_the_policy_gives_to_another_is_refused(quick: People) -> None:
    begun = got(quick.begin_enrolment(quick.code("alice")))
    credential = quick.passkey("alice").create(begun.options)
    theirs = quick.under({"bob": {"passkey": [credential["id"]]}})
    assert reason_of(theirs.finish_enrolment(begun.id, credential)) == Reason.ASSERTION_INVALID
    assert quick.why() == "the policy gives this passkey to somebody else"


def test_a_passkey_beside_those_that_the_policy_names_does_not_sign_in(quick: People) -> None:
    """Where the policy names a person's passkeys only those count, so a host's code alone adds none."""
    named = quick.under({"alice": {"passkey": ["b3RoZXItb25l"]}})
    enrolled = named.enrol("alice")
    assert enrolled.signed_in is None
    assert reason_of(named.sign_in("alice")) == Reason.ASSERTION_INVALID
    listed = quick.under({"alice": {"passkey": [enrolled.passkey.id]}})
    assert got(listed.sign_in("alice")).person.principal.name == "alice"


def test_a_second_passkey_comes_after_a_fresh_assertion_with_the_first(people: People) -> None:
    alice = people.person("alice")
    confirmed = people.confirm(alice, enrolling.adding_passkey())
    begun = got(
        people.write(lambda tx: enrolling.begin_another(tx, people.stage.rules, people.site, alice, "key", confirmed))
    )
    assert [one["id"] for one in begun.options["excludeCredentials"]] == list(people.passkey("alice").credentials)
    made = people.passkey("alice", "2").create(begun.options)
    enrolled = got(
        people.write(lambda tx: enrolling.finish_another(tx, people.stage.rules, people.site, alice, begun.id, made))
    )
    assert (enrolled.passkey.label, enrolled.offer_another) == ("key", False)
    assert got(people.sign_in("alice", "2")).person.principal.name == "alice"


def test_no_second_passkey_without_its_own_confirmation(quick: People) -> None:
    alice, bob = quick.person("alice"), quick.person("bob")
    other = quick.confirm(alice, enrolling.revoking_passkey("x"))
    of_bob = quick.confirm(bob, enrolling.adding_passkey())
    for confirmed in (other, of_bob):
        refused = quick.write(
            lambda tx, confirmed=confirmed: enrolling.begin_another(
                tx, quick.stage.rules, quick.site, alice, "", confirmed
            )
        )
        assert reason_of(refused) == Reason.ASSERTION_REQUIRED


def test_a_code_does_not_finish_another_and_a_session_does_not_finish_a_code(quick: People) -> None:
    alice = quick.person("alice")
    by_code = got(quick.begin_enrolment(quick.code("alice")))
    made = quick.passkey("alice", "2").create(by_code.options)
    assert isinstance(
        quick.write(lambda tx: enrolling.finish_another(tx, quick.stage.rules, quick.site, alice, by_code.id, made)),
        Refused,
    )
    confirmed = quick.confirm(alice, enrolling.adding_passkey())
    begun = got(
        quick.write(lambda tx: enrolling.begin_another(tx, quick.stage.rules, quick.site, alice, "", confirmed))
    )
    made = quick.passkey("alice", "2").create(begun.options)
    assert isinstance(quick.finish_enrolment(begun.id, made), Refused)


def test_a_revoked_passkey_is_over_with_every_session_that_it_opened(people: People) -> None:
    alice = people.person("alice")
    people.enrol("alice", "2")
    first, second = got(people.sign_in("alice")), got(people.sign_in("alice", "2"))
    key = alice.session.credential
    assert key is not None
    confirmed = people.confirm(second.person, enrolling.revoking_passkey(key), "2")
    revoked = got(
        people.write(lambda tx: enrolling.revoke_passkey(tx, people.stage.rules, second.person, key, confirmed))
    )
    assert revoked.revoked_by == "alice"
    assert people.authenticate(first.secret) is None
    assert people.authenticate(second.secret) is not None
    assert reason_of(people.sign_in("alice")) == Reason.ASSERTION_INVALID
    assert people.why() == "a revoked passkey"


def test_nobody_revokes_the_passkey_of_another(quick: People) -> None:
    alice, bob = quick.person("alice"), quick.person("bob")
    theirs = bob.session.credential
    assert theirs is not None
    confirmed = quick.confirm(alice, enrolling.revoking_passkey(theirs))
    refused = quick.write(lambda tx: enrolling.revoke_passkey(tx, quick.stage.rules, alice, theirs, confirmed))
    assert reason_of(refused) == Reason.NOT_FOUND
    unconfirmed = quick.confirm(bob, enrolling.adding_passkey())
    refused = quick.write(lambda tx: enrolling.revoke_passkey(tx, quick.stage.rules, bob, theirs, unconfirmed))
    assert reason_of(refused) == Reason.ASSERTION_REQUIRED


def test_the_workspaces_own_connection_cannot_make_a_code(people: People) -> None:
    """A passkey enrolled by an agent from the workspace: the database refuses the code, on both engines."""
    insert = "INSERT INTO enrolment_codes VALUES ('h', 'alice', 1, 9999999999999, NULL, 0)"
    with pytest.raises(DBAPIError), people.fresh.open(Role.WORKSPACE).write() as tx:
        tx.execute(text(insert))
    for column in ("hash = 'x'", "principal = 'bob'", "expires_at = 9999999999999"):
        people.code("alice")
        with pytest.raises(DBAPIError), people.fresh.open(Role.WORKSPACE).write() as tx:
            tx.execute(text(f"UPDATE enrolment_codes SET {column}"))
    with pytest.raises(DBAPIError), people.fresh.open(Role.WORKSPACE).write() as tx:
        enrolling.issue_code(tx, people.stage.rules, "alice")
    for role in (Role.HOST, Role.BROKER):
        with people.fresh.open(role).write() as tx:
            enrolling.issue_code(tx, people.stage.rules, PrincipalName("alice"))


def test_somebody_has_a_bounded_number_of_passkeys(quick: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enrolling, "MOST_PASSKEYS", 2)
    for device in ("1", "2"):
        quick.enrol("alice", device)
    assert reason_of(quick.begin_enrolment(quick.code("alice"))) == Reason.LIMIT_EXCEEDED
    quick.enrol("bob")


def test_a_label_is_one_short_printable_line(quick: People) -> None:
    begun = got(quick.begin_enrolment(quick.code("alice"), "  my\x00 \u202ekey\n" + "x" * 200))
    enrolled = got(quick.finish_enrolment(begun.id, quick.passkey("alice").create(begun.options)))
    assert enrolled.passkey.label.startswith("my")
    assert enrolled.passkey.label.isprintable()
    assert len(enrolled.passkey.label) <= 60


def test_one_code_used_many_times_at_once_enrols_one_passkey(people: People) -> None:
    code = people.code("alice")
    begun = [got(people.begin_enrolment(code)) for _ in range(4)]
    made = [(one.id, people.passkey("alice", one.id).create(one.options)) for one in begun]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda one: people.finish_enrolment(*one), made))
    assert sum(isinstance(one, enrolling.Enrolled) for one in results) == 1
    assert people.stage.count("passkeys") == 1
