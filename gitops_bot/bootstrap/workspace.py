"""The composition root of the workspace: the database in its role, the pinned policy, the domain, the hints.

The policy is followed without a restart: each request looks whether the trust file is still the one that was read.

What is here is handed to `workspace.create_app`; the product never imports the workspace itself.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from sqlalchemy.exc import IntegrityError

from gitops_bot.authority.rules import Rules
from gitops_bot.authority.site import Site
from gitops_bot.bootstrap.database import open_database
from gitops_bot.bootstrap.floors import Floors
from gitops_bot.bootstrap.hints import FOLDER, DatagramHint
from gitops_bot.bootstrap.provider import Provider, provider_of
from gitops_bot.bootstrap.rules import place_of, rules_of
from gitops_bot.bootstrap.trust import read_trust
from gitops_bot.broker.captures import Place
from gitops_bot.capture.folder import file_digest
from gitops_bot.config import Settings
from gitops_bot.core.errors import ConfigError, Refusal, Refused, Unavailable
from gitops_bot.forge.actions.calls import is_safe
from gitops_bot.forge.actions.grammar import Expected
from gitops_bot.forge.actions.tokens import Runs
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.roles import Role

MOST_TRIES: Final = 3
POOL: Final = 8
_HOUR: Final = 3_600_000
_LOOPBACK: Final = Site("http://localhost:8480", "localhost", "gitops-bot", 0, 12 * _HOUR, 168 * _HOUR)
T = TypeVar("T")


class Pinned:
    """The rules under the policy that this host pins, read again when the pin moved. Safe from several threads."""

    def __init__(self, settings: Settings, database: Database) -> None:
        """Read the pinned policy.

        Raises:
            ConfigError: nothing is pinned, or the pinned bundle is nowhere.
        """
        self._settings = settings
        self._database = database
        self._lock = threading.Lock()
        self._seen = self._look()
        self._rules = rules_of(settings, database)

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self._settings.trust_file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def now(self) -> Rules:
        """Give the rules that decide now.

        Raises:
            Unavailable: the pin moved to what cannot be read, or is gone; nothing is decided under the old one.
        """
        with self._lock:
            seen = self._look()
            if seen != self._seen:
                try:
                    # The file changes with each head of the ledger too.
                    if read_trust(self._settings.trust_file).policy_digest != self._rules.policy.digest:
                        self._rules = rules_of(self._settings, self._database)
                except ConfigError as error:
                    raise Unavailable(f"the policy cannot be read: {error.message}") from error
                self._seen = seen
            return self._rules


@dataclass(frozen=True, slots=True)
class Services:
    """What a view calls with: the rows, what decides (asked once for each piece of work), the place, how an artefact
    hashes now, and who answers at the bridges of loops ('': nobody)."""

    database: Database
    decided_by: "Rules | Pinned"
    place: Place
    rehash: Callable[[Path], str | None]
    operator: str = ""
    site: Site = _LOOPBACK
    approvals: str | None = None
    """The repository that people push signed commits to, where this host has one."""
    shared_uid: bool = False
    """This host accepted that agents may run as the broker's user; shown on each gated card."""
    trust_file: Path | None = None
    """Where this host keeps what it pinned; its head of the ledger is an anchor."""
    provider: Provider | None = None
    """The OpenID provider that people may sign in through."""
    floors: Floors | None = None
    """What reads on the forge what the policy asks of a person who answers here."""
    runs: Runs | None = None
    """What tells of which run of a workflow a token is, where repositories of a forge are configured."""

    @property
    def rules(self) -> Rules:
        """The rules that decide now.

        Raises:
            Unavailable: they cannot be read.
        """
        return self.decided_by if isinstance(self.decided_by, Rules) else self.decided_by.now()

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
    provider, runs = provider_of(settings), runs_of(settings)
    hint = DatagramHint(settings.state / FOLDER, listen=False)
    database = open_database(settings.database_url, Role.WORKSPACE, pool_size=POOL)
    database.on_due = hint.notify
    try:
        pinned = Pinned(settings, database)
    except ConfigError:
        database.close()
        raise
    return Services(
        database,
        pinned,
        place_of(settings),
        file_digest,
        settings.operator,
        site_of(settings),
        settings.signed.remote,
        settings.shared_uid == "accepted",
        settings.trust_file,
        provider,
        Floors(settings),
        runs,
    )


def site_of(settings: Settings) -> Site:
    """Say how browsers and passkeys know this workspace.

    Raises:
        ConfigError: an origin that is none, or plain HTTP to another machine than this.
    """
    parts = urlsplit(settings.origin)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host or parts.path.strip("/") or parts.query or parts.username:
        raise ConfigError("[workspace] origin is no origin", fix='origin = "https://ops.example.org"')
    if parts.scheme == "http" and host != "localhost":
        raise ConfigError(
            "[workspace] origin: browsers keep the cookie and use passkeys over https only, localhost excepted",
            fix='origin = "https://…", with what terminates TLS in front, or open http://localhost:PORT',
        )
    kept = settings.workspace
    return Site(settings.origin.rstrip("/"), host, settings.name, kept.passkey_rest, kept.idle, kept.lasts)


def runs_of(settings: Settings) -> Runs | None:
    """Make what verifies tokens of workflow runs; None without a repository on a forge.

    Raises:
        ConfigError: the issuer's keys would travel in the open.
    """
    forge = settings.forge
    if not forge.repositories or not forge.actions_issuer or not forge.actions_workflow:
        return None
    if not is_safe(forge.actions_issuer):
        raise ConfigError("[forge] actions_issuer is no https address", fix="name the issuer as its tokens do, or ''")
    audience = settings.origin.rstrip("/")
    return Runs(Expected(forge.actions_issuer, audience, forge.repositories, forge.actions_workflow))
