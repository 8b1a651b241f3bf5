"""The forge's whole state in one place under one lock: the model, a bare repository for each of its repositories,
faults and counters. Nothing here speaks HTTP.

Whoever calls holds `lock`; `tips` is how branch tips reach the model, read from git at that moment. What happened under
the lock is handed to `on_events` before it is let go.
"""

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from gitops_bot.sandbox.events import Event
from gitops_bot.sandbox.faults import Faults, Push
from gitops_bot.sandbox.git import BareRepository, Entry, Signature, branch_ref
from gitops_bot.sandbox.hooks import Delivery
from gitops_bot.sandbox.model import Model
from gitops_bot.sandbox.records import Account, Repository, Role, Thread
from gitops_bot.sandbox.refusals import Rejected


class Turn:
    """A lock that one thread may take several times; at its last release a function is called, still under it."""

    def __init__(self, at_end: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._at_end = at_end

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._depth == 1:
                self._at_end()
        finally:
            self._depth -= 1
            self._lock.release()


class World:
    """Model, git, clock (seconds since the epoch), faults and counters; `url` is set by the server that listens. Where
    a state is kept, `keep` writes it at the end of every turn, before whoever took it is answered."""

    def __init__(self, root: Path, clock: Callable[[], float]) -> None:
        self.root = root
        self.clock = clock
        self.url = ""
        self.lock = Turn(self._tell)
        self.on_events: Callable[[tuple[Event, ...]], None] = lambda _: None
        self.send: Callable[[Delivery], None] = lambda _: None
        self.model = Model()
        self.faults = Faults()
        self.requests: Counter[tuple[str, str]] = Counter()
        self.answers: Counter[tuple[str, str, int]] = Counter()
        self.keep: Callable[[], None] | None = None
        self._git: dict[int, BareRepository] = {}

    def now(self) -> int:
        """Give the time in whole seconds."""
        return int(self.clock())

    def sleep(self, seconds: float) -> None:
        """Wait; never under the lock."""
        threading.Event().wait(seconds)

    def _tell(self) -> None:
        events = self.model.journal.take()
        if events:
            self.on_events(events)
        if self.keep is not None:
            self.keep()

    def wait_until_kept(self) -> None:
        """Wait, where a state is kept, until the turn of another thread that is under way is on record."""
        if self.keep is not None:
            with self.lock:
                return

    def find_repositories(self) -> None:
        """Find the git repositories of a model that was read back; what a death left half done there is cleared."""
        for repository in self.model.directory.repositories.values():
            git = BareRepository.create(self.root / f"{repository.id}.git", repository.default_branch)
            git.clear()
            self._git[repository.id] = git

    def git(self, repository: Repository) -> BareRepository:
        """Give a repository's objects and refs."""
        return self._git[repository.id]

    def tips(self, repository: Repository, pusher: Account | None = None) -> dict[str, str]:
        """Read the branch tips now and let pull requests follow them; `pusher` moved those that moved."""
        tips = self.git(repository).branches()
        self.model.threads.see_tips(repository, tips, self.now(), None if pusher is None else pusher.id)
        return tips

    def create_repository(
        self, full_name: str, repository_id: int, default_branch: str, private: bool, files: Mapping[str, bytes]
    ) -> Repository:
        """Create a repository with one commit on its default branch; a bare repository left there is kept."""
        branch_ref(default_branch)
        model = self.model
        repository = model.directory.add_repository(
            full_name, repository_id, default_branch, private, model.ids.take(), self.now()
        )
        git = BareRepository.create(self.root / f"{repository_id}.git", default_branch)
        self._git[repository_id] = git
        if default_branch not in git.branches():
            owner = model.directory.accounts[repository.owner_id]
            self.commit(repository, default_branch, files, "Initial commit", owner)
        return repository

    def commit(
        self,
        repository: Repository,
        branch: str,
        files: Mapping[str, bytes | None],
        message: str,
        author: Account,
    ) -> str:
        """Commit files (None removes one) onto a branch, a new branch starting at the default one; the new head.

        Raises:
            Rejected: a name or content does not fit, or the branch moved meanwhile.
        """
        git = self.git(repository)
        tips = git.branches()
        parent = tips.get(branch, tips.get(repository.default_branch))
        entries = [
            Entry(path, "100644", "blob", None if content is None else git.write_blob(content))
            for path, content in files.items()
        ]
        tree = git.write_tree(parent, entries)
        signature = self.signature(author)
        head = git.write_commit(tree, [parent] if parent else [], message, signature, signature)
        if not git.move_branch(branch, head, tips.get(branch)):
            raise Rejected(409, "Reference cannot be updated")
        self.tips(repository, author)
        return head

    def push(self, repository: Repository, branch: str, files: Mapping[str, bytes | None], account: Account) -> str:
        """Commit files as an account that may write; the new head."""
        self.model.directory.require(repository, account.id, Role.WRITE)
        return self.commit(repository, branch, files, f"Update {branch}", account)

    def merge(self, repository: Repository, thread: Thread, account: Account) -> str:
        """Merge a pull request with a merge commit; the new head of its base. Textual conflicts are 405.

        Raises:
            Rejected: the rules say no, or the trees do not merge.
        """
        assert thread.pull is not None
        base, head = thread.pull.base_sha, thread.pull.head_sha
        git = self.git(repository)
        tree = git.merge_trees(base, head)
        if tree is None:
            raise Rejected(405, "Pull Request is not mergeable")
        self.model.threads.merge(thread, account.id, self.now())
        signature = self.signature(account)
        message = f"Merge pull request #{thread.number} from {thread.pull.head_ref}"
        merged = git.write_commit(tree, [base, head], message, signature, signature)
        if not git.move_branch(thread.pull.base_ref, merged, base):
            raise Rejected(409, "Base branch was modified. Review and try the merge again.")
        self.tips(repository, account)
        return merged

    def play(self, pushes: tuple[Push, ...]) -> None:
        """Carry out planned pushes."""
        for push in pushes:
            repository = self.model.directory.repositories[push.repository_id]
            account = self.model.directory.accounts[push.account_id]
            parent = self.tips(repository).get(push.branch, "")
            self.commit(repository, push.branch, {"moved": parent.encode("ascii")}, "Move the head", account)

    def signature(self, account: Account) -> Signature:
        """Give how an account signs a commit now."""
        name = re.sub(r"[^A-Za-z0-9-]", "", account.login)
        return Signature(account.login, f"{account.id}+{name}@users.noreply.sandbox.invalid", self.now())
