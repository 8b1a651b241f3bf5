"""What agents do with asks over HTTP: open a question, ask for an action, look, wait, withdraw. They never answer.

Each function is one service: authenticated inside its own transaction, committed when it returns.
"""

from gitops_bot.api.grammar import AskBody, Page, VerbBody
from gitops_bot.authority.asking import Opened, Waiter, Wish, open_ask, refuse_ask
from gitops_bot.authority.closing import Ended, withdraw
from gitops_bot.authority.queries import AskView, view
from gitops_bot.authority.queries import page as page_of
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.broker.captures import VERB as CAPTURE
from gitops_bot.core.asks import Ask, AskKind, AskState
from gitops_bot.core.canonical import action_bytes, action_hash
from gitops_bot.core.errors import Malformed, Reason, Refusal, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.core.verdicts import Channel
from gitops_bot.policy.model import ADOPT
from gitops_bot.store import agents, asks, ledger, signed_votes, votes, waiters
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import AgentKind, RunState, TokenScope, WaiterKind
from workspace.callers import Caller, authenticate

ASKING = (TokenScope.AGENT, TokenScope.RUN)
ELSEWHERE = {
    CAPTURE: "Captures are asked for with POST /captures (`gitops-bot capture request`).",
    ADOPT: "It is asked for on the broker's host (`gitops-bot policy propose`), by nobody's agent.",
}
"""Verbs that are more than an ask, and where they are asked for."""


def open_question(services: Services, token: str, body: AskBody) -> tuple[AskView, bool]:
    """Open a plain question; gives it and whether it was there already.

    Raises:
        Refusal: the answer is no; it is in the ledger.
    """

    def work(tx: Tx) -> tuple[AskView, bool] | Refused:
        caller = authenticate(tx, token)
        caller.require(*ASKING)
        strangers = [name for name in body.candidates if not _is_person(services, name)]
        if strangers:
            return refuse(Reason.BAD_PARAMS, f"The policy knows no person {strangers[0]}.", candidate=strangers[0])
        run, fresh = _run_for(tx, caller, body.idempotency_key)
        wish = Wish(
            agent=caller.agent,
            run=run,
            waiter=_waiter(caller, run),
            text=body.question,
            labels=body.options,
            why=body.why,
            candidates=tuple(PrincipalName(name) for name in body.candidates),
            expires_in=body.expires_in,
            due_at=body.due_at,
            idempotency_key=body.idempotency_key,
        )
        opened = open_ask(tx, services.rules, wish)
        if not isinstance(opened, Opened):
            if fresh:
                agents.end_run(tx, run.id, "refused")
            return opened
        return _view(tx, services, opened.ask), opened.repeated

    return services.decide(work)


def request_verb(services: Services, token: str, verb: str, body: VerbBody) -> tuple[AskView, bool]:
    """Ask for an action: opens the ask that the policy demands; gives it and whether it was there already.

    Raises:
        Refusal: the answer is no; it is in the ledger.
    """

    def work(tx: Tx) -> tuple[AskView, bool] | Refused:
        caller = authenticate(tx, token)
        caller.require(*ASKING)
        run, fresh = _run_of_action(tx, services, caller, verb, body)
        wish = Wish(
            agent=caller.agent,
            run=run,
            waiter=_waiter(caller, run),
            verb=verb,
            params=body.params,
            why=body.why,
            expires_in=body.expires_in,
            idempotency_key=body.idempotency_key,
        )
        opened = (
            refuse_ask(tx, wish, elsewhere) if (elsewhere := _elsewhere(verb)) else open_ask(tx, services.rules, wish)
        )
        if not isinstance(opened, Opened):
            if fresh:
                agents.end_run(tx, run.id, "refused")
            return opened
        return _view(tx, services, opened.ask), opened.repeated

    return services.decide(work)


def _waiter(caller: Caller, run: agents.Run) -> Waiter:
    """Say what an answer wakes: a fleet agent's next turn, else whoever asked and looks again."""
    is_turn = caller.agent.kind is AgentKind.AGENT and caller.run is not None
    return Waiter(WaiterKind.RUN if is_turn else WaiterKind.REQUEST, run.id)


def _elsewhere(verb: str) -> Refused | None:
    where = ELSEWHERE.get(verb)
    return None if where is None else refuse(Reason.WRONG_CHANNEL, where, verb=verb)


def _run_of_action(tx: Tx, services: Services, caller: Caller, verb: str, body: VerbBody) -> tuple[agents.Run, bool]:
    """Give the run that asks for an action, as `_run_for`; asked again it is the run that waits for it already."""
    if caller.run is not None:
        return caller.run, False
    if body.idempotency_key is not None:
        earlier = asks.by_idempotency_key(tx, caller.agent.id, body.idempotency_key)
        if earlier is not None:
            return request_run(tx, caller, earlier[0])
    rules = services.rules
    try:
        bound = action_hash(action_bytes(rules.repository, rules.environment, verb, body.params))
    except Malformed:
        return request_run(tx, caller, None)
    return request_run(tx, caller, asks.open_for_action(tx, caller.agent.id, bound))


def _is_person(services: Services, name: str) -> bool:
    person = services.rules.policy.people.get(PrincipalName(name))
    return person is not None and person.principal.kind is PrincipalKind.HUMAN


def _run_for(tx: Tx, caller: Caller, key: str | None) -> tuple[agents.Run, bool]:
    """Give the run that asks: the token's own, that of the ask under the same key, else a request of its own."""
    if caller.run is not None:
        return caller.run, False
    earlier = None if key is None else asks.by_idempotency_key(tx, caller.agent.id, key)
    ask = None if earlier is None else asks.get(tx, earlier[0])
    known = None if ask is None else agents.run(tx, ask.run)
    if known is not None:
        return known, False
    return agents.add_run(tx, caller.agent.id, "request", RunState.PARKED), True


def request_run(tx: Tx, caller: Caller, ask_id: str | None) -> tuple[agents.Run, bool]:
    """Give the run by which a shell or application asks: the one that waits for this ask already, else a new one."""
    for kind, waiter in waiters.of_ask(tx, ask_id) if ask_id is not None else ():
        run = agents.run(tx, waiter) if kind is WaiterKind.REQUEST else None
        if run is not None and run.agent == caller.agent.id and run.state is not RunState.ENDED:
            return run, False
    return agents.add_run(tx, caller.agent.id, "request", RunState.PARKED), True


def show_ask(services: Services, token: str, ask_id: str) -> AskView:
    """Read one of the caller's own asks.

    Raises:
        Refusal: there is none of that id, or it is another's.
    """
    with services.database.read() as tx:
        return _view(tx, services, _own(tx, authenticate(tx, token), ask_id))


def list_asks(services: Services, token: str, page: Page) -> tuple[list[Ask], str | None]:
    """Read a page of the caller's own asks, and the cursor of the next (None at the end). A page of a run's token may
    be short although there are more."""
    with services.database.read() as tx:
        caller = authenticate(tx, token)
        caller.require(*ASKING)
        found, following = page_of(tx, page.after, page.limit, only_open=page.only_open, agent=caller.agent.id)
    return [ask for ask in found if caller.run is None or ask.run == caller.run.id], following


def cancel_ask(services: Services, token: str, ask_id: str, reason: str) -> AskView:
    """Withdraw one of the caller's own asks; it approves nothing, and withdrawn is not denied.

    Raises:
        Refusal: it is another's, or it ended otherwise before.
    """

    def work(tx: Tx) -> AskView | Refused:
        caller = authenticate(tx, token)
        ask = _own(tx, caller, ask_id)
        ended = withdraw(tx, ask.id, by=caller.agent.principal, reason=reason or "withdrawn by its requester")
        return _view(tx, services, ended.ask) if isinstance(ended, Ended) else ended

    return services.decide(work)


def refuse_answer(services: Services, token: str, ask_id: str) -> Refused:
    """Refuse an answer by an agent's token, and write that to the ledger: agents never answer (I15)."""

    def work(tx: Tx) -> Refused:
        caller = authenticate(tx, token)
        caller.require(*ASKING)
        ask = _own(tx, caller, ask_id)
        own = ask.requester == caller.agent.principal
        reason = Reason.SELF_APPROVAL if own else Reason.NOT_AUTHORISED
        reason = Reason.GATED if ask.kind is AskKind.GATED else reason
        detail = "An agent's token never answers; a person does, in the workspace or after `gitops-bot login`."
        refused = refuse(reason, detail, ask=ask.id)
        entry = Entry(
            EventKind.VOTE_REFUSED,
            tx.now,
            ask=ask.id,
            run=ask.run,
            agent=caller.agent.id,
            principal=caller.agent.principal,
            channel=Channel.WORKSPACE.value,
            reason=reason.value,
        )
        ledger.append(tx, entry)
        return refused

    return services.write(work)


def has_moved(services: Services, seen: AskView, signed: int) -> bool:
    """Tell whether an ask ended or was voted on since it was seen, with so many signed votes on a gated one; holds a
    connection for this look only."""
    with services.database.read() as tx:
        ask = asks.get(tx, seen.ask.id)
        if ask is None or ask.state is not AskState.OPEN:
            return True
        if ask.kind is AskKind.GATED:
            return len(signed_votes.of_ask(tx, ask.id)) != signed
        return len(votes.of_ask(tx, ask.id)) != len(seen.cast)


def signed_on(services: Services, seen: AskView) -> int:
    """Count the signed votes on a gated ask; 0 on any other."""
    if seen.ask.kind is not AskKind.GATED:
        return 0
    with services.database.read() as tx:
        return len(signed_votes.of_ask(tx, seen.ask.id))


def _own(tx: Tx, caller: Caller, ask_id: str) -> Ask:
    caller.require(*ASKING)
    ask = asks.get(tx, ask_id)
    if ask is None or ask.agent != caller.agent.id or (caller.run is not None and ask.run != caller.run.id):
        # The same words for what is another's: an agent does not learn that it exists.
        raise Refusal(refuse(Reason.NOT_FOUND, ask=ask_id))
    return ask


def _view(tx: Tx, services: Services, ask: Ask) -> AskView:
    seen = view(tx, services.rules, ask.id)
    assert seen is not None
    return seen
