"""What an inbox walks: open asks from the newest to the oldest, by a source that an index orders, in bounded steps.

A step reads at most so many rows below an id, each with what concerns one person: whether they voted, put it off or are
among its candidates. Who needs what is decided above (`authority.inbox`). No step costs more where more is open.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Select, and_, bindparam, exists, literal_column, select

from gitops_bot.core.asks import Ask, AskId, AskKind, AskState, Option
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.store.asks import ask_of
from gitops_bot.store.engine import Tx
from gitops_bot.store.person_tables import snoozes
from gitops_bot.store.signed_tables import signed_votes
from gitops_bot.store.states import AgentState, RunState, WaiterKind
from gitops_bot.store.tables import agents, ask_candidates, ask_options, asks, runs, votes
from gitops_bot.store.work_tables import capture_seats, waiters

FIRST: Final = "z" * 26
"""At or above every id, in every collation: ids are 26 lower-case letters and digits."""
STEP: Final = 32


class Source(StrEnum):
    """By what the rows of a walk are chosen; each is one index of open asks."""

    OWNER = "owner"  # plain questions of one owner's agents
    QUESTIONS = "questions"  # all plain questions
    VERB = "verb"  # one verb
    AGENT = "agent"  # one agent
    SNOOZED = "snoozed"  # what the person put off
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Open:
    """An open ask as one person's inbox sees it. `ask` is without its options, and its candidates are what concerns
    this person: none where there are none, the person where they are one, else a name that is nobody's."""

    ask: Ask
    slug: str
    agent_state: AgentState
    run_state: RunState
    voted: bool
    snoozed_until: int | None


@dataclass(frozen=True, slots=True)
class Waits:
    """One of those who wait for an ask: a run with its state, or a loop's seat with its mode."""

    kind: WaiterKind
    run_state: RunState | None
    mode: str | None
    loop: str | None


NOBODY: Final = PrincipalName("")

_ME: Final[Any] = bindparam("me")
# Literals and no parameters: SQLite uses a partial index only where the statement's text implies its condition.
_OPEN: Final = asks.c.state == literal_column(f"'{AskState.OPEN.value}'")
_QUESTION: Final = asks.c.kind == literal_column(f"'{AskKind.QUESTION.value}'")
_BELOW: Final = asks.c.id < bindparam("before")


def _walk(*conditions: Any) -> Select[Any]:
    # A correlated look-up by primary key for each row of the step, and none for the rows that are not in it.
    return (
        select(
            asks,
            agents.c.slug.label("slug"),
            agents.c.state.label("agent_state"),
            runs.c.state.label("run_state"),
            exists().where(votes.c.ask == asks.c.id, votes.c.principal == _ME).label("voted"),
            exists().where(signed_votes.c.ask == asks.c.id, signed_votes.c.principal == _ME).label("signed"),
            exists().where(ask_candidates.c.ask == asks.c.id).label("limited"),
            exists().where(ask_candidates.c.ask == asks.c.id, ask_candidates.c.principal == _ME).label("named"),
            select(snoozes.c.until)
            .where(snoozes.c.ask == asks.c.id, snoozes.c.principal == _ME)
            .scalar_subquery()
            .label("put_off"),
        )
        .select_from(asks)
        .join(agents, agents.c.id == asks.c.agent)
        .join(runs, runs.c.id == asks.c.run)
        .where(_OPEN, _BELOW, *conditions)
        .limit(bindparam("most"))
    )


_NEWEST: Final = asks.c.id.desc()
_WALKS: Final[dict[Source, Select[Any]]] = {
    Source.OWNER: _walk(_QUESTION, asks.c.owner == bindparam("of")).order_by(_NEWEST),
    # The verb leads the order, so that PostgreSQL reads the index of (verb, id) backwards where the verb is NULL too.
    Source.QUESTIONS: _walk(_QUESTION, asks.c.verb.is_(None)).order_by(asks.c.verb.desc(), _NEWEST),
    Source.VERB: _walk(asks.c.verb == bindparam("of")).order_by(_NEWEST),
    Source.AGENT: _walk(asks.c.id.in_(bindparam("these", expanding=True))).order_by(_NEWEST),
    Source.SNOOZED: _walk(asks.c.id.in_(bindparam("these", expanding=True))).order_by(_NEWEST),
    Source.ALL: _walk().order_by(_NEWEST),
}


_PUT_OFF: Final = (
    select(snoozes.c.ask)
    .where(snoozes.c.principal == _ME, snoozes.c.until > bindparam("at"), snoozes.c.ask < bindparam("before"))
    .order_by(snoozes.c.ask.desc())
    .limit(bindparam("most"))
)
# All that an agent has open, which is limited where it asks (`authority.rules.AskLimits`), by the index that holds
# nothing else: in order of id SQLite would walk all that the agent ever asked.
_OF_AGENT: Final = select(asks.c.id).where(
    asks.c.agent == bindparam("of"),
    asks.c.kind.in_([literal_column(f"'{kind.value}'") for kind in AskKind]),
    _OPEN,
    _BELOW,
)


def step(tx: Tx, source: Source, of: str | None, person: str, before: str, most: int) -> tuple[list[Open], str | None]:
    """Read the next open asks of a source below an id, newest first, and below which id the next step begins (None at
    the end). `of` names the owner, verb or agent."""
    values: dict[str, Any] = {"me": person, "before": before, "most": most}
    if source in (Source.OWNER, Source.VERB):
        values["of"] = of
    # In two statements: one would leave it to the planner to walk all that is open instead.
    if source in (Source.AGENT, Source.SNOOZED):
        if source is Source.AGENT:
            these = sorted(tx.execute(_OF_AGENT, {"of": of, "before": before}).scalars(), reverse=True)[:most]
        else:
            these = list(tx.execute(_PUT_OFF, {**values, "at": tx.now}).scalars())
        found = [_open(row, person) for row in tx.execute(_WALKS[source], {**values, "these": these})] if these else []
        return found, these[-1] if len(these) == most else None
    found = [_open(row, person) for row in tx.execute(_WALKS[source], values)]
    return found, found[-1].ask.id if len(found) == most else None


def walk(tx: Tx, source: Source, of: str | None, person: str, before: str) -> Iterator[Open]:
    """Read a source lazily, one bounded step after another."""
    following: str | None = before
    while following is not None:
        found, following = step(tx, source, of, person, following, STEP)
        yield from found


def _open(row: Any, person: str) -> Open:
    candidates = (PrincipalName(person) if row.named else NOBODY,) if row.limited else ()
    return Open(
        ask_of(row, (), candidates),
        row.slug,
        AgentState(row.agent_state),
        RunState(row.run_state),
        bool(row.voted or row.signed),
        row.put_off,
    )


_OPTIONS: Final = (
    select(ask_options)
    .where(ask_options.c.ask.in_(bindparam("these", expanding=True)))
    .order_by(ask_options.c.ask, ask_options.c.position)
)
_CANDIDATES: Final = (
    select(ask_candidates)
    .where(ask_candidates.c.ask.in_(bindparam("these", expanding=True)))
    .order_by(ask_candidates.c.ask, ask_candidates.c.principal)
)
_CAST: Final = (
    select(votes.c.ask, votes.c.principal, votes.c.decision)
    .where(votes.c.ask.in_(bindparam("these", expanding=True)))
    .order_by(votes.c.ask, votes.c.cast_at, votes.c.seq)
)
_SIGNED: Final = (
    select(signed_votes.c.ask, signed_votes.c.principal, signed_votes.c.decision)
    .where(signed_votes.c.ask.in_(bindparam("these", expanding=True)))
    .order_by(signed_votes.c.ask, signed_votes.c.received_at, signed_votes.c.seq)
)
_WAITS: Final = (
    select(
        waiters.c.ask,
        waiters.c.kind,
        runs.c.state.label("run_state"),
        capture_seats.c.mode,
        capture_seats.c.loop,
    )
    .select_from(waiters)
    .outerjoin(runs, and_(waiters.c.kind == literal_column(f"'{WaiterKind.RUN.value}'"), runs.c.id == waiters.c.id))
    .outerjoin(
        capture_seats,
        and_(
            waiters.c.kind == literal_column(f"'{WaiterKind.CAPTURE.value}'"),
            capture_seats.c.capture == waiters.c.id,
            capture_seats.c.state == literal_column("'waiting'"),
        ),
    )
    .where(waiters.c.ask.in_(bindparam("these", expanding=True)))
    .order_by(waiters.c.ask, waiters.c.kind, waiters.c.id, capture_seats.c.loop)
)


def parts(tx: Tx, these: Sequence[AskId]) -> tuple[dict[str, tuple[Option, ...]], dict[str, tuple[PrincipalName, ...]]]:
    """Read the options and the candidates of several asks, by ask."""
    options: dict[str, list[Option]] = {}
    for row in tx.execute(_OPTIONS, {"these": list(these)}):
        options.setdefault(row.ask, []).append(Option(row.id, row.label))
    candidates: dict[str, list[PrincipalName]] = {}
    for row in tx.execute(_CANDIDATES, {"these": list(these)}):
        candidates.setdefault(row.ask, []).append(PrincipalName(row.principal))
    return {ask: tuple(of) for ask, of in options.items()}, {ask: tuple(of) for ask, of in candidates.items()}


def cast(tx: Tx, these: Sequence[AskId]) -> dict[str, list[tuple[PrincipalName, Decision]]]:
    """Read the votes on several asks in the order in which they were counted, signed ones included, by ask."""
    found: dict[str, list[tuple[PrincipalName, Decision]]] = {}
    for statement in (_CAST, _SIGNED):
        for row in tx.execute(statement, {"these": list(these)}):
            found.setdefault(row.ask, []).append((PrincipalName(row.principal), Decision(row.decision)))
    return found


def waits(tx: Tx, these: Sequence[AskId]) -> dict[str, list[Waits]]:
    """Read who waits for several asks, by ask; a capture stands for each seat that waits at it."""
    found: dict[str, list[Waits]] = {}
    for row in tx.execute(_WAITS, {"these": list(these)}):
        state = None if row.run_state is None else RunState(row.run_state)
        found.setdefault(row.ask, []).append(Waits(WaiterKind(row.kind), state, row.mode, row.loop))
    return found
