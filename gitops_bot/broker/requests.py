"""A run of a shell or application ends when every ask that it waits for ended; its asker reads the end over HTTP."""

from typing import Final

from gitops_bot.authority.duties import FINISHED, Outcome
from gitops_bot.store import agents, waiters
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database
from gitops_bot.store.states import RunState, WaiterKind

DUTY: Final = waiters.duty(WaiterKind.REQUEST)


class Requests:
    """Ends request runs; `one` is the handler of the duty of waiters of kind request."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def one(self, claimed: Claimed) -> Outcome:
        """End one run unless it still waits for something."""
        with self._database.write() as tx:
            run = agents.run(tx, claimed.key)
            if run is None or run.kind != "request" or run.state is RunState.ENDED:
                return FINISHED
            if not waiters.still_waits(tx, WaiterKind.REQUEST, run.id):
                agents.end_run(tx, run.id, "answered")
                agents.revoke_run_tokens(tx, run.id)
        return FINISHED
