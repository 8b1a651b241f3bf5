"""The forge as tests and the demo set it up: accounts, tokens, apps, repositories, teams, grants, webhooks.

Names are logins and `owner/name`; times are seconds since the epoch. Each method takes the lock and is done when it
returns.
"""

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from gitops_bot.sandbox import webhooks
from gitops_bot.sandbox.apps import PERMISSIONS, Installation, Registration
from gitops_bot.sandbox.events import Event
from gitops_bot.sandbox.hooks import APP_EVENTS, EVENTS
from gitops_bot.sandbox.records import AccountType, App, Repository, Role
from gitops_bot.sandbox.teams import Membership, Team
from gitops_bot.sandbox.world import World

INSTALLATION_LIFE: Final = 3600
"""Seconds that an installation's token lives (GitHub, apps)."""


class Setup:
    """The hands of whoever sets a forge up."""

    def __init__(self, root: Path, clock: Callable[[], float]) -> None:
        self.world = World(root, clock)
        self.world.on_events = lambda events: webhooks.tell(self.world, events)

    def add_account(self, login: str, id: int, type: str = "User", *, token: str | None = None) -> str:
        """Create an account with a token of its own, given or random; the token."""
        with self.world.lock:
            self.world.model.directory.add_account(login, id, AccountType(type), self.world.now())
            return self.add_token(login, token=token)

    def add_token(
        self, login: str, *, token: str | None = None, app: App | None = None, lifetime: int | None = None
    ) -> str:
        """Give an account one more token, for ever or for seconds; with `app` what it writes is marked as made through
        that app."""
        made = token or f"ghp_{secrets.token_hex(20)}"
        with self.world.lock:
            until = None if lifetime is None else self.world.now() + lifetime
            self.world.model.directory.add_token(made, self._account_id(login), app, expires_at=until)
        return made

    def expire_token(self, token: str) -> None:
        """Make a token bad from now on."""
        with self.world.lock:
            self.world.model.directory.sessions.pop(token, None)

    def add_app(self, slug: str, id: int, bot_id: int, public_key: str | None = None) -> App:
        """Create a GitHub App with its bot account, `<slug>[bot]`, installed everywhere as installation `id`. With a
        public key (PEM, RSA) it may ask for its tokens itself."""
        app = App(id, slug)
        with self.world.lock:
            self.world.model.directory.add_account(f"{slug}[bot]", bot_id, AccountType.BOT, self.world.now())
            self.world.model.apps.add(Registration(app, bot_id, public_key))
        return app

    def install(
        self,
        app: App,
        owner: str,
        id: int,
        *,
        repositories: tuple[str, ...] | None = None,
        permissions: Mapping[str, str] | None = None,
    ) -> None:
        """Install an app at an owner, in all repositories or in these, with all permissions or these. Its bot has its
        roles by `grant`."""
        with self.world.lock:
            chosen = None if repositories is None else tuple(self._repository(name).id for name in repositories)
            held = PERMISSIONS if permissions is None else tuple(sorted(permissions.items()))
            made = Installation(id, app.id, self._account_id(owner), chosen, held)
            is_new = id not in self.world.model.apps.installations
            self.world.model.apps.install(made)
            self._tell("created" if is_new else "new_permissions_accepted", made)

    def suspend_installation(self, id: int, *, suspended: bool = True) -> None:
        """Suspend an installation, or take that back."""
        with self.world.lock:
            apps, was = self.world.model.apps, self.world.model.apps.suspended(id)
            apps.suspend(id, self.world.now() if suspended else None)
            if was != suspended:
                self._tell("suspend" if suspended else "unsuspend", apps.installations[id])

    def remove_installation(self, id: int) -> None:
        """Uninstall an app; its tokens end."""
        with self.world.lock:
            self._tell("deleted", self.world.model.apps.installations.pop(id))
            sessions = self.world.model.directory.sessions
            for token in [token for token, session in sessions.items() if session.installation == id]:
                del sessions[token]

    def installation_token(
        self, app: App, *, lifetime: int | None = INSTALLATION_LIFE, token: str | None = None
    ) -> str:
        """Give an app a token of its installation: far longer than 40 characters, and expiring after seconds."""
        made = token or f"ghs_{secrets.token_urlsafe(300)}"
        with self.world.lock:
            account = self._account_id(f"{app.slug}[bot]")
            until = None if lifetime is None else self.world.now() + lifetime
            self.world.model.directory.add_token(made, account, app, expires_at=until, installation=app.id)
        return made

    def rename(self, login: str, new_login: str) -> None:
        """Rename an account; its old login is free for anybody."""
        with self.world.lock:
            self.world.model.directory.rename_account(self._account_id(login), new_login)

    def add_repository(
        self,
        full_name: str,
        id: int,
        default_branch: str = "main",
        *,
        private: bool = False,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Create a repository with one commit. On a public one any account reads and comments."""
        with self.world.lock:
            first = {"README.md": f"# {full_name}\n".encode()} if files is None else files
            self.world.create_repository(full_name, id, default_branch, private, first)

    def grant(self, full_name: str, login: str, role_name: str) -> None:
        """Give an account a role in a repository; `none` takes it away."""
        with self.world.lock:
            repository = self._repository(full_name)
            self.world.model.directory.grant(repository.id, self._account_id(login), Role(role_name))

    def add_team(self, organization: str, name: str, id: int) -> None:
        """Create a team of an organisation."""
        with self.world.lock:
            self.world.model.teams.add_team(Team(id, self._account_id(organization), name))

    def set_membership(self, team_id: int, login: str, state: str | None) -> None:
        """Put somebody into a team (`active`, or invited and `pending`), or with None out of it."""
        with self.world.lock:
            team = self.world.model.teams.teams[team_id]
            account = self.world.model.directory.accounts[self._account_id(login)]
            self.world.model.teams.set_membership(team, account, None if state is None else Membership(state))

    def hide_teams(self, organization: str, login: str, *, hidden: bool = True) -> None:
        """Let an account be refused every look at an organisation's teams."""
        with self.world.lock:
            pair = (self._account_id(organization), self._account_id(login))
            if hidden:
                self.world.model.teams.hidden_from[pair] = True
            else:
                self.world.model.teams.hidden_from.pop(pair, None)

    def add_hook(self, full_name: str, url: str, secret: str | None, events: tuple[str, ...] = EVENTS) -> int:
        """Create a webhook to an address of this machine; its id. It is pinged."""
        with self.world.lock:
            repository = self._repository(full_name)
            hook = self.world.model.hooks.add(repository, url, secret, tuple(events), self.world.now())
            webhooks.ping(self.world, hook, repository.owner_id)
            return hook.id

    def set_app_hook(self, app: App, url: str, secret: str | None, events: tuple[str, ...] = APP_EVENTS) -> int:
        """Give an app its webhook, to an address of this machine; its id. It is pinged."""
        with self.world.lock:
            hook = self.world.model.hooks.set_app_hook(app.id, url, secret, tuple(events), self.world.now())
            webhooks.ping(self.world, hook, self.world.model.apps.registered[app.id].bot_id)
            return hook.id

    def change_hook(
        self, full_name: str, hook_id: int, *, active: bool | None = None, secret: str | None = None
    ) -> None:
        """Switch a webhook on or off, or give it another secret."""
        with self.world.lock:
            hook = self.world.model.hooks.hook(self._repository(full_name), hook_id)
            self.world.model.hooks.change(hook, active=active, secret=secret)

    def stop_clock(self, at: int) -> None:
        """Let the forge's time stand still, at seconds since the epoch."""
        self.set_now(lambda: at)

    def set_now(self, clock: Callable[[], float]) -> None:
        """Let the forge read its time from here on from `clock`, seconds since the epoch."""
        self.world.clock = clock

    def _tell(self, action: str, about: Installation) -> None:
        """Note what became of an installation; one that is everywhere is told of as the first owner's."""
        repositories = self.world.model.directory.repositories.values()
        owner = about.owner_id or next((one.owner_id for one in repositories), None)
        if owner is not None:
            self.world.model.journal.note(Event("installation", action, 0, 0, owner, about=about))

    def _repository(self, full_name: str) -> Repository:
        found = self.world.model.directory.repository_named(full_name)
        if found is None:
            raise KeyError(full_name)
        return found

    def _account_id(self, login: str) -> int:
        found = self.world.model.directory.account_named(login)
        if found is None:
            raise KeyError(login)
        return found.id
