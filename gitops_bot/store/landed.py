"""That a marker has landed is one row of its run: who writes it lands the marker, all others came late (I9)."""

from typing import Final

from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_tables import landed
from gitops_bot.store.statements import insert_or_ignore

_ADD: Final = insert_or_ignore(landed, ("run", "kind", "hash"))


def add(tx: Tx, run: str, kind: str, body: str) -> bool:
    """Remember that a marker of a kind, with the hash of its body, lands in a run; False when it had landed."""
    return tx.execute(_ADD[tx.dialect], {"run": run, "kind": kind, "hash": body, "at": tx.now}).rowcount == 1
