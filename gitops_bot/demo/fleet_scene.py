"""What happens in the fleet demo, in order, and how it went; `fleet` sets it up and ends it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority.sealing import verify
from gitops_bot.core.errors import Unavailable
from gitops_bot.demo import fleet_files, fleet_telling, fleet_tools
from gitops_bot.demo.desk import Desk
from gitops_bot.demo.fleet_agent import CHOICES
from gitops_bot.demo.fleet_files import SLUGS, Place
from gitops_bot.demo.stage import COMMAND, Actor, Stage
from gitops_bot.demo.story import Document, Story, Tell
from gitops_bot.process import run
from gitops_bot.store import asks
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role

AUTO_SECONDS: Final = 180.0
SECONDS: Final = 60.0
CHOSEN: Final = CHOICES[0]
WHY: Final = "Two strings that are equal need not be one object."


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a demo went: as it must with an intact ledger or not, what happened, each agent with its commits, what kept
    the bodies apart, where to look."""

    ok: bool
    timeline: Sequence[Mapping[str, Any]]
    agents: Sequence[Mapping[str, Any]]
    isolation: str
    addresses: tuple[tuple[str, str], ...]
    problem: str = ""

    def document(self) -> dict[str, Any]:
        """Give the outcome as one JSON document."""
        return {
            "ok": self.ok,
            "scenario": "fleet",
            "timeline": list(self.timeline),
            "agents": list(self.agents),
            "isolation": self.isolation,
            "addresses": dict(self.addresses),
            "problem": self.problem,
        }

    def lines(self) -> list[str]:
        """Lay the outcome out for a terminal."""
        shown = ["", *(f"  {line}" for line in fleet_telling.table(self.agents)), ""]
        shown += [f"{name:<20} {address}" for name, address in self.addresses]
        return [*shown, "", "everything as it must be, ledger intact" if self.ok else f"FAILED: {self.problem}"]


class Scene:
    """One demo that is set up: what agents and people do in it, in order."""

    def __init__(
        self, place: Place, workspace: str, isolation: str, tell: Tell, stage: Stage, url: str, *, auto: bool
    ) -> None:
        """Take what was made; `workspace` is its address, `url` the database's, `isolation` the way that is set."""
        self._place, self._workspace, self._isolation = place, workspace, isolation
        self._tell, self._stage = tell, stage
        self._database = Database.open(url, Role.HOST)
        telling = fleet_telling.Telling()
        self.story = Story(stage, self._database, tell, telling.sentence, AUTO_SECONDS if auto else None)
        self._desk = Desk(workspace) if auto else None
        self._broker: Actor | None = None

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def bot(self, *arguments: str) -> str:
        """Run a command on the broker's host that must succeed; gives what it printed.

        Raises:
            Unavailable: it fails.
        """
        words = (*COMMAND, arguments[0], arguments[1], "--config", str(self._place.config), *arguments[2:])
        done = run(words, cwd=self._place.root, timeout=SECONDS)
        if done.returncode != 0:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise Unavailable(f"gitops-bot {' '.join(arguments[:2])} failed: {lines[-1][-300:] if lines else ''}")
        return done.stdout.decode("utf-8")

    def come_in(self) -> None:
        """Print the code by which alice comes in; with AUTO she does, by a software passkey.

        Raises:
            Unavailable: it was refused.
        """
        code = str(json.loads(self.bot("person", "enrol", fleet_files.OWNER, "--json"))["code"])
        if self._desk is None:
            self._tell(f"{'come in as alice':<28} {self._workspace}/enrol")
            self._tell(f"{'with this code':<28} {code} (good once, for ten minutes)")
            return
        who = self._desk.come_in(code)
        self._tell(f"{'alice comes in':<28} by the host's code {code[:4]}…, with a software passkey: {who}")

    def start_broker(self) -> None:
        """Start the broker, whose tick runs the fleet."""
        argv = (*COMMAND, "broker", "--config", str(self._place.config))
        self._broker, _ = self._stage.start("broker", argv)

    def work_begins(self) -> None:
        """Let those that run by themselves run, wake the releaser by hand, and see messages wake others.

        Raises:
            Unavailable: a process ended, or something is not so in time.
        """
        self.story.wait("the agents", lambda: len(self.story.found("agent.added")) == len(SLUGS))
        self._wake("releaser", "it has no schedule: a person wakes it")
        for slug in ("linter", "releaser"):
            self._asked(slug)
        mended = "tests with the fixer's commit: all pass"
        self.story.wait("the tester's second look", lambda: self._reports("tester", mended))
        self.story.wait("the end of that turn", lambda: self._runs("linter", "releaser", "tester", "fixer") == 0)

    def power_fails(self) -> None:
        """Wake the formatter, kill the broker with its body in the middle of the work, and see the turn done all the
        same: each line landed once.

        Raises:
            Unavailable: as of `work_begins`, or a line landed twice.
        """
        self._wake("formatter", "its schedule is tomorrow morning; nobody has to wait for it")
        self.story.wait("its first report", lambda: self._reports("formatter"))
        first = self._reports("formatter")[0]
        folder = self._place.folder("formatter")
        if self._broker is None or not fleet_tools.is_held(folder):
            raise Unavailable("the formatter was done before it could be killed")
        self._tell(
            f"{'the power fails':<28} SIGKILL to the broker's process group; @formatter is in the middle of a turn"
        )
        self._stage.kill(self._broker)
        if not fleet_tools.until_free(folder, SECONDS):
            raise Unavailable("a body outlived its broker")
        self._tell(f"{'nothing of it is left':<28} no broker, no body; a new broker starts")
        self.start_broker()
        self.story.until("run.lost", run=first["run"])
        self._wake("formatter", "it would wait 30 s for its next attempt")
        self.story.wait("the end of that run", lambda: self._settled(first["run"], "WORK_DONE"))
        texts = [one["facts"]["text"] for one in self._reports("formatter")]
        self._tell(f"{'each line landed once':<28} {len(texts)} reports by two bodies")
        if len(set(texts)) != len(texts):
            raise Unavailable(f"a report landed twice: {texts}")

    def a_person_answers(self) -> None:
        """Have alice answer the linter, and see it go on with her verdict.

        Raises:
            Unavailable: as of `work_begins`, or the ask ended without a verdict.
        """
        ask = str(self._asked("linter")["ask"])
        with self._database.read() as tx:
            found = asks.get(tx, ask)
        self._tell(f"{'@linter asked':<28} {'' if found is None else found.text}")
        if self._desk is not None:
            chosen = next(one for one in self._desk.ask(ask)["options"] if one["label"] == CHOSEN)
            self._tell(f"{'alice answers':<28} in the workspace: {CHOSEN}. {WHY}")
            self._desk.answer(ask, str(chosen["id"]), WHY)
        elif not self._over(ask):
            self._tell(f"{'answer here':<28} {self._workspace}/asks/{ask}")
        self.story.wait("a verdict", lambda: self._over(ask))
        if not self.story.found("ask.answered", ask=ask):
            raise Unavailable("the linter's question ended without a verdict, so that nothing follows from it")
        self.story.wait("what the linter made of it", lambda: self._reports("linter", "decided"))

    def time_runs_out(self) -> None:
        """See the releaser's question expire, and the releaser paused; a person may answer it before that.

        Raises:
            Unavailable: as of `work_begins`.
        """
        ask = str(self._asked("releaser")["ask"])
        if not self._over(ask):
            left = "its time is short" if self._desk is not None else f"or answer it: {self._workspace}/asks/{ask}"
            self._tell(f"{'@releaser is let wait':<28} {left}")
        self.story.wait("the end of the releaser's question", lambda: self._over(ask))
        if self.story.found("ask.expired", ask=ask):
            self.story.until("agent.paused", ask=ask)
            self._tell(f"{'and if alice decides later':<28} gitops-bot agent resume releaser")
        else:
            self.story.wait("the end of the releaser's turn", lambda: self._runs("releaser") == 0)

    def outcome(self, problem: str, addresses: Sequence[tuple[str, str]]) -> Outcome:
        """Give how it went, the ledger's chain computed again."""
        faults = verify(self._database).faults
        agents = self._agents()
        idle = [one["slug"] for one in agents if not one["commits"]]
        problem = problem or "; ".join(fault.what for fault in faults)
        problem = problem or (f"no commits of {', '.join(idle)}" if idle else "")
        return Outcome(not problem, tuple(self.story.timeline), agents, self._isolation, tuple(addresses), problem)

    def _agents(self) -> list[dict[str, Any]]:
        found = {one["slug"]: one for one in json.loads(self.bot("agent", "list", "--json"))["items"]}
        return [
            {
                "slug": slug,
                "status": found[slug]["status"],
                "doing": found[slug]["doing"],
                "commits": fleet_files.commits(self._place, slug),
            }
            for slug in SLUGS
        ]

    def _wake(self, slug: str, why: str) -> None:
        self._tell(f"{'gitops-bot agent tick':<28} {slug}: {why}")
        self.bot("agent", "tick", slug)

    def _id(self, slug: str) -> object:
        return next(one["agent"] for one in self.story.timeline if one["event"] == "agent.added" and _is(one, slug))

    def _asked(self, slug: str) -> Document:
        return self.story.until("ask.opened", agent=self._id(slug))

    def _over(self, ask: str) -> bool:
        ends = ("ask.answered", "ask.expired", "ask.withdrawn")
        return any(self.story.found(event, ask=ask) for event in ends)

    def _reports(self, slug: str, holding: str = "") -> Sequence[Document]:
        return [one for one in self.story.found("agent.report") if _is(one, slug) and holding in one["facts"]["text"]]

    def _runs(self, *slugs: str) -> int:
        """Count the runs of some agents that have a body."""
        ids = {self._id(slug) for slug in slugs}
        ends = [one for event in ("run.settled", "run.lost") for one in self.story.found(event) if one["agent"] in ids]
        return sum(one["agent"] in ids for one in self.story.found("run.dispatched")) - len(ends)

    def _settled(self, run: str, outcome: str) -> bool:
        return any(one["facts"]["outcome"] == outcome for one in self.story.found("run.settled", run=run))


def _is(entry: Document, slug: str) -> bool:
    return bool(entry["facts"].get("slug") == slug)
