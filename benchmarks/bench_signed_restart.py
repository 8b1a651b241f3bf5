"""A broker that starts again beside one that sees the branches first: with nothing new, nothing is verified.

One person's branch holds an approval of each of some asks. The first look verifies each commit in process and, before
it counts, by the second engine; a second broker with engines of its own, over the same database and repository, then
looks at the same branch. Bound: that look asks no engine anything. Its time is that of one `ls-remote` and some rows.
"""

import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.machine import timed
from gitops_bot.authority.asking import Opened, Waiter, Wish, open_ask
from gitops_bot.authority.rules import AskLimits, Rules
from gitops_bot.bootstrap.keyrings import keys_of
from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed import requesting
from gitops_bot.signed.channel import Place
from gitops_bot.signed.evidence import Commit, Signed, Window
from gitops_bot.signed.fetching import Fetcher
from gitops_bot.signed.keys import Engine, Keys, Pair
from gitops_bot.signed.looking import Looker
from gitops_bot.signed.openpgp.certificates import read_certificate
from gitops_bot.signed.rendering import Request, read_request
from gitops_bot.signed.repository import Remote, Repository
from gitops_bot.store import agents, requests, schema, signatures, signed_votes
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind, RunState, WaiterKind
from tests.signed_bundle import bundle, policy
from tests.signed_stage import ENVIRONMENT, REPOSITORY, REPOSITORY_ID, SignedStage
from tests.store_fixtures import FreshDatabase

ASKS: Final = 40
PLACE: Final = Place(REPOSITORY, REPOSITORY_ID, ENVIRONMENT, 1, 300_000)


@dataclass(frozen=True, slots=True)
class Asked:
    """An engine that counts what it is asked."""

    engine: Engine
    calls: Counter[str]
    name: str

    def verify(self, commit: Commit, window: Window) -> Signed | Refused:
        """Count, then ask."""
        self.calls[self.name] += 1
        return self.engine.verify(commit, window)

    def accept(self, commit: Commit, window: Window, _proven: Signed) -> Signed | Refused:
        """Verify all the same."""
        return self.verify(commit, window)

    def standing(self, _component: str, _at: int) -> Refused | None:
        """Say nothing against any key: nothing is spent here."""
        return None


class Broker:
    """One start of a broker: its own engines and its own processes of git, over a database that stays."""

    def __init__(self, folder: Path, database: Database, url: str) -> None:
        """Set it up; nothing is looked at yet."""
        self.calls: Counter[str] = Counter()
        files = bundle()
        known = {path: read_certificate(files[path], where=path) for path in files if path.startswith("keys/")}
        with database.read() as tx:
            remembered = signatures.revocations(tx)
        keys = keys_of(policy(files), known, remembered, folder / "homes")
        repository = Repository(folder / "approvals.git", Remote(url))
        repository.create()
        self.looker = Looker(
            database, policy(files), PLACE, self._counted(keys), Fetcher(repository, ENVIRONMENT), poll_ms=1_000
        )

    def _counted(self, keys: Keys) -> Keys:
        pairs = {
            kind: Pair(
                Asked(pair.first, self.calls, "in process"), Asked(pair.second, self.calls, "second"), pair.agree
            )
            for kind, pair in keys.pairs.items()
        }
        return replace(keys, pairs=pairs)

    def look(self) -> int:
        """Look until nothing is left; give how many commits were judged."""
        judged = 0
        while True:
            looked = self.looker.look()
            judged += looked.judged
            if not looked.more:
                return judged


def opened(database: Database) -> list[Request]:
    """Open the asks and give their requests."""
    rules = Rules(policy(bundle()), REPOSITORY, ENVIRONMENT, AskLimits(max_open_gated=ASKS))
    ids = []
    with database.write() as tx:
        agent = agents.add(tx, "worker", AgentKind.AGENT, PrincipalName("worker"), PrincipalName("carol"), "to measure")
        run = agents.add_run(tx, agent.id, "agent", RunState.PARKED)
        for number in range(ASKS):
            params = {"amount_minor": 1 + number, "currency": "EUR", "to": "DE89370400440532013000"}
            wish = Wish(agent, run, Waiter(WaiterKind.RUN, run.id), verb="payments.transfer", params=params)
            made = open_ask(tx, rules, wish)
            assert isinstance(made, Opened), made
            ids.append(made.ask.id)
    requesting.store_missing(database, rules, PLACE)
    with database.read() as tx:
        contents = [requests.get(tx, ask) for ask in ids]
    return [read_request(content) for content in contents if content is not None]


def main() -> bool:
    """Vote, look, start again, look again, and tell whether the second look verified nothing."""
    with tempfile.TemporaryDirectory(prefix="gitops-bot-bench-") as name:
        folder = Path(name)
        fresh = FreshDatabase("sqlite", f"sqlite:///{folder / 'bench.db'}")
        schema.upgrade(fresh.open(Role.OWNER).engine)
        database = fresh.open(Role.BROKER)
        asked = opened(database)
        stage = SignedStage(folder / "shared", now=int(time.time()))
        for request in asked:
            stage.vote("alice", request=request)
        first, again = (Broker(folder / "broker", database, stage.url) for _ in range(2))
        judged: list[int] = []
        took = [timed(lambda broker=broker: judged.append(broker.look())) for broker in (first, again)]  # type: ignore[misc] # bound now
        with database.read() as tx:
            counted = sum(bool(signed_votes.of_ask(tx, request.ask)) for request in asked)
        for broker in (first, again):
            broker.looker.close()
        fresh.close()
    held = counted == ASKS and min(first.calls["in process"], first.calls["second"]) >= ASKS and not again.calls
    print(
        f"  first look: {judged[0]} commits judged, {counted} of {ASKS} votes counted, engines asked "
        f"{first.calls.total()} times, {took[0] / 1000:.2f} s; after a restart: asked {again.calls.total()} times "
        f"(bound 0), {took[1]:.0f} ms: {'holds' if held else 'BROKEN'}"
    )
    return held
