"""What a forge keeps, as frozen values: accounts, repositories, threads, comments, reactions, and their node ids.

Pure. Times are whole seconds since the epoch, the resolution of GitHub's REST answers. Rules live in `model`.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

BODY_LIMIT: Final = 65_536
"""Characters that a comment or description may have; one more is 422 (GitHub REST, issue comments)."""

REACTIONS: Final = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")


class AccountType(StrEnum):
    """What stands behind a login."""

    USER = "User"
    BOT = "Bot"
    ORGANIZATION = "Organization"


class Role(StrEnum):
    """A role in one repository, by its `role_name`; declared from least to most."""

    NONE = "none"
    READ = "read"
    TRIAGE = "triage"
    WRITE = "write"
    MAINTAIN = "maintain"
    ADMIN = "admin"

    def reaches(self, needed: "Role") -> bool:
        """Tell whether this role includes another."""
        order = tuple(Role)
        return order.index(self) >= order.index(needed)

    @property
    def permission(self) -> str:
        """The older four-valued word: maintain reads as write, triage as read."""
        return {Role.MAINTAIN: "write", Role.TRIAGE: "read"}.get(self, self.value)


@dataclass(frozen=True, slots=True)
class Account:
    """An account; its numeric id stays when the login changes."""

    id: int
    login: str
    type: AccountType
    created_at: int


@dataclass(frozen=True, slots=True)
class App:
    """A GitHub App, in whose name a token acts: for a person, or for its own bot account."""

    id: int
    slug: str


@dataclass(frozen=True, slots=True)
class Session:
    """Who a token stands for, through which app, and until when (seconds; None: without an end).

    `installation` is the id of an app's installation whose token it is; the account is then the app's bot, and the
    token may have less than the installation: repositories by id and permissions by name (None: all).
    """

    account_id: int
    app: App | None
    expires_at: int | None = None
    installation: int | None = None
    repositories: tuple[int, ...] | None = None
    permissions: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository; `name` is the part after the slash."""

    id: int
    owner_id: int
    name: str
    default_branch: str
    private: bool
    created_at: int


@dataclass(frozen=True, slots=True)
class Pull:
    """What a pull request has beyond a thread. The two ids are the branch tips last seen; they freeze at closing."""

    id: int
    head_ref: str
    base_ref: str
    head_sha: str
    base_sha: str
    draft: bool
    merged_at: int | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """An issue, or with `pull` a pull request; both share one row of numbers in a repository."""

    id: int
    repository_id: int
    number: int
    author_id: int
    title: str
    body: str | None
    created_at: int
    updated_at: int
    closed_at: int | None = None
    closed_by: int | None = None
    locked: bool = False
    lock_reason: str | None = None
    pull: Pull | None = None

    @property
    def open(self) -> bool:
        """Whether it is open."""
        return self.closed_at is None


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit of a comment: who, when, and the text before it."""

    editor_id: int
    at: int
    before: str


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a thread with its edit history."""

    id: int
    repository_id: int
    number: int
    author_id: int
    body: str
    created_at: int
    updated_at: int
    edits: tuple[Edit, ...] = ()
    minimised_as: str | None = None
    via_email: bool = False
    app: App | None = None

    @property
    def minimised(self) -> bool:
        """Whether it is hidden."""
        return self.minimised_as is not None


@dataclass(frozen=True, slots=True)
class Review:
    """A review of a pull request as it was submitted, at the head of then; `state` is one of `reviews.STATES`."""

    id: int
    repository_id: int
    number: int
    author_id: int
    body: str
    state: str
    commit_id: str
    submitted_at: int


@dataclass(frozen=True, slots=True)
class Reaction:
    """A reaction to a comment; at most one a person and content."""

    id: int
    comment_id: int
    account_id: int
    content: str
    created_at: int


class Ids:
    """One row of ids for everything that the forge numbers itself."""

    def __init__(self, first: int = 2_000_000_001) -> None:
        self.counter = {"next": first}

    def take(self) -> int:
        """Give the next id."""
        taken = self.counter["next"]
        self.counter["next"] = taken + 1
        return taken


class Node(StrEnum):
    """Prefixes of node ids, by the GraphQL type that they name."""

    USER = "U"
    REPOSITORY = "R"
    ISSUE = "I"
    PULL_REQUEST = "PR"
    COMMENT = "IC"
    REVIEW = "PRR"
    REACTION = "REA"
    REF = "REF"
    COMMIT = "C"
    TREE = "T"
    BLOB = "B"
    APP = "A"
    INSTALLATION = "MDI"
    CHECK_SUITE = "CS"
    CHECK_RUN = "CR"
    TEAM = "TE"
    EDIT = "UCE"


def node_id(kind: Node, *parts: int | str) -> str:
    """Give the opaque global id of an object: its kind and what finds it again."""
    raw = ":".join(str(part) for part in parts).encode("utf-8")
    return f"{kind.value}_{base64.urlsafe_b64encode(raw).decode('ascii').rstrip('=')}"


def read_node_id(text: str) -> tuple[Node, tuple[str, ...]] | None:
    """Read a node id back; None for anything that `node_id` does not give."""
    match = re.fullmatch(r"([A-Z]{1,3})_([A-Za-z0-9_-]{1,400})", text)
    if match is None or match[1] not in set(Node):
        return None
    try:
        raw = base64.urlsafe_b64decode(match[2] + "=" * (-len(match[2]) % 4)).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return Node(match[1]), tuple(raw.split(":"))


def timestamp(seconds: int) -> str:
    """Write a time as GitHub does: UTC, whole seconds, `Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_timestamp(text: str) -> int | None:
    """Read an ISO 8601 time with a zone as seconds, cut to the second; None when it is none."""
    if len(text) > 40:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int(moment.timestamp()) if moment.tzinfo is not None else None
