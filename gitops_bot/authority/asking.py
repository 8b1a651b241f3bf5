"""An agent's wish becomes one open ask row, or a refusal that says why; nothing else is decided here.

The binding is fixed at opening: the action's hash, the policy's digest, the run's version (I4). Whoever is woken by the
end is written beside it in the same transaction (I7).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gitops_bot.authority.rules import Rules
from gitops_bot.core.asks import (
    APPROVAL_OPTIONS,
    MAX_OPTIONS,
    MAX_TEXT,
    Ask,
    AskId,
    AskKind,
    AskState,
    Binding,
    Option,
    is_blank,
    number_options,
)
from gitops_bot.core.canonical import action_bytes, action_hash, canonical, digest, question_hash
from gitops_bot.core.errors import Malformed, Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.lookup import lookup, lookup_question
from gitops_bot.policy.model import VerbRule
from gitops_bot.store import agents, asks, due, ledger, waiters
from gitops_bot.store.engine import Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.states import AgentState, WaiterKind

EXPIRE_DUTY: Final = "expire"
MAX_KEY: Final = 200


@dataclass(frozen=True, slots=True)
class Waiter:
    """What is woken when the ask ends."""

    kind: WaiterKind
    id: str


@dataclass(frozen=True, slots=True)
class Wish:
    """What an authenticated agent asks for. A question has `text` and perhaps option labels; a verb has params.

    `agent` and `run` come from the credential, never from the body. `waiter` None means that nothing could be woken.
    """

    agent: agents.Agent
    run: agents.Run
    waiter: Waiter | None
    verb: str | None = None
    params: Mapping[str, Any] | None = None
    text: str = ""
    labels: Sequence[str] = ()
    why: str = ""
    candidates: tuple[PrincipalName, ...] = ()
    expires_in: int | None = None
    due_at: int | None = None
    idempotency_key: str | None = None
    surface: Mapping[str, str] = field(default_factory=dict)

    def request_hash(self) -> str:
        """Hash what was asked, so that one idempotency key cannot stand for two wishes."""
        body = {
            "verb": self.verb,
            "params": self.params,
            "text": self.text,
            "labels": list(self.labels),
            "candidates": list(self.candidates),
        }
        return digest("gitops-bot/wish/v1", canonical(body))


@dataclass(frozen=True, slots=True)
class Opened:
    """An open ask: a new one, or with `repeated` the one that was there."""

    ask: Ask
    repeated: bool


def open_ask(tx: Tx, rules: Rules, wish: Wish) -> Opened | Refused:
    """Open an ask in this transaction. That the agent is who it says is *not* checked: the credential was.

    A refusal is written to the ledger too; the caller commits it.
    """
    decided = _decide(tx, rules, wish)
    if isinstance(decided, Refused):
        entry = Entry(
            EventKind.ASK_REFUSED,
            tx.now,
            run=wish.run.id,
            agent=wish.agent.id,
            principal=wish.agent.principal,
            reason=decided.reason,
            facts={"verb": wish.verb, **decided.facts},
        )
        ledger.append(tx, entry)
    return decided


def _decide(tx: Tx, rules: Rules, wish: Wish) -> Opened | Refused:
    if wish.agent.state is AgentState.RETIRED:
        return refuse(Reason.NOT_AUTHORISED, "The agent is retired.")
    shaped = _shape(rules, wish)
    if isinstance(shaped, Refused):
        return shaped
    kind, action, bound, options, rule = shaped
    repeated = _known(tx, wish, kind, bound)
    if repeated is not None:
        return repeated
    if wish.waiter is None:
        return refuse(Reason.NO_WAY_BACK, "Register the loop, or ask through a run that can be woken.")
    flooded = _flood(tx, rules, wish, kind, bound)
    if flooded is not None:
        return flooded
    run = agents.run(tx, wish.run.id, lock=True)
    if run is None:
        return refuse(Reason.NOT_FOUND, "The run is gone.", run=wish.run.id)
    expires_at = tx.now + rule.expires if wish.expires_in is None else tx.now + min(wish.expires_in, rule.expires)
    ask = Ask(
        id=AskId(new_id(tx.now)),
        kind=kind,
        state=AskState.OPEN,
        verb=wish.verb,
        text=wish.text,
        why=wish.why,
        action=action,
        binding=Binding(bound, rules.policy.digest, run.version),
        options=options,
        candidates=tuple(sorted(set(wish.candidates))),
        agent=wish.agent.id,
        run=run.id,
        requester=wish.agent.principal,
        owner=wish.agent.owner,
        opened_at=tx.now,
        expires_at=expires_at,
        due_at=wish.due_at,
    )
    write(tx, ask, wish.waiter, idempotency_key=wish.idempotency_key, request_hash=wish.request_hash())
    return Opened(ask, repeated=False)


def write(
    tx: Tx,
    ask: Ask,
    waiter: Waiter | None,
    *,
    idempotency_key: str | None = None,
    request_hash: str | None = None,
    supersedes: AskId | None = None,
) -> None:
    """Write an open ask with its waiter, its expiry and its ledger entry."""
    asks.insert_ask(tx, ask, idempotency_key=idempotency_key, request_hash=request_hash, supersedes=supersedes)
    if waiter is not None:
        waiters.add(tx, ask.id, waiter.kind, waiter.id)
    if ask.expires_at is not None:
        due.set_due(tx, EXPIRE_DUTY, ask.id, ask.expires_at)
    facts = {
        "kind": ask.kind.value,
        "verb": ask.verb,
        "action_hash": ask.binding.action_hash,
        "policy": ask.binding.policy,
        "run_version": ask.binding.run_version,
        "expires_at": ask.expires_at,
        "supersedes": supersedes,
    }
    entry = Entry(
        EventKind.ASK_OPENED,
        tx.now,
        ask=ask.id,
        run=ask.run,
        agent=ask.agent,
        principal=ask.requester,
        facts=facts,
    )
    ledger.append(tx, entry)


Shape = tuple[AskKind, bytes | None, Any, tuple[Option, ...], VerbRule]


def _shape(rules: Rules, wish: Wish) -> Shape | Refused:
    """Check what is asked and compute what it binds."""
    sizes = ((wish.text, "text"), (wish.why, "why"), *((label, "option") for label in wish.labels))
    for text, name in sizes:
        if len(text) > MAX_TEXT:
            return refuse(Reason.LIMIT_EXCEEDED, f"{name} is longer than {MAX_TEXT} characters.")
    if wish.idempotency_key is not None and not 1 <= len(wish.idempotency_key) <= MAX_KEY:
        return refuse(Reason.LIMIT_EXCEEDED, f"An idempotency key has 1 to {MAX_KEY} characters.")
    try:
        return _shape_question(rules, wish) if wish.verb is None else _shape_action(rules, wish, wish.verb)
    except Malformed as error:
        return refuse(Reason.BAD_PARAMS, error.message)


def _shape_question(rules: Rules, wish: Wish) -> Shape | Refused:
    if is_blank(wish.text):
        return refuse(Reason.EMPTY, "A question needs its text.")
    if len(wish.labels) == 1 or len(wish.labels) > MAX_OPTIONS:
        return refuse(Reason.BAD_PARAMS, f"Offer two to {MAX_OPTIONS} options, or none for free text.")
    if any(is_blank(label) for label in wish.labels) or len(set(wish.labels)) != len(wish.labels):
        return refuse(Reason.BAD_PARAMS, "Options must be non-empty and differ.")
    rule = lookup_question(rules.policy)
    if isinstance(rule, Refused):
        return rule
    options = number_options(wish.labels)
    bound = question_hash(wish.text, [(option.id, option.label) for option in options])
    return AskKind.QUESTION, None, bound, options, rule


def _shape_action(rules: Rules, wish: Wish, verb: str) -> Shape | Refused:
    params = wish.params if wish.params is not None else {}
    rule = lookup(rules.policy, verb, params)
    if isinstance(rule, Refused):
        return rule
    action = action_bytes(rules.repository, rules.environment, verb, params)
    kind = AskKind.GATED if rule.gated else AskKind.APPROVAL
    return kind, action, action_hash(action), APPROVAL_OPTIONS, rule


def _known(tx: Tx, wish: Wish, kind: AskKind, bound: str) -> Opened | Refused | None:
    """Find the ask that this wish already is: by its key, else by its action."""
    if wish.idempotency_key is not None:
        earlier = asks.by_idempotency_key(tx, wish.agent.id, wish.idempotency_key)
        if earlier is not None:
            ask_id, request_hash = earlier
            if request_hash != wish.request_hash():
                return refuse(Reason.IDEMPOTENCY_CONFLICT, ask=ask_id)
            return _repeated(tx, wish, ask_id)
    if kind is AskKind.QUESTION:
        return None
    standing = asks.open_for_action(tx, wish.agent.id, bound)
    return None if standing is None else _repeated(tx, wish, standing)


def _repeated(tx: Tx, wish: Wish, ask_id: AskId) -> Opened:
    ask = asks.get(tx, ask_id)
    assert ask is not None
    if ask.state is AskState.OPEN and wish.waiter is not None:
        waiters.add(tx, ask.id, wish.waiter.kind, wish.waiter.id)
    ledger.append(
        tx,
        Entry(
            EventKind.ASK_REPEATED, tx.now, ask=ask.id, run=wish.run.id, agent=wish.agent.id, principal=ask.requester
        ),
    )
    return Opened(ask, repeated=True)


def _flood(tx: Tx, rules: Rules, wish: Wish, kind: AskKind, bound: str) -> Refused | None:
    limits = rules.limits
    most = {
        AskKind.GATED: limits.max_open_gated,
        AskKind.APPROVAL: limits.max_open_bound,
        AskKind.QUESTION: limits.max_open_questions,
    }[kind]
    if asks.count_open(tx, wish.agent.id, kind) >= most:
        return refuse(Reason.TOO_MANY_OPEN, f"It has {most} open already.", most=most)
    if kind is AskKind.QUESTION:
        return None
    denied = asks.last_denied(tx, bound)
    if denied is not None and tx.now < denied[1] + limits.repeat_after:
        ask_id, at, by = denied
        detail = f"It may be asked again in {(at + limits.repeat_after - tx.now) // 60_000 + 1} minutes."
        return refuse(Reason.REPEAT_TOO_SOON, detail, ask=ask_id, by=by, at=at)
    return None
