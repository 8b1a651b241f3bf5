"""What a person does with an ask beside answering it: claim, hand on, put off, hold, withdraw. None of it approves.

Each is one decision in the caller's transaction, judged by the policy as it stands there, and one ledger entry; done
again it changes nothing and writes nothing. A refusal is written to the ledger too; the caller commits it. That the
person is who they say is *not* checked here: their session was.
"""

from dataclasses import dataclass, replace
from typing import Final

from gitops_bot.authority.closing import Ended, expire
from gitops_bot.authority.closing import withdraw as withdraw_ask
from gitops_bot.authority.rules import Rules, rule_of
from gitops_bot.authority.suspension import standing_rules
from gitops_bot.core.asks import Ask, AskKind, AskState, is_blank, late
from gitops_bot.core.errors import Fact, Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.core.texts import is_storable, storable
from gitops_bot.core.verdicts import Channel, Decision
from gitops_bot.policy.lookup import may_vote
from gitops_bot.store import asks, grants_read, holds, ledger, notices, snoozes
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import GrantState

DAY: Final = 86_400_000
MOST_SNOOZE: Final = 30 * DAY
MOST_SNOOZED: Final = 1_000
"""Of one person at a time; what is put off is read by its own walk."""
MOST_HOLD: Final = holds.MOST
LEAST_HOLD: Final = 60_000
MOST_REASON: Final = 500


@dataclass(frozen=True, slots=True)
class Handled:
    """The ask after it; `repeated` when it was so before. `until` in ms: of a snooze (None: taken up again) or hold."""

    ask: Ask
    repeated: bool = False
    until: int | None = None


def claim(tx: Tx, rules: Rules, person: PrincipalName, ask_id: str) -> Handled | Refused:
    """Say that somebody takes care of an open ask that they may answer; whoever had it loses it, and the history keeps
    both names. It keeps nobody else from answering."""
    return _assign(tx, rules, person, ask_id, person, EventKind.ASK_CLAIMED)


def release(tx: Tx, rules: Rules, person: PrincipalName, ask_id: str) -> Handled | Refused:
    """Give back an open ask that one takes care of; another's stays theirs."""
    standing = standing_rules(tx, rules)
    ask = _found(tx, ask_id)
    if isinstance(ask, Refused):
        return ask
    refused = _over(ask) or _stands(standing, person)
    if refused is None and ask.assignee not in (None, person):
        refused = refuse(Reason.NOT_AUTHORISED, "Somebody else takes care of it; claim it instead.", by=ask.assignee)
    if refused is not None:
        return _refused(tx, ask, person, EventKind.ASK_CLAIMED, refused)
    if ask.assignee is None:
        return Handled(ask, repeated=True)
    asks.assign(tx, ask.id, None)
    _note(tx, ask, person, EventKind.ASK_CLAIMED, {"from": person, "to": None})
    return Handled(replace(ask, assignee=None))


def delegate(tx: Tx, rules: Rules, person: PrincipalName, ask_id: str, to: PrincipalName) -> Handled | Refused:
    """Hand an open ask that one may answer on to another who may answer it too, and tell them.

    That the person confirmed it just now is *not* checked here.
    """
    return _assign(tx, rules, person, ask_id, to, EventKind.ASK_DELEGATED)


def _assign(
    tx: Tx, rules: Rules, person: PrincipalName, ask_id: str, to: PrincipalName, kind: EventKind
) -> Handled | Refused:
    standing = standing_rules(tx, rules)
    ask = _found(tx, ask_id)
    if isinstance(ask, Refused):
        return ask
    refused = _over(ask) or _may(standing, ask, person) or (_may(standing, ask, to) if to != person else None)
    if refused is not None:
        return _refused(tx, ask, person, kind, refused)
    if ask.assignee == to:
        return Handled(ask, repeated=True)
    if not asks.assign(tx, ask.id, to):
        return _refused(tx, ask, person, kind, late(ask))
    _note(tx, ask, person, kind, {"from": ask.assignee, "to": to})
    if to != person:
        notices.tell(tx, [to], "delegated", f"{person} handed ask {ask.id} on to you.")
    return Handled(replace(ask, assignee=to))


def snooze(tx: Tx, rules: Rules, person: PrincipalName, ask_id: str, until: int | None) -> Handled | Refused:
    """Put an open ask off until a time (ms, at most 30 days ahead) for this person alone; None takes it up again.

    Nothing else changes: it expires as it would, and others see it.
    """
    standing = standing_rules(tx, rules)
    ask = _found(tx, ask_id)
    if isinstance(ask, Refused):
        return ask
    refused = _stands(standing, person) or _over(ask) or _too_far(tx, person, until)
    if refused is not None:
        return _refused(tx, ask, person, EventKind.ASK_SNOOZED, refused)
    if snoozes.until(tx, ask.id, person) == until:
        return Handled(ask, repeated=True, until=until)
    if until is None:
        snoozes.take_up(tx, ask.id, person)
    else:
        snoozes.put_off(tx, ask.id, person, until)
    _note(tx, ask, person, EventKind.ASK_SNOOZED, {"until": until})
    return Handled(ask, until=until)


def _too_far(tx: Tx, person: PrincipalName, until: int | None) -> Refused | None:
    if until is None:
        return None
    if until <= tx.now:
        return refuse(Reason.BAD_PARAMS, "That time is over.", until=until, now=tx.now)
    if until > tx.now + MOST_SNOOZE:
        return refuse(Reason.LIMIT_EXCEEDED, "An ask is put off for at most 30 days.", most=MOST_SNOOZE)
    if snoozes.count(tx, person) >= MOST_SNOOZED:
        return refuse(Reason.LIMIT_EXCEEDED, f"At most {MOST_SNOOZED} asks are put off at once.", most=MOST_SNOOZED)
    return None


def hold(tx: Tx, rules: Rules, person: PrincipalName, ask_id: str, lasts: int, reason: str | None) -> Handled | Refused:
    """Stop a gated ask, or the grant that it got, for so many ms (at most 72 hours). Any person of the policy may.

    A hold prolongs nothing: what lapses under it is asked again (signed-approvals, Stopping is easy). Nothing ends one
    early; one of this person's own that ends less than a minute before this one would is this one.
    """
    standing = standing_rules(tx, rules)
    ask = _found(tx, ask_id)
    if isinstance(ask, Refused):
        return ask
    refused = _stands(standing, person) or _unholdable(tx, ask, lasts, reason)
    if refused is not None:
        return _refused(tx, ask, person, EventKind.ASK_HELD, refused)
    own = [one.until for one in holds.of_ask(tx, ask.id) if one.principal == person]
    if own and max(own) > tx.now + lasts - LEAST_HOLD:
        return Handled(ask, repeated=True, until=max(own))
    said = None if reason is None or is_blank(reason) else reason
    placed = holds.place(tx, ask.id, person, lasts=lasts, reason=said)
    _note(tx, ask, person, EventKind.ASK_HELD, {"until": placed.until, "why": placed.reason})
    return Handled(ask, until=placed.until)


def _unholdable(tx: Tx, ask: Ask, lasts: int, reason: str | None) -> Refused | None:
    if ask.kind is not AskKind.GATED:
        return refuse(Reason.BAD_PARAMS, "Only a gated ask or its grant is held; this one can be denied.")
    if not LEAST_HOLD <= lasts <= MOST_HOLD:
        return refuse(Reason.LIMIT_EXCEEDED, "A hold lasts from one minute to 72 hours.", most=MOST_HOLD)
    unwritable = _unwritable(reason)
    if unwritable is not None:
        return unwritable
    grant = grants_read.of_ask(tx, ask.id)
    match None if grant is None else grant.state:
        case None:
            return _over(ask)
        case GrantState.MINTED:
            return None
        case GrantState.SPENT:
            return refuse(Reason.SPENT, ask=ask.id)
        case _:
            return refuse(Reason.LAPSED, ask=ask.id)


def withdraw(tx: Tx, rules: Rules, person: PrincipalName, ask_id: str, reason: str) -> Handled | Refused:
    """Withdraw an ask, gated ones too, as its requester or as the owner of the agent that asked. It approves nothing,
    and withdrawn is not denied."""
    standing = standing_rules(tx, rules)
    ask = _found(tx, ask_id)
    if isinstance(ask, Refused):
        return ask
    refused = _stands(standing, person) or _unwritable(reason)
    if refused is None and person not in (ask.requester, ask.owner):
        refused = refuse(Reason.NOT_AUTHORISED, "Only who asked, or the owner of the asking agent, withdraws an ask.")
    if refused is not None:
        return _refused(tx, ask, person, EventKind.ASK_WITHDRAWN, refused)
    said = f"withdrawn by {person}" if is_blank(reason) else reason
    ended = withdraw_ask(tx, ask.id, person, said)
    if isinstance(ended, Refused):
        return _refused(tx, ask, person, EventKind.ASK_WITHDRAWN, ended)
    return Handled(ended.ask, ended.repeated)


def _found(tx: Tx, ask_id: str) -> Ask | Refused:
    """Lock an ask; one whose time is over ends here, as it does at an answer."""
    ask = asks.get(tx, ask_id, lock=True)
    if ask is None:
        return refuse(Reason.NOT_FOUND, ask=storable(ask_id)[:64])
    if ask.state is AskState.OPEN and ask.expires_at is not None and ask.expires_at <= tx.now:
        ended = expire(tx, ask.id)
        return ended.ask if isinstance(ended, Ended) else ask
    return ask


def _over(ask: Ask) -> Refused | None:
    return None if ask.state is AskState.OPEN else late(ask)


def _stands(rules: Rules, person: PrincipalName) -> Refused | None:
    """Refuse whoever is no person of the policy now."""
    known = rules.policy.people.get(person)
    if known is None:
        return refuse(Reason.UNKNOWN_PRINCIPAL, voter=storable(person)[:64])
    if known.principal.kind is not PrincipalKind.HUMAN:
        return refuse(Reason.SERVICE_IDENTITY, voter=person)
    return refuse(Reason.SUSPENDED, voter=person) if known.principal.suspended else None


def _may(rules: Rules, ask: Ask, person: PrincipalName) -> Refused | None:
    """Refuse whoever could neither answer the ask at the workspace nor deny it; what the forge has to be asked for is
    asked at the answer."""
    refused = _stands(rules, person)
    if refused is not None:
        return refused
    rule = rule_of(rules, ask)
    if isinstance(rule, Refused):
        return rule
    if ask.kind is AskKind.GATED:
        return refuse(Reason.GATED, verb=ask.verb)
    allowed = may_vote(
        rules.policy,
        rule,
        rules.policy.people[person].principal,
        Channel.WORKSPACE,
        decision=Decision.ANSWER if rule.question else Decision.DENY,
        requester=ask.requester,
        agent_owner=ask.owner,
        candidates=ask.candidates,
    )
    return allowed if isinstance(allowed, Refused) else None


def _unwritable(reason: str | None) -> Refused | None:
    if reason is None:
        return None
    if len(reason) > MOST_REASON:
        return refuse(Reason.LIMIT_EXCEEDED, f"A reason has at most {MOST_REASON} characters.", most=MOST_REASON)
    if not is_storable(reason):
        return refuse(Reason.UNPRINTABLE, "The reason holds a NUL or half a surrogate pair.")
    return None


def _note(tx: Tx, ask: Ask, person: PrincipalName, kind: EventKind, facts: dict[str, Fact]) -> None:
    entry = Entry(
        kind,
        tx.now,
        ask=ask.id,
        run=ask.run,
        agent=ask.agent,
        principal=person,
        channel=Channel.WORKSPACE.value,
        facts=facts,
    )
    ledger.append(tx, entry)


def _refused(tx: Tx, ask: Ask, person: PrincipalName, kind: EventKind, refused: Refused) -> Refused:
    """Write to the ledger what was refused to whom; gives the refusal."""
    entry = Entry(
        EventKind.ACT_REFUSED,
        tx.now,
        ask=ask.id,
        run=ask.run,
        agent=ask.agent,
        principal=storable(person)[:64],
        channel=Channel.WORKSPACE.value,
        reason=refused.reason.value,
        facts={"act": kind.value, **refused.facts},
    )
    ledger.append(tx, entry)
    return refused
