"""Statements that both engines have under one syntax but that Core builds per dialect: INSERT … ON CONFLICT."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Table
from sqlalchemy.dialects import postgresql, sqlite

Statement = Mapping[str, Any]
"""By dialect name."""


def insert_or_ignore(table: Table, key: Sequence[str] | None) -> Statement:
    """Build an INSERT that does nothing where the key exists; with None, where any unique key of the table does."""
    # The count of an INSERT is otherwise lost with its cursor, which PostgreSQL's closes at once.
    kept = {"preserve_rowcount": True}
    return {
        "sqlite": sqlite.insert(table).on_conflict_do_nothing(index_elements=key).execution_options(**kept),
        "postgresql": postgresql.insert(table).on_conflict_do_nothing(index_elements=key).execution_options(**kept),
    }


def upsert(table: Table, key: Sequence[str], values: Mapping[str, ColumnElement[Any] | int | None]) -> Statement:
    """Build an INSERT that sets `values` where the key exists."""
    return {
        "sqlite": sqlite.insert(table).on_conflict_do_update(index_elements=key, set_=dict(values)),
        "postgresql": postgresql.insert(table).on_conflict_do_update(index_elements=key, set_=dict(values)),
    }
