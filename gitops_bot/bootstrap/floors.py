"""What a policy asks the forge about a person who answers at the workspace: their permission, their place in a team.

Read by the number of their account at the moment of the answer and kept nowhere; a login only addresses the question.
"""

import threading
from typing import TYPE_CHECKING

from gitops_bot.authority.voters import Held
from gitops_bot.bootstrap.forge import client_of
from gitops_bot.config import Settings
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.core.readings import Permission
from gitops_bot.policy.lookup import NeedsPermission

if TYPE_CHECKING:
    from gitops_bot.forge.client import GitHubForge


class Floors:
    """Reads the floors of one repository. Library and token are loaded when the first answer needs them; safe to share
    between threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._forge: GitHubForge | None = None

    def read(self, need: NeedsPermission) -> Held:
        """Read what is needed of an account; one that is gone holds nothing.

        Raises:
            Unavailable: there is no forge, no token, or the forge could not tell (I14).
        """
        repository = self._settings.forge.repositories[0] if self._settings.forge.repositories else None
        if repository is None:
            raise Unavailable("the policy asks for a permission on a forge, and none is configured")
        forge = self._connected()
        login = forge.login(need.account)
        if login is None:
            return Held(Permission.NONE, in_team=False)
        permission = None if need.floor is None else forge.permission(repository, login, need.account)
        in_team = None if need.team is None else forge.team_member(repository, need.team, login, need.account)
        return Held(permission, in_team)

    def _connected(self) -> "GitHubForge":
        with self._lock:
            if self._forge is None:
                try:
                    self._forge = client_of(self._settings)
                except ConfigError as error:
                    raise Unavailable(f"the forge cannot be asked: {error.message}") from error
            if self._forge is None:
                raise Unavailable("no forge is configured")
            return self._forge
