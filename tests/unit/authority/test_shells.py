"""A shell gets its person's credential once, after they confirmed exactly it; and loses it with them."""

import pytest
from sqlalchemy import text

from gitops_bot.authority import shells, signing_in
from gitops_bot.authority.enrolling import adding_passkey, plain_code
from gitops_bot.authority.sessions import SHELL_PREFIX, Person
from gitops_bot.authority.shells import LASTS, Shell, confirming_shell
from gitops_bot.authority.signing_in import Confirmed, SignedIn
from gitops_bot.core.errors import Reason, Refused
from gitops_bot.store.logins import Login
from gitops_bot.store.person_tables import SessionKind, SessionMethod
from gitops_bot.store.roles import Role
from tests.decisions import reason_of
from tests.people_stage import People, got, people_of
from tests.store_fixtures import FreshDatabase


@pytest.fixture
def people(database: FreshDatabase) -> People:
    return people_of(database)


@pytest.fixture
def quick(sqlite_database: FreshDatabase) -> People:
    return people_of(sqlite_database)


def begin(people: People, label: str = "alice@laptop") -> Shell:
    return people.write(lambda tx: shells.begin_shell(tx, label))


def confirm(people: People, person: Person, code: str, confirmed: Confirmed | None = None) -> Login | Refused:
    given = confirmed or people.confirm(person, confirming_shell(code))
    return people.write(lambda tx: shells.confirm_shell(tx, person, code, given))


def take(people: People, secret: str) -> SignedIn | Refused | None:
    return people.write(lambda tx: shells.take_shell(tx, people.stage.rules, people.site, secret))


def test_a_confirmed_shell_gets_a_credential_of_its_person_once(people: People) -> None:
    """The accepting twin of every refusal below."""
    alice, shell = people.person("alice"), begin(people)
    assert take(people, shell.secret) is None, "nobody confirmed it yet"
    shown = people.stage.read(lambda tx: shells.shown(tx, shell.code.lower()))
    assert shown is not None
    assert shown.label == "alice@laptop"
    got(confirm(people, alice, shell.code))
    taken = take(people, shell.secret)
    assert isinstance(taken, SignedIn)
    assert taken.secret.startswith(SHELL_PREFIX)
    person = people.authenticate(taken.secret)
    assert person is not None
    assert (person.principal.name, person.session.kind, person.session.method, person.session.credential) == (
        "alice",
        SessionKind.SHELL,
        SessionMethod.PASSKEY,
        alice.session.credential,
    )
    assert reason_of(take(people, shell.secret)) == Reason.NOT_FOUND
    (told,) = people.ledger("shell.confirmed")
    assert (told["principal"], told["facts"]["label"]) == ("alice", "alice@laptop")


def test_a_shells_credential_is_no_cookie_and_a_cookies_secret_no_credential(quick: People) -> None:
    alice, shell = quick.person("alice"), begin(quick)
    got(confirm(quick, alice, shell.code))
    taken = take(quick, shell.secret)
    assert isinstance(taken, SignedIn)
    assert quick.authenticate(taken.secret.removeprefix(SHELL_PREFIX)) is None
    cookie = got(quick.sign_in("alice")).secret
    assert quick.authenticate(SHELL_PREFIX + cookie) is None
    quick.execute("UPDATE sessions SET kind = 'shell' WHERE kind = 'browser'")
    assert quick.authenticate(cookie) is None


def test_what_the_shell_keeps_is_a_hash_here(people: People) -> None:
    alice, shell = people.person("alice"), begin(people)
    got(confirm(people, alice, shell.code))
    taken = take(people, shell.secret)
    assert isinstance(taken, SignedIn)
    with people.fresh.open(Role.OWNER).read() as tx:
        for table in ("logins", "sessions", "ledger", "notices"):
            rows = repr(tx.execute(text(f"SELECT * FROM {table}")).all())
            assert shell.secret not in rows
            assert taken.secret not in rows
    assert len(shell.secret) >= 43


@pytest.mark.parametrize("how", ["another act", "another shell", "another person"])
def test_a_shell_is_confirmed_by_its_own_confirmation_alone(quick: People, how: str) -> None:
    alice, bob, shell, other = quick.person("alice"), quick.person("bob"), begin(quick), begin(quick)
    confirmed = {
        "another act": lambda: quick.confirm(alice, adding_passkey()),
        "another shell": lambda: quick.confirm(alice, confirming_shell(other.code)),
        "another person": lambda: quick.confirm(bob, confirming_shell(shell.code)),
    }[how]()
    assert reason_of(confirm(quick, alice, shell.code, confirmed)) == Reason.ASSERTION_REQUIRED
    assert take(quick, shell.secret) is None
    got(confirm(quick, alice, shell.code))


def test_a_shell_that_was_confirmed_or_waited_too_long_is_over(people: People) -> None:
    alice, bob, shell = people.person("alice"), people.person("bob"), begin(people)
    got(confirm(people, alice, shell.code))
    assert reason_of(confirm(people, bob, shell.code)) == Reason.NOT_FOUND, "it is alice's"
    late, waited = begin(people), begin(people)
    got(confirm(people, alice, waited.code))
    people.execute("UPDATE logins SET expires_at = expires_at - :ms", ms=LASTS)
    assert people.stage.read(lambda tx: shells.shown(tx, late.code)) is None
    assert reason_of(confirm(people, alice, late.code)) == Reason.NOT_FOUND
    assert reason_of(take(people, late.secret)) == Reason.NOT_FOUND
    assert reason_of(take(people, waited.secret)) == Reason.NOT_FOUND


@pytest.mark.parametrize("secret", ["", "x", "\x00", "\ud800", "x" * 100_000])
def test_an_unknown_shell_gets_nothing(quick: People, secret: str) -> None:
    assert reason_of(take(quick, secret)) == Reason.NOT_FOUND


@pytest.mark.parametrize("code", ["", "x", "\x00", "\ud800", "BCDF-BCDF", "x" * 100_000])
def test_an_unknown_code_shows_nothing(quick: People, code: str) -> None:
    begin(quick)
    assert quick.stage.read(lambda tx: shells.shown(tx, code)) is None


def test_a_shell_is_not_given_to_who_lost_the_passkey_or_left_meanwhile(quick: People) -> None:
    alice, bob = quick.person("alice"), quick.person("bob")
    first, second, third = begin(quick), begin(quick), begin(quick)
    got(confirm(quick, alice, first.code))
    got(confirm(quick, bob, second.code))
    got(confirm(quick, bob, third.code))
    quick.execute("UPDATE passkeys SET revoked_at = 1, revoked_by = 'host' WHERE principal = 'alice'")
    assert reason_of(take(quick, first.secret)) == Reason.NOT_AUTHORISED
    assert isinstance(take(quick, second.secret), SignedIn)
    assert reason_of(take(quick.without("bob"), third.secret)) == Reason.NOT_AUTHORISED


def test_waiting_shells_are_removed_when_they_are_over(people: People) -> None:
    for _ in range(3):
        begin(people)
    people.execute("UPDATE logins SET expires_at = 1")
    begin(people)
    assert people.stage.count("logins") == 1


def test_a_code_is_compared_by_eye_and_typed_in_any_way(quick: People) -> None:
    alice, shell = quick.person("alice"), begin(quick)
    assert len(plain_code(shell.code)) == 8
    typed = shell.code.lower().replace("-", " ")
    act = {"act": shells.SHELL_ACT, "code": typed}
    got(confirm(quick, alice, typed, quick.confirm(alice, act)))
    assert isinstance(take(quick, shell.secret), SignedIn)
    assert signing_in.label_of("\x1b[31mroot\u202e") == "[31mroot"
