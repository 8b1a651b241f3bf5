"""Whether the run that asked still stands: its version is the one that was bound, or a shared ask has another taker."""

from gitops_bot.core.asks import Ask
from gitops_bot.store import agents, captures, waiters
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import SeatState, WaiterKind


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
