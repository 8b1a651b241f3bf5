"""How pull requests, commits, trees, refs and files look in REST answers. As `shapes`: reads only, and
validated against the same description."""

import base64

from gitops_bot.sandbox import shapes
from gitops_bot.sandbox.git import Commit, Entry, GitObject, Signature
from gitops_bot.sandbox.records import Node, Repository, Review, Thread, node_id, timestamp
from gitops_bot.sandbox.shapes import Shape, repository_url
from gitops_bot.sandbox.world import World

_OF_THE_ISSUE = (
    *("node_id", "number", "title", "user", "labels", "state", "locked", "assignee", "assignees", "milestone"),
    *("created_at", "updated_at", "closed_at", "author_association", "active_lock_reason", "body", "html_url"),
)


def _side(world: World, there: Repository, ref: str, sha: str) -> Shape:
    owner = world.model.directory.accounts[there.owner_id]
    return {
        "label": f"{owner.login}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": shapes.user(world, owner),
        "repo": shapes.repository(world, there),
    }


def pull(world: World, found: Thread) -> Shape:
    """Show a pull request as lists do (pull-request-simple); its branch tips as last seen."""
    assert found.pull is not None
    directory = world.model.directory
    there = directory.repositories[found.repository_id]
    repo, base = repository_url(world, there), shapes.issue(world, found)
    here = f"{repo}/pulls/{found.number}"
    issue = f"{repo}/issues/{found.number}"
    statuses = f"{repo}/statuses/{found.pull.head_sha}"
    comments = f"{repo}/pulls/comments{{/number}}"
    links = {
        "self": here,
        "html": base["html_url"],
        "issue": issue,
        "comments": f"{issue}/comments",
        "review_comments": f"{here}/comments",
        "review_comment": comments,
        "commits": f"{here}/commits",
        "statuses": statuses,
    }
    return {
        **{key: base[key] for key in _OF_THE_ISSUE},
        "id": found.pull.id,
        "url": here,
        "diff_url": f"{base['html_url']}.diff",
        "patch_url": f"{base['html_url']}.patch",
        "issue_url": issue,
        "commits_url": f"{here}/commits",
        "review_comments_url": f"{here}/comments",
        "review_comment_url": comments,
        "comments_url": f"{issue}/comments",
        "statuses_url": statuses,
        "merged_at": None if found.pull.merged_at is None else timestamp(found.pull.merged_at),
        "merge_commit_sha": None,
        "requested_reviewers": [],
        "requested_teams": [],
        "head": _side(world, there, found.pull.head_ref, found.pull.head_sha),
        "base": _side(world, there, found.pull.base_ref, found.pull.base_sha),
        "_links": {name: {"href": href} for name, href in links.items()},
        "auto_merge": None,
        "draft": found.pull.draft,
    }


def full_pull(world: World, found: Thread) -> Shape:
    """Show one pull request with what only it has (pull-request): counts, mergeability."""
    assert found.pull is not None
    there = world.model.directory.repositories[found.repository_id]
    git = world.git(there)
    added, deleted, files = git.changes_between(found.pull.base_sha, found.pull.head_sha)
    return {
        **pull(world, found),
        "merged": found.pull.merged_at is not None,
        "mergeable": True if found.open else None,
        "rebaseable": None,
        "mergeable_state": "draft" if found.pull.draft else "clean",
        "merged_by": None,
        "comments": len(world.model.comments.comments_of(there, found.number)),
        "review_comments": 0,
        "maintainer_can_modify": False,
        "commits": git.count_between(found.pull.base_sha, found.pull.head_sha),
        "additions": added,
        "deletions": deleted,
        "changed_files": files,
    }


def review(world: World, found: Review) -> Shape:
    """Show a review (pull-request-review)."""
    directory = world.model.directory
    there = directory.repositories[found.repository_id]
    page = f"{world.url}/{directory.full_name(there)}/pull/{found.number}#pullrequestreview-{found.id}"
    pull_url = f"{repository_url(world, there)}/pulls/{found.number}"
    return {
        "id": found.id,
        "node_id": node_id(Node.REVIEW, there.id, found.id),
        "user": shapes.user(world, directory.accounts[found.author_id]),
        "body": found.body,
        "state": found.state,
        "html_url": page,
        "pull_request_url": pull_url,
        "author_association": shapes.association(world, there, found.author_id),
        "_links": {"html": {"href": page}, "pull_request": {"href": pull_url}},
        "submitted_at": timestamp(found.submitted_at),
        "commit_id": found.commit_id,
    }


def _signature(found: Signature) -> Shape:
    return {"name": found.name, "email": found.email, "date": timestamp(found.at)}


_UNSIGNED: Shape = {
    "verified": False,
    "reason": "unsigned",
    "signature": None,
    "payload": None,
    "verified_at": None,
}


def git_commit(world: World, there: Repository, found: Commit) -> Shape:
    """Show a commit object (git-commit)."""
    repo, page = repository_url(world, there), f"{world.url}/{world.model.directory.full_name(there)}"
    return {
        "sha": found.id,
        "node_id": node_id(Node.COMMIT, there.id, found.id),
        "url": f"{repo}/git/commits/{found.id}",
        "html_url": f"{page}/commit/{found.id}",
        "author": _signature(found.author),
        "committer": _signature(found.committer),
        "message": found.message,
        "tree": {"sha": found.tree, "url": f"{repo}/git/trees/{found.tree}"},
        "parents": [
            {"sha": oid, "url": f"{repo}/git/commits/{oid}", "html_url": f"{page}/commit/{oid}"}
            for oid in found.parents
        ],
        "verification": _UNSIGNED,
    }


def commit(world: World, there: Repository, found: Commit) -> Shape:
    """Show a commit as the repository's list does (commit); accounts behind it are not resolved."""
    repo, inner = repository_url(world, there), git_commit(world, there, found)
    kept = ("author", "committer", "message", "tree", "verification")
    return {
        "sha": found.id,
        "node_id": inner["node_id"],
        "commit": {
            **{key: inner[key] for key in kept},
            "url": inner["url"],
            "comment_count": 0,
        },
        "url": f"{repo}/commits/{found.id}",
        "html_url": inner["html_url"],
        "comments_url": f"{repo}/commits/{found.id}/comments",
        "author": None,
        "committer": None,
        "parents": [
            {"sha": oid, "url": f"{repo}/commits/{oid}", "html_url": f"{world.url}/commit/{oid}"}
            for oid in found.parents
        ],
    }


def branch(world: World, there: Repository, name: str, found: Commit) -> Shape:
    """Show a branch (branch-with-protection); none is protected."""
    here = f"{repository_url(world, there)}/branches/{name}"
    page = f"{world.url}/{world.model.directory.full_name(there)}/tree/{name}"
    checks = {"enforcement_level": "off", "contexts": [], "checks": []}
    return {
        "name": name,
        "commit": commit(world, there, found),
        "_links": {"self": here, "html": page},
        "protected": False,
        "protection": {"enabled": False, "required_status_checks": checks},
        "protection_url": f"{here}/protection",
    }


def git_ref(world: World, there: Repository, ref: str, oid: str) -> Shape:
    """Show a ref (git-ref)."""
    repo = repository_url(world, there)
    return {
        "ref": ref,
        "node_id": node_id(Node.REF, there.id, ref),
        "url": f"{repo}/git/{ref}",
        "object": {"sha": oid, "type": "commit", "url": f"{repo}/git/commits/{oid}"},
    }


def git_tree(world: World, there: Repository, oid: str, entries: tuple[Entry, ...]) -> Shape:
    """Show a tree (git-tree)."""
    repo = repository_url(world, there)
    lines = []
    for entry in entries:
        kind = "trees" if entry.type == "tree" else "blobs"
        line: Shape = {"path": entry.path, "mode": entry.mode, "type": entry.type, "sha": entry.id}
        line |= {} if entry.size is None else {"size": entry.size}
        lines.append({**line, "url": f"{repo}/git/{kind}/{entry.id}"})
    return {"sha": oid, "url": f"{repo}/git/trees/{oid}", "tree": lines, "truncated": False}


def content(world: World, there: Repository, path: str, ref: str, found: GitObject, *, full: bool) -> Shape:
    """Show a file (content-file), with its bytes in base64 where `full`."""
    repo, page = repository_url(world, there), f"{world.url}/{world.model.directory.full_name(there)}"
    here, blob = f"{repo}/contents/{path}?ref={ref}", f"{repo}/git/blobs/{found.id}"
    shape: Shape = {
        "type": "file",
        "name": path.rsplit("/", 1)[-1],
        "path": path,
        "sha": found.id,
        "size": len(found.content),
        "url": here,
        "html_url": f"{page}/blob/{ref}/{path}",
        "git_url": blob,
        "download_url": f"{page}/raw/{ref}/{path}",
        "_links": {"self": here, "git": blob, "html": f"{page}/blob/{ref}/{path}"},
    }
    if full:
        shape |= {"encoding": "base64", "content": base64.encodebytes(found.content).decode("ascii")}
    return shape
