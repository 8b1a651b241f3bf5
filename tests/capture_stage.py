"""A stage with captures: the broker's duties over one database, with an outside of files (`tests.outside`)."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from gitops_bot.authority.asking import EXPIRE_DUTY
from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.authority.expiry import Expiry
from gitops_bot.authority.outbox import Outbox
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.sealing import DUTY as SEAL
from gitops_bot.authority.sealing import Sealer
from gitops_bot.broker import captures as moves
from gitops_bot.broker import loops
from gitops_bot.broker.advance import Advance, Measuring
from gitops_bot.broker.captures import Answered, Place, Request
from gitops_bot.broker.deliveries import OnBridge, OnForge, job_routes
from gitops_bot.core.captures import Regime
from gitops_bot.core.errors import Refused
from gitops_bot.ports import Forge
from gitops_bot.store import agents, captures, due, outbox
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Database
from gitops_bot.store.states import AgentKind
from tests.decisions import Stage
from tests.outside import FileCapturer, FileForge, FileLink, Outside

REGIME: Final = Regime("acme/tiny", 4, 2, 16, 0, "0.0000")
REPOSITORY: Final = "acme/ops"


@dataclass
class CaptureStage(Stage):
    """Duties of a broker; `forge` False is a host without one."""

    folder: Path = Path()
    forge: bool = True
    lease_ms: int = 2_000
    outside: Outside = field(init=False)
    link: FileLink = field(init=False)
    place: Place = field(init=False)

    def __post_init__(self) -> None:
        self.outside = Outside(self.folder)
        self.link = FileLink(self.outside)
        self.place = Place("test", REPOSITORY if self.forge else None)

    @property
    def on_forge(self) -> FileForge:
        """The forge, for a test to play on."""
        return FileForge(self.outside)

    def loop(self, loop_id: str = "loop-1", *, resume: bool = True) -> loops.Registered:
        """Register a loop of its own agent."""
        agent = self.agent(f"agent-of-{loop_id}", AgentKind.LOOP)

        def work(tx: Any) -> loops.Registered | Refused:
            return loops.register(
                tx, agent=agent, loop_id=loop_id, address=f"{loop_id}:1", broker_token="t" * 32, resume=resume
            )

        found = self.write(work)
        assert isinstance(found, loops.Registered)
        return found

    def request(self, loop_id: str = "loop-1", *, key: str | None = None) -> Answered | Refused:
        """Ask for the capture of `REGIME` as a loop."""
        run = self.loop(loop_id).run

        def work(tx: Any) -> Answered | Refused:
            agent = agents.get(tx, run.agent)
            assert agent is not None
            hit = captures.newest_ready(tx, "test", REGIME.trace_id)
            wanted = Request(agent, run, REGIME, "to see more", loop=loop_id, idempotency_key=key)
            return moves.request(tx, self.rules, self.place, wanted, hit=hit)

        return self.write(work)

    def requested(self, loop_id: str = "loop-1") -> Capture:
        """Ask, and give the capture."""
        answered = self.request(loop_id)
        assert isinstance(answered, Answered) and answered.capture is not None, answered
        return answered.capture

    def capture(self, of: Capture) -> Capture:
        """Read a capture again."""
        found = self.read(lambda tx: captures.get(tx, of.id))
        assert found is not None
        return found

    def duties(self) -> list[RowDuty]:
        """Make the duties, as a broker that starts would."""
        return duties_of(self.database, self.rules, self.place, self.outside, self.lease_ms)

    def settle(self, rounds: int = 60) -> None:
        """Run every duty until nothing is due."""
        duties, quiet = self.duties(), 0
        for _ in range(rounds):
            # What one duty did may have made another due that had looked before it: two quiet rounds are a rest.
            quiet = quiet + 1 if min([duty.step() for duty in duties]) > 0.02 else 0
            if quiet == 2:
                return
        raise AssertionError("the duties do not come to rest")

    def settle_one(self, of: Capture) -> None:
        """Take one capture as far as it goes now, whatever else is due."""
        capturer = FileCapturer(self.outside)
        forge = cast(Forge, self.on_forge) if self.forge else None
        measuring = Measuring(capturer, attempts=2, poll_ms=1)
        advance = Advance(self.database, self.rules, self.place, forge, measuring)
        advance.one(due.Claimed(moves.DUTY, of.id, 0, 0))
        with self.database.write() as tx:
            due.set_due(tx, moves.DUTY, of.id, tx.now)


def duties_of(database: Database, rules: Rules, place: Place, outside: Outside, lease_ms: int) -> list[RowDuty]:
    """Make the duties of a broker over an outside of files."""
    capturer, link = FileCapturer(outside), FileLink(outside)
    forge = cast(Forge, FileForge(outside)) if place.repository else None
    routes = {**OnBridge(database, link).routes(), **job_routes(capturer)}
    if forge is not None:
        routes |= OnForge(database, forge, rules, "a minute of one GPU").routes()
    advance = Advance(database, rules, place, forge, Measuring(capturer, attempts=2, poll_ms=1))
    pace = Pace(batch=5, lease_ms=lease_ms, first_ms=1, most_ms=20)
    sealer = Sealer(database)
    return [
        RowDuty(moves.DUTY, database, advance.one, pace),
        RowDuty(outbox.DUTY, database, Outbox(database, routes).lane, pace),
        RowDuty(EXPIRE_DUTY, database, Expiry(database).one, pace),
        RowDuty(SEAL, database, sealer.step, pace),
    ]
