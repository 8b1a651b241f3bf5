"""The end of a turn, in one transaction: its asks, its report, the run's state, the session, the next wake (I1, I2)."""

from gitops_bot.authority.rules import Rules
from gitops_bot.fleet.grammar import Ended
from gitops_bot.fleet.machine import Settled
from gitops_bot.fleet.turn import Turn
from gitops_bot.ports import BodyEnd
from gitops_bot.store.engine import Tx


def settle(tx: Tx, rules: Rules, turn: Turn, end: BodyEnd, ended: Ended, *, lost: bool = False) -> Settled | None:
    """Settle a turn. None: it was settled before, by whoever found it first, and nothing was written.

    `ended` is what its text came to; unless `end` says ENDED, its asks and outcome do not count. `lost`: nobody saw the
    body's end. Raises nothing of its own.
    """
    raise NotImplementedError
