"""Which way to a forge a question takes: one token for everything, or an App with a token for each owner.

Nothing is asked for before it is needed.
"""

import threading
from typing import Final, Protocol
from urllib.parse import quote

from gitops_bot.core.errors import Unavailable
from gitops_bot.forge.answers import member
from gitops_bot.forge.app import MEMBERS, PERMISSIONS, App, Installed
from gitops_bot.forge.transport import Transport


class Wires(Protocol):
    """The ways to one forge."""

    @property
    def app_id(self) -> int | None:
        """The App that the bot is; None where it is none."""

    def of(self, repository: str) -> Transport:
        """Give the way to a repository."""

    def members(self, repository: str) -> Transport:
        """Give the way to the teams of a repository's owner."""

    def any(self) -> Transport:
        """Give a way for a question about no repository."""

    def self_id(self) -> int:
        """Read the bot's own numeric account id."""

    def close(self) -> None:
        """Close the connections that are kept open."""


class OneWire:
    """A token for everything."""

    app_id: Final = None

    def __init__(self, api_url: str, token: str) -> None:
        self._wire = Transport(api_url, token)

    def of(self, repository: str) -> Transport:  # noqa: ARG002 # the same for all
        """Give it."""
        return self._wire

    members = of

    def any(self) -> Transport:
        """Give it."""
        return self._wire

    def self_id(self) -> int:
        """Ask whose token it is."""
        return int(member(self._wire.send("GET", "/user").data, "id", "integer"))

    def close(self) -> None:
        """Close its connections."""
        self._wire.close()


class AppWires:
    """An App: the repositories of one owner share an installation and its token; teams are asked about with another
    token, which may do nothing else."""

    def __init__(self, app: App, repositories: tuple[str, ...]) -> None:
        self._app = app
        self._owned: dict[str, tuple[str, ...]] = {}
        for repository in repositories:
            owner = _owner(repository)
            self._owned[owner] = (*self._owned.get(owner, ()), repository)
        self._lock = threading.Lock()
        self._wires: dict[tuple[str, bool], tuple[Installed, Transport]] = {}

    @property
    def app_id(self) -> int:
        """The App."""
        return self._app.id

    def of(self, repository: str) -> Transport:
        """Give the way to a repository.

        Raises:
            Unavailable: it is none of the configured ones.
        """
        return self._way(_owner(repository), repository)[1]

    def members(self, repository: str) -> Transport:
        """Give the way to the teams of a repository's owner."""
        return self._way(_owner(repository), repository, members=True)[1]

    def any(self) -> Transport:
        """Give the first way that is open now.

        Raises:
            Unavailable: none is; the last one's reason.
        """
        reason = Unavailable("no repository is configured", refused=True)
        for owner in self._owned:
            credential, wire = self._way(owner, owner)
            try:
                credential.current()
            except Unavailable as error:
                reason = error
                continue
            return wire
        raise reason

    def self_id(self) -> int:
        """Read the number of the App's bot account; `GET /user` is not for an installation's token."""
        login = quote(f"{self._app.slug()}[bot]", safe="")
        return int(member(self.any().send("GET", f"/users/{login}").data, "id", "integer"))

    def close(self) -> None:
        """Close the connections that are kept open."""
        with self._lock:
            for _, wire in self._wires.values():
                wire.close()
        self._app.close()

    def _way(self, owner: str, repository: str, *, members: bool = False) -> tuple[Installed, Transport]:
        owned = self._owned.get(owner)
        if owned is None:
            raise Unavailable(f"{repository} is not one of [forge] repositories", refused=True)
        with self._lock:
            if (owner, members) not in self._wires:
                # A member of an organisation is a question to any of its repositories.
                names, permissions = (owned[:1], MEMBERS) if members else (owned, PERMISSIONS)
                credential = Installed(self._app, names, permissions)
                self._wires[owner, members] = credential, Transport(self._app.api_url, credential)
            return self._wires[owner, members]


def _owner(repository: str) -> str:
    return repository.partition("/")[0].lower()
