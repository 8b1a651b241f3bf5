"""What agents have not been told yet, for many agents at once: asks of theirs that ended, and messages to them.

Each item is in one capsule only: it is consumed in the transaction that opens the run, by `consume`. What is read here
is read from the rows of asks, votes and verdicts themselves, so that nothing that somebody wrote can pose as one.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sqlalchemy import bindparam, func, literal_column, select, update

from gitops_bot.core.asks import AskState
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_tables import capsule_items
from gitops_bot.store.states import CapsuleItem
from gitops_bot.store.tables import ask_options, asks, verdicts
from gitops_bot.store.work_tables import messages

Named = TypeVar("Named")


@dataclass(frozen=True, slots=True)
class ToldAsk:
    """An ask that ended. `option`, `label`, `text` and `by` are the verdict's, where there is one; `at` in ms."""

    id: str
    state: AskState
    question: str
    verb: str | None
    at: int
    option: str | None
    label: str | None
    text: str | None
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToldMessage:
    """A message of an agent's thread: by a person, an agent or the system; `at` in ms."""

    author_kind: str
    author: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Told:
    """What one capsule tells: the items themselves, how deep the longest chain of messages among them is, how many more
    wait for a later one, and which rows these are."""

    asks: tuple[ToldAsk, ...] = ()
    messages: tuple[ToldMessage, ...] = ()
    depth: int = 0
    more: int = 0
    items: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Item:
    id: int
    agent: str
    kind: CapsuleItem
    ref: str
    depth: int


# A literal and no parameter: SQLite uses a partial index only where the statement's text implies its condition.
_UNTOLD: Final = select(
    capsule_items.c.id, capsule_items.c.agent, capsule_items.c.kind, capsule_items.c.ref, capsule_items.c.depth
).where(capsule_items.c.run.is_(literal_column("NULL")))
_OF_SOME: Final = (
    _UNTOLD.where(capsule_items.c.agent.in_(bindparam("of", expanding=True)))
    .order_by(capsule_items.c.agent, capsule_items.c.id)
    .limit(bindparam("most"))
)
_OF_ONE: Final = (
    _UNTOLD.where(capsule_items.c.agent == bindparam("of"), capsule_items.c.kind == bindparam("what"))
    .order_by(capsule_items.c.id)
    .limit(bindparam("most"))
)
_COUNT: Final = select(func.count()).where(
    capsule_items.c.agent == bindparam("of"), capsule_items.c.run.is_(literal_column("NULL"))
)
_CONSUME: Final = (
    update(capsule_items)
    .where(capsule_items.c.id == bindparam("item"), capsule_items.c.run.is_(None))
    .values(run=bindparam("into"))
)
_ASKS: Final = (
    select(
        asks.c.id,
        asks.c.state,
        asks.c.text,
        asks.c.verb,
        asks.c.ended_at,
        verdicts.c.option,
        verdicts.c.text.label("said"),
        verdicts.c.by,
        ask_options.c.label,
    )
    .outerjoin(verdicts, verdicts.c.ask == asks.c.id)
    .outerjoin(ask_options, (ask_options.c.ask == asks.c.id) & (ask_options.c.id == verdicts.c.option))
    .where(asks.c.id.in_(bindparam("of", expanding=True)))
)
_MESSAGES: Final = select(
    messages.c.id, messages.c.author_kind, messages.c.author, messages.c.text, messages.c.at
).where(messages.c.id.in_(bindparam("of", expanding=True)))
_SOME: Final = 1_000
"""Names in one list of a statement."""


def untold(tx: Tx, agents: Sequence[str], most_asks: int, most_messages: int) -> Mapping[str, Told]:
    """Read what each of some agents is to be told next, the oldest first, by agent; one with nothing is not among them.

    At most `most_asks` and `most_messages` an agent: what ended comes before what was written, however much that is.
    """
    items: dict[str, list[_Item]] = {}
    most = {CapsuleItem.ASK: most_asks, CapsuleItem.MESSAGE: most_messages}
    for item in _items(tx, agents, most):
        items.setdefault(item.agent, []).append(item)
    everything = [item for found in items.values() for item in found]
    ended = _asks(tx, [item.ref for item in everything if item.kind is CapsuleItem.ASK])
    written = _messages(tx, [int(item.ref) for item in everything if item.kind is CapsuleItem.MESSAGE])
    return {agent: _told(tx, agent, found, ended, written, most_asks, most_messages) for agent, found in items.items()}


def _items(tx: Tx, agents: Sequence[str], most: Mapping[CapsuleItem, int]) -> list[_Item]:
    found: list[_Item] = []
    for part in _parts(agents):
        limit = len(part) * sum(most.values()) + 1
        rows = tx.execute(_OF_SOME, {"of": part, "most": limit}).all()
        if len(rows) == limit:
            # Somebody has more than one capsule takes; what follows them in order was cut off.
            rows = [row for agent in part for kind in most for row in _of_one(tx, agent, kind, most[kind])]
        taken: dict[tuple[str, str], int] = {}
        for row in rows:
            count = taken[row.agent, row.kind] = taken.get((row.agent, row.kind), 0) + 1
            kind = CapsuleItem(row.kind)
            if count <= most[kind]:
                found.append(_Item(row.id, row.agent, kind, row.ref, row.depth))
    return found


def _of_one(tx: Tx, agent: str, kind: CapsuleItem, most: int) -> list[Any]:
    return list(tx.execute(_OF_ONE, {"of": agent, "what": kind.value, "most": most}))


def _told(
    tx: Tx,
    agent: str,
    items: Sequence[_Item],
    ended: Mapping[str, ToldAsk],
    written: Mapping[int, ToldMessage],
    most_asks: int,
    most_messages: int,
) -> Told:
    of_asks = [item for item in items if item.kind is CapsuleItem.ASK]
    of_messages = [item for item in items if item.kind is CapsuleItem.MESSAGE]
    is_full = len(of_asks) == most_asks or len(of_messages) == most_messages
    waiting: int = tx.execute(_COUNT, {"of": agent}).scalar_one() if is_full else len(items)
    return Told(
        tuple(ended[item.ref] for item in of_asks if item.ref in ended),
        tuple(written[int(item.ref)] for item in of_messages if int(item.ref) in written),
        max((item.depth for item in of_messages), default=0),
        waiting - len(items),
        tuple(item.id for item in items),
    )


def _asks(tx: Tx, ids: Sequence[str]) -> Mapping[str, ToldAsk]:
    found: dict[str, ToldAsk] = {}
    for part in _parts(ids):
        for row in tx.execute(_ASKS, {"of": part}):
            found[row.id] = _ask(row)
    return found


def _ask(row: Any) -> ToldAsk:
    by = tuple(json.loads(row.by)) if row.by is not None else ()
    return ToldAsk(
        row.id,
        AskState(row.state),
        row.text,
        row.verb,
        row.ended_at or 0,
        row.option,
        row.label,
        row.said,
        by,
    )


def _messages(tx: Tx, ids: Sequence[int]) -> Mapping[int, ToldMessage]:
    found: dict[int, ToldMessage] = {}
    for part in _parts(ids):
        for row in tx.execute(_MESSAGES, {"of": part}):
            found[row.id] = ToldMessage(row.author_kind, row.author, row.text, row.at)
    return found


def _parts(names: Sequence[Named]) -> Iterable[list[Named]]:
    return (list(names[start : start + _SOME]) for start in range(0, len(names), _SOME))


def consume(tx: Tx, items: Sequence[tuple[int, str]]) -> None:
    """Say in which run's capsule each item is, as (item, run). The rows are the claimant's: nobody else tells them."""
    if items:
        tx.execute(_CONSUME, [{"item": item, "into": run} for item, run in items])
