"""A host whose gated verbs are carried out for real: an address on loopback and a pinned program, both counted.

`Till` is a `SignedHost` with a payee and a program. What the broker's threads would do is done a step at a time, each
through its own duty; `rush` makes waiting pieces of work due, as time would.
"""

import hashlib
import itertools
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import text

from gitops_bot.authority.duties import RowDuty
from gitops_bot.core.asks import Ask, AskId
from gitops_bot.signed import requesting
from gitops_bot.signed.barrier import SPEND
from gitops_bot.signed.spend import EXECUTE
from gitops_bot.store import asks, executions, grants_read, ledger
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.executions import Execution
from gitops_bot.store.grants_read import Grant
from gitops_bot.store.roles import Role
from tests import signed_keys as keys
from tests.payee import Payee, answering, listening, said
from tests.signed_host import SignedHost
from tests.store_fixtures import FreshDatabase

TRANSFER: Final = "payments.transfer"
"""Carried out by the payee, which dedupes."""
PROGRAM: Final = "payments.program"
"""Carried out by the program, at most once."""
DONE: Final = answering(said("200 OK", b'{"status": "done"}'))
_TILLS: Final = itertools.count(1)
SHELL: Final = "#!/bin/sh\ncat >> '{log}'\necho >> '{log}'\n{more}\n"


@dataclass
class Till(SignedHost):
    """A host with a till: `payee` is who is paid by `payments.transfer`; `idempotent` declares both executors so.

    `more` is what the program does after it noted its call; `rule` edits both verbs' tables.
    """

    payee: Payee | None = None
    idempotent: tuple[bool, bool] = (True, False)
    more: str = "exit 0"
    rule: dict[str, Any] = field(default_factory=dict)
    homes: Path | None = None
    """Where gpg's homes are shared between tests: making them takes longer than a test."""
    _owner: Database | None = None
    """The database in the hand of somebody who has the file."""

    def __post_init__(self) -> None:
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.program.write_text(SHELL.format(log=self.log, more=self.more))
        wanted = self.change

        def change(tables: dict[str, Any]) -> None:
            transfer = tables["verbs"][TRANSFER] | self.rule
            port = self.payee.port if self.payee is not None else 9
            web = {"http": f"http://127.0.0.1:{port}/transfers", "idempotent": self.idempotent[0]}
            pinned = hashlib.sha256(self.program.read_bytes()).hexdigest()
            local = {"process": [str(self.program)], "sha256": pinned, "idempotent": self.idempotent[1]}
            tables["verbs"] |= {TRANSFER: transfer | {"executor": web}, PROGRAM: transfer | {"executor": local}}
            adopt = tables["verbs"]["policy.adopt"]
            for name in ("delay", "approve"):
                if name in self.rule:
                    adopt[name] = self.rule[name]
            wanted(tables)

        self.change = change
        super().__post_init__()
        self.private("url", self.fresh.url(Role.BROKER).encode())
        if self.homes is not None:
            self.homes.mkdir(mode=0o700, exist_ok=True)
            (self.state / "signed").mkdir(mode=0o700)
            (self.state / "signed" / "gpg").symlink_to(self.homes)
        self.stage.signers["bob"] = keys.ssh("bob")

    def write(self, **signed: Any) -> None:
        """Write the settings; an agent may have many gated asks open here."""
        super().write(**signed)
        file = self.folder / "gitops-bot.toml"
        file.write_text(file.read_text() + "[asks]\nmax_open_gated = 100\n")

    @property
    def program(self) -> Path:
        """The program that the bundle pins."""
        return self.folder.parent / f"{self.folder.name}-pay"

    @property
    def log(self) -> Path:
        """Where the program notes each call."""
        return self.folder.parent / f"{self.folder.name}-calls"

    @property
    def state(self) -> Path:
        """The folder of the broker's state."""
        return self.folder / ".gitops-bot"

    @property
    def trust(self) -> Path:
        """This host's trust file."""
        return self.state / "trust.json"

    # What the broker's threads do

    def duty(self, name: str) -> RowDuty:
        """Give one of the duties that act on grants."""
        found = next(duty for duty in self.channel.granting if duty.name == name)
        assert isinstance(found, RowDuty)
        return found

    def behind(self, name: str) -> Any:
        """Give the object whose work a duty does: the spender, or the one that carries out."""
        handle: Any = self.duty(name)._handle
        return next(cell.cell_contents for cell in handle.__closure__ if callable(cell.cell_contents)).__self__

    def ready(self, verb: str = TRANSFER, *, published: bool = False, **changes: Any) -> str:
        """Open an ask that can be voted on; what people sign is on the requests branch only where it is asked for."""
        ask = self.ask(verb=verb, **changes)
        if published:
            self.announce()
        else:
            requesting.store_missing(self.database, self.rules, self.channel.place)
        return ask

    def approve(self, ask: str, *people: str) -> None:
        """Let people approve, alice and bob if none is named, and look."""
        for person in people or ("alice", "bob"):
            self.vote(person, ask)
        self.look()

    def step(self, name: str) -> None:
        """Do what is due of a duty now, once."""
        self.duty(name).step()

    def rush(self, *names: str) -> None:
        """Make every piece of work of these duties due now, leases included."""
        for name in names or (SPEND, EXECUTE):
            self.hand("UPDATE due SET due_at = 0, leased = 0 WHERE duty = :name", name=name)

    def run(self) -> None:
        """Spend and carry out all that may be."""
        for _ in range(2):
            self.rush()
            for name in (SPEND, EXECUTE):
                self.drain(name)

    def drain(self, name: str) -> None:
        """Do what is due of a duty until nothing is, or something waits for us."""
        for _ in range(100):
            if self.duty(name).step() > 0:
                return

    def restart(self) -> None:
        """End the broker; the next question builds another."""
        if "broker" in self.__dict__:
            self.broker.close()
            for name in ("broker", "database", "rules", "channel"):
                self.__dict__.pop(name, None)  # whatever was taken from it
        self.fresh.close()
        self._owner = None

    def snapshot(self, *, trust: bool = True) -> Callable[[], None]:
        """Copy the database, and the trust file with it; gives what puts the copies back, as from a backup."""
        self.restart()
        database, kept = self.fresh.path.read_bytes(), self.trust.read_bytes()

        def restore() -> None:
            self.restart()
            self.fresh.path.write_bytes(database)
            if trust:
                self.trust.write_bytes(kept)

        return restore

    def hand(self, statement: str, **values: Any) -> None:
        """Change the database by the hand of somebody who has the file."""
        if self._owner is None:
            self._owner = self.fresh.open(Role.OWNER)
        with self._owner.write() as tx:
            tx._connection.execute(text(statement), values)

    def age(self, ask: str, ms: int) -> None:
        """Let so much time pass since the mint of an ask's grant, by the clock of every database, and look again."""
        LATER[0] = self.minted(ask).minted_at + ms - (self.read(lambda tx: tx.now) - LATER[0])
        self.look()

    # What came of it

    def read(self, work: Callable[[Tx], Any]) -> Any:
        """Read something."""
        with self.database.read() as tx:
            return work(tx)

    def get(self, ask: str) -> Ask:
        """Read an ask."""
        found: Ask | None = self.read(lambda tx: asks.get(tx, AskId(ask)))
        assert found is not None
        return found

    def grant(self, ask: str) -> Grant | None:
        """Read the grant of an ask."""
        found: Grant | None = self.read(lambda tx: grants_read.of_ask(tx, ask))
        return found

    def minted(self, ask: str) -> Grant:
        """Read the grant of an ask, which there is."""
        found = self.grant(ask)
        assert found is not None
        return found

    def execution(self, ask: str) -> Execution | None:
        """Read the execution of an ask."""
        found = self.read(lambda tx: executions.of_ask(tx, ask))
        return found[0] if found else None

    def told(self, ask: str, *kinds: str) -> list[tuple[str, str | None]]:
        """Give what the ledger tells of an ask, as kind and reason, of some kinds (or those that begin so)."""
        found = self.read(lambda tx: ledger.of_ask(tx, ask))
        wanted = kinds or ("grant.", "effect.")
        return [(one["kind"], one["reason"]) for one in found if one["kind"].startswith(wanted)]

    def blamed(self, ask: str) -> str | None:
        """Give the reason that the ledger told last of an ask or its grant; else why a duty could not go on."""
        reasons = [reason for _, reason in self.told(ask, "grant.", "effect.", "vote.", "verdict.") if reason]
        return reasons[-1] if reasons else None

    def troubles(self, name: str = SPEND) -> list[str]:
        """Give what kept the rows of a duty from being worked on."""
        statement = text("SELECT last_error FROM due WHERE duty = :name AND last_error IS NOT NULL")
        found: list[str] = self.read(lambda tx: list(tx._connection.execute(statement, {"name": name}).scalars()))
        return found

    def calls(self) -> list[dict[str, Any]]:
        """Give the body of every call that the payee and the program got."""
        web = [request.split(b"\r\n\r\n", 1)[1] for request in (self.payee.requests if self.payee else [])]
        local = self.log.read_bytes().splitlines() if self.log.exists() else []
        return [json.loads(body) for body in [*web, *local]]

    def marker(self, ask: str) -> bytes | None:
        """Read the marker of an ask from the shared repository itself."""
        tip = self.stage.folder / f"refs/heads/gated/{self.settings.environment}/requests"
        if not tip.exists():
            return None
        tree = self.stage.repository[tip.read_text().strip()].tree  # type: ignore[union-attr] # it is a commit
        path = f"spent/{ask[-2:]}/{ask}.json"
        try:
            return bytes(self.stage.repository[tree[path].id].data)  # type: ignore[union-attr] # it is a blob
        except KeyError:
            return None

    def wait(self, done: Callable[[], object], seconds: float = 30.0) -> None:
        """Wait until something is so."""
        until = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < until, "it never came"
            time.sleep(0.02)


ENGINES: Final = (
    pytest.param("sqlite_database", id="sqlite"),
    pytest.param("postgresql_database", id="postgresql", marks=pytest.mark.postgresql),
)
"""The fixtures of the databases that a broker opens by its settings: no setting chooses a journal."""
LATER: Final = [0]
"""How much later than it is the databases say it is, in ms; while `tills` are open."""
Open = Callable[..., Till]


def _later(self: Database, connection: Any) -> int:
    return _CLOCK(self, connection) + LATER[0]


_CLOCK: Final = Database._clock


@contextmanager
def tills(folder: Path, homes: Path, fresh: FreshDatabase) -> Iterator[Open]:
    """Give what opens a till over one payee that does what it is asked; all end with the block."""
    opened: list[Till] = []
    with listening(DONE) as payee:

        def make(**options: Any) -> Till:
            place = folder / f"till-{next(_TILLS)}" / "host"
            made = Till(place, fresh, **{"payee": payee, "homes": homes, **options})
            opened.append(made)
            return made

        LATER[0] = 0
        Database._clock = _later  # type: ignore[method-assign] # it is put back below
        try:
            yield make
        finally:
            Database._clock = _CLOCK  # type: ignore[method-assign] # as it was before
            for one in opened:
                one.close()
                shutil.rmtree(one.folder.parent, ignore_errors=True)
