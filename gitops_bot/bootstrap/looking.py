"""What the host looks at of its fleet: an agent whole, a turn with its capsule and text, what is due and what holds it.

Nothing is changed. What a body said is given as it is; whoever shows it escapes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.agents_read import AgentRow, agent_shown
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.turns_read import VERSION, TurnShown, turn_shown, turns_page
from gitops_bot.bootstrap.holders import living
from gitops_bot.config import Settings
from gitops_bot.core.errors import Reason, Refusal, refuse
from gitops_bot.core.texts import storable
from gitops_bot.store import agents, dispatches, fleet, turn_rows
from gitops_bot.store.due_agents import Lane, overview
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.turn_rows import DueRow, TurnRow, Untold

MOST_TURNS: Final = 10
MOST_UNTOLD: Final = 50
MOST_DUE: Final = 50


@dataclass(frozen=True, slots=True)
class AgentWhole:
    """An agent with where it stands in the fleet (None: no fleet runs it), its last turns and what it was not told."""

    row: AgentRow
    standing: fleet.Standing | None
    turns: Sequence[TurnRow]
    untold: Sequence[Untold]


@dataclass(frozen=True, slots=True)
class Said:
    """One turn, with all that is kept of its body's text; None once the turn is settled, when only what landed is."""

    shown: TurnShown
    text: str | None


@dataclass(frozen=True, slots=True)
class Held:
    """An agent that is due, and why nothing starts it yet."""

    due: DueRow
    lane: str
    why: str


def whole(database: Database, rules: Rules, slug: str) -> AgentWhole:
    """Read one agent with all that the host is shown of it.

    Raises:
        Refusal: there is no such agent.
    """
    with database.read() as tx:
        row = agent_shown(tx, rules, slug)
        if row is None:
            raise Refusal(refuse(Reason.NOT_FOUND, f"No agent {slug[:64]!r}; `gitops-bot agent list` names them."))
        standing = fleet.get(tx, row.agent.id)
        if standing is None:
            return AgentWhole(row, None, (), ())
        turns = turns_page(tx, row.agent, None, MOST_TURNS).rows
        return AgentWhole(row, standing, turns, turn_rows.untold_of(tx, row.agent.id, MOST_UNTOLD))


def turn(database: Database, name: str) -> Said:
    """Read the last turn of an agent by its slug, or the last one of a run by its id; `RUN.VERSION` names an earlier.

    Raises:
        Refusal: there is none.
    """
    with database.read() as tx:
        found = _named(tx, storable(name))
        agent = None if found is None else agents.get(tx, found.agent)
        shown = None if found is None or agent is None else turn_shown(tx, agent, found.run, found.version)
        if shown is None:
            detail = f"No agent or run {name[:64]!r} that had a turn; `gitops-bot agent show SLUG` names the runs."
            raise Refusal(refuse(Reason.NOT_FOUND, detail))
        text = None if shown.text is None else dispatches.text(tx, shown.row.run, shown.row.version)
        return Said(shown, text)


def _named(tx: Tx, name: str) -> TurnRow | None:
    agent = agents.by_slug(tx, name)
    if agent is not None:
        return next(iter(turn_rows.turns_of(tx, agent.id, None, 1)), None)
    run, dot, version = name.partition(".")
    if dot and not VERSION.fullmatch(version):
        return None
    return turn_rows.turn(tx, run, int(version) if dot else None)


def due(settings: Settings, database: Database) -> Sequence[Held]:
    """Say which agents are due, by lane, and what keeps each from starting."""
    brokers = living(settings.state / "brokers")
    held: list[Held] = []
    with database.read() as tx:
        for lane in overview(tx):
            rows = turn_rows.due_in(tx, lane.id, MOST_DUE)
            held += [Held(row, lane.id, _why(tx, row, lane, settings.fleet.slots, brokers)) for row in rows]
    return held


def _why(tx: Tx, row: DueRow, lane: Lane, slots: int, brokers: int) -> str:
    if row.is_live:
        return "its turn runs; it is started again after it"
    if lane.opens_at > tx.now:
        return f"its lane is closed for {max(1, (lane.opens_at - tx.now) // 1_000)} s: a provider's limit"
    if lane.running >= slots:
        return f"its lane has no place: {lane.running} of {slots} run ([fleet] slots)"
    if brokers == 0:
        return "no broker runs on this host: `gitops-bot serve`"
    return "a broker starts it now"
