"""An agent that waits for people holds no session: it is released by an effect, after the commit that parked the run.

Releasing twice is releasing once, by the contract of `ports.Harness`; a session that is not there is no error.
"""

from collections.abc import Mapping
from pathlib import Path

from gitops_bot.authority.outbox import Delivered, Delivery, Impossible, Route
from gitops_bot.ports import BodyOrder, Harness
from gitops_bot.store import agents, fleet
from gitops_bot.store.engine import Database
from gitops_bot.store.outbox import StoredEffect
from gitops_bot.store.states import HarnessKind


class Releasing:
    """Releases sessions through the harnesses that this broker has."""

    def __init__(self, database: Database, harnesses: Mapping[HarnessKind, Harness]) -> None:
        self._database, self._harnesses = database, harnesses

    def route(self) -> Route:
        """Give the route of effects of the kind `settle.RELEASE`."""
        return Route(self._deliver)

    def _deliver(self, effect: StoredEffect) -> Delivery:
        payload = effect.payload
        with self._database.read() as tx:
            standing, agent = fleet.get(tx, payload["agent"]), agents.get(tx, payload["agent"])
        if standing is None or agent is None:
            return Impossible("no such agent of the fleet")
        setup = standing.setup
        harness = self._harnesses.get(setup.harness)
        if harness is None:
            return Impossible(f"this broker has no harness {setup.harness.value}")
        if harness.keeps_sessions:
            order = BodyOrder(
                agent=agent.slug,
                run=payload["run"],
                version=payload["version"],
                argv=setup.command,
                folder=Path(setup.folder),
                session=payload["session"],
                prompt=b"",
                env={},
                limit=setup.turn_limit / 1_000,
            )
            harness.release(order)
        return Delivered({})
