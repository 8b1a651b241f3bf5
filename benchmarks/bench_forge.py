"""An hour of 100 repositories with 10,000 comments, replayed through poll and intake: nothing missed, memory flat.

The local GitHub stands on a clock moved by hand, so an hour of comments is replayed as fast as it can be heard; each
repository has one open ask, and one comment in twenty is a command. Bounds: every command is claimed exactly once, no
request more than one a repository and round beside what commands cost, and the second half of the replay adds less than
10 MB to what Python holds after the first.
"""

import gc
import random
import tempfile
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from gitops_bot.authority.duties import RowDuty
from gitops_bot.broker import captures as moves
from gitops_bot.broker import pacing, polling
from gitops_bot.broker.captures import Answered, Place, Request
from gitops_bot.ports import Forge
from gitops_bot.sandbox.control import Control
from gitops_bot.store import agents, due, schema
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind
from tests.capture_stage import REGIME
from tests.contract.fake_forge import FakeForge
from tests.decisions import Stage, rules_of
from tests.forge_stage import BOT, PEOPLE, WITH_WRITE, duties_of, populate
from tests.outside import Outside
from tests.store_fixtures import FreshDatabase

REPOSITORIES: Final = 100
COMMENTS: Final = 10_000
ROUNDS: Final = 60
"""Polls of each repository in the hour: one a minute."""
COMMAND_EVERY: Final = 20
GROWTH: Final = 10 * 1024 * 1024


def main() -> bool:
    """Replay the hour and tell whether the bounds hold."""
    with tempfile.TemporaryDirectory(prefix="gitops-bot-bench-") as folder:
        return replay(Path(folder))


def replay(folder: Path) -> bool:
    """Replay on SQLite; the forge is the sandbox's world without HTTP, so that what is measured is the broker."""
    fresh = FreshDatabase("sqlite", f"sqlite:///{folder / 'bench.db'}")
    schema.upgrade(fresh.open(Role.OWNER).engine)
    database = fresh.open(Role.BROKER)
    began = time.time() - 3_600
    now = [began]
    github = Control(folder / "github", lambda: now[0])
    for login, number in PEOPLE.items():
        github.add_account(login, number)
    github.add_account(BOT, 900)
    names = tuple(f"acme/r{index}" for index in range(REPOSITORIES))
    forge = FakeForge(github, BOT)
    stage = Stage(database, rules_of(WITH_WRITE))
    agent = stage.agent("fleet", AgentKind.APPLICATION)
    for index, name in enumerate(names):
        populate(github, name, 1_000 + index)
        run = stage.write(lambda tx: agents.add_run(tx, agent.id, "request"))
        wanted = Request(agent, run, replace(REGIME, concurrency=index), "")
        opened = stage.write(
            lambda tx, wanted=wanted, name=name: moves.request(tx, stage.rules, Place("test", name), wanted, hit=None)
        )
        assert isinstance(opened, Answered)
    every = duties_of(
        database, stage.rules, Place("test", names[0]), cast(Forge, forge), Outside(folder), names, lease_ms=60_000
    )
    settle(every, 2_000, opening=True)
    chance, commands = random.Random(1), 0
    first, elapsed = 0, 0.0
    tracemalloc.start()
    for turn in range(ROUNDS):
        now[0] = began + turn * 3_600 / ROUNDS
        for index in range(COMMENTS // ROUNDS + (turn < COMMENTS % ROUNDS)):
            is_command = (turn * 31 + index) % COMMAND_EVERY == 0
            commands += is_command
            name = chance.choice(names)
            # A stranger's command costs what a person's does up to the policy, and decides nothing.
            github.comment(name, 1, "mallory", f"/deny-capture {REGIME.trace_id}" if is_command else "chatter " * 50)
        start = time.perf_counter()
        with database.write() as tx:
            for name in names:
                due.set_due(tx, polling.DUTY, name, tx.now)
        settle(every[:3], 200)
        elapsed += time.perf_counter() - start
        if turn == ROUNDS // 2:
            gc.collect()
            first = tracemalloc.get_traced_memory()[0]
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - first
    tracemalloc.stop()
    heard = stage.count("claims")
    polls = forge.calls.count("comments_since")
    held = heard == commands and polls <= REPOSITORIES * (ROUNDS + 4) and world_free(grown, github)
    print(
        f"  {COMMENTS} comments in {REPOSITORIES} repositories: {heard} of {commands} commands claimed, {polls} "
        f"listings, {elapsed:.0f} s for an hour ({elapsed / COMMENTS * 1000:.1f} ms a comment); grown by "
        f"{grown / 1e6:.1f} MB in the second half, the forge's own comments included: {'holds' if held else 'BROKEN'}",
        flush=True,
    )
    fresh.close()
    return held


def world_free(grown: int, github: Control) -> bool:
    """Tell whether the growth is within the bound, less what the forge itself keeps of its comments."""
    with github.world.lock:
        kept = sum(
            len(comment.body) + 400
            for repository in github.world.model.directory.repositories.values()
            for comment in github.world.model.comments.comments_of(repository)
        )
    return grown - kept // 2 < GROWTH


def settle(duties: list[RowDuty], rounds: int, *, opening: bool = False) -> None:
    """Run duties until none has anything to do; drafts are opened without regard to the pace of writing."""
    paced = pacing.WINDOWS
    if opening:
        pacing.WINDOWS = tuple(replace(window, most=10**9) for window in paced)
    try:
        for _ in range(rounds):
            if min([duty.step() for duty in duties]) > 0.02:
                return
    finally:
        pacing.WINDOWS = paced
    raise AssertionError("the duties do not come to rest")
