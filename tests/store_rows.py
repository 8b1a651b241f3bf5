"""One valid row for each table, for tests that need rows to exist and do not care what they say."""

from typing import Any, Final

from sqlalchemy import BigInteger, Integer, LargeBinary, Table, insert

from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.schema import metadata

_CHOSEN: Final = {
    "agents": {"kind": "agent", "state": "active"},
    "claims": {"channel": "forge", "state": "new", "facts": "{}"},
    "effects": {"state": "pending", "payload": "{}"},
    "identities": {"kind": "github", "source": "policy"},
    "ledger": {"facts": "{}"},
    "runs": {"kind": "agent", "state": "live"},
    "agent_tokens": {"scope": "agent"},
    "asks": {"kind": "approval", "state": "OPEN", "action": b"{}"},
    "messages": {"kind": "message", "author_kind": "person"},
    "captures": {"state": "REQUESTED"},
    "grants": {"state": "MINTED"},
    "executions": {"state": "attempting"},
    "revocations": {"decision": "deny", "channel": "workspace"},
    "signed_votes": {"decision": "approve"},
    "signed_branches": {"state": "read"},
    "signed_commits": {"state": "new"},
    "key_revocations": {"kind": "hard"},
    "votes": {"decision": "approve", "channel": "workspace"},
    "verdicts": {"state": "APPROVED"},
    "waiters": {"kind": "run"},
    "ceremonies": {"kind": "sign_in", "body": "{}"},
    "fleet_agents": {"harness": "command", "policy": "manual", "wake_on": "any"},
    "capsule_items": {"kind": "message"},
    "capture_seats": {"mode": "block", "state": "waiting"},
}


def row(table: Table, **given: Any) -> dict[str, Any]:
    """Give a valid row of a table, its parents named as `seed` made them; `given` columns replace its values."""
    values: dict[str, Any] = {}
    for column in table.columns:
        parent = next(iter(column.foreign_keys), None)
        if column.nullable or column.server_default is not None or column is table.autoincrement_column:
            continue
        if parent is not None:
            parent_table = parent.column.table
            own = parent.column is parent_table.autoincrement_column
            values[column.name] = 1 if own else row(parent_table)[parent.column.name]
        elif isinstance(column.type, LargeBinary):
            values[column.name] = b"x"
        elif isinstance(column.type, Integer | BigInteger):
            values[column.name] = 1
        else:
            values[column.name] = f"{table.name}-{column.name}"
    return {**values, **_CHOSEN.get(table.name, {}), **given}


def seed(tx: Tx) -> None:
    """Write one row into each table, except what the upgrade wrote already; the owner's role may."""
    for table in metadata.sorted_tables:
        if table.name != "schema_state":
            tx.execute(insert(table), row(table))


def contents(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Read every row of every table; the owner's role may."""
    with database.read() as tx:
        return {
            table.name: sorted((tuple(found) for found in tx.execute(table.select())), key=repr)
            for table in metadata.sorted_tables
        }
