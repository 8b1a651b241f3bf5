"""GitHub, as `ports.Forge` over PyGithub: each method is one fact read or one thing written, and keeps nothing decided.

What is read comes back as values of `core.readings`; what failed is `Unavailable`, and the caller's duty retries it. A
write is sent once: after an unclear answer the caller looks with `find_pull_request` or `find_comment`. Publishing,
committing, opening and marking ready first look whether that was done already, so a repetition changes nothing.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from gitops_bot.core.errors import Unavailable
from gitops_bot.core.readings import (
    Check,
    Closing,
    Comment,
    CommentPage,
    Permission,
    PullPage,
    PullRequest,
    Reaction,
    Repository,
    Review,
)
from gitops_bot.forge import answers, checks, listings, teams
from gitops_bot.forge.answers import member
from gitops_bot.forge.transport import Transport
from gitops_bot.forge.wires import OneWire, Wires

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+", re.ASCII)
_ABSENT: Final = (404, 410)
_MAX_PAGES: Final = 100
_PER_PAGE: Final = 100


class GitHubForge:
    """GitHub under one token, or as an App. `account_id` is the bot's own id, for a token that cannot ask (an
    installation's)."""

    def __init__(self, api_url: str, token: str | Wires, account_id: int | None = None) -> None:
        self._wires: Wires = OneWire(api_url, token) if isinstance(token, str) else token
        self._self_id = account_id
        self._repository_ids: dict[str, int] = {}
        self._owner_ids: dict[str, int] = {}

    def disconnect(self) -> None:
        """Close the connections that are kept open."""
        self._wires.close()

    def self_id(self) -> int:
        """Read the bot's own numeric account id, once."""
        if self._self_id is None:
            self._self_id = self._wires.self_id()
        return self._self_id

    def _at(self, repository: str) -> Transport:
        return self._wires.of(repository)

    def repository(self, repository: str) -> Repository:
        """Look a repository up, with the forge's own time."""
        answer = self._at(repository).send("GET", _path(repository))
        found = answers.repository(answer.data, answer.at)
        self._repository_ids[repository] = found.id
        owner = answer.data.get("owner") if isinstance(answer.data, dict) else None
        if isinstance(owner, dict) and isinstance(owner.get("id"), int):
            self._owner_ids[repository] = owner["id"]
        return found

    def comments_since(self, repository: str, since: int, etag: str | None) -> CommentPage:
        """List comments updated at or after `since` (milliseconds), oldest first (`listings`)."""
        repository_id = self._repository_ids.get(repository) or self.repository(repository).id
        return listings.comments_since(
            self._at(repository), _path(repository, "issues/comments"), repository_id, since, etag
        )

    def pulls_since(self, repository: str, since: int | None, etag: str | None) -> PullPage:
        """List pull requests that changed at or after `since` (milliseconds), newest change first (`listings`)."""
        return listings.pulls_since(self._at(repository), _path(repository, "pulls"), since, etag)

    def closing(self, repository: str, number: int) -> Closing | None:
        """Read who closed a pull request; None while it is open, or where GitHub does not say."""
        answer = self._at(repository).send("GET", _path(repository, f"issues/{number:d}"), also=_ABSENT)
        return None if answer.status in _ABSENT else answers.closing(answer.data)

    def comment(self, repository: str, comment_id: int) -> Comment | None:
        """Read one comment fresh; None when it is gone.

        The text is read first and its edit state after it, so that a text that changed in between is seen as edited.
        With the edit state come the pull request as it is then, and the repository's id: its name may have passed to
        another one.
        """
        answer = self._at(repository).send("GET", _path(repository, f"issues/comments/{comment_id:d}"), also=_ABSENT)
        if answer.status in _ABSENT:
            return None
        data = self._at(repository).graphql(answers.COMMENT_QUERY, {"id": member(answer.data, "node_id", "string")})
        if data is None or data.get("node") is None:
            return None
        return answers.comment(answer.data, data["node"])

    def review(self, repository: str, number: int, review_id: int) -> Review | None:
        """Read one review of a pull request fresh (GitHub REST, reviews); None when it is gone."""
        path = _path(repository, f"pulls/{number:d}/reviews/{review_id:d}")
        answer = self._at(repository).send("GET", path, also=_ABSENT)
        return None if answer.status in _ABSENT else answers.review(answer.data)

    def pull_request(self, repository: str, number: int) -> PullRequest | None:
        """Read one pull request fresh; None when there is none."""
        answer = self._at(repository).send("GET", _path(repository, f"pulls/{number:d}"), also=_ABSENT)
        return None if answer.status in _ABSENT else answers.pull_request(answer.data)

    def permission(self, repository: str, login: str, account_id: int) -> Permission:
        """Read what an account may do; an answer about another account, or none, is `Permission.NONE`."""
        path = _path(repository, f"collaborators/{quote(login, safe='')}/permission")
        answer = self._at(repository).send("GET", path, also=_ABSENT)
        return Permission.NONE if answer.status in _ABSENT else answers.permission(answer.data, account_id)

    def login(self, account_id: int) -> str | None:
        """Read what an account is called now (GitHub REST, get a user using their ID); None when there is none."""
        answer = self._wires.any().send("GET", f"/user/{account_id:d}", also=_ABSENT)
        if answer.status in _ABSENT or member(answer.data, "id", "integer") != account_id:
            return None
        return str(member(answer.data, "login", "string"))

    def team_member(self, repository: str, team_id: int, login: str, account_id: int) -> bool:
        """Tell whether an account is an active member of a team of the repository's owner (`teams`).

        The owner is taken from an earlier reading; before that says no, it is read again.
        """
        known = self._owner_ids.get(repository)
        if known is not None and teams.is_member(self._wires.members(repository), known, team_id, login, account_id):
            return True
        self.repository(repository)
        owner = self._owner_ids.get(repository)
        if owner is None:
            raise Unavailable(f"the forge does not say whose {repository} is")
        return owner != known and teams.is_member(self._wires.members(repository), owner, team_id, login, account_id)

    def find_pull_request(self, repository: str, head_ref: str) -> PullRequest | None:
        """Find the bot's own newest pull request from a branch of the same repository, open or closed."""
        owner = repository.partition("/")[0]
        query = {"head": f"{owner}:{head_ref}", "state": "all", "sort": "created", "direction": "desc"}
        own = self.self_id()
        mine = [
            answers.pull_request(row)
            for row in self._pages(repository, _path(repository, "pulls"), query)
            if answers.is_from_own_repository(row)
        ]
        fitting = (pull for pull in mine if pull.author_id == own and pull.head_ref == head_ref)
        return max(fitting, key=lambda pull: pull.number, default=None)

    def publish_branch(self, repository: str, branch: str, files: Mapping[str, bytes], message: str) -> str:
        """Create a branch from the default branch with files added in one commit; give the head's full id.

        A branch that exists is taken as published only if its one own commit has exactly these files over a commit of
        the default branch.
        """
        default = self.repository(repository).default_branch
        base = self._tip(repository, default)
        if base is None:
            raise Unavailable(f"{repository} has no commit on its default branch")
        present = self._tip(repository, branch)
        if present is None:
            head = self._commit(repository, base, files, message) or base
            reference = {"ref": f"refs/heads/{branch}", "sha": head}
            created = self._at(repository).send("POST", _path(repository, "git/refs"), body=reference, also=(422,))
            if created.status != 422:
                return head
            present = self._tip(repository, branch)
            if present is None:
                raise Unavailable(f"POST git/refs: 422 for a branch that does not exist ({branch})")
        if not self._was_published(repository, base, present, files):
            raise Unavailable(f"the branch {branch} exists with another content", refused=True)
        return present

    def _was_published(self, repository: str, base: str, head: str, files: Mapping[str, bytes]) -> bool:
        commit = self._at(repository).send("GET", _path(repository, f"git/commits/{head}")).data
        parents = [str(member(parent, "sha", "string")) for parent in member(commit, "parents", "list")]
        if len(parents) != 1:
            return False
        if parents[0] != base:
            # The default branch may have moved on since; then the parent is one of its earlier commits.
            path = _path(repository, f"compare/{parents[0]}...{base}")
            if member(self._at(repository).send("GET", path).data, "status", "string") != "ahead":
                return False
        _, expected = self._tree(repository, parents[0], files)
        return expected == str(member(commit, "tree.sha", "string"))

    def commit_file(self, repository: str, branch: str, path: str, content: bytes, message: str) -> str:
        """Add or replace one file on a branch; give the new head. The same content again changes nothing."""
        where = _path(repository, f"contents/{quote(path)}")
        present = self._at(repository).send("GET", where, query={"ref": branch}, also=_ABSENT)
        body = {"message": message, "branch": branch, "content": base64.b64encode(content).decode("ascii")}
        if present.status not in _ABSENT:
            body["sha"] = str(member(present.data, "sha", "string"))
            if body["sha"] == _blob_id(content):
                head = self._tip(repository, branch)
                if head is not None:
                    return head
        done = self._at(repository).send("PUT", where, body=body, also=(422,))
        if done.status == 422:
            # Without its id a file that is there is not replaced; an attempt of ours whose reply was lost may have
            # written it since we looked. Then the next attempt sees it; else the forge's no stands.
            again = self._at(repository).send("GET", where, query={"ref": branch}, also=_ABSENT)
            stands = again.status in _ABSENT or member(again.data, "sha", "string") == body.get("sha")
            what = "the forge does not take the file" if stands else "the file is another than was read"
            raise Unavailable(f"PUT {where}: 422, {what}", refused=stands)
        return str(member(done.data, "commit.sha", "string"))

    def _tip(self, repository: str, branch: str) -> str | None:
        answer = self._at(repository).send("GET", _path(repository, f"git/ref/heads/{quote(branch)}"), also=_ABSENT)
        return None if answer.status in _ABSENT else str(member(answer.data, "object.sha", "string"))

    def _commit(self, repository: str, parent: str, files: Mapping[str, bytes], message: str) -> str | None:
        """Make a commit that no branch has yet; None where the parent has exactly these files already."""
        before, after = self._tree(repository, parent, files)
        if before == after:
            return None
        body = {"message": message, "tree": after, "parents": [parent]}
        return str(
            member(self._at(repository).send("POST", _path(repository, "git/commits"), body=body).data, "sha", "string")
        )

    def _tree(self, repository: str, commit: str, files: Mapping[str, bytes]) -> tuple[str, str]:
        """Give the id of a commit's tree, and of that tree with files put over it."""
        before = str(
            member(
                self._at(repository).send("GET", _path(repository, f"git/commits/{commit}")).data, "tree.sha", "string"
            )
        )
        entries = []
        for path, content in files.items():
            blob = {"content": base64.b64encode(content).decode("ascii"), "encoding": "base64"}
            sha = member(
                self._at(repository).send("POST", _path(repository, "git/blobs"), body=blob).data, "sha", "string"
            )
            entries.append({"path": path, "mode": "100644", "type": "blob", "sha": sha})
        tree = (
            self._at(repository)
            .send("POST", _path(repository, "git/trees"), body={"base_tree": before, "tree": entries})
            .data
        )
        return before, str(member(tree, "sha", "string"))

    def open_draft(self, repository: str, branch: str, title: str, body: str) -> PullRequest:
        """Open a draft pull request from a branch against the default branch; an open one of the bot's is reused."""
        present = self.find_pull_request(repository, branch)
        if present is not None and present.state == "open":
            return present
        base = self.repository(repository).default_branch
        document = {"title": title, "body": body, "head": branch, "base": base, "draft": True}
        return answers.pull_request(self._at(repository).send("POST", _path(repository, "pulls"), body=document).data)

    def find_comment(self, repository: str, number: int, marker: str) -> int | None:
        """Find the bot's own comment that holds a marker; its id. A person's comment with that text is not it."""
        own = self.self_id()
        for row in self._pages(repository, _path(repository, f"issues/{number:d}/comments"), {}):
            author, text = row.get("user"), row.get("body")
            if isinstance(author, dict) and author.get("id") == own and isinstance(text, str) and marker in text:
                return int(member(row, "id", "integer"))
        return None

    def create_comment(self, repository: str, number: int, body: str) -> int:
        """Write a comment, sent once; its id."""
        path = _path(repository, f"issues/{number:d}/comments")
        return int(member(self._at(repository).send("POST", path, body={"body": body}).data, "id", "integer"))

    def edit_comment(self, repository: str, comment_id: int, body: str) -> None:
        """Replace the text of the bot's own comment."""
        self._at(repository).send("PATCH", _path(repository, f"issues/comments/{comment_id:d}"), body={"body": body})

    def react(self, repository: str, comment_id: int, reaction: Reaction) -> None:
        """Leave a reaction; GitHub answers 200 instead of 201 where it is there already."""
        path = _path(repository, f"issues/comments/{comment_id:d}/reactions")
        self._at(repository).send("POST", path, body={"content": reaction.value})

    def find_check(self, repository: str, head_sha: str, check: Check) -> int | None:
        """Find a check run of a commit by name and external id; its id (`checks`)."""
        return checks.find(self._at(repository), _path(repository), head_sha, check, self._wires.app_id)

    def create_check(self, repository: str, head_sha: str, check: Check) -> int:
        """Show a check run on a commit, sent once; its id (`checks`)."""
        return checks.create(self._at(repository), _path(repository), head_sha, check)

    def update_check(self, repository: str, check_id: int, check: Check) -> None:
        """Let a check run of the bot's own show something else (`checks`)."""
        checks.update(self._at(repository), _path(repository), check_id, check)

    def mark_ready(self, repository: str, number: int) -> None:
        """Take a pull request out of draft; one that is ready stays so."""
        pull = self.pull_request(repository, number)
        if pull is None:
            raise Unavailable(f"there is no pull request {number}")
        if pull.draft and self._at(repository).graphql(answers.READY_MUTATION, {"id": pull.node_id}) is None:
            raise Unavailable(f"there is no pull request {number} to mark ready")

    def close(self, repository: str, number: int) -> None:
        """Close a pull request unmerged."""
        self._at(repository).send("PATCH", _path(repository, f"pulls/{number:d}"), body={"state": "closed"})

    def _pages(self, repository: str, path: str, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Read a listing to its end, page by page."""
        for page in range(1, _MAX_PAGES + 1):
            answer = self._at(repository).send("GET", path, query={**query, "per_page": _PER_PAGE, "page": page})
            yield from (row for row in answers.rows(answer.data) if isinstance(row, dict))
            if not listings.has_next(answer):
                return
        raise Unavailable(f"GET {path}: more than {_MAX_PAGES} pages")  # not found is not the same as not looked at


def _blob_id(content: bytes) -> str:
    """Name a file's content as git does; it only tells whether the same bytes are there."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _path(repository: str, rest: str = "") -> str:
    """Address something of a repository; a name that could leave its place in the path is our own bug."""
    if _NAME.fullmatch(repository) is None or ".." in repository:
        raise ValueError("a repository is named owner/name")
    return f"/repos/{repository}" + (f"/{rest}" if rest else "")
