"""The composition root of the workspace: the database in its role, the pinned policy, the domain, the hints.

What is here is handed to `workspace.create_app`; the product never imports the workspace itself.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy.exc import IntegrityError

from gitops_bot.authority.rules import AskLimits, Rules
from gitops_bot.bootstrap.hints import DatagramHint
from gitops_bot.bootstrap.trust import pinned_policy
from gitops_bot.broker.captures import Place
from gitops_bot.capture.folder import file_digest
from gitops_bot.config import Settings
from gitops_bot.core.errors import Refusal, Refused
from gitops_bot.ports import Hint
from gitops_bot.store import schema
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.roles import Role

MOST_TRIES: Final = 3
POOL: Final = 8
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Services:
    """What a view calls with: rows, what decides, the place, how an artefact hashes now, who is woken."""

    database: Database
    rules: Rules
    place: Place
    rehash: Callable[[Path], str | None]
    hint: Hint
    name: str

    def write(self, work: Callable[[Tx], T]) -> T:
        """Do one piece of work in one transaction and wake the duties after its commit.

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
            tx.after_commit(self.hint.notify)
            return work(tx)


def rules_of(settings: Settings) -> Rules:
    """Give what decisions are made under: the pinned policy, the domain, the limits.

    Raises:
        ConfigError: no bundle is pinned, or the one on disk is another.
    """
    policy = pinned_policy(settings.policies, settings.trust_file)
    limits = AskLimits(
        max_open_gated=settings.max_open_gated,
        max_open_bound=settings.max_open_bound,
        repeat_after=settings.repeat_after,
    )
    return Rules(policy, settings.repository, settings.environment, limits)


def place_of(settings: Settings) -> Place:
    """Give where captures are asked for."""
    repositories = settings.forge.repositories
    return Place(settings.environment, repositories[0] if repositories else None, settings.degraded)


def build_services(settings: Settings) -> Services:
    """Open what the workspace needs; the caller closes `database`.

    Raises:
        ConfigError: nothing is pinned, the database is not the migrated one, or the state folder is open to others.
        Unavailable: the database cannot be reached.
    """
    rules = rules_of(settings)
    hint = DatagramHint.open(settings.state, listen=False)
    database = Database.open(settings.database_url, Role.WORKSPACE, pool_size=POOL)
    with ExitStack() as stack:
        stack.callback(database.close)
        schema.check(database.engine)
        stack.pop_all()
    return Services(database, rules, place_of(settings), file_digest, hint, settings.name)
