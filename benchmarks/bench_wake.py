"""From a person's committed answer to the first word of the agent's new body, with a broker and bodies as processes.

The body is a shell that writes the time at which it began to read its capsule, so that the start of a process is in the
number; the answer is committed by another process, which sends the hint that a workspace sends. Beside it, in the same
run: the answer's own transaction, and the start of the same shell by this process. Bound: p50 under 30 ms on SQLite (a
file on this disk, each commit synced), under 20 ms on PostgreSQL (the test cluster, which syncs none).
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from benchmarks.bench_claim import postgresql, sqlite
from benchmarks.machine import median
from gitops_bot.bootstrap.hints import DatagramHint
from gitops_bot.bootstrap.rules import rules_of
from gitops_bot.bootstrap.trust import pin
from gitops_bot.config import load
from gitops_bot.store import asks
from gitops_bot.store.agents import Agent
from gitops_bot.store.roles import Role
from tests.due_stage import DueStage
from tests.served_stage import BOT, POLICIES
from tests.store_fixtures import FreshDatabase

ROUNDS: Final = 60
WARM: Final = 5
BOUNDS_MS: Final = {"sqlite": 30.0, "postgresql": 20.0}
BODY: Final = 'date +%s%N > "$0"; cat > /dev/null; echo "ASK: Go on?"'
SETTINGS: Final = '[database]\nurl_file = "url"\n[fleet]\nisolation = "none"\n'
PATIENCE: Final = 60.0


def _until(seen: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not seen():
        if time.monotonic() > end:
            raise RuntimeError("the fleet did not come as far in time")
        time.sleep(0.001)


def _lay_out(folder: Path, database: FreshDatabase) -> DueStage:
    shutil.copytree(POLICIES, folder / "policies")
    (folder / ".gitops-bot").mkdir(mode=0o700)
    (folder / "url").touch(mode=0o600)
    (folder / "url").write_text(database.url(Role.BROKER))
    (folder / "gitops-bot.toml").write_text(SETTINGS)
    pin(folder / "policies", folder / ".gitops-bot" / "trust.json")
    opened = database.open(Role.BROKER)
    opened.on_due = DatagramHint(folder / ".gitops-bot" / "hints", listen=False).notify
    return DueStage(opened, rules_of(load(folder / "gitops-bot.toml")))


def _round(stage: DueStage, agent: Agent, stamp: Path) -> tuple[float, float]:
    """Answer what the agent asked; give the ms to its new body, and those of the answer itself."""
    _until(lambda: bool(stage.read(lambda tx: asks.page(tx, "", 1, only_open=True, agent=agent.id))))
    (found,) = stage.read(lambda tx: asks.page(tx, "", 1, only_open=True, agent=agent.id))
    ask = stage.get(found.id)
    stamp.unlink(missing_ok=True)
    # The same quiet before each answer, so that nothing of the turn before runs still.
    time.sleep(0.05)
    began = time.time_ns()  # compared with what `date` of the body says
    stage.answer(ask, "alice", None, "go on")
    answered = time.time_ns()  # compared with what `date` of the body says
    _until(lambda: stamp.exists() and len(stamp.read_text()) > 10)
    return (int(stamp.read_text()) - answered) / 1e6, (answered - began) / 1e6


def _bare(stamp: Path) -> float:
    """Start the same shell from here; give the ms to its first word."""
    stamp.unlink(missing_ok=True)
    began = time.time_ns()  # compared with what `date` of the body says
    subprocess.run(["/bin/sh", "-c", BODY, str(stamp)], input=b"", capture_output=True, check=True)  # the bare side
    return (int(stamp.read_text()) - began) / 1e6


def measure(fresh: FreshDatabase) -> bool:
    """Print one engine's numbers and tell whether the bound holds."""
    folder = Path(tempfile.mkdtemp(prefix="gb-wake-"))
    stage = _lay_out(folder, fresh)
    stamp = folder / "stamp"
    agent = stage.member(
        "walker", principal="demo-agent", command=("/bin/sh", "-c", BODY, str(stamp)), folder=str(folder)
    )
    stage.wake(agent)
    command = [*BOT, "broker", "--config", str(folder / "gitops-bot.toml")]
    with (folder / "log").open("wb") as log:
        broker = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)  # a broker as it runs
    try:
        found = [_round(stage, agent, stamp) for _ in range(ROUNDS + WARM)][WARM:]
        bare = median([_bare(stamp) for _ in range(ROUNDS)])
    finally:
        broker.kill()
        broker.wait()
        shutil.rmtree(folder)
    waits = sorted(wait for wait, _ in found)
    p50, p95 = median(waits), waits[int(len(waits) * 0.95)]
    bound = BOUNDS_MS[fresh.kind]
    own = median([took for _, took in found])
    verdict = "holds" if p50 < bound else "BROKEN"
    print(
        f"  {fresh.kind:11} answer committed → body p50 {p50:.1f} ms, p95 {p95:.1f} "
        f"(the answer itself {own:.1f}, the shell alone {bare:.1f}); bound {bound:.0f} ms: {verdict}",
        flush=True,
    )
    return p50 < bound


def main() -> bool:
    """Print both engines and tell whether both bounds hold."""
    engines: tuple[Callable[[], AbstractContextManager[FreshDatabase]], ...] = (sqlite, postgresql)
    held = True
    for engine in engines:
        with engine() as fresh:
            held &= measure(fresh)
    return held
