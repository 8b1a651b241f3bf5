"""From a verdict to its `rescope` on a loop's wire, beside a bare TCP round trip and two commits in the same run.

Bound: p50 under 50 ms, polling aside: the capture is instant and nobody polls for the verdict. On the way lie, each
committed before the next begins: the verdict, approved, submitted, running, ready, the signal in the outbox, and the
effect's attempt. The database is SQLite on this disk, each commit synced, the duties are threads as in a broker, and
the signal goes over TCP.
"""

import json
import socket
import socketserver
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from benchmarks.machine import median, timed
from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.authority.outbox import Outbox
from gitops_bot.authority.settling import Settled
from gitops_bot.bridge.client import BridgeLink
from gitops_bot.broker import captures as moves
from gitops_bot.broker import loops
from gitops_bot.broker.advance import Advance, Measuring
from gitops_bot.broker.captures import Answered, Place, Request
from gitops_bot.broker.daemon import Bell, Daemon
from gitops_bot.broker.deliveries import OnBridge
from gitops_bot.core.captures import Regime
from gitops_bot.store import outbox as effects
from gitops_bot.store import schema, settings
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind
from tests.capture_stage import CaptureStage
from tests.decisions import rules_of
from tests.outside import FileCapturer, Outside

ROUNDS: Final = 40
BOUND_MS: Final = 50.0
TOKEN: Final = "t" * 32


class _Wire(socketserver.ThreadingTCPServer):
    """A loop's bridge that stamps the instant at which a command has arrived, and acknowledges it."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Line)
        self.arrived: dict[str, float] = {}
        self.came = threading.Condition()


class _Line(socketserver.StreamRequestHandler):
    server: _Wire

    def handle(self) -> None:
        for line in self.rfile:
            said = json.loads(line)
            if said.get("cmd") == "rescope":
                with self.server.came:
                    self.server.arrived[said["regime"]] = time.perf_counter()
                    self.server.came.notify_all()
            echo = {"cmd": said.get("cmd", "auth"), **({"key": said["id"]} if "id" in said else {})}
            self.wfile.write(json.dumps({"ok": True, **echo}).encode() + b"\n")


def one(stage: CaptureStage, wire: _Wire, number: int) -> float:
    """Ask, approve, and give the ms from the answer to the signal's arrival."""
    regime = Regime("acme/tiny", number + 1, 2, 16, 0, "0.0000")
    agent = stage.agent(f"agent-{number}", AgentKind.LOOP)

    def ask(tx: Tx) -> object:
        address = f"127.0.0.1:{wire.server_address[1]}"
        found = loops.register(
            tx, agent=agent, loop_id=f"loop-{number}", address=address, broker_token=TOKEN, resume=True
        )
        assert isinstance(found, loops.Registered)
        wanted = Request(agent, found.run, regime, "bench", loop=f"loop-{number}")
        return moves.request(tx, stage.rules, stage.place, wanted, hit=None)

    answered = stage.write(ask)
    assert isinstance(answered, Answered) and answered.ask is not None
    question = stage.get(answered.ask)
    time.sleep(0.02)  # the duties are at rest again
    began = time.perf_counter()
    assert isinstance(stage.answer(question, "bob", "approve"), Settled)
    with wire.came:
        assert wire.came.wait_for(lambda: regime.trace_id in wire.arrived, 10)
    return (wire.arrived[regime.trace_id] - began) * 1000


def bare(database: Database, wire: _Wire) -> float:
    """Give the ms of one TCP round trip and two commits."""

    def both() -> None:
        for step in range(2):
            with database.write() as tx:
                settings.set_cursor(tx, "bench", str(step))
        with socket.create_connection(wire.server_address) as plain:
            plain.sendall(b'{"cmd": "status"}\n')
            plain.recv(1024)

    return timed(both)


def measure(folder: Path, wire: _Wire) -> bool:
    """Print both sides and tell whether the bound holds."""
    url = f"sqlite:///{folder / 'bench.db'}"
    owner = Database.open(url, Role.OWNER)
    schema.upgrade(owner.engine)
    owner.close()
    database = Database.open(url, Role.BROKER, pool_size=8)
    stage = CaptureStage(database, rules_of(), folder=folder, forge=False)
    bell = Bell()
    database.on_due = bell.notify
    place = Place("test", None, slots=ROUNDS)
    capturer = FileCapturer(Outside(folder))
    advance = Advance(database, stage.rules, place, None, Measuring(capturer, attempts=1, poll_ms=1))
    outbox = Outbox(database, OnBridge(database, BridgeLink()).routes())
    daemon = Daemon(
        [
            RowDuty(moves.DUTY, database, advance.one, Pace(batch=5)),
            RowDuty(effects.DUTY, database, outbox.lane, Pace(batch=4, first_ms=500)),
        ],
        bell,
    )
    stage.place = place
    daemon.start()
    try:
        one(stage, wire, 0)  # the statements are compiled
        pairs = [(one(stage, wire, number), bare(database, wire)) for number in range(1, ROUNDS + 1)]
    finally:
        daemon.stop()
        daemon.join(10)
        database.close()
    whole, plain = sorted(pair[0] for pair in pairs), [pair[1] for pair in pairs]
    held = median(whole) < BOUND_MS
    print(
        f"  settle to rescope: p50 {median(whole):.1f} ms, p90 {whole[len(whole) * 9 // 10]:.1f}, "
        f"worst {whole[-1]:.1f} (of {ROUNDS}; bound {BOUND_MS:.0f}: {'holds' if held else 'BROKEN'}); "
        f"a TCP round trip and two commits "
        f"{median(plain):.1f} ms; ratio {median(whole) / median(plain):.1f}",
        flush=True,
    )
    return held


def main() -> bool:
    """Measure on SQLite."""
    with tempfile.TemporaryDirectory(prefix="gitops-bot-bench-") as folder, _Wire() as wire:
        threading.Thread(target=wire.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            return measure(Path(folder), wire)
        finally:
            wire.shutdown()
