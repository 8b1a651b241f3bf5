"""Who may watch the ledger go on, and what they are told: read for event streams, in the one thread of their hub."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from gitops_bot.api.grammar import parse_bearer
from gitops_bot.authority.sessions import SHELL_PREFIX, authenticate, still
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.store import ledger
from workspace.asgi import Turned
from workspace.auth import cookies
from workspace.live import Told, told_of

_NOBODY: Final = Turned(
    401,
    "Nobody is signed in here, or no longer. Sign in, or run `gitops-bot login`.",
    headers={"www-authenticate": 'Bearer realm="gitops-bot"'},
)
_NO_PERSON: Final = Turned(403, "The stream of events is for people; an agent looks at its own asks.", "not_authorised")


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a hub reads (`live.Source`), and who is let in."""

    services: Services

    def head(self) -> int:
        """Give the place of the newest sealed entry."""
        with self.services.database.read() as tx:
            return ledger.head(tx).seq

    def after(self, seq: int, limit: int) -> list[Told]:
        """Read sealed entries after a place, in order."""
        with self.services.database.read() as tx:
            return [told_of(one.seq, one.document) for one in ledger.sealed(tx, seq, limit)]

    def still(self, sessions: Collection[str]) -> Collection[str]:
        """Tell which sessions still stand for a person."""
        services = self.services
        with services.database.read() as tx:
            return still(tx, services.rules, services.site, sessions).keys()

    def admit(self, authorization: str | None, cookie: str | None) -> str | Turned:
        """Give the session that a request's headers carry; a bearer counts before a cookie.

        Raises:
            Unavailable: the database or the policy cannot be read.
        """
        services = self.services
        secret = cookies.read(cookie) if authorization is None else parse_bearer(authorization)
        if secret is None:
            return _NOBODY
        if secret.startswith(SHELL_PREFIX) != (authorization is not None):
            return _NOBODY if authorization is None else _NO_PERSON
        with services.database.read() as tx:
            person = authenticate(tx, services.rules, services.site, secret, touch=False)
        return _NOBODY if person is None else person.session.id
