"""One comment by every way at once: two workspaces and two brokers in this process, over one database and one GitHub.

Nothing listens and nothing is forked, so that hundreds of orders are gone through in seconds: the receiver and the
application are called as the server calls them, and the GitHub is its model without HTTP. Its clock stands until told.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from flask.testing import FlaskClient
from sqlalchemy import func, select, update

from gitops_bot.authority import comments
from gitops_bot.authority.duties import RowDuty
from gitops_bot.authority.site import Site
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.broker import pacing, polling, pulls
from gitops_bot.core.ledger import EventKind
from gitops_bot.forge.actions.grammar import Expected
from gitops_bot.forge.actions.tokens import Keys, Runs
from gitops_bot.forge.signature import sign
from gitops_bot.sandbox.control import Control
from gitops_bot.sandbox.events import Event
from gitops_bot.sandbox.payloads import event_payload
from gitops_bot.store import due, outbox, settings
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.tables import claims
from gitops_bot.store.work_tables import effects, ledger
from tests.capture_stage import REPOSITORY, CaptureStage
from tests.contract.fake_forge import FakeForge
from tests.decisions import rules_of
from tests.forge_stage import BOT, BOT_ID, REPOSITORY_ID, WITH_WRITE, accounts, duties_of, populate
from tests.hook_stage import SECRET, secret_file
from tests.store_fixtures import FreshDatabase
from tests.workflow_runs import WORKFLOW, claims_of, key
from workspace import create_app
from workspace.auth.limits import Limits, Rate, Rates
from workspace.hooks.receiver import Receiver, commit_to
from workspace.hooks.secrets import Secrets

WAYS: Final = ("repository hook", "app hook", "redelivery", "replay", "poll", "run")
ISSUER: Final = "https://issuer.invalid"
ORIGIN: Final = "http://localhost:8480"
HOUR: Final = 3_600_000
_PLENTY: Final = Rate(1_000_000, 1.0)


@dataclass
class Told:
    """One comment, as the two hooks tell of it: bodies of their own, and an id for each delivery."""

    comment: int
    number: int
    by_repository: bytes
    by_app: bytes
    guid: str = field(default_factory=lambda: str(uuid4()))


@dataclass
class Pair:
    """A workspace and a broker, with connections of their own as two processes have."""

    receiver: Receiver
    client: FlaskClient
    forge: FakeForge
    duties: list[RowDuty]
    loop: asyncio.AbstractEventLoop

    def deliver(self, deliveries: Sequence[tuple[str, bytes]], event: str = "issue_comment") -> None:
        """Deliver comments at one instant, each as (id of the delivery, body), under the name of an event."""

        async def together() -> list[int]:
            return await asyncio.gather(*(self._one(guid, body, event) for guid, body in deliveries))

        assert set(self.loop.run_until_complete(together())) == {202}

    async def _one(self, guid: str, body: bytes, event: str) -> int:
        said: list[int] = []
        fields = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "x-github-event": event,
            "x-github-delivery": guid,
            "x-hub-signature-256": sign(SECRET, body),
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                said.append(message["status"])

        headers = [(name.encode(), value.encode()) for name, value in fields.items()]
        await self.receiver({"type": "http", "headers": headers}, receive, send)
        return said[0]

    def hand_in(self, told: Told) -> dict[str, Any]:
        """Hand a comment in as a run of the workflow does, by a token of its own."""
        status, found = self.shown(run_token(), told)
        assert status == 200, found
        return found

    def shown(self, token: str, told: Told) -> tuple[int, dict[str, Any]]:
        """Hand a comment in by a token; the status, and what is said."""
        hint = {"repository_id": REPOSITORY_ID, "comment_id": told.comment, "pull_request": told.number}
        answer = self.client.post("/hooks/actions", json=hint, headers={"Authorization": f"Bearer {token}"})
        return answer.status_code, answer.get_json()

    def act(self) -> None:
        """Read what was heard of, and write what follows; nothing is polled."""
        _rest(self.of(comments.DUTY, outbox.DUTY))

    def of(self, *names: str) -> list[RowDuty]:
        """Give the duties of these names."""
        return [duty for duty in self.duties if duty.name in names]


def _rest(duties: Sequence[RowDuty]) -> None:
    quiet = 0
    for _ in range(60):
        quiet = quiet + 1 if min(duty.step() for duty in duties) > 0.02 else 0
        if quiet == 2:
            return
    raise AssertionError("the duties do not come to rest")


@cache
def _published() -> dict[str, Any]:
    from jwt.algorithms import RSAAlgorithm

    shown = RSAAlgorithm.to_jwk(key("one").public_key(), as_dict=True)
    return {"keys": [{**shown, "kid": "one", "use": "sig", "alg": "RS256"}]}


def run_token() -> str:
    """Issue the token of a run."""
    import jwt

    return jwt.encode(claims_of(ISSUER, ORIGIN), key("one"), "RS256", headers={"kid": "one"})


def _fetch(address: str) -> dict[str, Any]:
    if address.endswith("openid-configuration"):
        return {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}
    return _published()


@dataclass
class Both:
    """Two pairs over one database and one GitHub with one open pull request of the bot's."""

    github: Control
    owner: Database
    pairs: tuple[Pair, Pair]
    clock: list[float]
    capture: Capture

    def say(self, login: str, text: str) -> Told:
        """Write a comment, and what GitHub would deliver of it."""
        number = self.capture.pull_request
        assert number is not None
        comment = self.github.comment(REPOSITORY, number, login, text)
        with self.github.world.lock:
            model = self.github.world.model
            found = model.comments.comment(model.directory.repositories[REPOSITORY_ID], comment)
            there = Event("issue_comment", "created", REPOSITORY_ID, number, found.author_id, found)
            body = event_payload(self.github.world, there)
        by_app = {**json.loads(body), "installation": {"id": 9, "node_id": "x"}}
        return Told(comment, number, body, json.dumps(by_app).encode())

    def hear(self, way: str, told: Sequence[Told], first: int) -> None:
        """Let comments be heard of by one way; `first` is the process that the repository's hook leads to."""
        mine, other = self.pairs[first], self.pairs[1 - first]
        match way:
            case "repository hook":
                mine.deliver([(one.guid, one.by_repository) for one in told])
            case "app hook":
                other.deliver([(str(uuid4()), one.by_app) for one in told])
            case "redelivery":
                other.deliver([(one.guid, one.by_repository) for one in told])
            case "replay":
                mine.deliver([(str(uuid4()), one.by_repository) for one in told])
            case "poll":
                with self.owner.write() as tx:
                    due.set_due(tx, polling.DUTY, REPOSITORY, tx.now)
                other.of(polling.DUTY)[0].step()
            case "run":
                for one in told:
                    mine.hand_in(one)
            case _:
                raise AssertionError(way)

    def an_hour_passes(self) -> None:
        """Let what was said and written so far be long ago, for the budgets and for the poll."""
        with self.owner.write() as tx:
            tx.execute(update(claims).values(settled_at=claims.c.settled_at - 2 * HOUR))
            settings.set_cursor(tx, pacing.CURSOR, "{}")
        self.clock[0] += 60.0

    def claims(self) -> int:
        """Count the claims."""
        with self.owner.read() as tx:
            found: int = tx.execute(select(func.count()).select_from(claims)).scalar_one()
            return found

    def entries(self, kind: EventKind) -> int:
        """Count the entries of a kind in the ledger."""
        with self.owner.read() as tx:
            counted = select(func.count()).select_from(ledger).where(ledger.c.kind == kind.value)
            found: int = tx.execute(counted).scalar_one()
            return found

    def effects(self, kind: str) -> int:
        """Count the effects of a kind that were ever put into the outbox."""
        with self.owner.read() as tx:
            counted = select(func.count()).select_from(effects).where(effects.c.kind == kind)
            found: int = tx.execute(counted).scalar_one()
            return found

    def replies_to(self, told: Told) -> int:
        """Count the bot's replies to a comment."""
        marker = f"gitops-bot:reply={told.comment} "
        written = self.github.comments(REPOSITORY, told.number)
        return sum(marker in f"{one.body} " for one in written if one.author_id == BOT_ID)

    def reactions_to(self, told: Told) -> list[str]:
        """List the bot's reactions to a comment."""
        return sorted(one.content for one in self.github.reactions(told.comment) if one.account_id == BOT_ID)

    def calls(self, method: str) -> int:
        """Count how often a method of the forge was called, by either broker."""
        return sum(pair.forge.calls.count(method) for pair in self.pairs)


@contextlib.contextmanager
def both(database: FreshDatabase, folder: Path) -> Iterator[Both]:
    """Set everything up, with a pull request that is open and seen."""
    clock = [time.time()]
    github = Control(folder / "github", lambda: clock[0])
    (folder / "github").mkdir()
    accounts(github)
    populate(github)
    rules, path = rules_of(WITH_WRITE), secret_file(folder)
    stage = CaptureStage(database.open(Role.BROKER), rules, folder=folder)
    site = Site(ORIGIN, "localhost", "gitops-bot", 0, 12 * HOUR, 168 * HOUR)
    expected = Expected(ISSUER, ORIGIN, (REPOSITORY,), WORKFLOW)
    plenty = Rates(_PLENTY, _PLENTY, _PLENTY, _PLENTY)
    made: list[Pair] = []
    with asyncio.Runner() as runner:
        for _ in range(2):
            served = database.open(Role.WORKSPACE)
            runs = Runs(expected, Keys(ISSUER, _fetch))
            services = Services(served, rules, stage.place, lambda _: None, site=site, runs=runs)
            forge, broker = FakeForge(github, BOT), database.open(Role.BROKER)
            duties = duties_of(broker, rules, stage.place, forge, stage.outside)
            receiver = Receiver(Secrets([path]), commit_to(services, 0))
            client = create_app(services, tries=Limits(plenty)).test_client()
            made.append(Pair(receiver, client, forge, duties, runner.get_loop()))
        capture = stage.requested()
        settled = [duty for duty in made[0].duties if duty.name != polling.DUTY]
        _rest(settled)
        found = Both(github, database.open(Role.OWNER), (made[0], made[1]), clock, stage.capture(capture))
        with found.owner.write() as tx:
            due.set_due(tx, pulls.DUTY, REPOSITORY, tx.now)
        _rest(settled)
        try:
            yield found
        finally:
            for pair in made:
                pair.receiver.close()
