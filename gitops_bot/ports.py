"""The map of the outside world: every Protocol that an adapter implements. `bootstrap` alone knows who implements what.

Every method may raise `Unavailable` (the outside failed; retry later) and nothing else that is not our bug.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from gitops_bot.core.captures import Regime
from gitops_bot.core.errors import Refused
from gitops_bot.core.executions import ExecutionKey, ExecutionResult
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


class Clock(Protocol):
    """Elapsed time for pacing and time-outs. Decisions use the database's clock, `tx.now`."""

    def monotonic(self) -> float:
        """Seconds that only grow."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Forge(Protocol):
    """A forge as the bot sees it. `repository` is `owner/name` throughout."""

    def self_id(self) -> int:
        """The bot's own numeric account id."""

    def repository(self, repository: str) -> Repository:
        """Look a repository up."""

    def comments_since(self, repository: str, since: int, etag: str | None) -> CommentPage:
        """List comments of all pull requests updated at or after `since` (ms by the forge's clock), oldest first. A
        long listing may end early, beyond `since` and at a time of its own: `newest` is where to go on."""

    def comment(self, repository: str, comment_id: int) -> Comment | None:
        """Read one comment fresh; None when it is gone."""

    def review(self, repository: str, number: int, review_id: int) -> Review | None:
        """Read one review of a pull request fresh; None when it is gone."""

    def pull_request(self, repository: str, number: int) -> PullRequest | None:
        """Read one pull request fresh; None when there is none."""

    def pulls_since(self, repository: str, since: int | None, etag: str | None) -> PullPage:
        """List pull requests, open and closed, that changed at or after `since` (ms by the forge's clock), newest
        change first; with None the first page only."""

    def closing(self, repository: str, number: int) -> Closing | None:
        """Read who closed a pull request; None while it is open, or where the forge does not say."""

    def permission(self, repository: str, login: str, account_id: int) -> Permission:
        """Read what an account may do. The answer counts only for `account_id`: an answer about another account
        (a login taken over) is `Permission.NONE`."""

    def team_member(self, repository: str, team_id: int, login: str, account_id: int) -> bool:
        """Tell whether an account is an active member of a team, by its numeric id, of the organisation that owns the
        repository. Invited is no; an answer about another account (a login taken over) is no."""

    def find_pull_request(self, repository: str, head_ref: str) -> PullRequest | None:
        """Find the bot's own newest pull request from a branch of the same repository, open or closed."""

    def publish_branch(self, repository: str, branch: str, files: Mapping[str, bytes], message: str) -> str:
        """Create a branch from the default branch with files added in one commit; give the head's full id. Where the
        branch exists with exactly these files already, give its head."""

    def commit_file(self, repository: str, branch: str, path: str, content: bytes, message: str) -> str:
        """Add or replace one file on a branch; give the new head. The same content again changes nothing."""

    def open_draft(self, repository: str, branch: str, title: str, body: str) -> PullRequest:
        """Open a draft pull request from a branch against the default branch."""

    def find_comment(self, repository: str, number: int, marker: str) -> int | None:
        """Find the bot's own comment that holds a marker; its id."""

    def create_comment(self, repository: str, number: int, body: str) -> int:
        """Write a comment; its id. Never retried blindly."""

    def edit_comment(self, repository: str, comment_id: int, body: str) -> None:
        """Replace the text of the bot's own comment."""

    def react(self, repository: str, comment_id: int, reaction: Reaction) -> None:
        """Leave a reaction; leaving it twice is leaving it once."""

    def find_check(self, repository: str, head_sha: str, check: Check) -> int | None:
        """Find a check run of a commit by name and external id; its id."""

    def create_check(self, repository: str, head_sha: str, check: Check) -> int:
        """Show a check run on a commit; its id. Only a GitHub App may. Never retried blindly."""

    def update_check(self, repository: str, check_id: int, check: Check) -> None:
        """Let a check run of the bot's own show something else."""

    def mark_ready(self, repository: str, number: int) -> None:
        """Take a pull request out of draft."""

    def close(self, repository: str, number: int) -> None:
        """Close a pull request unmerged."""


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """A finished capture: the artefact, its digest, and the fitted knobs (names to decimal strings)."""

    artefact: Path
    digest: str
    knobs: Mapping[str, str]


class CaptureFailed(Exception):
    """The capture ran and failed; `reason` is for people (escaped before it is shown)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Capturer(Protocol):
    """Where captures run. A job is named by the capture's id and attempt: submitting it twice submits it once."""

    def submit(self, job: str, regime: Regime) -> None:
        """Start measuring."""

    def poll(self, job: str) -> CaptureResult | None:
        """Give the result, or None while it runs.

        Raises:
            CaptureFailed: it ended without a trace, or nobody here knows the job any more.
        """

    def cancel(self, job: str) -> None:
        """End a job, with all of its processes; an unknown one is no error."""

    def rehash(self, artefact: Path) -> str | None:
        """Hash an artefact now, as `sha256:` and hex; None when it is gone."""


class Executor(Protocol):
    """What carries out a verb's gated actions: one program or one address of the bundle. `core.executions` holds the
    body, the results, and the rule of what follows an attempt."""

    @property
    def idempotent(self) -> bool:
        """Whether the receiver is declared to do nothing twice under one key."""

    def check(self) -> Refused | None:
        """Look, without calling it, whether it is still what the bundle pins: `bytes_differ` when it is not."""

    def execute(self, key: ExecutionKey, body: bytes) -> ExecutionResult:
        """Call it once, with nothing but a body of `core.executions`.

        Raises:
            NothingDone: certainly nothing was done; another attempt may follow.
            Unavailable: it may have been done, and it dedupes: the same call again finds out.
        """


class BodyStop(StrEnum):
    """How a body of an agent came to its end, as its harness saw it."""

    ENDED = "ended"
    FAILED = "failed"
    RATE_LIMITED = "rate_limited"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"
    NOT_STARTED = "not_started"


@dataclass(frozen=True, slots=True)
class BodyEnd:
    """The end of a body: only after ENDED is its text whole. `exit_code` where a program had one (negative: a signal),
    `detail` one line for people, `retry_after` seconds where the provider named them."""

    stop: BodyStop
    exit_code: int | None = None
    detail: str = ""
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class BodyOrder:
    """One turn to be run: whose (slug), which run at which version, the command as an argument vector, its folder, the
    session to go on in (None: a new one, or the harness keeps none), the capsule's bytes, what it finds in its
    environment besides a system path, and the seconds it may take."""

    agent: str
    run: str
    version: int
    argv: tuple[str, ...]
    folder: Path
    session: str | None
    prompt: bytes
    env: Mapping[str, str]
    limit: float


class Harness(Protocol):
    """How a body of an agent is run; one thread a body calls it."""

    @property
    def keeps_sessions(self) -> bool:
        """Whether a session outlives a turn and must be released."""

    def run(self, order: BodyOrder, heard: Callable[[bytes], None], stopping: Callable[[], bool]) -> BodyEnd:
        """Run one turn to its end. `heard` gets the agent's text in pieces as it comes; `stopping` is asked several
        times a second, and True ends the body, whole."""

    def release(self, order: BodyOrder) -> None:
        """Release the session of an order; one that is not there is no error."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One sealed event for people and programs outside: its number in sealed order, kind, time (ms) and payload."""

    seq: int
    kind: str
    at: int
    payload: Mapping[str, object]


class Notifier(Protocol):
    """What tells somebody outside of one event."""

    def tell(self, notice: Notice) -> None:
        """Deliver once; at least once over retries, keyed by the event's number."""


@dataclass(frozen=True, slots=True)
class BridgeReply:
    """What a loop answered to a command: acknowledged, now or earlier (`dup`), or refused with its error."""

    acknowledged: bool
    dup: bool
    error: str | None


class LoopLink(Protocol):
    """The control bridge of a loop, as its broker. `address` is `host:port`."""

    def send(self, address: str, token: str, command: Mapping[str, str]) -> BridgeReply:
        """Send one command with its idempotency key in `id` and read the reply."""

    def read_log(self, address: str, token: str, after: int) -> tuple[tuple[int, Mapping[str, object]], ...]:
        """Read session-log lines after a sequence number, as (seq, object), up to now."""


class Hint(Protocol):
    """A nudge that there may be work. Losing one costs a second; polling is the truth."""

    def notify(self) -> None:
        """Wake the sleepers after a commit."""

    def wait(self, seconds: float) -> None:
        """Sleep until nudged, at most `seconds`."""


class Duty(Protocol):
    """A named piece of due work. One thread runs it; `step` does one claim's worth and reports what is left."""

    name: str

    def step(self) -> float:
        """Do what is due, in transactions of its own. Give the seconds until there may be more (0 = at once)."""
