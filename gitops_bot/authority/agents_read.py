"""Agents with their derived status and what each is doing, in words of ours; nothing about them is stored for it.

What an agent has open is limited where it asks, so that a page of agents costs the same however many asks there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gitops_bot.authority import fleet_read
from gitops_bot.authority.blocking import blocked
from gitops_bot.authority.card_values import plain
from gitops_bot.authority.queries import summary_of
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.shown import AgentText
from gitops_bot.core.asks import AskId, AskKind
from gitops_bot.core.status import NEEDS_PERSON, AgentFacts, AgentStatus, status
from gitops_bot.core.texts import storable
from gitops_bot.store import agents, captures, inbox, page_rows
from gitops_bot.store.agents import Agent
from gitops_bot.store.captures import MEASURED
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_rows import FleetRow, rows_of
from gitops_bot.store.inbox import FIRST, Open, Source, Waits
from gitops_bot.store.page_rows import LoopRow
from gitops_bot.store.states import AgentKind, AgentState

MOST: Final = 50
MOST_OPEN: Final = 20
MOST_LOOPS: Final = 200


@dataclass(frozen=True, slots=True)
class OpenAsk:
    """An open ask of an agent, in short. `blocks` says what stands still until it ends."""

    id: AskId
    kind: str
    verb: str | None
    summary: str | None
    text: AgentText
    opened_at: int
    expires_at: int | None
    blocks: str


@dataclass(frozen=True, slots=True)
class LoopShown:
    """A loop of an agent: how often it was started, and when it said that it shut down."""

    id: str
    version: int
    registered_at: int
    shutdown_at: int | None


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent as people see it. `open_asks` holds the newest, `more` that there are others."""

    agent: Agent
    status: AgentStatus
    needs_person: bool
    doing: str
    open_asks: tuple[OpenAsk, ...]
    more: bool
    loops: tuple[LoopShown, ...]
    last_activity: int | None
    fleet: FleetRow | None = None
    """When and why it is due, where the fleet runs it."""


@dataclass(frozen=True, slots=True)
class AgentsPage:
    """Agents by slug, and the cursor of the next page (None at the end)."""

    rows: tuple[AgentRow, ...]
    next: str | None


def agents_page(tx: Tx, rules: Rules, after: str, limit: int) -> AgentsPage:
    """Read agents by slug after a cursor ('' for the first page)."""
    wanted = min(max(1, limit), MOST)
    found = agents.page(tx, storable(after), wanted)
    rows = _rows(tx, rules, found)
    return AgentsPage(rows, found[-1].slug if len(found) == wanted else None)


def agent_shown(tx: Tx, rules: Rules, slug: str) -> AgentRow | None:
    """Read one agent by slug; None where there is none."""
    found = agents.by_slug(tx, storable(slug))
    return None if found is None else _rows(tx, rules, [found])[0]


def _rows(tx: Tx, rules: Rules, found: Sequence[Agent]) -> tuple[AgentRow, ...]:
    if not found:
        return ()
    loops: dict[str, list[LoopRow]] = {}
    for loop in page_rows.loops_of(tx, [one.id for one in found], MOST_LOOPS):
        loops.setdefault(loop.agent, []).append(loop)
    opened = {one.id: inbox.step(tx, Source.AGENT, one.id, "", FIRST, MOST_OPEN) for one in found}
    asked = [one.ask.id for these, _ in opened.values() for one in these]
    waits = inbox.waits(tx, asked) if asked else {}
    fleet = rows_of(tx, [one.id for one in found if one.kind is AgentKind.AGENT])
    return tuple(
        _row(tx, rules, one, loops.get(one.id, []), *opened[one.id], waits, fleet.get(one.id)) for one in found
    )


def _row(
    tx: Tx,
    rules: Rules,
    agent: Agent,
    loops: Sequence[LoopRow],
    opened: Sequence[Open],
    following: str | None,
    waits: Mapping[str, Sequence[Waits]],
    fleet: FleetRow | None,
) -> AgentRow:
    held = {one.ask.id: blocked(waits.get(one.ask.id, ()), one.run_state) for one in opened}
    stands = any(one.stands for one in held.values())
    run = page_rows.live_run(tx, agent.id) if agent.kind is AgentKind.AGENT else None
    live = run is not None or any(loop.shutdown_at is None for loop in loops)
    gated = sum(one.ask.kind is AskKind.GATED for one in opened)
    own = AgentFacts() if fleet is None else fleet_read.facts(fleet, tx.now)
    facts = replace(
        own,
        retired=agent.state is AgentState.RETIRED,
        draft=agent.state is AgentState.DRAFT,
        paused=agent.state is AgentState.PAUSED,
        # A loop that is parked has no body though its run is live; an agent of the fleet has one, or none.
        live_run=(live and not stands) or (fleet is not None and run is not None),
        answerable_asks=len(opened) - gated,
        gated_asks=gated,
        # While anything is open, that is what it waits for.
        blocked_without_answer=own.blocked_without_answer and not opened,
    )
    found = status(facts)
    return AgentRow(
        agent=agent,
        status=found,
        needs_person=found in NEEDS_PERSON,
        doing=_doing(tx, agent, found, opened, loops, run, fleet),
        open_asks=tuple(_open(rules, agent, one, held[one.ask.id].words) for one in opened),
        more=following is not None,
        loops=tuple(LoopShown(one.id, one.version, one.registered_at, one.shutdown_at) for one in loops),
        last_activity=_last(tx, agent, loops, run),
        fleet=fleet,
    )


def _open(rules: Rules, agent: Agent, one: Open, words: str) -> OpenAsk:
    ask = one.ask
    return OpenAsk(
        ask.id,
        ask.kind.value,
        ask.verb,
        summary_of(rules, ask),
        AgentText(ask.text, agent.slug),
        ask.opened_at,
        ask.expires_at,
        words,
    )


def _doing(
    tx: Tx,
    agent: Agent,
    found: AgentStatus,
    opened: Sequence[Open],
    loops: Sequence[LoopRow],
    run: tuple[str, int, int] | None,
    fleet: FleetRow | None,
) -> str:
    """Say in one sentence what an agent is doing."""
    gated = sum(one.ask.kind is AskKind.GATED for one in opened)
    match found:
        case AgentStatus.RETIRED:
            return "Retired; it asks for nothing any more."
        case AgentStatus.DRAFT:
            return "A draft; it was not started yet."
        case AgentStatus.PAUSED:
            why = f": {plain(agent.pause_reason)}" if agent.pause_reason else ""
            return f"Paused{why}."
        case AgentStatus.WAITING_HUMAN:
            others = f", and for signatures on {_count(gated, 'gated ask')}" if gated else ""
            return f"Waits for a person: {_count(len(opened) - gated, 'open ask')}{others}."
        case AgentStatus.BLOCKED if gated:
            return f"Waits for signatures on {_count(gated, 'gated ask')}; nobody can answer it here."
        case AgentStatus.RUNNING:
            return _running(tx, loops, run)
        case _ if fleet is not None and (words := fleet_read.waiting(fleet, found)) is not None:
            return words
        case _:
            return "Nothing to do; it is started by hand or asks through its token."


def _running(tx: Tx, loops: Sequence[LoopRow], run: tuple[str, int, int] | None) -> str:
    if run is not None:
        return f"Runs, version {run[1]} of run {run[0]}."
    for loop in loops:
        if loop.shutdown_at is not None:
            continue
        for seat in captures.waiting_seats_of_loop(tx, loop.id)[:1]:
            capture = captures.get(tx, seat.capture)
            if capture is not None:
                verb = "measures" if capture.state in MEASURED else "waits for"
                return f"Loop {loop.id} {verb} {capture.trace_id}."
    names = ", ".join(loop.id for loop in loops[:3] if loop.shutdown_at is None)
    return f"Runs loop {names}."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _last(tx: Tx, agent: Agent, loops: Sequence[LoopRow], run: tuple[str, int, int] | None) -> int | None:
    times = [one.at for one in page_rows.messages_of(tx, agent.id, 2**62, 1)]
    times += [one.ended_at or one.opened_at for one in page_rows.asks_of(tx, agent.id, FIRST, 1)]
    times += [one.shutdown_at or one.registered_at for one in loops]
    times += [] if run is None else [run[2]]
    return max(times, default=None)
