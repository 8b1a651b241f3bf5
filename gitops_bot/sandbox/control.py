"""The forge as tests and the demo set it up and play people on it: plain methods, no HTTP.

Each takes the lock, keeps the forge's own rules (a person without access cannot comment), and is done when it returns.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from gitops_bot.sandbox.faults import Fault
from gitops_bot.sandbox.records import AccountType, App, Comment, Reaction, Repository, Role, Thread
from gitops_bot.sandbox.world import World


class Control:
    """A forge in this process. Names are logins and `owner/name`; times are seconds since the epoch."""

    def __init__(self, root: Path, clock: Callable[[], float]) -> None:
        self.world = World(root, clock)

    # Setting up

    def add_account(self, login: str, id: int, type: str = "User", *, token: str | None = None) -> str:
        """Create an account with a token of its own, given or random; the token."""
        with self.world.lock:
            self.world.model.directory.add_account(login, id, AccountType(type), self.world.now())
            return self.add_token(login, token=token)

    def add_token(self, login: str, *, token: str | None = None, app: App | None = None) -> str:
        """Give an account one more token; with `app` what it writes is marked as made through that app."""
        made = token or f"ghp_{secrets.token_hex(20)}"
        with self.world.lock:
            self.world.model.directory.add_token(made, self._account_id(login), app)
        return made

    def expire_token(self, token: str) -> None:
        """Make a token bad from now on."""
        with self.world.lock:
            self.world.model.directory.sessions.pop(token, None)

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

    def set_now(self, clock: Callable[[], float]) -> None:
        """Let the forge read its time from here on from `clock`, seconds since the epoch."""
        self.world.clock = clock

    # Playing people

    def issue(self, full_name: str, login: str, title: str, body: str = "") -> int:
        """Open a plain issue; its number."""
        with self.world.lock:
            repository = self._repository(full_name)
            author = self._account_id(login)
            return self.world.model.threads.open_thread(repository, author, title, body, self.world.now()).number

    def comment(
        self, full_name: str, number: int, login: str, body: str, *, via_email: bool = False, app: App | None = None
    ) -> int:
        """Write a comment as on the page, by e-mail, or through an app; its id."""
        with self.world.lock:
            thread = self.world.model.threads.thread(self._repository(full_name), number)
            made = self.world.model.comments.add_comment(
                thread, self._account_id(login), body, self.world.now(), app=app, via_email=via_email
            )
            return made.id

    def edit_comment(self, full_name: str, comment_id: int, login: str, body: str) -> None:
        """Edit a comment as its author or anybody with write access."""
        with self.world.lock:
            comment = self.world.model.comments.comment(self._repository(full_name), comment_id)
            self.world.model.comments.edit_comment(comment, self._account_id(login), body, self.world.now())

    def minimise(self, full_name: str, comment_id: int, login: str) -> None:
        """Hide a comment as somebody with write access."""
        with self.world.lock:
            comment = self.world.model.comments.comment(self._repository(full_name), comment_id)
            self.world.model.comments.minimise_comment(comment, self._account_id(login))

    def delete_comment(self, full_name: str, comment_id: int, login: str) -> None:
        """Remove a comment as its author or anybody with write access."""
        with self.world.lock:
            comment = self.world.model.comments.comment(self._repository(full_name), comment_id)
            self.world.model.comments.delete_comment(comment, self._account_id(login))

    def push(self, full_name: str, branch: str, files: Mapping[str, bytes | None], login: str) -> str:
        """Push one commit with files (None removes one); a new branch starts at the default one. The new head."""
        with self.world.lock:
            account = self.world.model.directory.accounts[self._account_id(login)]
            return self.world.push(self._repository(full_name), branch, files, account)

    def set_state(self, full_name: str, number: int, login: str, state: str) -> None:
        """Close (`closed`) or reopen (`open`) an issue or pull request."""
        with self.world.lock:
            thread = self.world.model.threads.thread(self._repository(full_name), number)
            self.world.model.threads.edit_thread(thread, self._account_id(login), self.world.now(), state=state)

    def set_draft(self, full_name: str, number: int, login: str, draft: bool) -> None:
        """Put a pull request into or out of draft."""
        with self.world.lock:
            thread = self.world.model.threads.pull(self._repository(full_name), number)
            self.world.model.threads.set_draft(thread, self._account_id(login), draft, self.world.now())

    def lock_thread(self, full_name: str, number: int, locked: bool = True) -> None:
        """Lock or unlock a conversation."""
        with self.world.lock:
            self.world.model.threads.set_locked(
                self.world.model.threads.thread(self._repository(full_name), number), locked
            )

    # Faults and counting

    def fail_next(
        self,
        route_pattern: str,
        status: int,
        times: int = 1,
        after_effect: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Let the next requests that match fail.

        The pattern is a glob over `METHOD /path`, with the path as sent or as in `requests`, such as
        `POST */issues/*/comments`. With `after_effect` the request does its work first and then seems to fail.
        """
        with self.world.lock:
            self.world.faults.plan(Fault(route_pattern, status, times, after_effect, headers or {}))

    @property
    def requests(self) -> Counter[tuple[str, str]]:
        """Count of API requests by (method, route), such as `("GET", "/repos/{owner}/{repo}/issues/comments")`."""
        with self.world.lock:
            return Counter(self.world.requests)

    @property
    def answers(self) -> Counter[tuple[str, str, int]]:
        """Count of API answers by (method, route, status)."""
        with self.world.lock:
            return Counter(self.world.answers)

    def reset_counters(self) -> None:
        """Set both counts back to nothing."""
        with self.world.lock:
            self.world.requests.clear()
            self.world.answers.clear()

    # Looking

    def comments(self, full_name: str, number: int) -> tuple[Comment, ...]:
        """Give the comments of a thread by id."""
        with self.world.lock:
            return self.world.model.comments.comments_of(self._repository(full_name), number)

    def reactions(self, comment_id: int) -> tuple[Reaction, ...]:
        """Give the reactions to a comment."""
        with self.world.lock:
            return self.world.model.comments.reactions_to(comment_id)

    def threads(self, full_name: str) -> tuple[Thread, ...]:
        """Give the pull requests of a repository, their heads read from git now."""
        with self.world.lock:
            repository = self._repository(full_name)
            self.world.tips(repository)
            return self.world.model.threads.pulls(repository)

    def thread(self, full_name: str, number: int) -> Thread:
        """Give an issue or pull request, its head read from git now."""
        with self.world.lock:
            repository = self._repository(full_name)
            self.world.tips(repository)
            return self.world.model.threads.thread(repository, number)

    def branches(self, full_name: str) -> dict[str, str]:
        """Give every branch with its tip."""
        with self.world.lock:
            return self.world.tips(self._repository(full_name))

    def read_file(self, full_name: str, branch: str, path: str) -> bytes | None:
        """Give a file's bytes at a branch's tip; None when it is not there."""
        with self.world.lock:
            repository = self._repository(full_name)
            tip = self.world.tips(repository).get(branch)
            found = None if tip is None else self.world.git(repository).read_path(tip, path)
            return None if found is None or found.type != "blob" else found.content

    def git_folder(self, full_name: str) -> Path:
        """Give the folder of a bare repository."""
        with self.world.lock:
            return self.world.git(self._repository(full_name)).folder

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
