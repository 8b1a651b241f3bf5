"""A bound answer is asserted: its person signed, with a passkey of theirs, the statement of exactly this answer.

What is given here as `Asserted` is the only thing that `authority.settling` takes for one.

The steps of `finish_answer`, in this order: 1 the challenge, of this session, for answers · 2 the same answers in the
same order · 3 a challenge that was used stands only for what was stored with this very assertion · 4 the passkey that
was asked for, rested · 5 the assertion, with user verification, over the statements, by a passkey that still counts.
What the world says of the answer is left to settling.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority import challenges
from gitops_bot.authority.authenticators import Assertion, Unfit, encode, read_assertion
from gitops_bot.authority.proofs import evidence_of
from gitops_bot.authority.proofs import recheck as recheck
from gitops_bot.authority.rules import Rules, rule_of
from gitops_bot.authority.sessions import Person, human
from gitops_bot.authority.site import Site
from gitops_bot.authority.suspension import standing_policy, standing_rules
from gitops_bot.core.asks import Ask, AskKind, Binding, drift
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.statements import MOST_IN_BATCH, Asserted, Statement, batch_challenge, hash_text
from gitops_bot.core.texts import is_storable
from gitops_bot.core.verdicts import Answer, choose
from gitops_bot.policy.model import Risk
from gitops_bot.store import asks, ceremonies, evidence, passkeys
from gitops_bot.store.ceremonies import Begun
from gitops_bot.store.engine import Tx
from gitops_bot.store.passkeys import Passkey
from gitops_bot.store.person_tables import Ceremony, SessionMethod

_USED: Final = "This assertion was used; look at what became of the answer."


@dataclass(frozen=True, slots=True)
class Given:
    """One answer as its person gives it: the ask, the option, their words, and what was shown to them."""

    ask: str
    option: str | None
    text: str | None
    binding: Binding


@dataclass(frozen=True, slots=True)
class AnswerChallenge:
    """What the person is asked to sign: the ceremony's id, PublicKeyCredentialRequestOptionsJSON for the one passkey
    that the statements name, and the statements' documents in order."""

    id: str
    options: Mapping[str, Any]
    statements: tuple[Mapping[str, object], ...]


def begin_answer(
    tx: Tx, rules: Rules, site: Site, person: Person, given: Sequence[Given], passkey: str | None = None
) -> AnswerChallenge | Refused:
    """Challenge a person to sign one bound answer, or a batch of at most 20 of one verb that is not high-risk.

    The passkey is the one that is named, else the session's, else the last used of those that may answer. Whether the
    person may vote on the ask is *not* checked: settling does.
    """
    asked = _read(tx, rules, given)
    if isinstance(asked, Refused):
        return asked
    chosen = _choose(tx, rules, person, passkey)
    if isinstance(chosen, Refused):
        return chosen
    nonce = ceremonies.new_nonce()
    statements = [
        Statement(
            site.origin,
            site.name,
            person.principal.name,
            chosen.id,
            ask.id,
            ask.verb,
            one.option,
            hash_text(one.text),
            ask.binding.action_hash,
            ask.binding.policy,
            ask.binding.run_version,
            tx.now,
            nonce,
        )
        for ask, one in zip(asked, given, strict=True)
    ]
    challenge = _challenge(statements)
    documents = tuple(one.document() for one in statements)
    body = {"passkey": chosen.id, "statements": documents}
    challenges.begin(tx, Ceremony.VERDICT, challenge, body, person=person, nonce=nonce)
    return AnswerChallenge(nonce, challenges.request_options(site, challenge, [chosen]), documents)


def _challenge(statements: Sequence[Statement]) -> bytes:
    return statements[0].challenge() if len(statements) == 1 else batch_challenge(statements)


def _read(tx: Tx, rules: Rules, given: Sequence[Given]) -> list[Ask] | Refused:
    """Find the asks, and refuse what no assertion may be made over."""
    if not given:
        return refuse(Reason.EMPTY)
    if len(given) > MOST_IN_BATCH:
        return refuse(Reason.LIMIT_EXCEEDED, f"A batch has at most {MOST_IN_BATCH} answers.")
    found: list[Ask] = []
    for one in given:
        ask = _bound(tx, one)
        if isinstance(ask, Refused):
            return ask
        found.append(ask)
    return found if len(found) == 1 else _batch(tx, rules, found)


def _bound(tx: Tx, one: Given) -> Ask | Refused:
    ask = asks.get(tx, one.ask) if is_storable(one.ask) else None
    if ask is None:
        return refuse(Reason.NOT_FOUND)
    if ask.kind is AskKind.GATED:
        return refuse(Reason.GATED, ask=ask.id)
    if ask.kind is not AskKind.APPROVAL:
        return refuse(Reason.ASSERTION_INVALID, "A plain question is answered without an assertion.", ask=ask.id)
    if not is_storable(one.text or ""):
        return refuse(Reason.UNPRINTABLE, "The answer holds a NUL or half a surrogate pair.", ask=ask.id)
    choice = choose(ask, Answer(one.option, one.text, one.binding))
    if isinstance(choice, Refused):
        return choice
    return drift(ask.binding, one.binding) or ask


def _batch(tx: Tx, rules: Rules, found: list[Ask]) -> list[Ask] | Refused:
    if len({ask.id for ask in found}) < len(found):
        return refuse(Reason.BAD_PARAMS, "A batch names no ask twice.")
    if len({ask.verb for ask in found}) > 1:
        return refuse(Reason.BAD_PARAMS, "A batch is of one verb.")
    standing = standing_rules(tx, rules)
    for ask in found:
        rule = rule_of(standing, ask)
        if isinstance(rule, Refused):
            return rule
        if rule.risk is Risk.HIGH:
            return refuse(Reason.BAD_PARAMS, "A verb of high risk is answered one at a time.", ask=ask.id)
    return found


def _choose(tx: Tx, rules: Rules, person: Person, named: str | None) -> Passkey | Refused:
    if person.session.method is not SessionMethod.PASSKEY:
        return refuse(Reason.ASSERTION_REQUIRED, "Sign in with a passkey: a session by OpenID answers nothing bound.")
    principal = human(standing_policy(tx, rules.policy), person.principal.name)
    able = [] if principal is None else challenges.usable(tx, principal)
    if named is not None:
        able = [one for one in able if one.id == named]
    if not able:
        return refuse(Reason.ASSERTION_REQUIRED, "No passkey of yours counts here; ask for a code on the host.")
    awake = [one for one in able if one.rests_until <= tx.now]
    if not awake:
        return _resting(min(able, key=lambda one: one.rests_until))
    return max(awake, key=lambda one: (one.id == person.session.credential, one.used_at or 0, one.created_at))


def _resting(passkey: Passkey) -> Refused:
    return refuse(
        Reason.ASSERTION_INVALID,
        "This passkey is new and answers nothing bound yet; use an older one, or wait.",
        resting=True,
        until=passkey.rests_until,
    )


def finish_answer(
    tx: Tx,
    rules: Rules,
    site: Site,
    person: Person,
    ceremony: str,
    credential: Mapping[str, Any],
    given: Sequence[Given],
) -> tuple[Asserted, ...] | Refused:
    """Take the assertion over one answer, or a batch, once, and give what settling asks for, in the same order.

    The evidence of the vote is `Asserted.evidence`. The very same answers with the very same assertion may come again
    when all of them were stored: a reply was lost.
    """
    who = person.principal.name
    begun = challenges.find(tx, ceremony, Ceremony.VERDICT, person)  # 1
    if begun is None or person.session.method is not SessionMethod.PASSKEY:
        return challenges.failed(tx, Ceremony.VERDICT, "no such challenge here", who)
    statements = _statements(begun, given)  # 2
    if statements is None:
        ceremonies.use(tx, begun.id)
        return challenges.failed(tx, Ceremony.VERDICT, "other answers, or another order", who)
    assertion = read_assertion(credential)
    if isinstance(assertion, Unfit):
        ceremonies.use(tx, begun.id)
        return challenges.failed(tx, Ceremony.VERDICT, assertion.why, who)
    if begun.used_at is not None:
        return _again(tx, site, statements, assertion, who)  # 3
    taken = challenges.take(tx, begun.id, Ceremony.VERDICT, person)
    if isinstance(taken, Refused):
        return taken
    passkey = passkeys.get(tx, assertion.id)
    if passkey is not None and passkey.rests_until > tx.now:  # 4
        challenges.failed(tx, Ceremony.VERDICT, "a passkey that rests", who, passkey=passkey.id)
        return _resting(passkey)
    if assertion.id != begun.body["passkey"]:
        return challenges.failed(tx, Ceremony.VERDICT, "another passkey than the statement's", who)
    proven = challenges.prove(tx, standing_policy(tx, rules.policy), site, begun, credential, whose=who)  # 5
    if isinstance(proven, Refused):
        return proven
    return _asserted(site, statements, assertion, proven.passkey.public_key)


def _statements(begun: Begun, given: Sequence[Given]) -> list[Statement] | None:
    """Give the statements that were challenged where they are exactly those of these answers, in this order."""
    documents: Sequence[Mapping[str, Any]] = begun.body["statements"]
    if len(documents) != len(given) or not all(is_storable(one.text or "") for one in given):
        return None
    made = []
    for document, one in zip(documents, given, strict=True):
        said = (document["ask"], document["option"], document["text_hash"])
        bound = (document["action_hash"], document["policy"], document["run_version"])
        if said != (one.ask, one.option, hash_text(one.text)):
            return None
        if bound != (one.binding.action_hash, one.binding.policy, one.binding.run_version):
            return None
        made.append(Statement(**{**document, "issued_at": begun.created_at}))
    challenge = encode(_challenge(made))
    if challenge != begun.challenge:
        raise RuntimeError(f"ceremony {begun.id} was stored with another challenge than its statements'")
    return made


def _asserted(
    site: Site, statements: Sequence[Statement], assertion: Assertion, public_key: bytes
) -> tuple[Asserted, ...]:
    return tuple(
        Asserted(statement, evidence_of(site.rp_id, statements, place, assertion, public_key))
        for place, statement in enumerate(statements)
    )


def _again(
    tx: Tx, site: Site, statements: Sequence[Statement], assertion: Assertion, who: PrincipalName
) -> tuple[Asserted, ...] | Refused:
    passkey = passkeys.get(tx, assertion.id)
    if passkey is not None and passkey.principal == who and passkey.revoked_at is None:
        made = _asserted(site, statements, assertion, passkey.public_key)
        if all(one.evidence in evidence.of_answer(tx, one.statement.ask, who) for one in made):
            return made
    return challenges.failed(tx, Ceremony.VERDICT, "the challenge was used before", who, detail=_USED)
