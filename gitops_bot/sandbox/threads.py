"""Issues and pull requests: opening, closing, drafts, and heads that follow their branches until they are closed.

Pure. It knows nothing of git: whoever reads branch tips hands them to `see_tips`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gitops_bot.sandbox.directory import Directory
from gitops_bot.sandbox.events import Event, Journal
from gitops_bot.sandbox.records import Ids, Pull, Repository, Role, Thread
from gitops_bot.sandbox.refusals import Rejected, checked_body, invalid, not_found

LOCK_REASONS: Final = ("off-topic", "too heated", "resolved", "spam")


class Threads:
    """Every thread of every repository. What happens to a pull request is noted in the journal."""

    def __init__(self, directory: Directory, ids: Ids, journal: Journal) -> None:
        self._directory = directory
        self._ids = ids
        self._journal = journal
        self.numbered: dict[int, dict[int, Thread]] = {}

    def open_thread(self, repository: Repository, author_id: int, title: str, body: str | None, now: int) -> Thread:
        """Open an issue.

        Raises:
            Rejected: the author cannot read, the title is empty, or a text is too long.
        """
        self._directory.require(repository, author_id, Role.READ)
        if not title.strip() or len(title) > 256:
            raise invalid("Issue", "title", "missing_field" if not title.strip() else "invalid")
        checked = None if body is None else checked_body("Issue", body)
        number = max(self.numbered.get(repository.id, {}), default=0) + 1
        thread = Thread(self._ids.take(), repository.id, number, author_id, title, checked, now, now)
        return self._put(thread)

    def open_pull(
        self, repository: Repository, author_id: int, title: str, body: str | None, pull: Pull, now: int
    ) -> Thread:
        """Open a pull request from a branch of the same repository; `pull.id` is replaced by a fresh one.

        Raises:
            Rejected: no write access, one is open for these branches, or as `open_thread`.
        """
        self._directory.require(repository, author_id, Role.WRITE)
        for other in self.pulls(repository):
            assert other.pull is not None
            same = (other.pull.head_ref, other.pull.base_ref) == (pull.head_ref, pull.base_ref)
            if other.open and same:
                owner = self._directory.accounts[repository.owner_id].login
                message = f"A pull request already exists for {owner}:{pull.head_ref}."
                raise Rejected(
                    422,
                    "Validation Failed",
                    ({"resource": "PullRequest", "code": "custom", "message": message},),
                )
        thread = self.open_thread(repository, author_id, title, body, now)
        opened = replace(thread, pull=replace(pull, id=self._ids.take()))
        self._note("opened", opened, author_id)
        return self._put(opened)

    def thread(self, repository: Repository, number: int) -> Thread:
        """Find an issue or pull request.

        Raises:
            Rejected: 404.
        """
        found = self.numbered.get(repository.id, {}).get(number)
        if found is None:
            raise not_found()
        return found

    def pull(self, repository: Repository, number: int) -> Thread:
        """Find a pull request.

        Raises:
            Rejected: 404, also for a plain issue.
        """
        found = self.thread(repository, number)
        if found.pull is None:
            raise not_found()
        return found

    def pulls(self, repository: Repository) -> tuple[Thread, ...]:
        """List the pull requests of a repository by number."""
        return tuple(found for found in self.numbered.get(repository.id, {}).values() if found.pull)

    def see_tips(self, repository: Repository, tips: Mapping[str, str], now: int, pusher_id: int | None = None) -> None:
        """Take note of the branch tips: the head and base of every open pull request follow them, and one whose branch
        is gone is closed with the head that it had.

        Who pushed is told where it is known; else it was the owner.
        """
        pusher = repository.owner_id if pusher_id is None else pusher_id
        for thread in self.pulls(repository):
            assert thread.pull is not None
            if not thread.open:
                continue
            if not {thread.pull.head_ref, thread.pull.base_ref} <= set(tips):
                self._note("closed", thread, pusher)
                self._put(replace(thread, closed_at=now, closed_by=pusher, updated_at=now))
                continue
            head, base = tips[thread.pull.head_ref], tips[thread.pull.base_ref]
            if (head, base) == (thread.pull.head_sha, thread.pull.base_sha):
                continue
            moved = replace(thread, pull=replace(thread.pull, head_sha=head, base_sha=base))
            pushed = head != thread.pull.head_sha
            self._put(replace(moved, updated_at=now) if pushed else moved)
            if pushed:
                changes = {"before": thread.pull.head_sha, "after": head}
                self._note("synchronize", thread, pusher, changes)

    def edit_thread(
        self,
        thread: Thread,
        actor_id: int,
        now: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: str | None = None,
    ) -> Thread:
        """Change a thread's title, body or state (`open`, `closed`); None leaves one as it is.

        Raises:
            Rejected: the actor is neither author nor triager, or a value does not fit.
        """
        repository = self._directory.repositories[thread.repository_id]
        self._directory.require(repository, actor_id, Role.READ if actor_id == thread.author_id else Role.TRIAGE)
        if state not in {None, "open", "closed"}:
            raise invalid("PullRequest", "state", "invalid")
        if title is not None and not title.strip():
            raise invalid("PullRequest", "title", "missing_field")
        changed = replace(
            thread,
            title=thread.title if title is None else title,
            body=thread.body if body is None else checked_body("PullRequest", body),
        )
        if state == "closed" and thread.open:
            changed = replace(changed, closed_at=now, closed_by=actor_id)
        if state == "open" and not thread.open:
            if thread.pull is not None and thread.pull.merged_at is not None:
                raise invalid("PullRequest", "state", "invalid")
            changed = replace(changed, closed_at=None, closed_by=None)
        if changed == thread:
            return thread
        before = {"title": thread.title, "body": thread.body or ""}
        edited = {name: {"from": old} for name, old in before.items() if old != (getattr(changed, name) or "")}
        if edited:
            self._note("edited", thread, actor_id, edited)
        if changed.open != thread.open:
            self._note("reopened" if changed.open else "closed", thread, actor_id)
        return self._put(replace(changed, updated_at=now))

    def merge(self, thread: Thread, actor_id: int, now: int) -> Thread:
        """Close a pull request as merged; whoever writes the commit has done so. A writer may.

        Raises:
            Rejected: no write access, a draft, or not open (405, as GitHub's).
        """
        assert thread.pull is not None
        self._directory.require(self._directory.repositories[thread.repository_id], actor_id, Role.WRITE)
        if not thread.open or thread.pull.draft:
            raise Rejected(405, "Pull Request is still a draft" if thread.open else "Pull Request is not mergeable")
        self._note("closed", thread, actor_id)
        merged = replace(thread, pull=replace(thread.pull, merged_at=now))
        return self._put(replace(merged, closed_at=now, closed_by=actor_id, updated_at=now))

    def set_draft(self, thread: Thread, actor_id: int, draft: bool, now: int) -> Thread:
        """Put a pull request into or out of draft; its author or a writer may. The same again changes nothing."""
        assert thread.pull is not None
        repository = self._directory.repositories[thread.repository_id]
        self._directory.require(repository, actor_id, Role.READ if actor_id == thread.author_id else Role.WRITE)
        if thread.pull.draft == draft:
            return thread
        self._note("converted_to_draft" if draft else "ready_for_review", thread, actor_id)
        return self._put(replace(thread, pull=replace(thread.pull, draft=draft), updated_at=now))

    def set_locked(self, thread: Thread, actor_id: int, locked: bool, reason: str | None = None) -> Thread:
        """Lock the conversation to everybody without write access, or unlock it; a writer may.

        Raises:
            Rejected: no write access, or no such reason.
        """
        self._directory.require(self._directory.repositories[thread.repository_id], actor_id, Role.WRITE)
        if reason is not None and reason not in LOCK_REASONS:
            raise invalid("Issue", "lock_reason", "invalid")
        if thread.locked == locked:
            return thread
        self._note("locked" if locked else "unlocked", thread, actor_id)
        return self._put(replace(thread, locked=locked, lock_reason=reason if locked else None))

    def touch(self, thread: Thread, now: int) -> Thread:
        """Move a thread's time of change."""
        return self._put(replace(thread, updated_at=now))

    def _note(self, action: str, thread: Thread, sender_id: int, changes: Mapping[str, object] | None = None) -> None:
        if thread.pull is not None:
            event = Event("pull_request", action, thread.repository_id, thread.number, sender_id, changes=changes or {})
            self._journal.note(event)

    def _put(self, thread: Thread) -> Thread:
        self.numbered.setdefault(thread.repository_id, {})[thread.number] = thread
        return thread
