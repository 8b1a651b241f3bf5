"""Comments and reactions: who may write, edit, hide and remove them, and what is remembered of it.

Pure. `updated_at` moves on an edit only; whether minimising moves it at GitHub is unknown, here it does not.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitops_bot.sandbox.directory import Directory
from gitops_bot.sandbox.events import Event, Journal
from gitops_bot.sandbox.records import REACTIONS, App, Comment, Edit, Ids, Reaction, Repository, Role, Thread
from gitops_bot.sandbox.refusals import checked_body, invalid, not_found
from gitops_bot.sandbox.threads import Threads


class Comments:
    """Every comment of every repository."""

    def __init__(self, directory: Directory, threads: Threads, ids: Ids, journal: Journal) -> None:
        self._journal = journal
        self._directory = directory
        self._threads = threads
        self._ids = ids
        self.written: dict[int, dict[int, Comment]] = {}
        self.left: dict[int, dict[tuple[int, str], Reaction]] = {}

    def add_comment(
        self,
        thread: Thread,
        author_id: int,
        body: str,
        now: int,
        *,
        app: App | None = None,
        via_email: bool = False,
    ) -> Comment:
        """Write a comment.

        Raises:
            Rejected: the author cannot read, the thread is locked to non-writers, or the body is empty or too long.
        """
        repository = self._directory.repositories[thread.repository_id]
        self._directory.require(repository, author_id, Role.READ)
        if thread.locked:
            self._directory.require(
                repository, author_id, Role.WRITE, "Unable to create comment because issue is locked."
            )
        if not body.strip():
            raise invalid("IssueComment", "body", "missing_field")
        checked = checked_body("IssueComment", body)
        comment = Comment(
            self._ids.take(), repository.id, thread.number, author_id, checked, now, now, app=app, via_email=via_email
        )
        self._put(comment)
        self._threads.touch(thread, now)
        self._note("created", comment, author_id)
        return comment

    def comment(self, repository: Repository, comment_id: int) -> Comment:
        """Find a comment of a repository.

        Raises:
            Rejected: 404.
        """
        found = self.written.get(repository.id, {}).get(comment_id)
        if found is None:
            raise not_found()
        return found

    def comments_of(self, repository: Repository, number: int | None = None) -> tuple[Comment, ...]:
        """List comments of a repository, or of one thread, by id."""
        every = self.written.get(repository.id, {}).values()
        return tuple(found for found in every if number in {None, found.number})

    def edit_comment(self, comment: Comment, editor_id: int, body: str, now: int) -> Comment:
        """Replace a comment's text; its author or anybody with write access may.

        Raises:
            Rejected: the editor may not, or the body does not fit.
        """
        repository = self._directory.repositories[comment.repository_id]
        self._directory.require(repository, editor_id, Role.READ if editor_id == comment.author_id else Role.WRITE)
        if not body.strip():
            raise invalid("IssueComment", "body", "missing_field")
        if body == comment.body:
            return comment
        edit = Edit(editor_id, now, comment.body)
        checked = checked_body("IssueComment", body)
        edited = replace(comment, body=checked, updated_at=now, edits=(*comment.edits, edit))
        self._note("edited", edited, editor_id, {"body": {"from": comment.body}})
        return self._put(edited)

    def minimise_comment(self, comment: Comment, actor_id: int, reason: str = "outdated") -> Comment:
        """Hide a comment; `updated_at` stays, as nothing says that GitHub moves it."""
        self._directory.require(self._directory.repositories[comment.repository_id], actor_id, Role.WRITE)
        return self._put(replace(comment, minimised_as=reason))

    def delete_comment(self, comment: Comment, actor_id: int) -> None:
        """Remove a comment with its reactions; its author or anybody with write access may."""
        repository = self._directory.repositories[comment.repository_id]
        self._directory.require(repository, actor_id, Role.READ if actor_id == comment.author_id else Role.WRITE)
        del self.written[repository.id][comment.id]
        self.left.pop(comment.id, None)
        self._note("deleted", comment, actor_id)

    def react(self, comment: Comment, account_id: int, content: str, now: int) -> tuple[Reaction, bool]:
        """Leave a reaction; the second value says whether it is new (201) or was there (200).

        Raises:
            Rejected: the account cannot read, or there is no such content.
        """
        repository = self._directory.repositories[comment.repository_id]
        self._directory.require(repository, account_id, Role.READ)
        if self._threads.thread(repository, comment.number).locked:
            words = "Unable to create reaction because issue is locked."
            self._directory.require(repository, account_id, Role.WRITE, words)
        if content not in REACTIONS:
            raise invalid("Reaction", "content", "invalid")
        there = self.left.setdefault(comment.id, {})
        key = (account_id, content)
        if key in there:
            return there[key], False
        there[key] = Reaction(self._ids.take(), comment.id, account_id, content, now)
        return there[key], True

    def reactions_to(self, comment_id: int) -> tuple[Reaction, ...]:
        """List the reactions to a comment by id."""
        return tuple(self.left.get(comment_id, {}).values())

    def _note(self, action: str, comment: Comment, sender_id: int, changes: Mapping[str, object] | None = None) -> None:
        where = (comment.repository_id, comment.number)
        self._journal.note(Event("issue_comment", action, *where, sender_id, comment, changes or {}))

    def _put(self, comment: Comment) -> Comment:
        self.written.setdefault(comment.repository_id, {})[comment.id] = comment
        return comment
