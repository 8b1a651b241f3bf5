"""Captures, the seats of the loops that wait for them, and the pull requests that carried them.

Transitions are decided by `broker/machine.py`; here a row changes only when its version is the one that was read.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, bindparam, func, insert, or_, select, update

from gitops_bot.core.asks import AskState
from gitops_bot.core.captures import CaptureState, Regime, TraceId, parse_trace_id
from gitops_bot.core.texts import is_storable
from gitops_bot.store.engine import Tx
from gitops_bot.store.statements import insert_or_ignore
from gitops_bot.store.states import SeatState, WaiterKind
from gitops_bot.store.tables import asks, runs
from gitops_bot.store.work_tables import capture_seats, captures, pull_requests, waiters

ACTIVE: Final = (CaptureState.REQUESTED, CaptureState.APPROVED, CaptureState.SUBMITTED, CaptureState.RUNNING)
MEASURED: Final = (CaptureState.SUBMITTED, CaptureState.RUNNING)


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture as stored; `version` fences every change. Times in milliseconds by the database's clock."""

    id: str
    trace_id: TraceId
    environment: str
    repository: str
    state: CaptureState
    ask: str | None
    agent: str
    run: str
    requester: str
    why: str
    artefact: str | None
    digest: str | None
    knobs: Mapping[str, str] | None
    error: str | None
    attempt: int
    successor: int
    moved_heads: int
    branch: str | None
    pull_request: int | None
    url: str | None
    head: str | None
    base: str | None
    status_comment: int | None
    created_at: int
    updated_at: int
    ready_at: int | None
    version: int

    @property
    def regime(self) -> Regime:
        """What is measured."""
        return parse_trace_id(self.trace_id)

    @property
    def job(self) -> str:
        """The name under which this attempt runs."""
        return f"{self.id}-{self.attempt}"


@dataclass(frozen=True, slots=True)
class Seat:
    """A loop's seat at a capture: which start of which loop waits for the one terminal signal."""

    capture: str
    run: str
    loop: str
    run_version: int
    mode: str
    state: SeatState


@dataclass(frozen=True, slots=True)
class PullRequestRow:
    """A pull request that the bot opened for a capture's ask; head and base are as the bot pushed and saw them."""

    repository: str
    number: int
    repository_id: int
    capture: str
    ask: str
    branch: str
    head: str
    base: str
    closed: bool


_INSERT: Final = insert(captures)
_GET: Final = select(captures).where(captures.c.id == bindparam("of"))
_LOCK: Final = _GET.with_for_update()
_ACTIVE: Final = (
    select(captures)
    .where(
        captures.c.environment == bindparam("in_"),
        captures.c.trace_id == bindparam("named"),
        captures.c.state.in_([state.value for state in ACTIVE]),
    )
    .with_for_update()
)
_READY: Final = (
    select(captures)
    .where(
        captures.c.environment == bindparam("in_"),
        captures.c.trace_id == bindparam("named"),
        captures.c.state.in_([CaptureState.READY.value, CaptureState.RESCOPED.value]),
        captures.c.digest.is_not(None),
    )
    .order_by(captures.c.ready_at.desc())
    .limit(1)
)
# A capture inside a frozen regime shares the ask of the one before it; the first is what the ask was about.
_OF_ASK: Final = select(captures).where(captures.c.ask == bindparam("of")).order_by(captures.c.id).limit(1)
_LAST_RESCOPED: Final = (
    select(captures)
    .join(capture_seats, capture_seats.c.capture == captures.c.id)
    .where(
        capture_seats.c.run == bindparam("by"),
        capture_seats.c.run_version == bindparam("at_version"),
        capture_seats.c.state == SeatState.RESCOPED.value,
    )
    .order_by(capture_seats.c.ended_at.desc(), captures.c.id.desc())
    .limit(1)
)
_COUNT: Final = select(func.count()).where(
    captures.c.environment == bindparam("in_"),
    captures.c.state.in_(bindparam("states", expanding=True)),
)
_PAGE: Final = (
    select(captures).where(captures.c.id > bindparam("after")).order_by(captures.c.id).limit(bindparam("most"))
)
# Somebody has to do with a capture who opened it, has a seat at it, or waits for its ask by a request of their own.
_IS_REQUEST: Final = waiters.c.kind == WaiterKind.REQUEST.value
_OF_AGENT: Final = or_(
    captures.c.agent == bindparam("by"),
    captures.c.id.in_(
        select(capture_seats.c.capture)
        .join(runs, runs.c.id == capture_seats.c.run)
        .where(runs.c.agent == bindparam("by"))
    ),
    captures.c.ask.in_(
        select(waiters.c.ask).join(runs, runs.c.id == waiters.c.id).where(_IS_REQUEST, runs.c.agent == bindparam("by"))
    ),
)
_OF_RUN: Final = or_(
    captures.c.run == bindparam("by"),
    captures.c.id.in_(select(capture_seats.c.capture).where(capture_seats.c.run == bindparam("by"))),
    captures.c.ask.in_(select(waiters.c.ask).where(_IS_REQUEST, waiters.c.id == bindparam("by"))),
)
_PAGE_OF_AGENT: Final = _PAGE.where(_OF_AGENT)
_PAGE_OF_RUN: Final = _PAGE.where(_OF_RUN)
_ONE_OF_AGENT: Final = select(captures.c.id).where(and_(captures.c.id == bindparam("of"), _OF_AGENT))
_ONE_OF_RUN: Final = select(captures.c.id).where(and_(captures.c.id == bindparam("of"), _OF_RUN))
_SEAT: Final = insert_or_ignore(capture_seats, ("capture", "run", "run_version"))
_SEATS: Final = select(capture_seats).where(capture_seats.c.capture == bindparam("of")).order_by(capture_seats.c.loop)
_SEATS_OF_LOOP: Final = select(capture_seats).where(
    capture_seats.c.loop == bindparam("of"), capture_seats.c.state == SeatState.WAITING.value
)
_LEAVE: Final = (
    update(capture_seats)
    .where(
        capture_seats.c.capture == bindparam("of"),
        capture_seats.c.run == bindparam("by"),
        capture_seats.c.run_version == bindparam("at_version"),
        capture_seats.c.state == SeatState.WAITING.value,
    )
    .values(state=bindparam("to"), ended_at=bindparam("at"))
)
_PULL: Final = insert_or_ignore(pull_requests, ("repository_id", "number"))
_GET_PULL: Final = select(pull_requests).where(
    pull_requests.c.repository_id == bindparam("in_"), pull_requests.c.number == bindparam("named")
)
_PULL_OF: Final = (
    select(pull_requests)
    .where(pull_requests.c.capture == bindparam("of"), pull_requests.c.ask == bindparam("asked"))
    .order_by(pull_requests.c.number.desc())
    .limit(1)
)
_CLOSE_PULL: Final = (
    update(pull_requests)
    .where(pull_requests.c.capture == bindparam("of"), pull_requests.c.number == bindparam("named"))
    .values(closed_at=bindparam("at"))
)
_OPEN_PULLS: Final = select(pull_requests).where(
    pull_requests.c.repository == bindparam("in_"), pull_requests.c.closed_at.is_(None)
)
_WAITING: Final = (
    select(pull_requests.c.number)
    .join(asks, asks.c.id == pull_requests.c.ask)
    .where(
        pull_requests.c.repository == bindparam("in_"),
        pull_requests.c.closed_at.is_(None),
        asks.c.state == AskState.OPEN.value,
    )
    .limit(1)
)
_TURNS: Final = select(func.count()).where(
    pull_requests.c.repository == bindparam("in_"),
    or_(pull_requests.c.branch == bindparam("named"), pull_requests.c.branch.like(bindparam("numbered"))),
)


def read_capture(row: Any) -> Capture:
    """Give a row of the table as a value; what stands beside its columns is left out."""
    values = {name: getattr(row, name) for name in Capture.__dataclass_fields__}
    return Capture(
        **{
            **values,
            "trace_id": TraceId(row.trace_id),
            "state": CaptureState(row.state),
            "knobs": json.loads(row.knobs) if row.knobs else None,
        }
    )


def add(tx: Tx, capture: Capture) -> None:
    """Write a new capture; two active ones of one trace id in one environment collide on an index."""
    values = {name: getattr(capture, name) for name in Capture.__dataclass_fields__}
    tx.execute(_INSERT, {**values, "state": capture.state.value, "knobs": None})


def get(tx: Tx, capture: str, *, lock: bool = False) -> Capture | None:
    """Read a capture."""
    if not is_storable(capture):
        return None  # an id from outside, which no row can have
    row = tx.execute(_LOCK if lock else _GET, {"of": capture}).one_or_none()
    return None if row is None else read_capture(row)


def active(tx: Tx, environment: str, trace_id: str) -> Capture | None:
    """Find the capture of a trace id that is under way, and keep it from changing in this transaction."""
    row = tx.execute(_ACTIVE, {"in_": environment, "named": trace_id}).one_or_none()
    return None if row is None else read_capture(row)


def newest_ready(tx: Tx, environment: str, trace_id: str) -> Capture | None:
    """Find the newest finished capture of a trace id. That its artefact still re-hashes is *not* checked."""
    row = tx.execute(_READY, {"in_": environment, "named": trace_id}).one_or_none()
    return None if row is None else read_capture(row)


def of_ask(tx: Tx, ask: str) -> Capture | None:
    """Find the capture that an ask is about."""
    row = tx.execute(_OF_ASK, {"of": ask}).one_or_none()
    return None if row is None else read_capture(row)


def last_rescoped(tx: Tx, run: str, version: int) -> Capture | None:
    """Find the capture whose rescope one start of a loop acknowledged last."""
    row = tx.execute(_LAST_RESCOPED, {"by": run, "at_version": version}).one_or_none()
    return None if row is None else read_capture(row)


def count_under_way(tx: Tx, environment: str) -> int:
    """Count the captures that take or are about to take a place to measure."""
    states = [state.value for state in (CaptureState.APPROVED, *MEASURED)]
    found: int = tx.execute(_COUNT, {"in_": environment, "states": states}).scalar_one()
    return found


def count_measured(tx: Tx, environment: str) -> int:
    """Count the captures that take a place to measure now."""
    found: int = tx.execute(_COUNT, {"in_": environment, "states": [state.value for state in MEASURED]}).scalar_one()
    return found


def page(tx: Tx, after: str, limit: int) -> list[Capture]:
    """Read captures in order of id after a cursor ('' for the first page)."""
    return [read_capture(row) for row in tx.execute(_PAGE, {"after": after, "most": limit})]


def page_of(tx: Tx, agent: str, run: str | None, after: str, limit: int) -> list[Capture]:
    """Read the captures that an agent, or with `run` that run alone, has to do with, as `page`."""
    statement, by = (_PAGE_OF_AGENT, agent) if run is None else (_PAGE_OF_RUN, run)
    return [read_capture(row) for row in tx.execute(statement, {"by": by, "after": after, "most": limit})]


def concerns(tx: Tx, capture: str, agent: str, run: str | None) -> bool:
    """Tell whether an agent, or with `run` that run alone, has to do with a capture."""
    statement, by = (_ONE_OF_AGENT, agent) if run is None else (_ONE_OF_RUN, run)
    return tx.execute(statement, {"by": by, "of": capture}).one_or_none() is not None


def change(tx: Tx, capture: Capture, **values: Any) -> bool:
    """Set columns of a capture as it was read; False when somebody changed it since.

    `state` must come from the transition table of `broker/machine.py`.
    """
    if "knobs" in values and values["knobs"] is not None:
        values["knobs"] = json.dumps(values["knobs"], sort_keys=True)
    if "state" in values:
        values["state"] = CaptureState(values["state"]).value
    statement = (
        update(captures)
        .where(captures.c.id == capture.id, captures.c.version == capture.version)
        .values(**values, version=capture.version + 1, updated_at=tx.now)
    )
    return tx.execute(statement).rowcount == 1


def seat(tx: Tx, place: Seat) -> None:
    """Give a loop a seat at a capture; twice is once."""
    row = {
        "capture": place.capture,
        "run": place.run,
        "loop": place.loop,
        "run_version": place.run_version,
        "mode": place.mode,
        "state": place.state.value,
        "joined_at": tx.now,
    }
    tx.execute(_SEAT[tx.dialect], row)


def _seat(row: Any) -> Seat:
    return Seat(row.capture, row.run, row.loop, row.run_version, row.mode, SeatState(row.state))


def seats(tx: Tx, capture: str) -> list[Seat]:
    """Read all seats of a capture, those that ended included."""
    return [_seat(row) for row in tx.execute(_SEATS, {"of": capture})]


def waiting_seats_of_loop(tx: Tx, loop: str) -> list[Seat]:
    """Read where a loop still waits."""
    return [_seat(row) for row in tx.execute(_SEATS_OF_LOOP, {"of": loop})]


def leave(tx: Tx, place: Seat, state: SeatState) -> bool:
    """End a waiting seat; False when it had ended (I10: one terminal signal)."""
    values = {"of": place.capture, "by": place.run, "at_version": place.run_version, "to": state.value, "at": tx.now}
    return tx.execute(_LEAVE, values).rowcount == 1


def add_pull_request(tx: Tx, row: PullRequestRow) -> None:
    """Remember a pull request of the bot's own."""
    values = {name: getattr(row, name) for name in PullRequestRow.__dataclass_fields__ if name != "closed"}
    tx.execute(_PULL[tx.dialect], {**values, "opened_at": tx.now})


def _pull(row: Any) -> PullRequestRow:
    return PullRequestRow(
        row.repository,
        row.number,
        row.repository_id,
        row.capture,
        row.ask,
        row.branch,
        row.head,
        row.base,
        row.closed_at is not None,
    )


def pull_request(tx: Tx, repository_id: int, number: int) -> PullRequestRow | None:
    """Find what the bot knows of a pull request; None when it is not the bot's."""
    row = tx.execute(_GET_PULL, {"in_": repository_id, "named": number}).one_or_none()
    return None if row is None else _pull(row)


def pull_request_of(tx: Tx, capture: str, ask: str) -> PullRequestRow | None:
    """Find the pull request that carried an ask of a capture."""
    row = tx.execute(_PULL_OF, {"of": capture, "asked": ask}).one_or_none()
    return None if row is None else _pull(row)


def open_pull_requests(tx: Tx, repository: str) -> list[PullRequestRow]:
    """Read the bot's pull requests of a repository that it has not closed."""
    return [_pull(row) for row in tx.execute(_OPEN_PULLS, {"in_": repository})]


def asks_waiting(tx: Tx, repository: str) -> bool:
    """Tell whether an ask is open on a pull request of a repository."""
    return tx.execute(_WAITING, {"in_": repository}).one_or_none() is not None


def close_pull_request(tx: Tx, capture: str, number: int) -> None:
    """Remember that a pull request of a capture's is closed, or recorded: nothing about it is watched any more."""
    tx.execute(_CLOSE_PULL, {"of": capture, "named": number, "at": tx.now})


def turns(tx: Tx, repository: str, branch: str) -> int:
    """Count the pull requests that the bot opened from a branch or its numbered successors."""
    found: int = tx.execute(_TURNS, {"in_": repository, "named": branch, "numbered": f"{branch}-%"}).scalar_one()
    return found
