"""The forge without HTTP: `ports.Forge` straight over the sandbox's world, for tests of what stands above the port.

It keeps the same contract as the adapter (test_forge.py runs both). People are played on the `Control` it is given;
`fail_next` lets a method fail before or after its effect.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gitops_bot.core.errors import Unavailable
from gitops_bot.core.readings import (
    Check,
    Closing,
    Comment,
    CommentHint,
    CommentPage,
    Permission,
    PullPage,
    PullRequest,
    Reaction,
    Review,
)
from gitops_bot.core.readings import Repository as Reading
from gitops_bot.sandbox.checks import Wish
from gitops_bot.sandbox.control import Control
from gitops_bot.sandbox.git import Entry
from gitops_bot.sandbox.records import App, Node, Pull, Repository, Role, Thread, node_id
from gitops_bot.sandbox.refusals import Rejected
from gitops_bot.sandbox.teams import Membership


class FakeForge:
    """A forge as `login` sees it. Every call takes the world's lock, as a request would."""

    def __init__(self, control: Control, login: str, app: App | None = None) -> None:
        self._app = app
        self._world = control.world
        account = self._world.model.directory.account_named(login)
        assert account is not None
        self._account = account
        self._planned: list[tuple[str, bool, float | None]] = []
        self.calls: list[str] = []

    def fail_next(self, method: str, *, after_effect: bool = False, retry_after: float | None = None) -> None:
        """Let the next call of a method raise `Unavailable`; with `after_effect` once its work is done."""
        self._planned.append((method, after_effect, retry_after))

    @contextmanager
    def _call(self, method: str) -> Iterator[None]:
        self.calls.append(method)
        plan = next((plan for plan in self._planned if plan[0] == method), None)
        if plan is not None:
            self._planned.remove(plan)
            if not plan[1]:
                raise Unavailable(f"{method}: planned", retry_after=plan[2])
        with self._world.lock:
            try:
                yield
            except Rejected as no:
                raise Unavailable(f"{method}: {no}", refused=no.status in (403, 404, 410, 422)) from None
        if plan is not None:
            raise Unavailable(f"{method}: planned, after its effect", retry_after=plan[2])

    def self_id(self) -> int:
        return self._account.id

    def repository(self, repository: str) -> Reading:
        with self._call("repository"):
            found = self._repository(repository)
            name = self._world.model.directory.full_name(found)
            return Reading(found.id, name, found.default_branch, self._world.now() * 1000)

    def comments_since(self, repository: str, since: int, etag: str | None) -> CommentPage:
        with self._call("comments_since"):
            found = self._repository(repository)
            every = [c for c in self._world.model.comments.comments_of(found) if c.updated_at >= since // 1000]
            every.sort(key=lambda c: (c.updated_at, c.id))
            tag = hashlib.sha256(repr((since // 1000, every)).encode()).hexdigest() if len(every) <= 100 else None
            if etag is not None and etag == tag:
                return CommentPage((), unchanged=True, etag=etag, newest=None)
            hints = tuple(
                CommentHint(found.id, comment.id, comment.number, comment.body, comment.updated_at * 1000)
                for comment in every
                if self._world.model.threads.thread(found, comment.number).pull is not None
            )
            newest = every[-1].updated_at * 1000 if every else None
            return CommentPage(hints, unchanged=False, etag=tag, newest=newest)

    def comment(self, repository: str, comment_id: int) -> Comment | None:
        with self._call("comment"):
            found = self._repository(repository)
            try:
                seen = self._world.model.comments.comment(found, comment_id)
            except Rejected:
                return None
            author = self._world.model.directory.accounts[seen.author_id]
            return Comment(
                repository_id=found.id,
                id=seen.id,
                pull_request=seen.number,
                author_id=author.id,
                author_login=author.login,
                author_type=author.type.value,
                via_app=seen.app is not None,
                via_email=seen.via_email,
                body=seen.body,
                created_at=seen.created_at * 1000,
                edited=bool(seen.edits),
                minimised=seen.minimised,
                raw=json.dumps({"id": seen.id, "body": seen.body, "author": author.id}).encode(),
                pull=self._pull(found, seen.number),
            )

    def review(self, repository: str, number: int, review_id: int) -> Review | None:
        with self._call("review"):
            try:
                seen = self._world.model.reviews.review(self._repository(repository), number, review_id)
            except Rejected:
                return None
            author = self._world.model.directory.accounts[seen.author_id]
            raw = json.dumps({"id": seen.id, "body": seen.body}).encode()
            return Review(seen.id, number, author.id, author.login, author.type.value, seen.body, raw)

    def pull_request(self, repository: str, number: int) -> PullRequest | None:
        with self._call("pull_request"):
            return self._pull(self._repository(repository), number)

    def pulls_since(self, repository: str, since: int | None, etag: str | None) -> PullPage:
        with self._call("pulls_since"):
            found = self._repository(repository)
            self._world.tips(found)
            every = sorted(self._world.model.threads.pulls(found), key=lambda t: (t.updated_at, t.number), reverse=True)
            tag = hashlib.sha256(repr(every[:100]).encode()).hexdigest()
            if etag == tag:
                return PullPage((), unchanged=True, etag=etag, newest=None)
            listed = every[:100] if since is None else [t for t in every if t.updated_at * 1000 >= since]
            newest = every[0].updated_at * 1000 if every else None
            return PullPage(tuple(self._reading(found, t) for t in listed), unchanged=False, etag=tag, newest=newest)

    def closing(self, repository: str, number: int) -> Closing | None:
        with self._call("closing"):
            try:
                thread = self._world.model.threads.thread(self._repository(repository), number)
            except Rejected:
                return None
            if thread.closed_by is None:
                return None
            who = self._world.model.directory.accounts[thread.closed_by]
            return Closing(who.id, who.login, who.type.value, json.dumps({"closed_by": who.id}).encode())

    def permission(self, repository: str, login: str, account_id: int) -> Permission:
        with self._call("permission"):
            found = self._repository(repository)
            directory = self._world.model.directory
            directory.require(found, self._account.id, Role.WRITE)
            account = directory.account_named(login)
            if account is None or account.id != account_id:
                return Permission.NONE
            return Permission(directory.role(found, account.id).value)

    def team_member(self, repository: str, team_id: int, login: str, account_id: int) -> bool:
        with self._call("team_member"):
            found, model = self._repository(repository), self._world.model
            account = model.directory.account_named(login)
            try:
                team = model.teams.numbered(found.owner_id, team_id)
                state = model.teams.membership(team, account, self._account.id)
            except Rejected as no:
                if no.status != 404:
                    raise
                return False
            return state is Membership.ACTIVE and account is not None and account.id == account_id

    def find_pull_request(self, repository: str, head_ref: str) -> PullRequest | None:
        with self._call("find_pull_request"):
            return self._own_pull(self._repository(repository), head_ref)

    def publish_branch(self, repository: str, branch: str, files: Mapping[str, bytes], message: str) -> str:
        with self._call("publish_branch"):
            found = self._repository(repository)
            self._world.model.directory.require(found, self._account.id, Role.WRITE)
            git, tips = self._world.git(found), self._world.tips(found)
            if branch not in tips:
                return self._world.commit(found, branch, files, message, self._account)
            commit = git.read_commit(tips[branch])
            entries = [Entry(path, "100644", "blob", git.write_blob(content)) for path, content in files.items()]
            if (
                commit is None
                or len(commit.parents) != 1
                or not git.contains(commit.parents[0], tips[found.default_branch])
                or git.write_tree(commit.parents[0], entries) != commit.tree
            ):
                raise Unavailable(f"the branch {branch} exists with another content", refused=True)
            return tips[branch]

    def commit_file(self, repository: str, branch: str, path: str, content: bytes, message: str) -> str:
        with self._call("commit_file"):
            found = self._repository(repository)
            self._world.model.directory.require(found, self._account.id, Role.WRITE)
            head = self._world.tips(found).get(branch)
            if head is None:
                raise Unavailable(f"there is no branch {branch}")
            present = self._world.git(found).read_path(head, path)
            if present is not None and present.content == content:
                return head
            return self._world.commit(found, branch, {path: content}, message, self._account)

    def open_draft(self, repository: str, branch: str, title: str, body: str) -> PullRequest:
        with self._call("open_draft"):
            found = self._repository(repository)
            present = self._own_pull(found, branch)
            if present is not None and present.state == "open":
                return present
            tips = self._world.tips(found)
            base = tips[found.default_branch]
            if branch not in tips or self._world.git(found).count_between(base, tips[branch]) == 0:
                raise Unavailable("there is nothing to propose")
            pull = Pull(0, branch, found.default_branch, tips[branch], base, draft=True)
            now = self._world.now()
            made = self._world.model.threads.open_pull(found, self._account.id, title, body, pull, now)
            return self._reading(found, made)

    def find_comment(self, repository: str, number: int, marker: str) -> int | None:
        with self._call("find_comment"):
            every = self._world.model.comments.comments_of(self._repository(repository), number)
            own = (c.id for c in every if c.author_id == self._account.id and marker in c.body)
            return next(own, None)

    def create_comment(self, repository: str, number: int, body: str) -> int:
        with self._call("create_comment"):
            thread = self._world.model.threads.thread(self._repository(repository), number)
            comments, now = self._world.model.comments, self._world.now()
            return comments.add_comment(thread, self._account.id, body, now).id

    def edit_comment(self, repository: str, comment_id: int, body: str) -> None:
        with self._call("edit_comment"):
            comments = self._world.model.comments
            comment = comments.comment(self._repository(repository), comment_id)
            comments.edit_comment(comment, self._account.id, body, self._world.now())

    def react(self, repository: str, comment_id: int, reaction: Reaction) -> None:
        with self._call("react"):
            comments = self._world.model.comments
            comment = comments.comment(self._repository(repository), comment_id)
            comments.react(comment, self._account.id, reaction.value, self._world.now())

    def find_check(self, repository: str, head_sha: str, check: Check) -> int | None:
        with self._call("find_check"):
            every = self._world.model.checks.of_commit(self._repository(repository), head_sha)
            fitting = (
                found.id for found in every if (found.name, found.external_id) == (check.name, check.external_id)
            )
            return next(fitting, None)

    def create_check(self, repository: str, head_sha: str, check: Check) -> int:
        with self._call("create_check"):
            found, app = self._writable_by_app(repository)
            if self._world.git(found).read_commit(head_sha) is None:
                raise Unavailable("no such commit")
            return self._world.model.checks.create(found, app, head_sha, _wish(check), self._world.now()).id

    def update_check(self, repository: str, check_id: int, check: Check) -> None:
        with self._call("update_check"):
            found, app = self._writable_by_app(repository)
            checks = self._world.model.checks
            checks.update(checks.check(found, check_id), app, _wish(check), self._world.now())

    def _writable_by_app(self, repository: str) -> tuple[Repository, App]:
        if self._app is None:
            raise Unavailable("only an app shows check runs", refused=True)
        found = self._repository(repository)
        self._world.model.directory.require(found, self._account.id, Role.WRITE)
        return found, self._app

    def mark_ready(self, repository: str, number: int) -> None:
        with self._call("mark_ready"):
            threads = self._world.model.threads
            thread = threads.pull(self._repository(repository), number)
            threads.set_draft(thread, self._account.id, draft=False, now=self._world.now())

    def close(self, repository: str, number: int) -> None:
        with self._call("close"):
            threads = self._world.model.threads
            thread = threads.pull(self._repository(repository), number)
            threads.edit_thread(thread, self._account.id, self._world.now(), state="closed")

    def _repository(self, full_name: str) -> Repository:
        found = self._world.model.directory.repository_named(full_name)
        if found is None:
            raise Unavailable(f"there is no {full_name}")
        return found

    def _pull(self, repository: Repository, number: int) -> PullRequest | None:
        self._world.tips(repository)
        try:
            return self._reading(repository, self._world.model.threads.pull(repository, number))
        except Rejected:
            return None

    def _own_pull(self, repository: Repository, branch: str) -> PullRequest | None:
        self._world.tips(repository)
        own = [
            thread
            for thread in self._world.model.threads.pulls(repository)
            if thread.author_id == self._account.id and thread.pull is not None and thread.pull.head_ref == branch
        ]
        return self._reading(repository, own[-1]) if own else None

    def _reading(self, repository: Repository, thread: Thread) -> PullRequest:
        pull = thread.pull
        assert pull is not None
        return PullRequest(
            number=thread.number,
            node_id=node_id(Node.PULL_REQUEST, repository.id, thread.number),
            url=f"https://forge.invalid/{self._world.model.directory.full_name(repository)}/pull/{thread.number}",
            state="open" if thread.open else "closed",
            draft=pull.draft,
            merged=pull.merged_at is not None,
            locked=thread.locked,
            head_sha=pull.head_sha,
            head_ref=pull.head_ref,
            base_ref=pull.base_ref,
            base_sha=pull.base_sha,
            author_id=thread.author_id,
        )


def _wish(check: Check) -> Wish:
    return Wish(
        name=check.name,
        external_id=check.external_id,
        status="in_progress" if check.conclusion is None else "completed",
        conclusion=None if check.conclusion is None else check.conclusion.value,
        output=(check.title, check.summary, None),
        actions=tuple(
            {"label": button.label, "description": button.description, "identifier": button.identifier}
            for button in check.buttons
        ),
    )
