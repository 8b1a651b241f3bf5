"""What the forge's JSON says, as values of `core.readings`. Pure; an answer of another shape is `Unavailable`.

A value that comes out has numeric ids and aware times; whether it permits anything is decided elsewhere. Members that
GitHub may add are ignored, members that are missing or of another type are not guessed.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from gitops_bot.core.canonical import canonical
from gitops_bot.core.errors import Malformed, Unavailable
from gitops_bot.core.readings import Closing, Comment, CommentHint, Permission, PullRequest, Repository, Review

COMMENT_QUERY: Final = """\
query($id: ID!) {
  node(id: $id) {
    ... on IssueComment {
      databaseId
      lastEditedAt
      includesCreatedEdit
      isMinimized
      createdViaEmail
      repository { databaseId }
      pullRequest {
        id
        number
        url
        state
        isDraft
        locked
        headRefName
        headRefOid
        baseRefName
        baseRefOid
        author { ... on User { databaseId } ... on Bot { databaseId } }
      }
    }
  }
}
"""

READY_MUTATION: Final = """\
mutation($id: ID!) {
  markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } }
}
"""

_KINDS: Final = {"string": str, "integer": int, "flag": bool, "object": dict, "list": list}


def member(document: object, path: str, kind: str) -> Any:
    """Read a member by its dotted path and check its type (a flag is no integer).

    Raises:
        Unavailable: it is missing or of another type.
    """
    value = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(value, _KINDS[kind]) or (kind == "integer" and isinstance(value, bool)):
        raise Unavailable(f"the forge's answer has no {kind} at {path}")
    return value


def rows(document: object) -> Sequence[Any]:
    """Read a listing.

    Raises:
        Unavailable: it is no list.
    """
    if not isinstance(document, list):
        raise Unavailable("the forge's answer is no list")
    return document


def milliseconds(document: object, path: str) -> int:
    """Read a time as milliseconds since 1970 UTC.

    Raises:
        Unavailable: it is missing, no ISO 8601 time, or without a zone.
    """
    text = member(document, path, "string")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Unavailable(f"the forge's answer has no time at {path}") from None
    if moment.tzinfo is None:
        raise Unavailable(f"the forge's answer has a time without a zone at {path}")
    return round(moment.timestamp() * 1000)


def repository(document: object, at: int = 0) -> Repository:
    """Read a repository (GitHub REST, repositories); `at` is the forge's time of the answer in milliseconds."""
    return Repository(
        id=member(document, "id", "integer"),
        full_name=member(document, "full_name", "string"),
        default_branch=member(document, "default_branch", "string"),
        at=at,
    )


def hint(document: object, repository_id: int) -> CommentHint:
    """Read a row of the listing of comments: where it is and what it showed."""
    return CommentHint(
        repository_id=repository_id,
        comment_id=member(document, "id", "integer"),
        pull_request=_number(document),
        body=_text(document, "body"),
        updated_at=milliseconds(document, "updated_at"),
    )


def is_on_plain_issue(document: object, number: int) -> bool:
    """Tell whether a comment of a listing stands on an issue that is no pull request; unknown addresses are kept."""
    return f"/issues/{number}#" in _text(document, "html_url")


def comment(document: object, node: object) -> Comment:
    """Join the two answers about one comment; GraphQL alone says whether it was edited, hidden or mailed.

    Raises:
        Unavailable: either lacks something, or they are about two comments.
    """
    if member(node, "databaseId", "integer") != member(document, "id", "integer"):
        raise Unavailable("the forge answered about another comment")
    author = document.get("user") if isinstance(document, Mapping) else None
    # The account of a deleted author may be null; id 0 is nobody's.
    known = isinstance(author, Mapping)
    return Comment(
        repository_id=member(node, "repository.databaseId", "integer"),
        id=member(document, "id", "integer"),
        pull_request=_number(document),
        author_id=member(author, "id", "integer") if known else 0,
        author_login=member(author, "login", "string") if known else "ghost",
        author_type=member(author, "type", "string") if known else "",
        via_app=isinstance(document, Mapping) and document.get("performed_via_github_app") is not None,
        via_email=member(node, "createdViaEmail", "flag"),
        body=_text(document, "body"),
        created_at=milliseconds(document, "created_at"),
        edited=_edited(node),
        minimised=member(node, "isMinimized", "flag"),
        raw=evidence({"rest": document, "graphql": node}),
        pull=_pull_of(node),
    )


def review(document: object) -> Review:
    """Read a review (GitHub REST, reviews). Whether it was edited is not asked for: nothing in it acts."""
    author = document.get("user") if isinstance(document, Mapping) else None
    known = isinstance(author, Mapping)
    return Review(
        id=member(document, "id", "integer"),
        pull_request=_number(document, "pull_request_url"),
        author_id=member(author, "id", "integer") if known else 0,
        author_login=member(author, "login", "string") if known else "ghost",
        author_type=member(author, "type", "string") if known else "",
        body=_text(document, "body"),
        raw=evidence(document),
    )


def _pull_of(node: object) -> PullRequest | None:
    """Read the pull request that came with a comment's edit state; None on a plain issue."""
    found = node.get("pullRequest") if isinstance(node, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    author = found.get("author")
    owned = isinstance(author, Mapping) and isinstance(author.get("databaseId"), int)
    return PullRequest(
        number=member(found, "number", "integer"),
        node_id=member(found, "id", "string"),
        url=member(found, "url", "string"),
        state="open" if member(found, "state", "string") == "OPEN" else "closed",
        draft=member(found, "isDraft", "flag"),
        merged=found["state"] == "MERGED",
        locked=member(found, "locked", "flag"),
        head_sha=member(found, "headRefOid", "string"),
        head_ref=member(found, "headRefName", "string"),
        base_ref=member(found, "baseRefName", "string"),
        base_sha=member(found, "baseRefOid", "string"),
        author_id=member(author, "databaseId", "integer") if owned else 0,
    )


def closing(document: object) -> Closing | None:
    """Read who closed a thread from its reading as an issue (GitHub REST, issues); None where it does not say."""
    whole = document if isinstance(document, Mapping) else {}
    if member(document, "state", "string") != "closed" or not isinstance(whole.get("closed_by"), Mapping):
        return None
    return Closing(
        account_id=member(document, "closed_by.id", "integer"),
        login=member(document, "closed_by.login", "string"),
        account_type=member(document, "closed_by.type", "string"),
        raw=evidence(document),
    )


def _edited(node: object) -> bool:
    """`lastEditedAt` must be there, and null: an answer that lacks it does not say that nobody edited."""
    if not isinstance(node, Mapping) or "lastEditedAt" not in node:
        raise Unavailable("the forge's answer does not say whether the comment was edited")
    return member(node, "includesCreatedEdit", "flag") or node["lastEditedAt"] is not None


def evidence(document: object) -> bytes:
    """Write what was read as bytes to keep: canonical JSON, or sorted ASCII JSON where it has no canonical form."""
    try:
        return canonical(document)
    except Malformed:
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")


def pull_request(document: object) -> PullRequest:
    """Read a pull request, whole or as a row of a listing (which says `merged_at` and not `merged`)."""
    whole = document if isinstance(document, Mapping) else {}
    author = whole.get("user")
    return PullRequest(
        number=member(document, "number", "integer"),
        node_id=member(document, "node_id", "string"),
        url=member(document, "html_url", "string"),
        state=member(document, "state", "string"),
        draft=member(document, "draft", "flag"),
        merged=whole.get("merged") is True or whole.get("merged_at") is not None,
        locked=whole.get("locked") is True,
        head_sha=member(document, "head.sha", "string"),
        head_ref=member(document, "head.ref", "string"),
        base_ref=member(document, "base.ref", "string"),
        base_sha=member(document, "base.sha", "string"),
        author_id=member(author, "id", "integer") if isinstance(author, Mapping) else 0,
    )


def is_from_own_repository(document: object) -> bool:
    """Tell whether a pull request's branch lives in the repository that it asks to change."""
    head = document.get("head") if isinstance(document, Mapping) else None
    if not isinstance(head, Mapping) or not isinstance(head.get("repo"), Mapping):
        return False  # the fork was deleted
    return bool(member(head, "repo.id", "integer") == member(document, "base.repo.id", "integer"))


def permission(document: object, account_id: int) -> Permission:
    """Read what an account may do; an answer about another account, or a word nobody knows, is `NONE` (I13).

    Raises:
        Unavailable: it does not say whose permission it is (I14).
    """
    if member(document, "user.id", "integer") != account_id:
        return Permission.NONE
    whole = document if isinstance(document, Mapping) else {}
    # A role that an organisation made itself is read as the permission that it folds into.
    for word in (whole.get("role_name"), whole.get("permission")):
        if isinstance(word, str) and word in set(Permission):
            return Permission(word)
    return Permission.NONE


def _text(document: object, path: str) -> str:
    value = document.get(path) if isinstance(document, Mapping) else None
    return value if isinstance(value, str) else ""


def _number(document: object, path: str = "issue_url") -> int:
    """Read the number of the thread from its address, which ends in it."""
    tail = str(member(document, path, "string")).rsplit("/", 1)[-1]
    if not (tail.isascii() and tail.isdigit() and len(tail) < 19):
        raise Unavailable(f"the forge's answer has no number at {path}")
    return int(tail)
