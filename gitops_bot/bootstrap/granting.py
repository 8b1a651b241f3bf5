"""The second half of the signed channel, put together: the mint, the spend, what carries out, and the adopted policy.

What acts on a grant verifies its commits again with engines of its own thread; nothing here is shared with a surface.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gitops_bot.authority.duties import Outcome, Pace, RowDuty
from gitops_bot.authority.rules import Rules
from gitops_bot.bootstrap.bundle import load_files
from gitops_bot.bootstrap.executors import Executors
from gitops_bot.bootstrap.gate import Gate
from gitops_bot.config import Settings
from gitops_bot.core.asks import AskId
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.policy.model import VerbRule
from gitops_bot.ports import Duty
from gitops_bot.store import signatures
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx

if TYPE_CHECKING:
    from gitops_bot.signed.channel import Channel, Known, Place
    from gitops_bot.signed.evidence import Signed
    from gitops_bot.signed.keys import Keys
    from gitops_bot.signed.objects import Objects
    from gitops_bot.signed.publishing import Publisher
    from gitops_bot.signed.repository import Repository
    from gitops_bot.signed.spend import Spender

LEASE_MS: Final = 90_000
"""How long work of a killed broker stands still. Whoever goes on meets the row as it was left; a slow one that comes
back meets a row that moved (`store.executions.attempt`)."""


@dataclass(frozen=True, slots=True)
class Granting:
    """What spends and carries out in one broker."""

    database: Database
    settings: Settings
    rules: Rules
    place: "Place"
    repository: "Repository"
    publisher: "Publisher"
    gate: Gate
    adopted: Callable[[str], None]
    replaced: Callable[[Tx, Rules, AskId], None]
    """Replaces one open ask of an older policy, in the given transaction."""

    def duties(self, engines: Callable[[], "Keys"]) -> list[Duty]:
        """Give the duties; `engines` makes a set for each of the two threads."""
        from gitops_bot.signed import adopting, barrier, executing, spend
        from gitops_bot.signed.objects import Objects

        executors = Executors(self.rules.policy, self.settings.signed.keys_dir, self.settings.state / "executions")
        reading, rereading = Objects(self.repository), Objects(self.repository)
        spender = self._spender(engines(), reading, executors)
        spender.arm()
        verifier = self._spender(engines(), rereading, executors)
        carrying = executing.Executing(
            self.database,
            self.rules,
            self.publisher,
            executors.of,
            adopting.adopter(load_files),
            verifier.verify,
            sound=self.gate.sound,
            noted=self.gate.note,
            adopted=self.adopted,
        )
        superseding = adopting.Superseding(self.database, self.rules, self.replaced)
        pace = Pace(batch=1, lease_ms=LEASE_MS, first_ms=500, most_ms=60_000)
        return [
            RowDuty(barrier.SPEND, self.database, _closing(reading, spender.one), pace),
            RowDuty(spend.EXECUTE, self.database, _closing(rereading, carrying.one), pace),
            RowDuty(adopting.SUPERSEDE, self.database, superseding.one, pace),
        ]

    def _spender(self, keys: "Keys", objects: "Objects", executors: "Executors") -> "Spender":
        return spender_of(
            self.database, self.settings, self.rules, self.place, keys, objects, self.gate, executors.check
        )


def spender_of(
    database: Database,
    settings: Settings,
    rules: Rules,
    place: "Place",
    keys: "Keys",
    objects: "Objects",
    gate: Gate,
    check: Callable[[VerbRule], Refused | None],
) -> "Spender":
    """Make what verifies the evidence of a grant, and spends it, over engines and git's processes of one thread.
    `check` looks at a verb's executor."""
    from gitops_bot.signed.channel import Channel
    from gitops_bot.signed.spend import Spender

    def known(ask: AskId) -> "Known | None":
        from gitops_bot.signed import requesting

        with database.read() as tx:
            return requesting.known(tx, ask)

    def channel() -> "Channel":
        return Channel(place, rules.policy, keys, objects, known)

    return Spender(
        database,
        rules,
        place,
        channel,
        key_now(keys, database),
        max_fetch_age=settings.signed.max_fetch_age,
        sound=gate.sound,
        spent=gate.note,
        executor=check,
    )


def _closing(objects: "Objects", handle: Callable[[Claimed], Outcome]) -> Callable[[Claimed], Outcome]:
    """End git's processes after each piece of work."""

    def one(claimed: Claimed) -> Outcome:
        try:
            return handle(claimed)
        finally:
            objects.close()

    return one


def key_now(keys: "Keys", database: Database) -> "Callable[[Signed, int], Refused | None]":
    """Make what tells whether a key that signed counts at another time: not ended, and never revoked since."""

    def ask(signed: "Signed", at: int) -> Refused | None:
        with database.read() as tx:
            revoked = {one.key for one in signatures.revocations(tx) if one.hard or one.at is None or one.at <= at}
        if signed.key in revoked or signed.component in revoked:
            return refuse(Reason.KEY_REVOKED, key=signed.component)
        return keys.standing(signed, at)

    return ask
