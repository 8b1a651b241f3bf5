"""Who and where: accounts, their tokens, repositories, and who holds which role in them.

Pure. Every id and time is given by the caller. It answers what a role is; the other rules ask it through `require`.
"""

import re
from dataclasses import replace
from typing import Final

from gitops_bot.sandbox.records import Account, AccountType, App, Repository, Role, Session
from gitops_bot.sandbox.refusals import Rejected, not_found

LOGIN: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})(?:\[bot\])?")
FULL_NAME: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]{0,38})/([A-Za-z0-9._-]{1,100})")


class Directory:
    """Accounts, tokens, repositories, grants."""

    def __init__(self) -> None:
        self.accounts: dict[int, Account] = {}
        self.sessions: dict[str, Session] = {}
        self.repositories: dict[int, Repository] = {}
        self.grants: dict[tuple[int, int], Role] = {}

    def add_account(self, login: str, account_id: int, kind: AccountType, now: int) -> Account:
        """Create an account.

        Raises:
            ValueError: no login, or the id or login is taken.
        """
        if not LOGIN.fullmatch(login):
            raise ValueError(f"not a login: {login!r}")
        if account_id in self.accounts or self.account_named(login) is not None:
            raise ValueError(f"taken: {login} or {account_id}")
        account = Account(account_id, login, kind, now)
        self.accounts[account_id] = account
        return account

    def rename_account(self, account_id: int, login: str) -> Account:
        """Give an account another login; its id stays, the old login becomes free."""
        taken = self.account_named(login)
        if not LOGIN.fullmatch(login) or (taken is not None and taken.id != account_id):
            raise ValueError(f"not free: {login!r}")
        self.accounts[account_id] = replace(self.accounts[account_id], login=login)
        return self.accounts[account_id]

    def account_named(self, login: str) -> Account | None:
        """Find an account by its present login, case-insensitively."""
        wanted = login.lower()
        return next((found for found in self.accounts.values() if found.login.lower() == wanted), None)

    def add_token(
        self,
        token: str,
        account_id: int,
        app: App | None = None,
        *,
        expires_at: int | None = None,
        installation: int | None = None,
        repositories: tuple[int, ...] | None = None,
        permissions: tuple[tuple[str, str], ...] | None = None,
    ) -> None:
        """Let a token stand for an account, through an app where given, until a time where given, with less than its
        installation has where given.

        Raises:
            ValueError: it stands for one already.
        """
        if token in self.sessions:
            raise ValueError("this token stands for an account already")
        self.sessions[token] = Session(
            self.accounts[account_id].id, app, expires_at, installation, repositories, permissions
        )

    def session(self, token: str, now: int) -> Session | None:
        """Tell who a token stands for now; None for one that is unknown or has expired."""
        found = self.sessions.get(token)
        return None if found is None or (found.expires_at is not None and now >= found.expires_at) else found

    def grant(self, repository_id: int, account_id: int, role: Role) -> None:
        """Set an account's role; `NONE` takes it away."""
        self.grants[(repository_id, account_id)] = role

    def role(self, repository: Repository, account_id: int) -> Role:
        """Tell an account's role: its grant, admin for the owner, read for anybody on a public repository."""
        if account_id == repository.owner_id:
            return Role.ADMIN
        granted = self.grants.get((repository.id, account_id), Role.NONE)
        if granted is Role.NONE and not repository.private:
            return Role.READ
        return granted

    def require(self, repository: Repository, account_id: int, needed: Role, message: str = "") -> None:
        """Let pass who holds a role.

        Raises:
            Rejected: 404 to who may not even read, 403 to who may read and lacks the role.
        """
        held = self.role(repository, account_id)
        if not held.reaches(Role.READ):
            raise not_found()
        if not held.reaches(needed):
            raise Rejected(403, message or "Resource not accessible by personal access token")

    def add_repository(
        self, full_name: str, repository_id: int, default_branch: str, private: bool, owner_id: int, now: int
    ) -> Repository:
        """Create a repository; an unknown owner becomes an organisation with `owner_id`.

        Raises:
            ValueError: no `owner/name`, or the id or name is taken.
        """
        match = FULL_NAME.fullmatch(full_name)
        if match is None or match[2] in {".", ".."}:
            raise ValueError(f"not an owner/name: {full_name!r}")
        if repository_id in self.repositories or self.repository_named(full_name) is not None:
            raise ValueError(f"taken: {full_name} or {repository_id}")
        owner = self.account_named(match[1])
        if owner is None:
            owner = self.add_account(match[1], owner_id, AccountType.ORGANIZATION, now)
        repository = Repository(repository_id, owner.id, match[2], default_branch, private, now)
        self.repositories[repository_id] = repository
        return repository

    def repository_named(self, full_name: str) -> Repository | None:
        """Find a repository by `owner/name`, case-insensitively."""
        wanted = full_name.lower()
        every = self.repositories.values()
        return next((found for found in every if self.full_name(found).lower() == wanted), None)

    def full_name(self, repository: Repository) -> str:
        """Give `owner/name` with the owner's present login."""
        return f"{self.accounts[repository.owner_id].login}/{repository.name}"
