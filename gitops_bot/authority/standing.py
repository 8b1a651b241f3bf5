"""Whether what an ask binds still stands in a transaction: the policy in force, and the run that asked."""

from dataclasses import replace
from typing import Final

from gitops_bot.authority.rules import Rules
from gitops_bot.authority.suspension import without
from gitops_bot.core.asks import Ask
from gitops_bot.store import agents, captures, settings, suspensions, waiters
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import SeatState, WaiterKind

NOT_FOLLOWED: Final = "policy.not_followed"
"""The cursor that names the bundle in force whose adoption a broker could not verify, so that it binds nobody."""


def world_now(tx: Tx, rules: Rules) -> tuple[Rules, str | None]:
    """Give the rules with everybody suspended who is suspended now, and where the pointer to the policy stands: both as
    of one look, which comes after the lock of what is decided."""
    suspended, pointer = suspensions.world(tx)
    return replace(rules, policy=without(rules.policy, suspended)) if suspended else rules, pointer


def policy_now(tx: Tx, rules: Rules, pointer: str | None) -> str:
    """Give the digest of the policy in force: another than that of the rules when it was adopted since they were read.

    A pointer that a broker looked at and refused to follow moves nothing: ordinary asks go on under what is pinned.
    """
    if pointer is None or pointer == rules.policy.digest or settings.cursor(tx, NOT_FOLLOWED) == pointer:
        return rules.policy.digest
    return pointer


def run_stands(tx: Tx, ask: Ask) -> bool:
    """Tell whether anybody who waits for this ask still runs as it did when it waited.

    A capture's ask is shared by loops: it is stale only when no seat's run stands at the version of its seat.
    """
    run = agents.run(tx, ask.run)
    if run is not None and run.version == ask.binding.run_version:
        return True
    for kind, waiter in waiters.of_ask(tx, ask.id):
        if kind is not WaiterKind.CAPTURE:
            continue
        for seat in captures.seats(tx, waiter):
            seated = agents.run(tx, seat.run)
            if seat.state is SeatState.WAITING and seated is not None and seated.version == seat.run_version:
                return True
    return False
