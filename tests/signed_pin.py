"""A host on which policies are proposed and adopted: people sign with security keys, the broker's duties go one step at
a time, and what a crash, a restored copy or another hand would leave can be put in place.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import text

from gitops_bot.bootstrap.keeping import DUTY as KEEP
from gitops_bot.bootstrap.trust import Trust, read_trust
from gitops_bot.signed.adopting import SUPERSEDE
from gitops_bot.signed.spend import EXECUTE, SPEND
from gitops_bot.store import asks, bundles, ledger
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from tests import signed_keys as keys
from tests.signed_bundle import bundle, write_bundle
from tests.signed_host import SignedHost
from tests.signed_stage import PEOPLE

Change = Callable[[dict[str, Any]], object]


def nothing(_tables: dict[str, Any]) -> None:
    """Change nothing but the version."""


@dataclass
class PinHost(SignedHost):
    """A host whose people sign with their security keys, touched and verified. `homes` are gpg's, shared by tests."""

    homes: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.homes is not None:
            self.homes.mkdir(mode=0o700, exist_ok=True)
            (self.state / "signed").mkdir(mode=0o700)
            (self.state / "signed" / "gpg").symlink_to(self.homes)
        self.private(".gitops-bot/keys/bank", b"token")
        for name in PEOPLE:
            self.stage.signers[name] = keys.ssh(f"{name}-sk", flags=5)

    @property
    def state(self) -> Path:
        """The broker's state folder."""
        return self.folder / ".gitops-bot"

    @property
    def trust(self) -> Trust:
        """What this host pins."""
        return read_trust(self.state / "trust.json")

    @property
    def in_force(self) -> str | None:
        """The digest that the database has in force."""
        with self.database.read() as tx:
            force = bundles.in_force(tx)
        return None if force is None else force[0]

    def put(self, change: Change = nothing, *, version: int = 2, **options: Any) -> None:
        """Write another bundle into the policies folder, once the broker ran under the pinned one and stored it."""
        assert self.in_force is not None

        def all_changes(tables: dict[str, Any]) -> None:
            tables["version"] = version
            change(tables)

        shutil.rmtree(self.folder / "policies")
        write_bundle(bundle(all_changes, **options), self.folder / "policies")

    def propose(self, change: Change = nothing, *, version: int = 2, **options: Any) -> dict[str, Any]:
        """Put another bundle on disk and propose it by the command; gives its document."""
        self.put(change, version=version, **options)
        status, out, err = self.bot("policy", "propose", "--json")
        assert status == 0, err
        document: dict[str, Any] = json.loads(out)
        return document

    def adopt(self, ask: str, *people: str) -> None:
        """Let people approve (alice and bob if none is named), look, spend and carry out."""
        self.announce()
        for person in people or ("alice", "bob"):
            self.vote(person, ask)
        self.look()
        self.drain(SPEND)
        self.drain(EXECUTE)

    def change_policy(self, change: Change = nothing, *, version: int = 2, **options: Any) -> str:
        """Propose, adopt and begin anew under another bundle; gives its digest."""
        proposed = self.propose(change, version=version, **options)
        self.adopt(proposed["ask"])
        self.restart()
        digest: str = proposed["digest"]
        return digest

    def drain(self, name: str) -> None:
        """Do what is due of a duty."""
        duty = next(one for one in self.channel.granting if one.name == name)
        for _ in range(20):
            if duty.step() > 0:
                return

    def keep(self) -> None:
        """Let the broker look at its pin once."""
        next(one for one in self.channel.granting if one.name == KEEP).step()

    def supersede(self) -> None:
        """Replace the asks of older policies."""
        self.drain(SUPERSEDE)

    def restart(self) -> None:
        """End the broker; the next question builds another."""
        if "broker" in self.__dict__:
            self.broker.close()
        for known in ("broker", "rules", "database"):
            self.__dict__.pop(known, None)
        self.fresh.close()

    def hand(self, statement: str, **values: Any) -> None:
        """Change the database by the hand of somebody who has the file."""
        owner: Database = self.fresh.open(Role.OWNER)
        with owner.write() as tx:
            tx._connection.execute(text(statement), values)
        owner.close()

    def kinds(self, *wanted: str) -> list[str]:
        """Name what the ledger tells, in order, of some kinds."""
        with self.database.write() as tx:
            ledger.seal_next(tx, 10_000)
        with self.database.read() as tx:
            told = [str(one.document["kind"]) for one in ledger.sealed(tx, 0, 10_000)]
        return [kind for kind in told if not wanted or kind in wanted]

    def state_of(self, ask: str) -> tuple[str, str | None]:
        """Give an ask's state and why it ended."""
        with self.database.read() as tx:
            found = asks.get(tx, ask)
        assert found is not None
        return found.state.value, found.end_reason

    def bot_plain(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command that takes no settings."""
        import io
        from contextlib import redirect_stderr, redirect_stdout

        from gitops_bot.cli import run

        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = run(arguments)
        return status, out.getvalue(), err.getvalue()
