"""A loop registers itself with the token that was made for it, gets the token of its run, and is told whether what its
operator decides may count."""

from gitops_bot.api.grammar import LoopBody
from gitops_bot.authority.operator_claims import refusal_of
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.broker.captures import VERB
from gitops_bot.broker.loops import Registered, register
from gitops_bot.core.errors import Refused
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import TokenScope
from workspace.callers import authenticate


def register_loop(services: Services, token: str, body: LoopBody) -> Registered:
    """Register a loop as the caller.

    Raises:
        Refusal: no loop token, a loop of another agent's, or an id or address of a wrong form.
    """

    def work(tx: Tx) -> Registered | Refused:
        caller = authenticate(tx, token)
        caller.require(TokenScope.LOOP)
        return register(
            tx,
            agent=caller.agent,
            loop_id=body.id,
            address=body.address,
            broker_token=body.broker_token,
            resume=body.resume,
            shares_user=body.shares_user,
        )

    return services.decide(work)


def claims_refused(services: Services) -> str | None:
    """Tell why an operator's claim would be refused, None when one may count; the claim itself is still judged."""
    return refusal_of(services.rules, services.operator, VERB)
