"""The composition root of the workspace: the database in its role, the pinned policy, the domain, the hints.

What is here is handed to `workspace.create_app`; the product never imports the workspace itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy.exc import IntegrityError

from gitops_bot.authority.rules import Rules
from gitops_bot.bootstrap.database import open_database
from gitops_bot.bootstrap.hints import FOLDER, DatagramHint
from gitops_bot.bootstrap.rules import place_of, rules_of
from gitops_bot.broker.captures import Place
from gitops_bot.capture.folder import file_digest
from gitops_bot.config import Settings
from gitops_bot.core.errors import Refusal, Refused
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.roles import Role

MOST_TRIES: Final = 3
POOL: Final = 8
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Services:
    """What a view calls with: the rows, what decides, the place, how an artefact hashes now, and who answers at the
    bridges of loops ('': nobody)."""

    database: Database
    rules: Rules
    place: Place
    rehash: Callable[[Path], str | None]
    operator: str = ""

    def write(self, work: Callable[[Tx], T]) -> T:
        """Do one piece of work in one transaction.

        Two that insert the same thing at one instant meet at an index; the loser looks again and finds the winner's.

        Raises:
            Unavailable: the database gave up.
        """
        for _ in range(MOST_TRIES - 1):
            try:
                return self._once(work)
            except IntegrityError:
                continue
        return self._once(work)

    def decide(self, work: Callable[[Tx], T | Refused]) -> T:
        """Do as `write`; a refusal is committed, for it is in the ledger, and raised after that.

        Raises:
            Refusal: the answer is no.
            Unavailable: the database gave up.
        """
        result = self.write(work)
        if isinstance(result, Refused):
            raise Refusal(result)
        return result

    def _once(self, work: Callable[[Tx], T]) -> T:
        with self.database.write() as tx:
            return work(tx)


def build_services(settings: Settings) -> Services:
    """Open what the workspace needs; the caller closes `database`.

    Raises:
        ConfigError: nothing is pinned, the database is not the migrated one, or the state folder is open to others.
        Unavailable: the database cannot be reached.
    """
    rules = rules_of(settings)
    hint = DatagramHint(settings.state / FOLDER, listen=False)
    database = open_database(settings.database_url, Role.WORKSPACE, pool_size=POOL)
    database.on_due = hint.notify
    return Services(database, rules, place_of(settings), file_digest, settings.operator)
