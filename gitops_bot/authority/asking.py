"""An agent's wish becomes one open ask row, or a refusal that says why; nothing else is decided here.

The binding is fixed at opening: the action's hash, the policy's digest, the run's version (I4). Whoever is woken by the
end is written beside it in the same transaction (I7).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority.limits import over_limit
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
from gitops_bot.core.texts import is_storable
from gitops_bot.policy.lookup import lookup, lookup_question
from gitops_bot.policy.model import VerbRule
from gitops_bot.policy.rules import stands
from gitops_bot.policy.tables import shown
from gitops_bot.store import agents, asks, due, ledger, turns, waiters
from gitops_bot.store.engine import Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.states import AgentState, WaiterKind

EXPIRE_DUTY: Final = "expire"
MAX_KEY: Final = 200
MAX_CANDIDATES: Final = 100


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
    return refuse_ask(tx, wish, decided) if isinstance(decided, Refused) else decided


def refuse_ask(tx: Tx, wish: Wish, refused: Refused) -> Refused:
    """Write to the ledger that a wish was refused; gives the refusal. The caller commits it."""
    entry = Entry(
        EventKind.ASK_REFUSED,
        tx.now,
        run=wish.run.id,
        agent=wish.agent.id,
        principal=wish.agent.principal,
        reason=refused.reason,
        facts={"verb": None if wish.verb is None else shown(wish.verb), **refused.facts},
    )
    ledger.append(tx, entry)
    return refused


def _decide(tx: Tx, rules: Rules, wish: Wish) -> Opened | Refused:
    # One asker at a time for each agent: its floods are counted, and the same wish twice at one instant is one ask.
    turns.take(tx, f"asks:{wish.agent.id}")
    agent = agents.get(tx, wish.agent.id)
    if agent is None or agent.state is AgentState.RETIRED:
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
    flooded = _flood(tx, rules, wish, kind, bound) or (over_limit(tx, rule, action) if action is not None else None)
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
    texts = ((wish.text, "text"), (wish.why, "why"), *((label, "option") for label in wish.labels))
    names = ((wish.idempotency_key or "", "idempotency_key"), *((name, "candidate") for name in wish.candidates))
    for most, given in ((MAX_TEXT, texts), (MAX_KEY, names)):
        for text, name in given:
            if len(text) > most:
                return refuse(Reason.LIMIT_EXCEEDED, f"{name} is longer than {most} characters.")
            if not is_storable(text):
                return refuse(Reason.UNPRINTABLE, f"{name} holds a NUL or half a surrogate pair.")
    if len(wish.candidates) > MAX_CANDIDATES or wish.idempotency_key == "":
        return refuse(Reason.LIMIT_EXCEEDED, f"At most {MAX_CANDIDATES} candidates, and no empty idempotency key.")
    if wish.expires_in is not None and wish.expires_in <= 0:
        return refuse(Reason.BAD_PARAMS, "It must expire after it was asked.")
    unknown = [name for name in wish.candidates if not stands(rules.policy, name)]
    if unknown:
        return refuse(Reason.UNKNOWN_PRINCIPAL, "A candidate is nobody who can answer.", candidate=shown(unknown[0]))
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
            return _repeated(tx, wish, _newest(tx, ask_id))
    if kind is AskKind.QUESTION:
        return None
    standing = asks.open_for_action(tx, wish.agent.id, bound)
    if standing is None:
        return None
    ask = _newest(tx, standing)
    # It may have ended between the two reads: then this is a new wish.
    return _repeated(tx, wish, ask) if ask.state is AskState.OPEN else None


def _newest(tx: Tx, ask_id: AskId) -> Ask:
    """Follow a superseded ask to the one that stands for it now. What is open stays open in this transaction."""
    ask = asks.get(tx, ask_id)
    while ask is not None and ask.superseded_by is not None:
        ask = asks.get(tx, ask.superseded_by)
    assert ask is not None
    if ask.state is not AskState.OPEN:
        return ask
    locked = asks.get(tx, ask.id, lock=True)
    assert locked is not None
    return locked if locked.superseded_by is None else _newest(tx, locked.superseded_by)


def _repeated(tx: Tx, wish: Wish, ask: Ask) -> Opened:
    if ask.state is AskState.OPEN and wish.waiter is not None:
        waiters.add(tx, ask.id, wish.waiter.kind, wish.waiter.id)
    entry = Entry(
        EventKind.ASK_REPEATED, tx.now, ask=ask.id, run=wish.run.id, agent=wish.agent.id, principal=ask.requester
    )
    ledger.append(tx, entry)
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
