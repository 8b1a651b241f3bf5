"""What a turn says while it runs lands here, each marker once a run, whoever reads it (I9)."""

from collections.abc import Iterable

from gitops_bot.authority.rules import Rules
from gitops_bot.fleet.grammar import Informational
from gitops_bot.fleet.turn import Turn
from gitops_bot.store.engine import Tx


def inform(tx: Tx, rules: Rules, turn: Turn, markers: Iterable[Informational]) -> bool:
    """Land informational markers of a turn, each once a run. False: the turn is over, its body is to end, and nothing
    was written."""
    raise NotImplementedError
