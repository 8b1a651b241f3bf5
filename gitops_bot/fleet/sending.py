"""Messages from one agent to another: into its thread and inbox, waking it, or undeliverable, which is said.

A message is its sender's words and nothing else: it answers no ask, whatever it says. Chains are bounded, and so is how
much one agent writes to another (`authority.agents.post`). Rows are locked in one order by everybody who sends: the
turns of threads, then agents' rows, each in order of id.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from gitops_bot.authority.agents import SLUG, Author, post
from gitops_bot.core.errors import Refused
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.fleet.grammar import Informational, Send
from gitops_bot.fleet.turn import Turn
from gitops_bot.store import agents, fleet, ledger, threads, turns
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import AgentState

DEEPEST: Final = 4
"""A person's message is 0 deep, what an agent sends because of it 1."""


def targets(tx: Tx, markers: Iterable[Informational]) -> Mapping[str, agents.Agent]:
    """Find whom some markers are sent to, by slug, and take the turns of their threads."""
    slugs = {marker.slug for marker in markers if isinstance(marker, Send) and SLUG.fullmatch(marker.slug)}
    found = {slug: agent for slug in slugs if (agent := agents.by_slug(tx, slug)) is not None}
    for agent in sorted(found.values(), key=lambda one: one.id):
        turns.take(tx, f"thread:{agent.id}")
    return found


def hold(tx: Tx, these: Iterable[str]) -> None:
    """Lock the rows of some agents, by id."""
    for agent in sorted(set(these)):
        fleet.get(tx, agent, lock=True)


def send(tx: Tx, turn: Turn, marker: Send, to: agents.Agent | None) -> None:
    """Deliver one message, or say why it cannot be. That it is sent once is *not* checked here."""
    why = _undeliverable(turn, to)
    if why is None and to is not None:
        author = Author("agent", turn.agent.slug, turn.agent.principal, turn.run)
        sent = post(tx, to, author, marker.text, depth=turn.depth + 1)
        why = sent.reason.value if isinstance(sent, Refused) else None
    if why is None:
        return
    name = f"@{marker.slug}" if SLUG.fullmatch(marker.slug) else "a name that no agent has"
    threads.post(tx, turn.agent.id, "report", f"A message to {name} was not delivered: {why}.", run=turn.run)
    entry = Entry(
        EventKind.MESSAGE_UNDELIVERABLE,
        tx.now,
        run=turn.run,
        agent=turn.agent.id,
        principal=turn.agent.principal,
        reason=why,
        facts={"to": marker.slug, "depth": turn.depth + 1},
    )
    ledger.append(tx, entry)


def _undeliverable(turn: Turn, to: agents.Agent | None) -> str | None:
    if to is None:
        return "unknown"
    if to.id == turn.agent.id:
        return "own"
    if to.state is AgentState.RETIRED:
        return "retired"
    return "depth" if turn.depth + 1 > DEEPEST else None
