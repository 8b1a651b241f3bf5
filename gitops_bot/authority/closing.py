"""Asks that end without an answer: withdrawn, expired, superseded; and their way back from the backlog.

None of these approves anything (I5). What was decided by nobody goes to the backlog, where a person may ask it anew.
"""

from dataclasses import dataclass, replace
from typing import Final

from gitops_bot.authority.asking import Opened, Waiter, write
from gitops_bot.authority.ending import End, end
from gitops_bot.authority.rules import Rules, rule_of
from gitops_bot.core.asks import Ask, AskId, AskKind, AskState, Binding, late
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.texts import storable
from gitops_bot.store import agents, asks, ledger, threads, turns
from gitops_bot.store.engine import Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.states import AgentKind, AgentState, RunState, WaiterKind

MAX_REASON: Final = 500


@dataclass(frozen=True, slots=True)
class Ended:
    """The ask ended so; `repeated` when it had ended so before."""

    ask: Ask
    repeated: bool = False


def withdraw(tx: Tx, ask_id: str, by: str, reason: str, *, to_backlog: bool = False) -> Ended | Refused:
    """Withdraw an open ask. That `by` is its requester or owner is *not* checked. Withdrawn is not denied."""
    ask = asks.get(tx, ask_id, lock=True)
    if ask is None:
        return refuse(Reason.NOT_FOUND, ask=storable(ask_id)[:64])
    if ask.state is AskState.WITHDRAWN:
        return Ended(ask, repeated=True)
    if not end(tx, ask, End(AskState.WITHDRAWN, by=by, reason=storable(reason)[:MAX_REASON])):
        return late(ask)
    if to_backlog:
        threads.enter_backlog(tx, ask.id, "withdrawn")
    return Ended(_ended(tx, ask))


def expire(tx: Tx, ask_id: str) -> Ended | Refused:
    """Expire an ask whose time is over: nothing is approved, a fleet agent pauses, the decision goes to the backlog."""
    ask = asks.get(tx, ask_id, lock=True)
    if ask is None:
        return refuse(Reason.NOT_FOUND, ask=storable(ask_id)[:64])
    if ask.state is AskState.OPEN and (ask.expires_at is None or ask.expires_at > tx.now):
        return refuse(Reason.ALREADY_SETTLED, "It is open and its time is not over.", expires_at=ask.expires_at)
    if not end(tx, ask, End(AskState.EXPIRED, by=None, reason="expired")):
        return late(ask)
    threads.enter_backlog(tx, ask.id, "expired")
    report = f"Ask {ask.id} expired without a decision; nothing was approved."
    threads.post(tx, ask.agent, "report", report, run=ask.run, ask=ask.id)
    agent = agents.get(tx, ask.agent)
    if agent is not None and agent.kind is AgentKind.AGENT and agent.state is AgentState.ACTIVE:
        agents.set_state(tx, agent.id, AgentState.PAUSED, f"ask {ask.id} expired")
        ledger.append(tx, Entry(EventKind.AGENT_PAUSED, tx.now, ask=ask.id, agent=agent.id, reason="expired"))
    return Ended(_ended(tx, ask))


def _ended(tx: Tx, ask: Ask) -> Ask:
    found = asks.get(tx, ask.id)
    assert found is not None
    return found


def supersede(tx: Tx, rules: Rules, ask_id: str, reason: Reason) -> Opened | Refused:
    """Replace an open ask by one with a fresh binding, in one transaction; waiters move with it.

    `reason` is the stale code of what moved. The successor keeps kind, action, options and candidates; its expiry is
    counted anew.
    """
    ask = asks.get(tx, ask_id, lock=True)
    if ask is None:
        return refuse(Reason.NOT_FOUND, ask=storable(ask_id)[:64])
    if ask.state is AskState.OPEN and ask.expires_at is not None and ask.expires_at <= tx.now:
        ended = expire(tx, ask.id)
        return late(ended.ask) if isinstance(ended, Ended) else ended
    if ask.state is not AskState.OPEN:
        return late(ask)
    fresh = _renewed(tx, rules, ask)
    if isinstance(fresh, Refused):
        return fresh
    if not end(tx, ask, End(AskState.SUPERSEDED, by=None, reason=reason.value, successor=fresh)):
        return late(ask)
    return Opened(fresh, repeated=False)


def carry_over(tx: Tx, rules: Rules, ask_id: str) -> Opened | None:
    """Ask anew under the policy in force what an open ask of an older one asked. Where that policy would not ask it
    any more, it is withdrawn to the backlog instead, and there is None; so there is for one that ended."""
    opened = supersede(tx, rules, ask_id, Reason.STALE_POLICY)
    if isinstance(opened, Opened):
        return opened
    withdraw(tx, ask_id, "broker", f"{Reason.STALE_POLICY.value}: {opened.sentence}", to_backlog=True)
    return None


def renew(tx: Tx, rules: Rules, ask: Ask) -> Opened | Refused:
    """Open a new ask for the same thing as an ended one, without a waiter; the caller adds who waits."""
    turns.take(tx, f"asks:{ask.agent}")
    fresh = _renewed(tx, rules, ask)
    if isinstance(fresh, Refused):
        return fresh
    standing = _asked_already(tx, fresh)
    if standing is not None:
        return standing
    write(tx, fresh, None, supersedes=ask.id)
    return Opened(fresh, repeated=False)


def _asked_already(tx: Tx, fresh: Ask) -> Refused | None:
    if fresh.kind is AskKind.QUESTION:
        return None
    standing = asks.open_for_action(tx, fresh.agent, fresh.binding.action_hash)
    if standing is None:
        return None
    return refuse(Reason.ALREADY_SETTLED, "The same action is being asked already.", ask=standing)


def _renewed(tx: Tx, rules: Rules, ask: Ask) -> Ask | Refused:
    rule = rule_of(rules, ask)
    if isinstance(rule, Refused):
        return rule
    run = agents.run(tx, ask.run, lock=True)
    assert run is not None
    kind = ask.kind
    if kind is not AskKind.QUESTION:
        kind = AskKind.GATED if rule.gated else AskKind.APPROVAL
    return replace(
        ask,
        id=AskId(new_id(tx.now)),
        kind=kind,
        state=AskState.OPEN,
        binding=Binding(ask.binding.action_hash, rules.policy.digest, run.version),
        opened_at=tx.now,
        expires_at=tx.now + rule.expires,
        ended_at=None,
        ended_by=None,
        end_reason=None,
        superseded_by=None,
        snoozed_until=None,
        due_at=None,
    )


def reopen(tx: Tx, rules: Rules, ask_id: str, by: PrincipalName) -> Opened | Refused:
    """Ask a decision of the backlog anew, with a fresh binding and a run of its own that waits for it.

    That `by` may do so is *not* checked. A refusal has written nothing.
    """
    found = asks.get(tx, ask_id)
    if found is None:
        return refuse(Reason.NOT_FOUND, ask=storable(ask_id)[:64])
    turns.take(tx, f"asks:{found.agent}")
    ask = asks.get(tx, ask_id, lock=True)
    assert ask is not None
    if ask.state is AskState.OPEN:
        return refuse(Reason.ALREADY_SETTLED, "It is open; answer it.", ask=ask.id)
    # Being in the backlog decides, not the state: what moved too often was approved and is open to nobody.
    if not threads.is_in_backlog(tx, ask.id):
        if ask.state in (AskState.EXPIRED, AskState.WITHDRAWN):
            return refuse(Reason.NOT_FOUND, "It is not in the backlog, or was reopened before.", ask=ask.id)
        return late(ask)
    fresh = _renewed(tx, rules, ask)
    if isinstance(fresh, Refused):
        return fresh
    standing = _asked_already(tx, fresh)
    if standing is not None:
        return standing
    agent = agents.get(tx, ask.agent)
    # The answer has a way back (I7): an agent of the fleet is woken by it, anybody else asks for it.
    is_fleet = agent is not None and agent.kind is AgentKind.AGENT
    run = agents.add_run(tx, ask.agent, "agent" if is_fleet else "request", RunState.PARKED)
    fresh = replace(fresh, run=run.id, binding=replace(fresh.binding, run_version=run.version))
    write(tx, fresh, Waiter(WaiterKind.RUN if is_fleet else WaiterKind.REQUEST, run.id), supersedes=ask.id)
    if not threads.mark_reopened(tx, ask.id, fresh.id, by):
        raise RuntimeError(f"backlog entry {ask.id} was reopened under its own lock")
    ledger.append(tx, Entry(EventKind.ASK_REOPENED, tx.now, ask=ask.id, principal=by, facts={"successor": fresh.id}))
    return Opened(fresh, repeated=False)
