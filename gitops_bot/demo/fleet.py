"""The fleet as a demo: five agents with real tools on a small project leave real commits. Two ask a person: one is
answered and goes on, one is not, and is paused. One writes to another. One is killed in the middle, with its broker,
and is done all the same.

Everything runs as its own process on loopback; nothing is special here.
"""

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gitops_bot import process
from gitops_bot.bootstrap import apart, trust
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.demo import fleet_files
from gitops_bot.demo.fleet_files import OWNER, PRINCIPAL, SLUGS, Place
from gitops_bot.demo.fleet_scene import Outcome, Scene
from gitops_bot.demo.stage import COMMAND, Stage, free_port
from gitops_bot.demo.story import Story, Tell
from gitops_bot.store import schema
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role

LIFE: Final[Mapping[bool, str]] = MappingProxyType({True: "20s", False: "5m"})
"""How long the releaser's question waits: with AUTO, and without."""
PACE: Final = "2"
"""Seconds that the formatter takes for a file at least, so that there is a middle to kill it in."""
WAKES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "formatter": ("--wake", "scheduled", "--cron", "30 7 * * *"),
        "linter": ("--wake", "continuous"),
        "tester": ("--wake", "continuous"),
        "fixer": ("--wake", "event"),
        "releaser": ("--wake", "manual"),
    }
)
PURPOSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "formatter": "Keep every file as its formatter has it.",
        "linter": "Take the compiler's complaints away; ask where both ways change what the program means.",
        "tester": "Find what no test holds, and tell the fixer what fails.",
        "fixer": "Mend what the tester shows.",
        "releaser": "Draft the notes of the next version; tag it when a person says so.",
    }
)


def play(root: Path, tell: Tell, *, auto: bool, shown: Callable[[Outcome], None] | None = None) -> Outcome:
    """Run the fleet in an empty folder; with `auto` a scripted alice answers.

    With `shown` the outcome is shown at the end, and everything runs on until Ctrl-C.

    Raises:
        ConfigError: git, or its daemon, is not there.
        Unavailable: what it needs cannot be made or started.
    """
    _need_git(root)
    with contextlib.ExitStack() as ended:
        place = Place(root)
        isolation = _isolation(tell)
        scene, addresses = _set_up(place, isolation, tell, ended, auto=auto)
        problem = ""
        try:
            scene.work_begins()
            scene.power_fails()
            scene.a_person_answers()
            scene.time_runs_out()
        except Unavailable as error:
            problem = str(error)
        outcome = scene.outcome(problem, addresses)
        if shown is not None:
            shown(outcome)
            _linger(scene.story)
        return outcome


def _need_git(root: Path) -> None:
    if shutil.which("git", path=process.SYSTEM_PATH) is None:
        raise ConfigError("the fleet's demo needs git, which is not here", fix="install git")
    where = process.run(("git", "--exec-path"), cwd=root, timeout=30).stdout.decode().strip()
    if not (Path(where) / "git-daemon").is_file():
        raise ConfigError("the fleet's demo needs git daemon, which is not here", fix="install git-daemon")


def _isolation(tell: Tell) -> str:
    """Keep bodies apart by bubblewrap where that works; else say plainly that nothing does."""
    found = apart.best()
    if found.why:
        tell(f"{'bubblewrap is not used':<28} {found.why}")
    tell(f"{'isolation = ' + found.isolation:<28} {found.said}")
    return found.isolation


def _set_up(
    place: Place, isolation: str, tell: Tell, ended: contextlib.ExitStack, *, auto: bool
) -> tuple[Scene, tuple[tuple[str, str], ...]]:
    """Make project, policy and settings, add the agents, start everything, and let alice come in."""
    fleet_files.begin(place)
    stage = ended.enter_context(Stage(place.root))
    tell("starting a git daemon, the workspace and the broker on loopback; the project is a bare repository")
    remote = _serve(place, stage)
    fleet_files.clones(place, remote)
    port = free_port()
    fleet_files.write_settings(place, port, isolation)
    url = f"sqlite:///{place.state / 'gitops-bot.db'}"
    owner = Database.open(url, Role.OWNER)
    schema.upgrade(owner.engine)
    owner.close()
    trust.pin(place.policies, place.state / "trust.json")
    origin = f"http://localhost:{port}"
    scene = Scene(place, origin, isolation, tell, stage, url, auto=auto)
    ended.callback(scene.close)
    workspace, _ = stage.start("workspace", (*COMMAND, "workspace", "--config", str(place.config)))
    for slug in SLUGS:
        _add(scene, place, slug, LIFE[auto])
        tell(f"{'@' + slug:<28} {' '.join(WAKES[slug][1:])}: {PURPOSES[slug]}")
    stage.answers(workspace, "127.0.0.1", port)
    addresses = (
        ("workspace", origin),
        ("agents", f"{origin}/agents"),
        ("one of them", f"{origin}/agents/linter"),
        ("backlog", f"{origin}/backlog"),
        ("project", str(place.project)),
        ("its commits", f"git -C {place.project} log --oneline --graph --all"),
        ("everything that was", f"gitops-bot ledger show --config {place.config}"),
        ("logs", str(place.root / "logs")),
    )
    tell(f"{'look at the agents':<28} {origin}/agents")
    scene.come_in()
    scene.start_broker()
    return scene, addresses


def _serve(place: Place, stage: Stage) -> str:
    """Serve the bare repository on loopback, for the time of the demo; gives its address."""
    port = free_port()
    words = ("daemon", "--reuseaddr", "--listen=127.0.0.1", f"--port={port}", f"--base-path={place.served}")
    serving = ("git", *words, "--export-all", "--enable=receive-pack", str(place.served))
    daemon, _ = stage.start("git", serving)
    stage.answers(daemon, "127.0.0.1", port)
    return f"git://127.0.0.1:{port}/{fleet_files.PROJECT}"


def _add(scene: Scene, place: Place, slug: str, life: str) -> None:
    """Add an agent with its command, as `gitops-bot agent add` does."""
    body = [sys.executable, "-m", "gitops_bot.demo.fleet_agent", slug, "--pace", PACE, "--life", life]
    named = ("--principal", PRINCIPAL, "--owner", OWNER, "--purpose", PURPOSES[slug])
    runs = ("--folder", str(place.folder(slug)), "--turn-limit", "2m", *WAKES[slug])
    scene.bot("agent", "add", slug, *named, *runs, "--", *body)


def _linger(story: Story) -> None:
    """Let everything run on, to be looked at, until the person has seen enough."""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            story.look()
            time.sleep(0.5)
