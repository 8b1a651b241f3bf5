"""What a person does with an ask, for the routes: each function is one transaction that asks for the person again.

A refusal is committed, for it is in the ledger, and raised after that. Bound answers are settled with the assertion in
the transaction that uses up its challenge; an answer without one is settling's to refuse.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gitops_bot.api.person.grammar import Assertion, GivenBody
from gitops_bot.authority import assertions, batches, handling, settling
from gitops_bot.authority.assertions import AnswerChallenge, Given
from gitops_bot.authority.batches import Answered, Item
from gitops_bot.authority.handling import Handled
from gitops_bot.authority.queries import AskView, view
from gitops_bot.authority.rules import rule_of
from gitops_bot.authority.sessions import Person
from gitops_bot.authority.settling import Counted, Revoked, Settled, Voice
from gitops_bot.authority.suspension import standing_rules
from gitops_bot.authority.voters import NOTHING, Held
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.canonical import canonical
from gitops_bot.core.errors import Reason, Refusal, Refused, Unavailable, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.statements import Asserted
from gitops_bot.core.verdicts import Answer, Channel, Decision
from gitops_bot.policy.lookup import NeedsPermission, may_vote
from gitops_bot.policy.model import Voters
from gitops_bot.store import asks
from gitops_bot.store.engine import Tx
from workspace.auth.people import again, confirmed

SESSION_EVIDENCE: Final = 1
"""Version of what a plain answer keeps of how its person was signed in."""

Result = Settled | Counted | Revoked


def begin(services: Services, person: Person, answers: Sequence[tuple[str, GivenBody]]) -> AnswerChallenge:
    """Challenge the person to assert one bound answer, or a batch, with a passkey.

    Raises:
        Refusal: the answer could not be taken so.
    """

    def work(tx: Tx) -> AnswerChallenge | Refused:
        given = _bound(answers)
        if isinstance(given, Refused):
            return given
        return assertions.begin_answer(tx, services.rules, services.site, again(tx, person), given)

    return services.decide(work)


def answer(
    services: Services, person: Person, ask_id: str, given: GivenBody, assertion: Assertion | None = None
) -> tuple[AskView, Result]:
    """Answer an ask: a plain question as the person is signed in, a bound one with an assertion over it. Gives the ask
    as it is after it, and what became of the answer.

    Raises:
        Refusal: the answer is no; it is in the ledger.
        Unavailable: the policy asks for a permission on the forge that cannot be read now.
    """
    held = _held(services, person, [ask_id])

    def work(tx: Tx) -> Result | Refused:
        now = again(tx, person)
        asserted: tuple[Asserted | None, ...] | Refused = (None,)
        if assertion is not None:
            asserted = _asserted(tx, services, now, [(ask_id, given)], assertion)
        if isinstance(asserted, Refused):
            return asserted
        voice = _voice(now, given, asserted[0], held.get(ask_id, NOTHING))
        said = Answer(given.option, given.text, given.binding)
        result = settling.answer(tx, services.rules, ask_id, said, voice)
        if isinstance(result, NeedsPermission):
            raise Unavailable("the policy moved while a permission on the forge was read")
        return result

    result = services.write(work)
    if isinstance(result, Refused):
        raise Refusal(result)
    return show(services, ask_id), result


def answer_batch(
    services: Services, person: Person, answers: Sequence[tuple[str, GivenBody]], assertion: Assertion | None
) -> tuple[Answered, ...]:
    """Give a batch of bound answers under one assertion over their list; each has its own result.

    Raises:
        Refusal: the batch as one is none, or is not asserted.
        Unavailable: as `answer`.
    """
    held = _held(services, person, [ask_id for ask_id, _ in answers])

    def work(tx: Tx) -> tuple[Answered, ...] | Refused:
        now = again(tx, person)
        if assertion is None:
            return refuse(Reason.ASSERTION_REQUIRED, "A batch is asserted as one.")
        asserted = _asserted(tx, services, now, answers, assertion)
        if isinstance(asserted, Refused):
            return asserted
        items = [
            Item(
                ask_id,
                Answer(given.option, given.text, given.binding),
                _voice(now, given, one, held.get(ask_id, NOTHING)),
            )
            for (ask_id, given), one in zip(answers, asserted, strict=True)
        ]
        return batches.answer_batch(tx, services.rules, items)

    return services.decide(work)


def claim(services: Services, person: Person, ask_id: str, *, release: bool = False) -> AskView:
    """Take care of an ask from now on, or give it back.

    Raises:
        Refusal: the answer is no; it is in the ledger.
    """
    act = handling.release if release else handling.claim
    return _handled(services, person, ask_id, lambda tx, who: act(tx, services.rules, who, ask_id))


def delegate(services: Services, person: Person, ask_id: str, to: str) -> AskView:
    """Hand an ask on to another person, confirmed with a passkey just now.

    Raises:
        Refusal: as `claim`; or `assertion_required` with the act to confirm.
    """

    def work(tx: Tx) -> Handled | Refused:
        now = again(tx, person)
        fresh = confirmed(tx, now, {"act": "delegate", "ask": ask_id, "to": to})
        if isinstance(fresh, Refused):
            return fresh
        return handling.delegate(tx, services.rules, now.principal.name, ask_id, PrincipalName(to))

    services.decide(work)
    return show(services, ask_id)


def snooze(services: Services, person: Person, ask_id: str, lasts: int | None) -> tuple[AskView, int | None]:
    """Put an ask off for so many ms, for this person alone; None takes it up again. Gives until when (ms).

    Raises:
        Refusal: as `claim`.
    """

    def work(tx: Tx) -> Handled | Refused:
        until = None if lasts is None else tx.now + lasts
        return handling.snooze(tx, services.rules, again(tx, person).principal.name, ask_id, until)

    done = services.decide(work)
    return show(services, ask_id), done.until


def hold(services: Services, person: Person, ask_id: str, lasts: int, reason: str) -> tuple[AskView, int | None]:
    """Stop a gated ask or its grant for so many ms. Gives until when (ms).

    Raises:
        Refusal: as `claim`.
    """

    def work(tx: Tx) -> Handled | Refused:
        return handling.hold(tx, services.rules, again(tx, person).principal.name, ask_id, lasts, reason)

    done = services.decide(work)
    return show(services, ask_id), done.until


def withdraw(services: Services, person: Person, ask_id: str, reason: str) -> AskView:
    """Withdraw an ask of an agent that is the person's; gated ones too. It approves nothing.

    Raises:
        Refusal: as `claim`.
    """
    return _handled(
        services, person, ask_id, lambda tx, who: handling.withdraw(tx, services.rules, who, ask_id, reason)
    )


def show(services: Services, ask_id: str) -> AskView:
    """Read an ask as it is now.

    Raises:
        Refusal: there is none of that id.
    """
    with services.database.read() as tx:
        found = view(tx, services.rules, ask_id)
    if found is None:
        raise Refusal(refuse(Reason.NOT_FOUND))
    return found


def _handled(
    services: Services, person: Person, ask_id: str, act: Callable[[Tx, PrincipalName], Handled | Refused]
) -> AskView:
    services.decide(lambda tx: act(tx, again(tx, person).principal.name))
    return show(services, ask_id)


def _bound(answers: Sequence[tuple[str, GivenBody]]) -> list[Given] | Refused:
    """Give what is asserted; what does not echo all that binds it cannot be."""
    given = []
    for ask_id, one in answers:
        if one.binding is None:
            return refuse(Reason.UNBINDABLE, ask=ask_id)
        given.append(Given(ask_id, one.option, one.text, one.binding))
    return given


def _asserted(
    tx: Tx, services: Services, person: Person, answers: Sequence[tuple[str, GivenBody]], assertion: Assertion
) -> tuple[Asserted, ...] | Refused:
    given = _bound(answers)
    if isinstance(given, Refused):
        return given
    return assertions.finish_answer(
        tx, services.rules, services.site, person, assertion.ceremony, assertion.credential, given
    )


def _voice(person: Person, given: GivenBody, asserted: Asserted | None, held: Held) -> Voice:
    return Voice(
        person.principal,
        Channel.WORKSPACE,
        _evidence(person) if asserted is None else asserted.evidence,
        permission=held.permission,
        in_team=held.in_team,
        idempotency_key=given.idempotency_key,
        asserted=asserted,
    )


def _evidence(person: Person) -> bytes:
    """Say how the person was signed in; nothing of it opens a session, and nothing of it was said by the browser."""
    session = person.session
    facts = {
        "v": SESSION_EVIDENCE,
        "session": session.id,
        "kind": session.kind.value,
        "method": session.method.value,
        "credential": session.credential,
        "opened_at": session.created_at,
    }
    return canonical(facts)


def _held(services: Services, person: Person, these: Sequence[str]) -> Mapping[str, Held]:
    """Read on the forge what the policy asks it of this person for some asks, before any transaction that writes.

    Raises:
        Unavailable: the forge could not tell, or this workspace has none to ask; unknown is not no (I14).
    """
    rules = services.rules
    if not any(_floored(rule.voters) for verb in rules.policy.verbs.values() for rule in verb.every_tier):
        return {}
    needed: dict[str, NeedsPermission] = {}
    with services.database.read() as tx:
        standing = standing_rules(tx, rules)
        for ask_id in these:
            ask = asks.get(tx, ask_id)
            rule = None if ask is None else rule_of(standing, ask)
            if ask is None or rule is None or isinstance(rule, Refused):
                continue
            allowed = may_vote(
                standing.policy,
                rule,
                person.principal,
                Channel.WORKSPACE,
                decision=Decision.DENY,
                requester=ask.requester,
                agent_owner=ask.owner,
                candidates=ask.candidates,
            )
            if isinstance(allowed, NeedsPermission):
                needed[ask_id] = allowed
    if needed and services.floors is None:
        raise Unavailable("the policy asks for a permission on the forge, and this workspace cannot ask for it")
    read = {need: services.floors.read(need) for need in set(needed.values())} if services.floors is not None else {}
    return {ask_id: read[need] for ask_id, need in needed.items()}


def _floored(voters: Voters) -> bool:
    return voters.github_permission is not None or voters.team is not None
