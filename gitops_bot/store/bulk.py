"""Many rows of one table in one go: one statement with all of them as JSON on PostgreSQL, where each statement is a
round of work for the server, and one prepared statement run for each on SQLite, where it is not."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import JSON, Table, Text, bindparam, cast, column, func, insert, select

from gitops_bot.store.engine import Tx
from gitops_bot.store.statements import Statement


def inserting(table: Table, *names: str) -> Statement:
    """Build the statement that `insert_all` runs, for these columns; none of them holds bytes."""
    read = func.json_to_recordset(cast(bindparam("rows", type_=Text()), JSON()))
    rows = read.table_valued(*(column(name, table.c[name].type) for name in names)).render_derived(with_types=True)
    return {
        "sqlite": insert(table),
        "postgresql": insert(table).from_select(names, select(*(rows.c[name] for name in names))),
    }


def insert_all(tx: Tx, statement: Statement, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, each with a value for every column that the statement was built for."""
    if not rows:
        return
    if tx.dialect == "postgresql":
        tx.execute(statement[tx.dialect], {"rows": json.dumps(rows, ensure_ascii=False)})
    else:
        tx.execute(statement[tx.dialect], rows)
