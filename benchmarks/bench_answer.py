"""The answer transaction beside a bare one that writes the same rows, in the same run, on both engines.

The bare side is the driver alone: prepared statements, one transaction, the same columns of the same tables (vote,
verdict, end of the ask, waiter, its due row, expiry row, two ledger entries), no reads and no checks. Bound: the answer
takes at most 3 times as long. SQLite is a file on this disk, each commit synced; PostgreSQL is the test cluster.
"""

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import insert, make_url

from benchmarks.machine import median, timed
from gitops_bot.authority import settling
from gitops_bot.core.canonical import action_hash, canonical
from gitops_bot.core.verdicts import Answer
from gitops_bot.store import schema, sqlite
from gitops_bot.store.engine import Tx
from gitops_bot.store.roles import Role
from gitops_bot.store.schema import metadata
from tests.asserted import asserted
from tests.decisions import VERB, Stage
from tests.postgres import postgres_superuser_url
from tests.store_fixtures import Cluster, FreshDatabase

ROUNDS: Final = 400
WARM: Final = 50
BOUND: Final = 3.0
ONE: Final = {f"verbs/{VERB}/approve": 1}

_ROWS: Final = (
    "INSERT INTO votes (ask, principal, seq, decision, option, text, channel, action_hash, policy, run_version, claim, "
    "evidence, idempotency_key, request_hash, cast_at) VALUES (?, ?, 1, 'approve', 'approve', NULL, 'workspace', ?, ?, "
    "1, NULL, ?, NULL, ?, ?)",
    "INSERT INTO ledger (kind, at, ask, run, agent, principal, channel, facts) VALUES "
    "('vote.counted', ?, ?, ?, ?, ?, 'workspace', ?)",
    "UPDATE asks SET state = 'APPROVED', ended_at = ?, ended_by = ? WHERE id = ? AND state = 'OPEN'",
    "INSERT INTO verdicts (ask, state, option, text, \"by\", at) VALUES (?, 'APPROVED', 'approve', NULL, ?, ?)",
    "UPDATE waiters SET due_at = ?, cause = 'APPROVED' WHERE ask = ?",
    "INSERT INTO due (duty, key, due_at) VALUES ('wake.task', ?, ?) "
    "ON CONFLICT (duty, key) DO UPDATE SET due_at = excluded.due_at",
    "DELETE FROM due WHERE duty = 'expire' AND key = ?",
    "INSERT INTO ledger (kind, at, ask, run, agent, principal, channel, facts) VALUES "
    "('ask.answered', ?, ?, ?, ?, ?, 'workspace', ?)",
)


def rows_of(ask: Any, now: int) -> list[tuple[Any, ...]]:
    """Give the values of the bare statements for one ask."""
    bound = ask.binding
    counted = json.dumps({"decision": "approve", "missing": 0, "option": "approve", "claim": None})
    answered = json.dumps({"action_hash": bound.action_hash, "by": ["bob"], "option": "approve", "state": "APPROVED"})
    return [
        (ask.id, "bob", bound.action_hash, bound.policy, b'{"seen":true}', bound.action_hash, now),
        (now, ask.id, ask.run, ask.agent, "bob", counted),
        (now, "bob", ask.id),
        (ask.id, '["bob"]', now),
        (now, ask.id),
        (ask.id, now),
        (ask.id,),
        (now, ask.id, ask.run, ask.agent, "bob", answered),
    ]


def many(stage: Stage, count: int) -> list[Any]:
    """Open asks with a waiter each by copying the rows of one."""
    ask = stage.ask()
    tables = metadata.tables
    whole = dict(
        stage.read(lambda tx: tx.execute(tables["asks"].select().where(tables["asks"].c.id == ask.id)).one())._mapping
    )
    ids = [f"{number:05d}{ask.id[5:]}" for number in range(count)]
    actions = [canonical({"domain": {}, "params": {"n": number}, "verb": VERB}) for number in range(count)]

    def work(tx: Tx) -> None:
        pairs = list(zip(ids, actions, strict=True))
        tx.execute(
            insert(tables["asks"]),
            [{**whole, "id": one, "action": action, "action_hash": action_hash(action)} for one, action in pairs],
        )
        offered = list(enumerate(ask.options))
        options = [{"ask": one, "id": o.id, "label": o.label, "position": place} for one in ids for place, o in offered]
        tx.execute(insert(tables["ask_options"]), options)
        tx.execute(insert(tables["waiters"]), [{"ask": one, "kind": "task", "id": one} for one in ids])
        tx.execute(insert(tables["due"]), [{"duty": "expire", "key": one, "due_at": ask.expires_at} for one in ids])

    stage.write(work)
    return [stage.get(one) for one in ids]


def answer(stage: Stage, ask: Any) -> None:
    """Answer as a surface does: one transaction."""
    voice = stage.voice("bob", asserted=asserted(ask, "bob", "approve"))
    with stage.database.write() as tx:
        settled = settling.answer(tx, stage.rules, ask.id, Answer("approve", None, ask.binding), voice)
    assert isinstance(settled, settling.Settled), settled


@contextmanager
def on_sqlite() -> Iterator[tuple[FreshDatabase, Callable[[Any], None]]]:
    """Give a migrated file on this machine's disk, and its bare side: the same library, journal and sync."""
    with tempfile.TemporaryDirectory(prefix="gitops-bot-bench-") as folder:
        fresh = FreshDatabase("sqlite", f"sqlite:///{Path(folder) / 'bench.db'}")
        schema.upgrade(fresh.open(Role.OWNER).engine)
        library = sqlite.choose_library()
        connection: sqlite3.Connection = library.module.connect(fresh.path, isolation_level=None, cached_statements=512)
        for pragma in (f"journal_mode={library.journal}", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").fetchall()

        def bare(ask: Any) -> None:
            with sqlite.turn(fresh.path):
                connection.execute("BEGIN IMMEDIATE")
                for statement, values in zip(_ROWS, rows_of(ask, time.time_ns() // 1_000_000), strict=True):
                    connection.execute(statement, values)
                connection.execute("COMMIT")

        yield fresh, bare
        connection.close()
        fresh.close()


@contextmanager
def on_postgresql() -> Iterator[tuple[FreshDatabase, Callable[[Any], None]]]:
    """Give a migrated database on the test cluster, and its bare side over psycopg with prepared statements."""
    import psycopg

    cluster = Cluster(make_url(postgres_superuser_url()))
    fresh = cluster.clone()
    url = make_url(fresh.url(Role.BROKER))
    statements = [statement.replace("?", "%s") for statement in _ROWS]
    connection = psycopg.connect(host=str(url.query["host"]), dbname=url.database, user=url.username, autocommit=True)

    def bare(ask: Any) -> None:
        connection.execute("BEGIN")
        for statement, values in zip(statements, rows_of(ask, time.time_ns() // 1_000_000), strict=True):
            connection.execute(statement, values, prepare=True)
        connection.execute("COMMIT")

    yield fresh, bare
    connection.close()
    fresh.close()
    cluster.release(fresh)
    cluster.close()


def measure(fresh: FreshDatabase, bare: Callable[[Any], None]) -> tuple[float, float]:
    """Give the medians of both sides in ms, taken in turns so that the machine treats them alike."""
    stage = Stage(fresh.open(Role.BROKER)).under(ONE)
    asks = many(stage, 2 * (ROUNDS + WARM))
    ours, theirs = [], []
    for number, (one, other) in enumerate(zip(asks[::2], asks[1::2], strict=True)):
        took, beside = timed(lambda one=one: answer(stage, one)), timed(lambda other=other: bare(other))  # type: ignore[misc] # bound now
        if number >= WARM:
            ours.append(took)
            theirs.append(beside)
    return median(ours), median(theirs)


def main() -> bool:
    """Measure both engines, print medians and ratios, and tell whether the bound holds."""
    held = True
    for name, engine in (("sqlite", on_sqlite), ("postgresql", on_postgresql)):
        try:
            with engine() as (fresh, bare):
                ours, theirs = measure(fresh, bare)
        except LookupError as error:
            print(f"  {name}: not measured ({error})")
            continue
        print(f"  {name}: answer {ours:.2f} ms, bare {theirs:.2f} ms, ratio {ours / theirs:.2f} (bound {BOUND})")
        held = held and ours / theirs <= BOUND
    return held
