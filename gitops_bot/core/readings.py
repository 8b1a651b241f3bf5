"""What was read from a forge, as values. They are facts at one instant, not authority; `authority/comments.py` decides.

Times are milliseconds since 1970 UTC. Account ids are numeric; a login is for display only, since logins are renamed
and reused (facts/github.md).
"""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository by its name and numeric id; `at` is the forge's own time of the reading, 0 where it said none."""

    id: int
    full_name: str
    default_branch: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class CommentHint:
    """What an intake channel may pass on: where a comment is, and the text that the listing showed (a filter only)."""

    repository_id: int
    comment_id: int
    pull_request: int
    body: str
    updated_at: int


@dataclass(frozen=True, slots=True)
class CommentPage:
    """One listing of a repository's comments since a time. `unchanged` when the forge answered 304."""

    hints: tuple[CommentHint, ...]
    unchanged: bool
    etag: str | None
    newest: int | None


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request, read fresh. `base_sha` is the commit that its base branch had when last compared."""

    number: int
    node_id: str
    url: str
    state: str
    draft: bool
    merged: bool
    locked: bool
    head_sha: str
    head_ref: str
    base_ref: str
    base_sha: str
    author_id: int


@dataclass(frozen=True, slots=True)
class PullPage:
    """The pull requests of a repository that changed since a time, newest change first. `unchanged` when the forge
    answered 304; `newest` is the latest change that was seen, in the forge's own time."""

    pulls: tuple[PullRequest, ...]
    unchanged: bool
    etag: str | None
    newest: int | None


@dataclass(frozen=True, slots=True)
class Closing:
    """Who closed a pull request. `raw` is the forge's answer as bytes, kept as evidence."""

    account_id: int
    login: str
    account_type: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, read fresh. `raw` is the forge's answer as bytes, kept as evidence; `pull` is its pull request as
    read with it, None where the forge did not say."""

    repository_id: int
    id: int
    pull_request: int
    author_id: int
    author_login: str
    author_type: str
    via_app: bool
    via_email: bool
    body: str
    created_at: int
    edited: bool
    minimised: bool
    raw: bytes
    pull: PullRequest | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """A review of a pull request, read fresh. Nothing in it ever acts; `raw` is the forge's answer as bytes."""

    id: int
    pull_request: int
    author_id: int
    author_login: str
    author_type: str
    body: str
    raw: bytes


class Permission(StrEnum):
    """Repository permission, ordered by `PERMISSION_ORDER`; from `role_name`, for `permission` folds maintain and
    triage away (facts/github.md)."""

    NONE = "none"
    READ = "read"
    TRIAGE = "triage"
    WRITE = "write"
    MAINTAIN = "maintain"
    ADMIN = "admin"


PERMISSION_ORDER: tuple[Permission, ...] = tuple(Permission)


def at_least(held: Permission, floor: Permission) -> bool:
    """Tell whether a permission reaches a floor."""
    return PERMISSION_ORDER.index(held) >= PERMISSION_ORDER.index(floor)


class Reaction(StrEnum):
    """The reactions the bot leaves on a comment: claimed, counted, refused."""

    EYES = "eyes"
    ROCKET = "rocket"
    CONFUSED = "confused"


class Conclusion(StrEnum):
    """How a check run ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class CheckButton:
    """A button of a check run. `identifier` comes back when it is pressed; it asks for something to be shown and never
    decides. At most 20, 40 and 20 characters."""

    label: str
    description: str
    identifier: str


@dataclass(frozen=True, slots=True)
class Check:
    """What a check run shows: `external_id` is the ask's, no conclusion means that it still waits; at most three
    buttons."""

    name: str
    external_id: str
    conclusion: Conclusion | None
    title: str
    summary: str
    buttons: tuple[CheckButton, ...] = ()
