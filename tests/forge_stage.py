"""A stage with captures on the local GitHub: the real adapter over HTTP, the broker's duties stepped by hand.

People are played on `github`; `look` is one round of both polls with everything that follows from it.
"""

import time
from dataclasses import dataclass, field
from typing import Any, Final

from gitops_bot.authority import comments, reviews
from gitops_bot.authority.asking import EXPIRE_DUTY
from gitops_bot.authority.comments import Intake
from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.authority.expiry import Expiry
from gitops_bot.authority.outbox import Outbox
from gitops_bot.authority.rules import Rules
from gitops_bot.broker import captures as moves
from gitops_bot.broker import polling, pulls
from gitops_bot.broker.addresses import Addresses
from gitops_bot.broker.advance import Advance, Measuring
from gitops_bot.broker.captures import Place
from gitops_bot.broker.deliveries import OnBridge, OnForge, job_routes
from gitops_bot.broker.polling import Poll
from gitops_bot.broker.pulls import Pulls
from gitops_bot.broker.successors import head_moved
from gitops_bot.forge.client import GitHubForge
from gitops_bot.ports import Forge
from gitops_bot.sandbox.control import Control
from gitops_bot.sandbox.http import Sandbox
from gitops_bot.sandbox.records import Comment, Thread
from gitops_bot.store import due, outbox, settings
from gitops_bot.store import ledger as store_ledger
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Database
from tests.app_keys import forge_as_app
from tests.capture_stage import REGIME, REPOSITORY, CaptureStage
from tests.outside import FileCapturer, FileLink, Outside
from tests.policy_bundles import CAPTURE, Patch

REPOSITORY_ID: Final = 77
BOT: Final = "gitops-bot"
BOT_ID: Final = 900
PEOPLE: Final = {"alice": 1001, "bob": 1002, "carol": 1003, "mallory": 1666}
WITH_WRITE: Final[Patch] = {f"{CAPTURE}/voters": {"people": ["alice", "bob"], "github_permission": "write"}}
APPROVE: Final = f"/approve-capture {REGIME.trace_id}"
DENY: Final = f"/deny-capture {REGIME.trace_id}"
NEVER: Final = 600_000
"""Milliseconds of a poll's pace: a test says when to look."""
PATIENCE: Final = 5_000
"""Milliseconds of a back-off that `settle` waits for."""


def populate(github: Control, repository: str = REPOSITORY, repository_id: int = REPOSITORY_ID) -> None:
    """Make a repository in which the bot, alice and bob may write, carol may triage, and mallory only reads."""
    github.add_repository(repository, repository_id)
    for login, role in ((BOT, "write"), ("alice", "write"), ("bob", "write"), ("carol", "triage")):
        github.grant(repository, login, role)


def accounts(github: Control) -> str:
    """Make the people and the bot; the bot's token."""
    for login, number in PEOPLE.items():
        github.add_account(login, number)
    return github.add_account(BOT, BOT_ID)


def duties_of(
    database: Database,
    rules: Rules,
    place: Place,
    forge: Forge,
    outside: Outside,
    names: tuple[str, ...] = (REPOSITORY,),
    poll_ms: int = NEVER,
    addresses: Addresses | None = None,
    lease_ms: int = 5_000,
    by_app: bool = False,
) -> list[RowDuty]:
    """Make the duties of a broker over a real forge and an outside of files, armed."""
    capturer, link = FileCapturer(outside), FileLink(outside)
    routes = {**OnBridge(database, link).routes(), **job_routes(capturer)}
    routes |= OnForge(database, forge, rules, "a minute of one GPU", by_app).routes()
    intake = Intake(
        database=database,
        forge=forge,
        rules=rules,
        repositories=addresses or Addresses(forge, names),
        bot=None,
        moved=lambda tx, capture: head_moved(tx, rules, place, capture),
    )
    poll = Poll(database, forge, polling.Pace(poll_ms, poll_ms, 7 * 86_400_000))
    watch = Pulls(database, forge, rules, intake.moved, pulls.Pace(poll_ms, poll_ms))
    poll.arm(names)
    watch.arm(names)
    advance = Advance(database, rules, place, forge, Measuring(capturer, attempts=2, poll_ms=1))
    pace = Pace(batch=5, lease_ms=lease_ms, first_ms=1, most_ms=20)
    return [
        RowDuty(polling.DUTY, database, poll.one, pace),
        RowDuty(pulls.DUTY, database, watch.one, pace),
        RowDuty(comments.DUTY, database, lambda claimed: comments.take(intake, claimed), pace),
        RowDuty(reviews.DUTY, database, lambda claimed: reviews.take(intake, claimed), pace),
        RowDuty(outbox.DUTY, database, Outbox(database, routes).lane, pace),
        RowDuty(moves.DUTY, database, advance.one, pace),
        RowDuty(EXPIRE_DUTY, database, Expiry(database).one, pace),
    ]


@dataclass
class ForgeStage(CaptureStage):
    """A broker's duties between a database and a local GitHub; `token` is the bot's."""

    github: Sandbox = field(kw_only=True)
    token: str = field(kw_only=True)
    adapter: GitHubForge = field(init=False)
    addresses: Addresses = field(init=False)
    names: tuple[str, ...] = (REPOSITORY,)
    by_app: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.adapter = self.connect()
        self.addresses = Addresses(self.adapter, self.names)

    def connect(self) -> GitHubForge:
        """Make the adapter: under the token, or with `by_app` as the App of `app_keys`."""
        if self.by_app:
            return forge_as_app(self.github, time.time, *self.names)
        return GitHubForge(self.github.url, self.token)

    def restart(self) -> None:
        """Play a new process: nothing that was in memory is left."""
        self.adapter.disconnect()
        self.adapter = self.connect()
        self.addresses = Addresses(self.adapter, self.names)

    def duties(self) -> list[RowDuty]:
        known = self.addresses if self.addresses.names == self.names else None
        return duties_of(
            self.database,
            self.rules,
            self.place,
            self.adapter,
            self.outside,
            self.names,
            addresses=known,
            lease_ms=self.lease_ms,
            by_app=self.by_app,
        )

    def settle(self, rounds: int = 600) -> None:
        """Run every duty until nothing is due, back-offs of a few seconds included."""
        duties = self.duties()
        for _ in range(rounds):
            for duty in duties:
                duty.step()
            with self.database.read() as tx:
                dues = [at for at in (due.next_due(tx, duty.name) for duty in duties) if at is not None]
                wait = min(dues, default=tx.now + NEVER) - tx.now
            if wait > PATIENCE:
                return
            time.sleep(max(0, wait) / 1000)
        raise AssertionError("the duties do not come to rest")

    def look(self, *, pulls_too: bool = True) -> None:
        """Poll every repository once, and do everything that follows."""
        with self.database.write() as tx:
            for name in self.names:
                due.set_due(tx, polling.DUTY, name, tx.now)
                if pulls_too:
                    due.set_due(tx, pulls.DUTY, name, tx.now)
        self.settle()

    def opened(self) -> Capture:
        """Ask for the capture, and give it once its draft is open and seen."""
        capture = self.requested()
        self.settle()
        self.look()
        return self.capture(capture)

    def say(self, capture: Capture, login: str, body: str, **more: Any) -> int:
        """Comment on a capture's pull request; the comment's id."""
        number = self.capture(capture).pull_request
        assert number is not None
        return self.github.comment(REPOSITORY, number, login, body, **more)

    def reactions(self, comment_id: int) -> list[str]:
        """List what the bot left on a comment."""
        return [left.content for left in self.github.reactions(comment_id) if left.account_id == BOT_ID]

    def by_bot(self, number: int) -> list[Comment]:
        """List the bot's comments on a pull request."""
        return [comment for comment in self.github.comments(REPOSITORY, number) if comment.author_id == BOT_ID]

    def status(self, number: int) -> str:
        """Give the one status comment of a pull request."""
        written = [comment.body for comment in self.by_bot(number) if "gitops-bot:ask=" in comment.body]
        assert len(written) == 1, written
        return written[0]

    def replies(self, number: int) -> list[str]:
        """List the bot's replies on a pull request."""
        return [comment.body for comment in self.by_bot(number) if "gitops-bot:reply=" in comment.body]

    def pull(self, number: int) -> Thread:
        """Give a pull request as it is."""
        return self.github.thread(REPOSITORY, number)

    def cursor(self, name: str = f"comments:{REPOSITORY}") -> str | None:
        """Read a cursor."""
        return self.read(lambda tx: settings.cursor(tx, name))

    def ledger(self) -> list[dict[str, Any]]:
        """List the whole ledger."""
        with self.database.write() as tx:
            store_ledger.seal_next(tx, 100_000)
        return self.read(lambda tx: [entry.document for entry in store_ledger.sealed(tx, 0, 100_000)])
