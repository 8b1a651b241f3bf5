"""A passkey signs its person in, or confirms one act; a session stands only for who may still have it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text

from gitops_bot.authority import sessions, signing_in
from gitops_bot.authority.challenges import user_handle
from gitops_bot.core.errors import Reason, Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.demo.passkey import SoftwarePasskey
from gitops_bot.store import ceremonies
from gitops_bot.store import sessions as rows
from gitops_bot.store.person_tables import SessionKind, SessionMethod
from gitops_bot.store.roles import Role
from tests.decisions import reason_of
from tests.people_stage import HOUR, SITE, People, altered, got, people_of
from tests.store_fixtures import FreshDatabase

MINUTE = 60_000
ACT = {"act": "agent.add", "slug": "nightly"}


@pytest.fixture
def people(database: FreshDatabase) -> People:
    return people_of(database)


@pytest.fixture
def quick(sqlite_database: FreshDatabase) -> People:
    return people_of(sqlite_database)


def test_a_passkey_signs_its_person_in(people: People) -> None:
    """The accepting twin of every refusal below."""
    people.enrol("alice")
    people.enrol("bob")
    signed_in = got(people.sign_in("alice"))
    person = people.authenticate(signed_in.secret)
    assert person is not None
    assert person.principal.name == "alice"
    assert (person.session.kind, person.session.method) == (SessionKind.BROWSER, SessionMethod.PASSKEY)
    opened = people.ledger("session.opened")[-1]
    assert (opened["principal"], opened["facts"]["session"]) == ("alice", person.session.id)


def test_nobody_is_named_before_they_proved_who_they_are(quick: People) -> None:
    quick.enrol("alice")
    options = quick.begin_sign_in().options
    assert options["allowCredentials"] == []
    assert options["userVerification"] == "required"
    assert options["rpId"] == "localhost"
    assert "alice" not in repr(options)


def test_secrets_are_kept_as_hashes_and_written_nowhere_else(people: People) -> None:
    people.enrol("alice")
    secret = got(people.sign_in("alice")).secret
    assert len(secret) >= 43
    with people.fresh.open(Role.OWNER).read() as tx:
        for table in ("sessions", "ledger", "ceremonies", "notices"):
            assert secret not in repr(tx.execute(text(f"SELECT * FROM {table}")).all())


def test_a_sign_in_gives_a_new_secret_and_ends_the_session_that_was_there(people: People) -> None:
    """Session fixation: a secret of before opens nothing after a sign-in."""
    people.enrol("alice")
    before = got(people.sign_in("alice"))
    after = got(people.sign_in("alice", replacing=before.person.session.id))
    assert after.secret != before.secret
    assert people.authenticate(before.secret) is None
    assert people.authenticate(after.secret) is not None
    beside = got(people.sign_in("alice"))
    assert people.authenticate(after.secret) is not None, "another browser's stays"
    assert beside.secret != after.secret


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: setattr(one, "verifies", False), "without user verification"),
        (lambda one: setattr(one, "present", False), "the signature or what it covers does not hold"),
        (lambda one: setattr(one, "origin", "http://localhost:9999"), "another origin"),
        (lambda one: one.client.update(type="webauthn.create"), "another kind of ceremony"),
        (lambda one: one.client.update(challenge="AAAA"), "another challenge"),
        (lambda one: one.client.update(crossOrigin=True), "inside a frame of another origin"),
    ],
)
def test_an_assertion_made_otherwise_signs_nobody_in(
    quick: People, change: Callable[[SoftwarePasskey], Any], why: str
) -> None:
    quick.enrol("alice")
    change(quick.passkey("alice"))
    begun = quick.begin_sign_in()
    refused = quick.finish_sign_in(begun.id, quick.passkey("alice").get(begun.options))
    assert reason_of(refused) == Reason.ASSERTION_INVALID
    assert quick.why() == why
    quick.passkeys["alice"] = SoftwarePasskey(quick.site.origin, credentials=quick.passkey("alice").credentials)
    got(quick.sign_in("alice"))


@pytest.mark.parametrize("part", ["clientDataJSON", "authenticatorData", "signature"])
def test_a_changed_byte_signs_nobody_in(quick: People, part: str) -> None:
    quick.enrol("alice")
    begun = quick.begin_sign_in()
    credential = quick.passkey("alice").get(begun.options)
    broken = altered(credential, part, lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]))
    assert reason_of(quick.finish_sign_in(begun.id, broken)) == Reason.ASSERTION_INVALID


def test_an_assertion_signs_in_once(people: People) -> None:
    people.enrol("alice")
    begun = people.begin_sign_in()
    credential = people.passkey("alice").get(begun.options)
    got(people.finish_sign_in(begun.id, credential))
    for _ in range(3):
        assert reason_of(people.finish_sign_in(begun.id, credential)) == Reason.ASSERTION_INVALID
    assert people.ledger("ceremony.failed") == [], "whoever has no session writes one row a challenge at most"


def test_a_failed_assertion_uses_the_challenge_up_and_is_told_once(quick: People) -> None:
    quick.enrol("alice")
    begun = quick.begin_sign_in()
    credential = quick.passkey("alice").get(begun.options)
    for _ in range(5):
        assert isinstance(quick.finish_sign_in(begun.id, {"type": "public-key"}), Refused)
    assert reason_of(quick.finish_sign_in(begun.id, credential)) == Reason.ASSERTION_INVALID
    assert len(quick.ledger("ceremony.failed")) == 1


def test_every_failure_is_told_in_the_same_words(quick: People) -> None:
    """An unknown key, a revoked one, a suspended person and a wrong signature look alike from outside."""
    quick.enrol("alice")
    quick.enrol("bob")
    answers = [quick.finish_sign_in("nonsense", {})]
    begun = quick.begin_sign_in()
    answers.append(quick.finish_sign_in(begun.id, {"id": "x"}))
    stranger = SoftwarePasskey(quick.site.origin)
    stranger.create(got(quick.begin_enrolment(quick.code("carol"))).options)
    begun = quick.begin_sign_in()
    answers.append(quick.finish_sign_in(begun.id, stranger.get(begun.options)))
    quick.suspend("alice")
    answers.append(quick.sign_in("alice"))
    quick.execute("UPDATE passkeys SET revoked_at = 1, revoked_by = 'bob' WHERE principal = 'bob'")
    answers.append(quick.sign_in("bob"))
    assert all(answer == answers[0] for answer in answers)
    assert isinstance(answers[0], Refused)
    assert [one["facts"]["why"] for one in quick.ledger("ceremony.failed")] == [
        "no public-key credential",
        "an unknown passkey",
        "nobody whom the policy lets in",
        "a revoked passkey",
    ]


def test_a_user_handle_of_somebody_else_is_refused(quick: People) -> None:
    quick.enrol("alice")
    begun = quick.begin_sign_in()
    credential = quick.passkey("alice").get(begun.options)
    bobs = user_handle(SITE, PrincipalName("bob"))
    assert reason_of(quick.finish_sign_in(begun.id, altered(credential, "userHandle", lambda _: bobs))) is not None
    assert quick.why() == "another user handle"


def test_a_counter_that_does_not_rise_is_refused_and_told(people: People) -> None:
    people.enrol("alice")
    got(people.sign_in("alice"))
    (mine,) = people.passkey("alice").credentials.values()
    mine.sign_count -= 1
    refused = people.sign_in("alice")
    assert reason_of(refused) == Reason.ASSERTION_INVALID
    (told,) = people.ledger("ceremony.failed")
    assert told["facts"]["why"] == "the counter did not rise"
    assert (told["principal"], told["facts"]["stored"], told["facts"]["given"]) == ("alice", 1, 1)
    got(people.sign_in("alice"))


def test_an_authenticator_that_counts_nothing_signs_in_again_and_again(quick: People) -> None:
    """The accepting twin: most synced passkeys always say 0."""
    quick.passkey("alice").counts = False
    quick.enrol("alice")
    for _ in range(3):
        got(quick.sign_in("alice"))
    quick.passkey("alice").counts = True
    got(quick.sign_in("alice"))
    next(iter(quick.passkey("alice").credentials.values())).sign_count = -1
    assert reason_of(quick.sign_in("alice")) == Reason.ASSERTION_INVALID, "once it counted, 0 is a step back"


@pytest.mark.parametrize(
    ("site", "wait", "stands"),
    [
        ({"idle": 30 * MINUTE}, 29 * MINUTE, True),
        ({"idle": 30 * MINUTE}, 30 * MINUTE, False),
        ({"lasts": 2 * HOUR}, 119 * MINUTE, True),
        ({"lasts": 2 * HOUR}, 120 * MINUTE, False),
    ],
)
def test_a_session_ends_unused_and_at_all(quick: People, site: dict[str, int], wait: int, stands: bool) -> None:
    quick.enrol("alice")
    secret = got(quick.sign_in("alice")).secret
    quick.pass_time(wait)
    assert (quick.at(**site).authenticate(secret) is not None) is stands


@pytest.mark.parametrize(("back", "stands"), [(4 * MINUTE, True), (6 * MINUTE, False), (400 * 24 * HOUR, False)])
def test_a_clock_that_goes_back_prolongs_no_session(quick: People, back: int, stands: bool) -> None:
    """How long it was unused is not known then; a small correction of the clock signs nobody out, and one that is
    undone neither."""
    quick.enrol("alice")
    secret = got(quick.sign_in("alice")).secret
    quick.pass_time(-back)
    assert (quick.authenticate(secret) is not None) is stands
    quick.pass_time(back)
    assert quick.authenticate(secret) is not None


def test_use_puts_the_idle_limit_off_and_not_the_absolute_one(people: People) -> None:
    site = people.at(idle=30 * MINUTE, lasts=HOUR)
    people.enrol("alice")
    secret = got(site.sign_in("alice")).secret
    for _ in range(2):
        people.pass_time(29 * MINUTE)
        assert site.authenticate(secret) is not None
    people.pass_time(2 * MINUTE)
    assert site.authenticate(secret) is None


def test_a_read_transaction_asks_without_a_write(quick: People) -> None:
    quick.enrol("alice")
    secret = got(quick.sign_in("alice")).secret
    quick.pass_time(10 * MINUTE)
    rules, site = quick.stage.rules, quick.site
    person = quick.stage.read(lambda tx: sessions.authenticate(tx, rules, site, secret, touch=False))
    assert person is not None
    touched = quick.authenticate(secret)
    assert touched is not None
    again = quick.authenticate(secret)
    assert again is not None
    assert again.session.seen_at > person.session.seen_at


def test_a_rotated_session_keeps_its_absolute_limit(quick: People) -> None:
    quick.enrol("alice")
    signed_in = got(quick.sign_in("alice"))
    quick.pass_time(HOUR)
    person, secret = quick.write(lambda tx: sessions.rotate(tx, quick.site, signed_in.person))
    assert quick.authenticate(signed_in.secret) is None
    found = quick.authenticate(secret)
    assert found is not None
    assert found.session.id == person.session.id
    assert found.session.expires_at == signed_in.person.session.expires_at


def test_a_removed_and_a_suspended_persons_session_stands_for_nobody(people: People) -> None:
    """Removed person's cookie; and a person who became a service."""
    for name in ("alice", "bob"):
        people.enrol(name)
    alice, bob = got(people.sign_in("alice")).secret, got(people.sign_in("bob")).secret
    assert people.without("alice").authenticate(alice) is None
    assert people.without("alice").authenticate(bob) is not None
    people.suspend("bob")
    assert people.authenticate(bob) is None
    assert people.authenticate(alice) is not None


def test_a_session_of_a_passkey_that_the_policy_no_longer_names_stands_for_nobody(quick: People) -> None:
    enrolled = quick.enrol("alice")
    secret = got(quick.sign_in("alice")).secret
    assert quick.under({"alice": {"passkey": ["b3RoZXItb25l"]}}).authenticate(secret) is None
    assert quick.under({"alice": {"passkey": [enrolled.passkey.id]}}).authenticate(secret) is not None


@pytest.mark.parametrize("secret", ["", "x", "gbs_x", "\x00", "\ud800", "x" * 100_000])
def test_an_unknown_secret_stands_for_nobody(quick: People, secret: str) -> None:
    assert quick.authenticate(secret) is None


def test_sessions_are_listed_and_ended_by_their_person_alone(people: People) -> None:
    people.enrol("alice")
    people.enrol("bob")
    one, two = got(people.sign_in("alice")), got(people.sign_in("alice"))
    bob = got(people.sign_in("bob"))
    mine = people.stage.read(lambda tx: [each.id for each in sessions.of_person(tx, PrincipalName("alice"))])
    assert mine[:2] == [two.person.session.id, one.person.session.id]
    end = sessions.end
    assert not people.write(lambda tx: end(tx, bob.person.session.id, PrincipalName("alice")))
    assert people.authenticate(bob.secret) is not None
    assert people.write(lambda tx: end(tx, one.person.session.id, PrincipalName("alice")))
    assert people.authenticate(one.secret) is None
    assert (
        people.write(lambda tx: sessions.end_all(tx, PrincipalName("alice"), "alice", but=two.person.session.id)) == 1
    )
    assert people.authenticate(two.secret) is not None
    rules, site = people.stage.rules, people.site
    asked = [each.person.session.id for each in (one, two, bob)]
    still = people.stage.read(lambda tx: sessions.still(tx, rules, site, asked))
    assert {session: who.name for session, who in still.items()} == {
        two.person.session.id: "alice",
        bob.person.session.id: "bob",
    }


def test_somebody_has_a_bounded_number_of_sessions(quick: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 3)
    quick.enrol("alice")
    secrets = [got(quick.sign_in("alice")).secret for _ in range(4)]
    assert [quick.authenticate(secret) is not None for secret in secrets] == [False, True, True, True]


def test_old_sessions_and_ceremonies_are_removed_a_bounded_number_at_a_time(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.enrol("alice")
    for _ in range(5):
        people.begin_sign_in()
    got(people.sign_in("alice"))
    people.pass_time(ceremonies.KEPT + HOUR)
    people.begin_sign_in()
    assert people.stage.count("ceremonies") == 1
    people.pass_time(SITE.lasts + rows.KEPT)
    got(people.sign_in("alice"))
    assert people.stage.count("sessions") == 1
    assert ceremonies.PURGED_AT_ONCE <= 100
    assert rows.PURGED_AT_ONCE <= 100


def test_a_fresh_assertion_confirms_its_act_once(people: People) -> None:
    alice = people.person("alice")
    begun = people.begin_fresh(alice, ACT)
    credential = people.passkey("alice").get(begun.options)
    confirmed = got(people.finish_fresh(alice, begun.id, credential, ACT))
    assert confirmed.is_for(alice, dict(reversed(list(ACT.items()))))
    assert not confirmed.is_for(alice, {**ACT, "slug": "other"})
    assert reason_of(people.finish_fresh(alice, begun.id, credential, ACT)) == Reason.ASSERTION_INVALID
    assert people.why() == "the challenge was used before"


def test_a_fresh_assertion_is_for_no_other_act_person_or_session(quick: People) -> None:
    alice, bob = quick.person("alice"), quick.person("bob")
    begun = quick.begin_fresh(alice, ACT)
    credential = quick.passkey("alice").get(begun.options)
    elsewhere = got(quick.sign_in("alice")).person
    assert isinstance(quick.finish_fresh(bob, begun.id, credential, ACT), Refused)
    assert isinstance(quick.finish_fresh(elsewhere, begun.id, credential, ACT), Refused)
    other = quick.finish_fresh(alice, begun.id, credential, {**ACT, "slug": "other"})
    assert reason_of(other) == Reason.ASSERTION_INVALID
    assert quick.why() == "another act"


def test_a_fresh_assertion_is_by_a_passkey_of_the_same_person(quick: People) -> None:
    alice = quick.person("alice")
    quick.enrol("bob")
    begun = quick.begin_fresh(alice, ACT)
    options = {**begun.options, "allowCredentials": []}
    refused = quick.finish_fresh(alice, begun.id, quick.passkey("bob").get(options), ACT)
    assert reason_of(refused) == Reason.ASSERTION_INVALID
    assert quick.why() == "a passkey of somebody else"


def test_ceremonies_stand_for_one_purpose_each(quick: People) -> None:
    """A sign-in is no confirmation, and a confirmation no sign-in: neither the challenge nor the assertion crosses."""
    alice = quick.person("alice")
    sign_in, fresh = quick.begin_sign_in(), quick.begin_fresh(alice, ACT)
    of_sign_in = quick.passkey("alice").get(sign_in.options)
    of_fresh = quick.passkey("alice").get(fresh.options)
    assert isinstance(quick.finish_fresh(alice, sign_in.id, of_sign_in, ACT), Refused)
    assert isinstance(quick.finish_sign_in(fresh.id, of_fresh), Refused)
    assert isinstance(quick.finish_sign_in(sign_in.id, of_fresh), Refused)
    assert isinstance(quick.finish_fresh(alice, fresh.id, of_sign_in, ACT), Refused)
    assert quick.why() == "another challenge"


def test_a_person_without_a_passkey_confirms_nothing(quick: People) -> None:
    policy = quick.under({"bob": {"oidc": [{"issuer": "https://id.example", "subject": "42"}]}})
    bob = got(
        policy.write(lambda tx: signing_in.finish_oidc(tx, policy.stage.rules, SITE, "https://id.example", "42"))
    ).person
    refused = policy.write(lambda tx: signing_in.begin_fresh(tx, policy.stage.rules, SITE, bob, ACT))
    assert reason_of(refused) == Reason.ASSERTION_REQUIRED
    big = {"act": "x", "more": "y" * 5000}
    refused = policy.write(lambda tx: signing_in.begin_fresh(tx, policy.stage.rules, SITE, bob, big))
    assert reason_of(refused) == Reason.LIMIT_EXCEEDED


def test_oidc_signs_in_by_issuer_and_subject_exactly(people: People) -> None:
    """OIDC mapped by e-mail: nothing but the issuer and the subject is looked at."""
    policy = people.under({"bob": {"oidc": [{"issuer": "https://id.example", "subject": "42"}]}})

    def sign_in(issuer: str, subject: str) -> signing_in.SignedIn | Refused:
        return policy.write(lambda tx: signing_in.finish_oidc(tx, policy.stage.rules, SITE, issuer, subject))

    signed_in = got(sign_in("https://id.example", "42"))
    person = policy.authenticate(signed_in.secret)
    assert person is not None
    assert (person.principal.name, person.session.method, person.session.credential) == (
        "bob",
        SessionMethod.OIDC,
        "https://id.example 42",
    )
    for issuer, subject in (
        ("https://evil.example", "42"),
        ("https://id.example", "43"),
        ("https://id.example", "bob@example.org"),
        ("https://id.example/", "42"),
    ):
        assert isinstance(sign_in(issuer, subject), Refused)
    assert people.authenticate(signed_in.secret) is None, "the policy names this identity no longer"
    assert policy.authenticate(signed_in.secret) is not None
    policy.suspend("bob")
    assert policy.authenticate(signed_in.secret) is None


def test_one_assertion_sent_many_times_at_once_opens_one_session(people: People) -> None:
    people.enrol("alice")
    before = people.stage.count("sessions")
    begun = people.begin_sign_in()
    credential = people.passkey("alice").get(begun.options)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: people.finish_sign_in(begun.id, credential), range(8)))
    assert sum(isinstance(one, signing_in.SignedIn) for one in results) == 1
    assert people.stage.count("sessions") == before + 1
