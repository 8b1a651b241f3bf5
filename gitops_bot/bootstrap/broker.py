"""The composition root of the broker: every port gets its adapter here, every duty its handler."""

import json
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from gitops_bot.authority import comments, operator_claims, reviews
from gitops_bot.authority.asking import EXPIRE_DUTY
from gitops_bot.authority.comments import Intake
from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.authority.expiry import Expiry
from gitops_bot.authority.operator_claims import OperatorClaims
from gitops_bot.authority.outbox import Outbox, Route
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.seal_duty import SealDuty
from gitops_bot.authority.sealing import Sealer
from gitops_bot.bootstrap import fleet, notices, signed, sweeping
from gitops_bot.bootstrap.forge import client_of, is_app
from gitops_bot.bootstrap.rules import place_of, rules_of
from gitops_bot.bootstrap.signed import SignedChannel
from gitops_bot.bootstrap.starter import adopt
from gitops_bot.bridge.client import BridgeLink
from gitops_bot.broker import advance, loops, polling, pulls, requests
from gitops_bot.broker.addresses import Addresses
from gitops_bot.broker.advance import Advance, Measuring
from gitops_bot.broker.captures import Place
from gitops_bot.broker.daemon import Bell, Daemon
from gitops_bot.broker.deliveries import OnBridge, OnForge, job_routes
from gitops_bot.broker.loops import Listener
from gitops_bot.broker.polling import Poll
from gitops_bot.broker.pulls import Pulls
from gitops_bot.broker.requests import Requests
from gitops_bot.broker.successors import head_moved, policy_moved
from gitops_bot.capture.local import LocalCapturer
from gitops_bot.config import Settings, Starter
from gitops_bot.core.captures import TraceId, slug
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.ports import Duty, Forge, Hint
from gitops_bot.process import Limits
from gitops_bot.store import outbox, schema
from gitops_bot.store import settings as stored
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role

CAPTURE_MEMORY = 4 * 1024**3
CAPTURE_FILE = 512 * 1024**2
"""Bytes of one file that a capture program writes: twice the largest artefact, so that a larger one is named so."""
LEASE_MS = 30_000
PULLS_SLOWER = 4
"""Without an open pull request of the bot's, looking for changes of one is so many times slower still."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that is put together: start it, wait, stop it."""

    database: Database
    daemon: Daemon
    bell: Bell
    rules: Rules
    fleet: fleet.Fleet
    signed: SignedChannel | None = None
    adopted: threading.Event = field(default_factory=threading.Event)
    """Set when another policy was adopted: this broker is to end, and one under the new policy to begin."""

    def close(self, seconds: float = 10.0) -> None:
        """Let every duty end its step and bodies of agents their turn, then close the database."""
        self.daemon.stop()
        self.daemon.join(seconds)
        self.fleet.close()
        if self.signed is not None:
            self.signed.close()
        self.database.close()


def forge_of(settings: Settings) -> Forge | None:
    """Make the forge's adapter, under a token or as a GitHub App; None where no repository is configured.

    Raises:
        ConfigError: there is no usable credential, or there are two.
    """
    return client_of(settings)


def publisher(folder: Path | None) -> Callable[[TraceId, Mapping[str, str], str], None] | None:
    """Make what puts a finished calibration where judges look: `<folder>/<slug>/knobs.json`, replaced atomically."""
    if folder is None:
        return None

    def publish(trace_id: TraceId, knobs: Mapping[str, str], digest: str) -> None:
        target = folder / slug(trace_id) / "knobs.json"
        content = json.dumps({"v": 1, "trace_id": trace_id, "digest": digest, "knobs": dict(knobs)}, sort_keys=True)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False, encoding="utf-8") as file:
                file.write(content + "\n")
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).chmod(0o644)
            Path(file.name).replace(target)
        except OSError as error:
            raise Unavailable(f"cannot publish a calibration: {error.strerror}") from error

    return publish


def build(settings: Settings, *, outside: Hint | None = None, listen_ms: int | None = None) -> Broker:
    """Open everything that a broker needs and arm its duties; nothing runs yet.

    Raises:
        ConfigError: something that must not start.
    """
    database = Database.open(settings.database_url, Role.BROKER, pool_size=12)
    schema.check(database.engine)
    rules = rules_of(settings, database)
    forge, place = forge_of(settings), place_of(settings)
    bell = Bell()
    database.on_due, database.on_due_of = bell.notify, bell.notify_of
    _remember(database, rules, settings)
    crew = fleet.build(settings, database, rules, bell)
    duties = _duties(settings, database, rules, place, forge, listen_ms or loops.LISTEN_MS, crew.routes)
    duties += [*notices.duties(settings, database), *crew.duties]
    channel = None
    adopted, ends = threading.Event(), list[Callable[[], None]]()

    def end() -> None:
        adopted.set()
        for stop in ends:
            stop()

    if settings.signed.remote is not None:
        channel = signed.build(
            settings,
            database,
            rules,
            forge,
            end,
            lambda tx, now, ask: policy_moved(tx, now, place, ask),
        )
        duties += channel.duties(database)
    daemon = Daemon(duties, bell, outside)
    ends.append(daemon.stop)
    return Broker(database, daemon, bell, rules, crew, channel, adopted)


def _remember(database: Database, rules: Rules, settings: Settings) -> None:
    """Keep what the pinned policy says about identities, and check that the database is this environment's own."""
    owned = [
        (name, identity) for name, person in rules.policy.people.items() for identity in person.principal.identities
    ]
    with database.write() as tx:
        environment = stored.set_fact_once(tx, "environment", settings.environment)
        stored.set_fact_once(tx, "epoch", "1")
        if environment != settings.environment:
            raise ConfigError(
                f"the database belongs to the environment {environment!r}",
                fix=f'[signed] environment = "{environment}", or another database',
            )
        stored.keep_identities(tx, owned)


def _duties(
    settings: Settings,
    database: Database,
    rules: Rules,
    place: Place,
    forge: Forge | None,
    listen_ms: int,
    more: Mapping[str, Route],
) -> list[Duty]:
    link = BridgeLink()
    routes: dict[str, Route] = {**OnBridge(database, link).routes(), **more}
    measuring = None
    if settings.capture.program:
        root = settings.state / "captures"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        limits = Limits(memory_bytes=CAPTURE_MEMORY, file_bytes=CAPTURE_FILE)
        capturer = LocalCapturer(root, settings.capture.program, limits, settings.capture.timeout / 1000)
        routes |= job_routes(capturer)
        measuring = Measuring(capturer, settings.capture.attempts, 250, publisher(settings.capture.publish))
    pace = Pace(lease_ms=LEASE_MS)
    duties: list[Duty] = []
    sealer = Sealer(database)
    sealer.arm()
    if forge is not None:
        routes |= OnForge(database, forge, rules, settings.capture.cost, is_app(settings)).routes()
        duties += _forge_duties(settings, database, rules, place, forge)
        duties += sweeping.duties(settings, database)
    duties += [
        *outbox_duties(database, routes),
        RowDuty(EXPIRE_DUTY, database, Expiry(database).one, pace),
        SealDuty(database, sealer, pace),
        RowDuty(advance.DUTY, database, Advance(database, rules, place, forge, measuring).one, pace),
        RowDuty(requests.DUTY, database, Requests(database).one, pace),
        RowDuty(
            operator_claims.DUTY,
            database,
            OperatorClaims(database, rules, settings.operator, settings.shared_uid == "accepted").one,
            pace,
        ),
        RowDuty(loops.DUTY, database, Listener(database, link, settings.resume_grace, listen_ms).one, pace),
    ]
    return duties


def outbox_duties(database: Database, routes: Mapping[str, Route]) -> list[Duty]:
    """Make what delivers effects: two at a time, a lane each, so that a loop does not wait for its signal behind what a
    forge takes to show a status."""
    deliver, pace = Outbox(database, routes).lane, Pace(batch=1, lease_ms=60_000, first_ms=500)
    return [RowDuty(outbox.DUTY, database, deliver, pace) for _ in range(2)]


def _forge_duties(settings: Settings, database: Database, rules: Rules, place: Place, forge: Forge) -> list[Duty]:
    repositories = settings.forge.repositories
    intake = Intake(
        database=database,
        forge=forge,
        rules=rules,
        repositories=Addresses(forge, repositories),
        bot=None,
        moved=lambda tx, capture: head_moved(tx, rules, place, capture),
        max_comment_age=settings.forge.max_comment_age,
    )
    poll = Poll(
        database,
        forge,
        polling.Pace(settings.forge.poll_fast, settings.forge.poll_slow, settings.forge.max_comment_age),
    )
    poll.arm(repositories)
    slower = pulls.Pace(settings.forge.poll_slow, settings.forge.poll_slow * PULLS_SLOWER)
    watch = Pulls(database, forge, rules, intake.moved, slower)
    watch.arm(repositories)
    pace = Pace(lease_ms=LEASE_MS)
    return [
        RowDuty(polling.DUTY, database, poll.one, pace),
        RowDuty(pulls.DUTY, database, watch.one, pace),
        RowDuty(comments.DUTY, database, lambda claimed: comments.take(intake, claimed), pace),
        RowDuty(reviews.DUTY, database, lambda claimed: reviews.take(intake, claimed), pace),
    ]


def run(
    settings: Settings,
    *,
    outside: Hint | None = None,
    ready: Callable[[], None] | None = None,
    starter: Starter | None = None,
) -> int:
    """Run a broker until SIGTERM or SIGINT; gives 0, or 1 when a duty ended by a bug of ours.

    `starter` is the loop that started it, where one did.
    """
    stopping = threading.Event()
    running: list[Broker] = []

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()
        for broker in running:
            broker.daemon.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    while True:
        broker = build(settings, outside=outside)
        running[:] = [broker]
        if starter is not None:
            adopt(broker.database, starter)
            starter = None
        if not stopping.is_set():
            broker.daemon.start()
            if ready is not None:
                ready()
                ready = None
            broker.daemon.wait()
        broker.close()
        if broker.daemon.fatal:
            return 1
        if stopping.is_set() or not broker.adopted.is_set():
            return 0
