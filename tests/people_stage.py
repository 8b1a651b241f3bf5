"""People at the workspace below HTTP: codes from the host, software passkeys with real bytes, sessions, answers.

Everything is done in the workspace's role, over `decisions.Stage`; codes are made in the host's.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from gitops_bot.authority import assertions, enrolling, sessions, signing_in
from gitops_bot.authority.assertions import AnswerChallenge, Given
from gitops_bot.authority.authenticators import decode, encode
from gitops_bot.authority.challenges import Challenge
from gitops_bot.authority.sessions import Person
from gitops_bot.authority.settling import Result, Voice, answer
from gitops_bot.authority.signing_in import Confirmed, SignedIn
from gitops_bot.authority.site import Site
from gitops_bot.core.asks import Ask
from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.statements import Asserted
from gitops_bot.core.verdicts import Answer, Channel
from gitops_bot.demo.passkey import SoftwarePasskey
from gitops_bot.store import suspensions
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.roles import Role
from tests.decisions import Stage, policy_of, rules_of
from tests.policy_bundles import GONE, Patch
from tests.store_fixtures import FreshDatabase

T = TypeVar("T")

HOUR: Final = 3_600_000
ORIGIN: Final = "http://localhost:8480"
SITE: Final = Site(ORIGIN, "localhost", "gitops-bot", 0, 12 * HOUR, 168 * HOUR)

UNNAMED: Final[Patch] = {"people/alice/passkey": GONE}
"""The policy of the tests without the passkey that it names, so that those enrolled here count."""


@dataclass
class People:
    """Everybody of the policy, at one site."""

    stage: Stage
    fresh: FreshDatabase
    host: Database
    site: Site = SITE
    passkeys: dict[str, SoftwarePasskey] = field(default_factory=dict)

    def passkey(self, name: str, device: str = "") -> SoftwarePasskey:
        """Give the authenticator that somebody holds, one of several by name."""
        return self.passkeys.setdefault(f"{name}{device}", SoftwarePasskey(self.site.origin))

    def write(self, work: Callable[[Tx], T]) -> T:
        """Do something in a write transaction."""
        return self.stage.write(work)

    def code(self, name: str, lasts: int = enrolling.CODE_LASTS) -> str:
        """Print a code on the host."""
        with self.host.write() as tx:
            return enrolling.issue_code(tx, self.stage.rules, name, lasts)

    def begin_enrolment(self, code: str, label: str = "laptop") -> Challenge | Refused:
        """Open the page of a code."""
        return self.write(lambda tx: enrolling.begin_enrolment(tx, self.stage.rules, self.site, code, label))

    def finish_enrolment(self, challenge: str, credential: Mapping[str, Any]) -> enrolling.Enrolled | Refused:
        """Send what the authenticator made."""
        return self.write(lambda tx: enrolling.finish_enrolment(tx, self.stage.rules, self.site, challenge, credential))

    def enrol(self, name: str, device: str = "") -> enrolling.Enrolled:
        """Enrol a passkey of somebody, with a code from the host."""
        begun = got(self.begin_enrolment(self.code(name)))
        return got(self.finish_enrolment(begun.id, self.passkey(name, device).create(begun.options)))

    def person(self, name: str, device: str = "") -> Person:
        """Enrol somebody, and give them signed in."""
        signed_in = self.enrol(name, device).signed_in
        assert signed_in is not None
        return signed_in.person

    def begin_sign_in(self) -> Challenge:
        """Open the page for signing in."""
        return self.write(lambda tx: signing_in.begin_sign_in(tx, self.site))

    def finish_sign_in(
        self, challenge: str, credential: Mapping[str, Any], replacing: str | None = None
    ) -> SignedIn | Refused:
        """Send what the authenticator signed."""
        return self.write(
            lambda tx: signing_in.finish_sign_in(
                tx, self.stage.rules, self.site, challenge, credential, replacing=replacing
            )
        )

    def sign_in(self, name: str, device: str = "", replacing: str | None = None) -> SignedIn | Refused:
        """Sign somebody in."""
        begun = self.begin_sign_in()
        return self.finish_sign_in(begun.id, self.passkey(name, device).get(begun.options), replacing)

    def authenticate(self, secret: str) -> Person | None:
        """Use a session's secret."""
        return self.write(lambda tx: sessions.authenticate(tx, self.stage.rules, self.site, secret))

    def begin_fresh(self, person: Person, act: signing_in.Act) -> Challenge:
        """Ask to confirm an act."""
        return got(self.write(lambda tx: signing_in.begin_fresh(tx, self.stage.rules, self.site, person, act)))

    def finish_fresh(
        self, person: Person, challenge: str, credential: Mapping[str, Any], act: signing_in.Act
    ) -> Confirmed | Refused:
        """Send the confirmation of an act."""
        return self.write(
            lambda tx: signing_in.finish_fresh(tx, self.stage.rules, self.site, person, challenge, credential, act)
        )

    def confirm(self, person: Person, act: signing_in.Act, device: str = "") -> Confirmed:
        """Confirm an act with the passkey of a person."""
        begun = self.begin_fresh(person, act)
        credential = self.passkey(person.principal.name, device).get(begun.options)
        return got(self.finish_fresh(person, begun.id, credential, act))

    def begin_answer(
        self, person: Person, given: Sequence[Given], passkey: str | None = None
    ) -> AnswerChallenge | Refused:
        """Ask to sign an answer."""
        return self.write(lambda tx: assertions.begin_answer(tx, self.stage.rules, self.site, person, given, passkey))

    def finish_answer(
        self, person: Person, challenge: str, credential: Mapping[str, Any], given: Sequence[Given]
    ) -> tuple[Asserted, ...] | Refused:
        """Send the signed answer; nothing is settled yet."""
        return self.write(
            lambda tx: assertions.finish_answer(tx, self.stage.rules, self.site, person, challenge, credential, given)
        )

    def settle(
        self, person: Person, challenge: str, credential: Mapping[str, Any], given: Sequence[Given]
    ) -> list[Result] | Refused:
        """Send signed answers and settle each, in one transaction."""

        def work(tx: Tx) -> list[Result] | Refused:
            asserted = assertions.finish_answer(tx, self.stage.rules, self.site, person, challenge, credential, given)
            if isinstance(asserted, Refused):
                return asserted
            return [self._settle(tx, person, one, its) for one, its in zip(given, asserted, strict=True)]

        return self.write(work)

    def _settle(self, tx: Tx, person: Person, given: Given, asserted: Asserted | None) -> Result:
        evidence = b"{}" if asserted is None else asserted.evidence
        voice = Voice(person.principal, Channel.WORKSPACE, evidence, asserted=asserted)
        return answer(tx, self.stage.rules, given.ask, Answer(given.option, given.text, given.binding), voice)

    def settle_with(self, person: Person, given: Given, asserted: Asserted | None) -> Result:
        """Settle an answer with an assertion, or without one."""
        return self.write(lambda tx: self._settle(tx, person, given, asserted))

    def answer(self, person: Person, *given: Given, device: str = "") -> list[Result] | Refused:
        """Sign answers with the passkey of a person, and settle them."""
        begun = got(self.begin_answer(person, given))
        return self.settle(person, begun.id, self.passkey(person.principal.name, device).get(begun.options), given)

    def under(self, people: Mapping[str, Any]) -> "People":
        """Give the same people under a policy that says more of some of them: `{"alice": {"passkey": […]}}`."""
        patch = {f"people/{name}/{key}": value for name, more in people.items() for key, value in more.items()}
        rules = replace(self.stage.rules, policy=policy_of({**UNNAMED, **patch}))
        return replace(self, stage=replace(self.stage, rules=rules))

    def with_verbs(self, verbs: Mapping[str, Any]) -> "People":
        """Give the same people under a policy with other verbs, or with more."""
        patch = {f"verbs/{name}": rule for name, rule in verbs.items()}
        rules = replace(self.stage.rules, policy=policy_of({**UNNAMED, **patch}))
        return replace(self, stage=replace(self.stage, rules=rules))

    def without(self, name: str) -> "People":
        """Give the same people under a policy that somebody left."""
        policy = self.stage.rules.policy
        people = {one: who for one, who in policy.people.items() if one != name}
        rules = replace(self.stage.rules, policy=replace(policy, people=people))
        return replace(self, stage=replace(self.stage, rules=rules))

    def suspend(self, name: str) -> None:
        """Suspend somebody on the host."""
        with self.host.write() as tx:
            suspensions.suspend(tx, PrincipalName(name), None)

    def at(self, **changed: Any) -> "People":
        """Give the same people at a site with other facts."""
        return replace(self, site=replace(self.site, **changed))

    def ledger(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Read what the ledger holds, oldest first."""
        from sqlalchemy import text

        rows = self.stage.read(lambda tx: list(tx.execute(text("SELECT * FROM ledger ORDER BY id"))))
        found = [{**row._mapping, "facts": json.loads(row.facts)} for row in rows]
        return [one for one in found if kind is None or one["kind"] == kind]

    def why(self) -> str:
        """Give why the last ceremony failed, as the ledger tells it."""
        return str(self.ledger("ceremony.failed")[-1]["facts"]["why"])

    def execute(self, statement: str, **values: Any) -> None:
        """Change a row past the product: time that went by, or somebody else's hand."""
        from sqlalchemy import text

        with self.fresh.open(Role.OWNER).write() as tx:
            tx.execute(text(statement), values)

    def pass_time(self, ms: int) -> None:
        """Let time go by for everything that people have: what is stored moves into the past."""
        for table, columns in TIMES.items():
            moved = ", ".join(f"{column} = {column} - :ms" for column in columns)
            self.execute(f"UPDATE {table} SET {moved}", ms=ms)


TIMES: Final[Mapping[str, tuple[str, ...]]] = {
    "passkeys": ("created_at", "rests_until", "used_at", "revoked_at"),
    "enrolment_codes": ("created_at", "expires_at", "used_at"),
    "ceremonies": ("created_at", "expires_at", "used_at"),
    "sessions": ("created_at", "expires_at", "revoked_at", "seen_at", "asserted_at"),
    "logins": ("created_at", "expires_at", "confirmed_at", "taken_at"),
}


def people_of(fresh: FreshDatabase) -> People:
    """Give the people of the tests' policy over a database."""
    stage = Stage(fresh.open(Role.WORKSPACE), rules_of(dict(UNNAMED)))
    return People(stage, fresh, fresh.open(Role.HOST))


def given_for(ask: Ask, option: str | None = "approve", text: str | None = None, **other: Any) -> Given:
    """Give an answer to an ask that echoes what was shown."""
    return replace(Given(ask.id, option, text, ask.binding), **other)


def got(result: T | Refused) -> T:
    """Insist that something was not refused."""
    assert not isinstance(result, Refused), result
    return result


def altered(credential: Mapping[str, Any], part: str, change: Callable[[bytes], bytes]) -> dict[str, Any]:
    """Give a credential with one part of its response changed."""
    raw = decode(credential["response"][part], 65_536)
    assert raw is not None
    return {**credential, "response": {**credential["response"], part: encode(change(raw))}}
