"""The forge as tests and the demo play people on it: plain methods, no HTTP.

Each takes the lock, keeps the forge's own rules (a person without access cannot comment), and is done when it returns.
Setting up is `setting_up`, bad days are `disturbing`; a `Control` is both and more.
"""

from collections.abc import Mapping
from pathlib import Path

from gitops_bot.sandbox.checks import Check
from gitops_bot.sandbox.disturbing import Disturbances
from gitops_bot.sandbox.records import App, Comment, Reaction, Role, Thread


class Control(Disturbances):
    """A forge in this process. Names are logins and `owner/name`; times are seconds since the epoch."""

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

    def review(self, full_name: str, number: int, login: str, body: str, event: str = "COMMENT") -> int:
        """Review a pull request (`APPROVE`, `REQUEST_CHANGES` or `COMMENT`); the review's id."""
        with self.world.lock:
            repository = self._repository(full_name)
            self.world.tips(repository)
            thread, author = self.world.model.threads.pull(repository, number), self._account_id(login)
            return self.world.model.reviews.submit(thread, author, event, body, self.world.now()).id

    def edit_review(self, full_name: str, number: int, review_id: int, login: str, body: str) -> None:
        """Edit a review as its author or anybody with write access."""
        with self.world.lock:
            found = self.world.model.reviews.review(self._repository(full_name), number, review_id)
            self.world.model.reviews.edit(found, self._account_id(login), body)

    def delete_review(self, full_name: str, number: int, review_id: int) -> None:
        """Let a review be gone."""
        with self.world.lock:
            self.world.model.reviews.delete(
                self.world.model.reviews.review(self._repository(full_name), number, review_id)
            )

    def press(self, full_name: str, check_id: int, login: str, identifier: str) -> None:
        """Press a button of a check run as anybody who sees it; whom GitHub lets press is nothing to rely on."""
        with self.world.lock:
            repository, presser = self._repository(full_name), self._account_id(login)
            self.world.model.directory.require(repository, presser, Role.READ)
            found = self.world.model.checks.check(repository, check_id)
            self.world.model.checks.press(found, identifier, presser)

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

    def merge(self, full_name: str, number: int, login: str) -> str:
        """Merge a pull request into its base as somebody with write access; the new head of the base."""
        with self.world.lock:
            repository = self._repository(full_name)
            self.world.tips(repository)
            thread = self.world.model.threads.pull(repository, number)
            return self.world.merge(repository, thread, self.world.model.directory.accounts[self._account_id(login)])

    def react(self, full_name: str, comment_id: int, login: str, content: str) -> None:
        """Leave a reaction."""
        with self.world.lock:
            comment = self.world.model.comments.comment(self._repository(full_name), comment_id)
            self.world.model.comments.react(comment, self._account_id(login), content, self.world.now())

    def set_draft(self, full_name: str, number: int, login: str, draft: bool) -> None:
        """Put a pull request into or out of draft."""
        with self.world.lock:
            thread = self.world.model.threads.pull(self._repository(full_name), number)
            self.world.model.threads.set_draft(thread, self._account_id(login), draft, self.world.now())

    def lock_thread(self, full_name: str, number: int, locked: bool = True, login: str | None = None) -> None:
        """Lock or unlock a conversation, as its repository's owner where nobody is named."""
        with self.world.lock:
            repository = self._repository(full_name)
            actor = repository.owner_id if login is None else self._account_id(login)
            thread = self.world.model.threads.thread(repository, number)
            self.world.model.threads.set_locked(thread, actor, locked)

    # Looking

    def comments(self, full_name: str, number: int) -> tuple[Comment, ...]:
        """Give the comments of a thread by id."""
        with self.world.lock:
            return self.world.model.comments.comments_of(self._repository(full_name), number)

    def reactions(self, comment_id: int) -> tuple[Reaction, ...]:
        """Give the reactions to a comment."""
        with self.world.lock:
            return self.world.model.comments.reactions_to(comment_id)

    def checks(self, full_name: str, head_sha: str) -> tuple[Check, ...]:
        """Give the check runs of a commit, newest first."""
        with self.world.lock:
            return self.world.model.checks.of_commit(self._repository(full_name), head_sha)

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
