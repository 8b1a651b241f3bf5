"""What one person may do with an ask now, and for each other act the one reason why not. It is shown, never relied on:
each act decides again in its own transaction.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gitops_bot.authority.queries import AskView
from gitops_bot.authority.rules import Rules
from gitops_bot.core.asks import APPROVE, DENY, Ask, AskKind, AskState, late
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.core.verdicts import Channel, Decision
from gitops_bot.policy.lookup import may_vote
from gitops_bot.policy.model import VerbRule
from gitops_bot.store import grants_read
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import GrantState


@dataclass(frozen=True, slots=True)
class Acts:
    """What a person may do, why not the rest, and for each option of the ask why they may not give it (None: may)."""

    can: frozenset[str]
    cannot: Mapping[str, Refused]
    options: Mapping[str, Refused | None]


def acts_of(tx: Tx, rules: Rules, rule: VerbRule | Refused, view: AskView, person: PrincipalName) -> Acts:
    """Judge every act of one person on one ask under the policy as it stands."""
    options = {option.id: _option(tx, rules, rule, view, person, option.id) for option in view.ask.options}
    answer = _answer(tx, rules, rule, view, person, options)
    reasons = {
        "answer": answer,
        "withdraw": _withdraw(tx, rules, view.ask, person),
        "delegate": _share(tx, rules, rule, view.ask, person),
        "snooze": _snooze(tx, rules, view.ask, person),
        "hold": _hold(tx, rules, view.ask, person),
        "claim": _share(tx, rules, rule, view.ask, person),
    }
    cannot = {act: reason for act, reason in reasons.items() if reason is not None}
    return Acts(frozenset(reasons) - frozenset(cannot), cannot, options)


def _answer(
    tx: Tx,
    rules: Rules,
    rule: VerbRule | Refused,
    view: AskView,
    person: PrincipalName,
    options: Mapping[str, Refused | None],
) -> Refused | None:
    """A question can be answered in words of one's own; otherwise one option that may be given is enough."""
    if view.ask.kind is AskKind.QUESTION or not options:
        return _vote(tx, rules, rule, view, person, Decision.ANSWER)
    return None if None in options.values() else next(iter(options.values()))


def _option(
    tx: Tx, rules: Rules, rule: VerbRule | Refused, view: AskView, person: PrincipalName, option: str
) -> Refused | None:
    if view.ask.kind is AskKind.QUESTION:
        decision = Decision.ANSWER
    else:
        decision = {APPROVE: Decision.APPROVE, DENY: Decision.DENY}.get(option, Decision.APPROVE)
    return _vote(tx, rules, rule, view, person, decision)


def _vote(
    tx: Tx, rules: Rules, rule: VerbRule | Refused, view: AskView, person: PrincipalName, decision: Decision
) -> Refused | None:
    ask = view.ask
    if isinstance(rule, Refused):
        return rule
    if ask.kind is AskKind.GATED:
        return refuse(Reason.GATED, verb=ask.verb)
    over = _over(tx, ask)
    if over is not None:
        return over
    refused = _allowed(rules, rule, ask, person, decision)
    if refused is not None:
        return refused
    own = [vote for vote in view.cast if vote.principal == person]
    if own and (decision is not Decision.DENY or own[-1].decision is Decision.DENY):
        back = own[-1].decision in (Decision.DENY, Decision.REVOKE) and decision is not Decision.DENY
        return refuse(Reason.WITHDRAWN_VOTE if back else Reason.DUPLICATE, voter=person)
    return None


def _allowed(rules: Rules, rule: VerbRule, ask: Ask, person: PrincipalName, decision: Decision) -> Refused | None:
    """What takes a look at the forge is looked at when they answer; until then nothing speaks against it."""
    known = rules.policy.people.get(person)
    allowed = may_vote(
        rules.policy,
        rule,
        None if known is None else known.principal,
        Channel.WORKSPACE,
        decision=decision,
        requester=ask.requester,
        agent_owner=ask.owner,
        candidates=ask.candidates,
    )
    return allowed if isinstance(allowed, Refused) else None


def _over(tx: Tx, ask: Ask) -> Refused | None:
    if ask.state is not AskState.OPEN:
        return late(ask)
    if ask.expires_at is not None and ask.expires_at <= tx.now:
        return refuse(Reason.EXPIRED, at=ask.expires_at)
    return None


def _stands(rules: Rules, person: PrincipalName) -> Refused | None:
    known = rules.policy.people.get(person)
    if known is None:
        return refuse(Reason.UNKNOWN_PRINCIPAL, voter=person)
    if known.principal.kind is not PrincipalKind.HUMAN:
        return refuse(Reason.SERVICE_IDENTITY, voter=person)
    return refuse(Reason.SUSPENDED, voter=person) if known.principal.suspended else None


def _withdraw(tx: Tx, rules: Rules, ask: Ask, person: PrincipalName) -> Refused | None:
    refused = _stands(rules, person)
    if refused is None and person not in (ask.requester, ask.owner):
        refused = refuse(Reason.NOT_AUTHORISED, "Only who asked, or the owner of the asking agent, withdraws an ask.")
    return refused or _over(tx, ask)


def _share(tx: Tx, rules: Rules, rule: VerbRule | Refused, ask: Ask, person: PrincipalName) -> Refused | None:
    """Who may answer an ask may claim it or hand it on; a denial is the least that one may give."""
    refused = _over(tx, ask) or _stands(rules, person)
    if refused is not None:
        return refused
    if isinstance(rule, Refused):
        return rule
    if ask.kind is AskKind.GATED:
        return refuse(Reason.GATED, verb=ask.verb)
    decision = Decision.ANSWER if ask.kind is AskKind.QUESTION else Decision.DENY
    return _allowed(rules, rule, ask, person, decision)


def _snooze(tx: Tx, rules: Rules, ask: Ask, person: PrincipalName) -> Refused | None:
    return _stands(rules, person) or _over(tx, ask)


def _hold(tx: Tx, rules: Rules, ask: Ask, person: PrincipalName) -> Refused | None:
    refused = _stands(rules, person)
    if refused is not None:
        return refused
    if ask.kind is not AskKind.GATED:
        return refuse(Reason.BAD_PARAMS, "Only a gated ask or its grant is held; this one can be denied.")
    grant = grants_read.of_ask(tx, ask.id)
    if grant is not None:
        if grant.state is GrantState.MINTED:
            return None
        return refuse(Reason.SPENT) if grant.state is GrantState.SPENT else refuse(Reason.LAPSED)
    return _over(tx, ask)
