"""The composition root of the fleet within a broker: harnesses by kind, how their bodies are kept apart, its duties.

A broker without a fleet agent needs none of it: a harness, and what keeps its bodies apart, is made ready when the
first body of its kind is to run. Where that does not work on this machine, the turn ends as one that never started,
with the reason, and is tried again later.
"""

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy.engine import make_url

from gitops_bot.authority.outbox import Route
from gitops_bot.authority.rules import Rules
from gitops_bot.bootstrap.holders import Holders
from gitops_bot.config import Settings
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.fleet.bodies import Bodies, Ground
from gitops_bot.fleet.reconcile import Reconcile
from gitops_bot.fleet.releasing import Releasing
from gitops_bot.fleet.settle import RELEASE
from gitops_bot.fleet.tick import Tick
from gitops_bot.harness.acpx import AcpxBodies
from gitops_bot.harness.bodies import CommandBodies, Isolate
from gitops_bot.harness.fleet_isolation import Kind, isolate
from gitops_bot.ports import BodyEnd, BodyOrder, BodyStop, Duty, Harness, Hint
from gitops_bot.process import SYSTEM_PATH
from gitops_bot.store.engine import Database
from gitops_bot.store.states import HarnessKind

KEEPING: Final = frozenset({HarnessKind.ACPX})
"""The harnesses that keep sessions."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The fleet's part of a broker: its duties, the routes of its effects, and what ends it once they have ended."""

    duties: tuple[Duty, ...]
    routes: Mapping[str, Route]
    holders: Holders
    bodies: Bodies
    drain: float

    def close(self) -> None:
        """Let bodies end by themselves for the time that is set, end the others, and be gone as a holder."""
        if self.bodies.drain(self.drain):
            self.holders.close()


class Prepared:
    """A harness that is made ready when it is first needed; fulfils `ports.Harness`."""

    def __init__(self, make: Callable[[], Harness], *, keeps_sessions: bool) -> None:
        self._make, self._keeps = make, keeps_sessions
        self._lock = threading.Lock()
        self._made: Harness | None = None

    @property
    def keeps_sessions(self) -> bool:
        """Whether a session outlives a turn and must be released."""
        return self._keeps

    def run(self, order: BodyOrder, heard: Callable[[bytes], None], stopping: Callable[[], bool]) -> BodyEnd:
        """Run one turn; one that this machine cannot keep apart as it must has never started."""
        try:
            harness = self._ready()
        except ConfigError as error:
            return BodyEnd(BodyStop.NOT_STARTED, detail=str(error))
        return harness.run(order, heard, stopping)

    def release(self, order: BodyOrder) -> None:
        """Release the session of an order.

        Raises:
            Unavailable: it is not released, or there is no telling.
        """
        try:
            harness = self._ready()
        except ConfigError as error:
            raise Unavailable(str(error)) from error
        harness.release(order)

    def _ready(self) -> Harness:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


def harnesses(settings: Settings) -> Mapping[HarnessKind, Harness]:
    """Give every harness that this broker can run bodies with."""

    def start() -> Isolate:
        fleet = settings.fleet
        way = isolate(Kind(fleet.isolation), hidden=hidden(settings), user=fleet.run_as, prefix=fleet.remote)
        return way.start

    return {
        HarnessKind.COMMAND: Prepared(lambda: CommandBodies(start()), keeps_sessions=False),
        HarnessKind.ACPX: Prepared(lambda: AcpxBodies(start(), _acpx()), keeps_sessions=True),
    }


def hidden(settings: Settings) -> Sequence[Path]:
    """Name what no body may reach: the database, the state folder, keys, and every file with a secret."""
    files = [
        settings.state,
        settings.trust_file,
        settings.signed.keys_dir,
        settings.signed.bot_key_file,
        settings.forge.token_file,
        settings.forge.private_key_file,
        *settings.forge.webhook_secret_files,
        settings.workspace.oidc_client_secret_file,
    ]
    url = make_url(settings.database_url)
    if url.get_backend_name() == "sqlite" and url.database:
        files.append(Path(url.database).absolute())
    return [path for path in files if path is not None and path.exists()]


def _acpx() -> tuple[str, ...]:
    node, script = shutil.which("node", path=SYSTEM_PATH), shutil.which("acpx", path=SYSTEM_PATH)
    if node is None or script is None:
        raise ConfigError("acpx needs Node 22 and itself on the system's path", fix="npm install --global acpx")
    return (node, script)


def build(settings: Settings, database: Database, rules: Rules, bell: Hint) -> Fleet:
    """Make the fleet of a broker; nothing runs, and no file but its holder's is written."""
    holders = Holders(settings.state / "brokers")
    ready = harnesses(settings)
    ground = Ground(database, rules, ready, settings.origin.rstrip("/"), holders.name, settings.fleet.lease)
    bodies = Bodies(ground, bell.notify)
    tick = Tick(
        database,
        bodies,
        holder=holders.name,
        slots=settings.fleet.slots,
        lease=settings.fleet.lease,
        keeping=KEEPING,
    )
    reconcile = Reconcile(database, rules, holders.gone)
    routes = {RELEASE: Releasing(database, ready).route()}
    return Fleet((tick, reconcile), routes, holders, bodies, settings.fleet.drain / 1_000)
