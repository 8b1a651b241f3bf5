"""The schema is what the migrations made and nothing else: gathered here, upgraded here, and compared by digest.

The broker compares at open (and, with the signed channel, before each mint and spend), so that a trigger or view that
somebody planted is found before it can fire. On SQLite the digest of each revision is a constant; on PostgreSQL, whose
text of definitions may differ between major versions, the owner's upgrade writes it into `meta`, which no service's
role may change there.
"""

import hashlib
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, text

from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.store import signed_tables, tables, work_tables
from gitops_bot.store.tables import metadata as metadata

TABLES: Final = (tables, signed_tables, work_tables)

SQLITE_DIGESTS: Final = {"0001": "306bae279ade4089e577af300a2b1c4d55fd5d1848c4cfaca439f3dabf59b2e1"}
"""Digest of the schema at each revision, as `digest` gives it; a test rebuilds it from the migrations."""

HEAD: Final = "0001"

APPEND_ONLY: Final = ("ledger", "ledger_seals", "votes", "verdicts", "revocations", "signed_votes", "policy_bundles")
"""Tables whose rows nobody changes or removes, the owner included, while the triggers stand."""

_SQLITE_SCHEMA: Final = text(
    "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
    "AND tbl_name <> 'alembic_version' ORDER BY type, name"
)
_POSTGRESQL_SCHEMA: Final = text(
    """
    SELECT 'column', table_name || '.' || column_name, data_type || ' ' || is_nullable || ' '
           || coalesce(column_default, '') FROM information_schema.columns WHERE table_schema = 'public'
    UNION ALL
    SELECT 'constraint', conrelid::regclass::text || '.' || conname, pg_get_constraintdef(oid)
      FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid <> 0
    UNION ALL
    SELECT 'index', indexname::text, indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL
    SELECT 'trigger', tgrelid::regclass::text || '.' || tgname, pg_get_triggerdef(t.oid) || tgenabled::text
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
     WHERE c.relnamespace = 'public'::regnamespace AND NOT tgisinternal
    UNION ALL
    SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid)
      FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'relation', c.relname::text, c.relkind::text FROM pg_class c
     WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    UNION ALL
    SELECT 'rule', tablename || '.' || rulename, definition FROM pg_rules WHERE schemaname = 'public'
    ORDER BY 1, 2, 3
    """
)


def digest(connection: Connection) -> str:
    """Hash everything that the schema holds: tables, columns, constraints, indexes, triggers, views, functions."""
    rows = connection.execute(_SQLITE_SCHEMA if connection.dialect.name == "sqlite" else _POSTGRESQL_SCHEMA).all()
    hasher = hashlib.sha256()
    for row in rows:
        for value in row:
            hasher.update(str(value).encode("utf-8") + b"\x00")
    return hasher.hexdigest()


def _alembic(connection: Connection) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


def upgrade(engine: Engine, revision: str = "head") -> str:
    """Bring the schema to a revision, under the owner's rights, in one transaction; give the digest that resulted.

    Raises:
        Unavailable: the database refuses or cannot be reached.
    """
    from alembic import command
    from sqlalchemy.exc import OperationalError

    from gitops_bot.store.roles import grants

    try:
        with engine.begin() as connection:
            command.upgrade(_alembic(connection), revision)
            if connection.dialect.name == "postgresql":
                for statement in grants():
                    connection.exec_driver_sql(statement)
            found = digest(connection)
            connection.execute(text("DELETE FROM meta WHERE key = 'schema_digest'"))
            connection.execute(text("INSERT INTO meta (key, value) VALUES ('schema_digest', :found)"), {"found": found})
            return found
    except OperationalError as error:
        raise Unavailable(f"database: {error.orig}") from error


def check(engine: Engine) -> None:
    """Compare the schema with what the migrations make.

    Raises:
        ConfigError: the database is empty, older, newer or changed by another hand.
    """
    from sqlalchemy.exc import DatabaseError

    try:
        with engine.connect() as connection:
            revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
            found = digest(connection)
            stored = connection.execute(text("SELECT value FROM meta WHERE key = 'schema_digest'")).scalar_one_or_none()
    except DatabaseError as error:
        raise ConfigError("the database has no schema yet, or is none of ours", fix="gitops-bot db upgrade") from error
    if revision != HEAD:
        raise ConfigError(f"the schema is at {revision}, this version needs {HEAD}", fix="gitops-bot db upgrade")
    expected = SQLITE_DIGESTS[HEAD] if engine.dialect.name == "sqlite" else stored
    if found != expected:
        raise ConfigError(
            "the schema is not what the migrations made: something was added, changed or removed by another hand",
            fix="compare it with `gitops-bot db check`, then restore a backup",
        )
