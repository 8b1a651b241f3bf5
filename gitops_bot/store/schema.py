"""The schema is what the migrations made and nothing else: gathered here, upgraded here, and compared by digest.

The broker compares at open (and, with the signed channel, before each mint and spend), so that a trigger or view that
somebody planted is found before it can fire. On SQLite the digest of each revision is a constant; on PostgreSQL, whose
text of definitions may differ between major versions, the owner's upgrade writes it into `schema_state`, which no
service's role may change.
"""

import hashlib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, delete, insert, inspect, select, text

from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.store import fleet_tables, person_tables, signed_tables, tables, work_tables
from gitops_bot.store.sqlite import turn
from gitops_bot.store.tables import metadata as metadata
from gitops_bot.store.tables import schema_state

TABLES: Final = (tables, person_tables, signed_tables, work_tables, fleet_tables)

SQLITE_DIGESTS: Final = {
    "0001": "41ab48dca932d0dffc5743da7a9455f31a42f1c4fbe120b8b8dc833da0013f2f",
    "0002": "ab7a7df782a7fcf3f1de3b7bd8382ed606e4c5becbdc9b598ff1f991fade43a8",
    "0003": "6592ca4b6a70ac28afd0ecc3cd022ff26b4029d4b14365a18c5686500ee010cb",
    "0004": "cb9aa84f6e423edb4e72217b64c595a52d81b6ed5bfcd17d88f39c4f030efc91",
    "0005": "d524acad9fa916a94c93fdb12c7ce72775947028f39808beffaf184652beed65",
    "0006": "b63e439a03c98b59631660b3998e17d1bc7cfa98cbaf99c506dcd162945b4bfa",
    "0007": "036186f9ddd6cbd31098fe7930d064383b353c8f880c3c7b58ed4222baf7ecd0",
}
"""Digest of the schema at each revision, as `digest` gives it; a test rebuilds it from the migrations."""

HEAD: Final = "0007"

APPEND_ONLY: Final = (
    *("ledger", "ledger_seals", "votes", "verdicts", "revocations", "signed_votes", "policy_bundles"),
    *("signed_requests", "signature_results", "key_revocations", "suspensions"),
)
"""Tables whose rows nobody changes or removes, the owner included, while the triggers stand."""

_INSUFFICIENT_PRIVILEGE: Final = "42501"
_REVISION: Final = text("SELECT version_num FROM alembic_version")
_STORED: Final = select(schema_state.c.digest)
_SQLITE_SCHEMA: Final = text(
    "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE NOT (type IN ('table', 'index') "
    "AND (tbl_name = 'alembic_version' OR tbl_name IN ('sqlite_stat1', 'sqlite_stat4')))"
)
# The catalogues themselves: the views of information_schema show each login only what it may use.
_POSTGRESQL_SCHEMA: Final = text(
    """
    SELECT 'column', c.relname || '.' || a.attname,
           format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull::text || a.attidentity::text
           || a.attgenerated::text || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
       AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT 'constraint', c.relname || '.' || k.conname, pg_get_constraintdef(k.oid)
      FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid WHERE k.connamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'index', indexname::text, indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL
    SELECT 'trigger', c.relname || '.' || t.tgname, pg_get_triggerdef(t.oid) || t.tgenabled::text
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
     WHERE c.relnamespace = 'public'::regnamespace AND NOT t.tgisinternal
    UNION ALL
    SELECT 'function', p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')',
           CASE WHEN p.prokind IN ('f', 'p') THEN pg_get_functiondef(p.oid) ELSE p.prokind::text END
      FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'relation', c.relname::text, c.relkind::text || c.relpersistence::text || c.relrowsecurity::text
           || coalesce(pg_get_viewdef(CASE WHEN c.relkind IN ('v', 'm') THEN c.oid END), '')
      FROM pg_class c
     WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    UNION ALL
    SELECT 'rule', tablename || '.' || rulename, definition FROM pg_rules WHERE schemaname = 'public'
    UNION ALL
    SELECT 'policy', c.relname || '.' || p.polname, p.polcmd::text || coalesce(pg_get_expr(p.polqual, p.polrelid), '')
           || coalesce(pg_get_expr(p.polwithcheck, p.polrelid), '')
      FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid WHERE c.relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'right', c.relname || '.' || coalesce(g.rolname, ''), a.privilege_type
      FROM pg_class c, aclexplode(c.relacl) a LEFT JOIN pg_roles g ON g.oid = a.grantee
     WHERE c.relnamespace = 'public'::regnamespace AND (a.grantee = 0 OR g.rolname LIKE 'gitops\\_bot\\_%')
    UNION ALL
    SELECT 'right', c.relname || '.' || t.attname || '.' || coalesce(g.rolname, ''), a.privilege_type
      FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid, aclexplode(t.attacl) a
      LEFT JOIN pg_roles g ON g.oid = a.grantee
     WHERE c.relnamespace = 'public'::regnamespace AND (a.grantee = 0 OR g.rolname LIKE 'gitops\\_bot\\_%')
    """
)


def digest(connection: Connection) -> str:
    """Hash everything that the schema holds: tables, columns, constraints, indexes, triggers, views, functions, rights.

    It is the same for each role and does not depend on the layout of a definition or on a collation.
    """
    rows = connection.execute(_SQLITE_SCHEMA if connection.dialect.name == "sqlite" else _POSTGRESQL_SCHEMA).all()
    hasher = hashlib.sha256()
    for row in sorted(tuple(" ".join(str(value).split()) for value in row) for row in rows):
        for value in row:
            hasher.update(value.encode("utf-8") + b"\x00")
    return hasher.hexdigest()


def _alembic(connection: Connection) -> Any:
    from alembic.config import Config

    config = Config()
    # The percent sign is ConfigParser's.
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def upgrade(engine: Engine, revision: str = "head", *, accept_changed: bool = False) -> str:
    """Bring the schema to a revision, under the owner's rights, in one transaction; give the digest that resulted.

    A schema that another hand changed is not built upon, so that running this never blesses what was planted; with
    `accept_changed` it is (on PostgreSQL, where a new major version may word definitions otherwise).

    Raises:
        ConfigError: the schema is not what the migrations made, or of a revision that this version does not know, or
            the login is not its owner's.
        Unavailable: the database refuses or cannot be reached.
    """
    from alembic import command
    from alembic.util import CommandError
    from sqlalchemy.exc import OperationalError, ProgrammingError

    from gitops_bot.store.roles import grants

    try:
        with _turn(engine), engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('gitops-bot schema'))"))
            if not accept_changed:
                _unchanged(connection)
            command.upgrade(_alembic(connection), revision)
            if connection.dialect.name == "postgresql":
                for statement in grants():
                    connection.exec_driver_sql(statement)
            found = digest(connection)
            connection.execute(delete(schema_state))
            connection.execute(insert(schema_state).values(id=1, digest=found))
            return found
    except CommandError as error:
        raise ConfigError(f"no way to revision {revision}: {error}", fix="install the version that made it") from error
    except OperationalError as error:
        raise Unavailable(f"database: {error.orig}") from error
    except ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) != _INSUFFICIENT_PRIVILEGE:
            raise
        raise ConfigError("this login may not change the schema", fix="name the owner's: owner_url_file") from error


def _turn(engine: Engine) -> AbstractContextManager[None]:
    return turn(Path(engine.url.database or "")) if engine.dialect.name == "sqlite" else nullcontext()


def revision(connection: Connection) -> str | None:
    """Give the revision of the schema; None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(_REVISION).scalar_one_or_none()
    return found


def _unchanged(connection: Connection) -> None:
    at = revision(connection)
    # Of a revision that this version does not know, Alembic says so.
    if at in SQLITE_DIGESTS and digest(connection) != _expected(connection, at):
        raise _changed()


def _expected(connection: Connection, at: str) -> str | None:
    if connection.dialect.name == "sqlite":
        return SQLITE_DIGESTS.get(at)
    found: str | None = connection.execute(_STORED).scalar_one_or_none()
    return found


def _changed() -> ConfigError:
    return ConfigError(
        "the schema is not what the migrations made: something was added, changed or removed by another hand",
        fix="look at it with `gitops-bot db check`, then restore a backup",
    )


def check(engine: Engine) -> None:
    """Compare the schema with what the migrations make, in any role.

    Raises:
        ConfigError: the database is empty, older, newer or changed by another hand.
        Unavailable: it cannot be reached, or did not answer.
    """
    from sqlalchemy.exc import DatabaseError, OperationalError

    try:
        with engine.connect().execution_options(gitops_bot_write=False) as connection:
            at = connection.execute(_REVISION).scalar_one_or_none()
            found, expected = digest(connection), _expected(connection, at or "")
    except DatabaseError as error:
        if isinstance(error, OperationalError) and getattr(error.orig, "sqlite_errorcode", 0) != 1:
            raise Unavailable(f"database: {type(error.orig).__name__}") from error
        raise ConfigError("the database has no schema yet, or is none of ours", fix="gitops-bot db upgrade") from error
    if at != HEAD:
        raise ConfigError(f"the schema is at {at}, this version needs {HEAD}", fix="gitops-bot db upgrade")
    if found != expected:
        raise _changed()
