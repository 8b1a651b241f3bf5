"""Which repositories the bot has worked in, by the forge's number: names are given up and taken again, numbers not."""

from typing import Final

from sqlalchemy import bindparam, select

from gitops_bot.store.engine import Tx
from gitops_bot.store.work_tables import pull_requests

_NAMED: Final = select(pull_requests.c.number).where(pull_requests.c.repository == bindparam("named")).limit(1)
_NUMBERED: Final = _NAMED.where(pull_requests.c.repository_id == bindparam("in_"))


def is_known(tx: Tx, repository: str, repository_id: int) -> bool | None:
    """Tell whether a repository of a name has a number; None where the bot never worked in one of the name."""
    if tx.execute(_NUMBERED, {"named": repository, "in_": repository_id}).first() is not None:
        return True
    return None if tx.execute(_NAMED, {"named": repository}).first() is None else False
