"""The schema is what the migrations make and nothing else, in the eyes of every role and on each engine."""

import ast
import importlib
import re
from pathlib import Path

import pytest
from sqlalchemy import text

from gitops_bot.core.errors import ConfigError
from gitops_bot.store import schema
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from tests.store_fixtures import SERVICE_ROLES, Cluster, FreshDatabase

VERSIONS = Path(schema.__file__).parent / "migrations" / "versions"
MIGRATIONS = sorted(VERSIONS.glob("0*.py"))

PLANTED = {
    "a table": "CREATE TABLE mine (a integer)",
    "a view": "CREATE VIEW mine AS SELECT 1 AS a",
    "a column": "ALTER TABLE asks ADD COLUMN mine text",
    "an index": "CREATE INDEX mine ON asks (kind)",
    "an index less": "DROP INDEX ix_asks_run",
    "a table less": "DROP TABLE cursors",
}
ON_SQLITE = {
    "a trigger": "CREATE TRIGGER mine AFTER UPDATE ON due BEGIN DELETE FROM grants; END",
    "a trigger on the revision": "CREATE TRIGGER mine AFTER UPDATE ON alembic_version BEGIN DELETE FROM grants; END",
    "a trigger less": "DROP TRIGGER ledger_no_update",
}
ON_POSTGRESQL = {
    "a trigger": "CREATE TRIGGER mine AFTER UPDATE ON due EXECUTE FUNCTION gitops_bot_append_only()",
    "a trigger less": "DROP TRIGGER ledger_append_only ON ledger",
    "a trigger asleep": "ALTER TABLE ledger DISABLE TRIGGER ledger_append_only",
    "another function": "CREATE OR REPLACE FUNCTION gitops_bot_append_only() RETURNS trigger LANGUAGE plpgsql "
    "AS 'BEGIN RETURN NEW; END'",
    "a rule": "CREATE RULE mine AS ON UPDATE TO due DO ALSO DELETE FROM cursors",
    "a constraint less": "ALTER TABLE asks DROP CONSTRAINT ck_asks_ended",
    "a default": "ALTER TABLE grants ALTER COLUMN state SET DEFAULT 'MINTED'",
    "a hidden row": "ALTER TABLE grants ENABLE ROW LEVEL SECURITY",
    "a right": "GRANT UPDATE ON grants TO gitops_bot_workspace",
    "a right on a column": "GRANT UPDATE (state) ON grants TO gitops_bot_workspace",
    "a right of everybody": "GRANT SELECT (broker_token) ON loops TO PUBLIC",
}


def planted(kind: str) -> dict[str, str]:
    return PLANTED | (ON_POSTGRESQL if kind == "postgresql" else ON_SQLITE)


def plant(database: FreshDatabase, statement: str) -> None:
    with database.open(Role.OWNER).write() as tx:
        tx.execute(text(statement))
    database.close()


@pytest.mark.parametrize("role", list(Role))
def test_each_role_accepts_a_fresh_schema(database: FreshDatabase, role: Role) -> None:
    schema.check(database.open(role).engine)


@pytest.mark.parametrize("what", sorted(planted("postgresql").keys() | planted("sqlite").keys()))
def test_what_another_hand_changed_is_found_by_each_role(database: FreshDatabase, what: str) -> None:
    statement = planted(database.kind).get(what)
    if statement is None:
        return  # the other engine's
    services = {role: database.open(role) for role in SERVICE_ROLES}
    with database.open(Role.OWNER).write() as tx:
        tx.execute(text(statement))
    for opened in services.values():
        with pytest.raises(ConfigError, match="another hand"):
            schema.check(opened.engine)


def test_an_upgrade_never_blesses_what_was_planted(database: FreshDatabase) -> None:
    plant(database, PLANTED["a table"])
    owner = database.open(Role.OWNER)
    with pytest.raises(ConfigError, match="another hand"):
        schema.upgrade(owner.engine)
    with pytest.raises(ConfigError, match="another hand"):
        schema.check(owner.engine)


def test_an_upgrade_of_an_up_to_date_schema_changes_nothing(database: FreshDatabase) -> None:
    owner = database.open(Role.OWNER)
    with owner.engine.connect() as connection:
        before = schema.digest(connection)
    assert schema.upgrade(owner.engine) == before
    schema.check(database.open(Role.BROKER).engine)


@pytest.mark.postgresql
def test_a_changed_schema_is_accepted_when_its_owner_says_so(postgresql_database: FreshDatabase) -> None:
    plant(postgresql_database, PLANTED["an index"])
    schema.upgrade(postgresql_database.open(Role.OWNER).engine, accept_changed=True)
    schema.check(postgresql_database.open(Role.BROKER).engine)


def test_another_revision_is_refused_with_its_fix(database: FreshDatabase) -> None:
    plant(database, "UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(ConfigError) as caught:
        schema.check(database.open(Role.WORKSPACE).engine)
    assert caught.value.fix == "gitops-bot db upgrade"


def test_a_newer_revision_is_not_upgraded(database: FreshDatabase) -> None:
    plant(database, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(ConfigError):
        schema.upgrade(database.open(Role.OWNER).engine, accept_changed=True)


def test_an_empty_database_is_refused_with_its_fix(tmp_path: Path) -> None:
    owner = Database.open(f"sqlite:///{tmp_path / 'empty.db'}", Role.OWNER)
    with pytest.raises(ConfigError) as caught:
        schema.check(owner.engine)
    owner.close()
    assert caught.value.fix == "gitops-bot db upgrade"


@pytest.mark.postgresql
def test_an_empty_postgresql_database_is_refused_with_its_fix(postgresql_database: FreshDatabase) -> None:
    plant(postgresql_database, "DROP TABLE alembic_version")
    with pytest.raises(ConfigError) as caught:
        schema.check(postgresql_database.open(Role.BROKER).engine)
    assert caught.value.fix == "gitops-bot db upgrade"


def test_the_digest_of_each_revision_is_rebuilt_from_the_migrations(tmp_path: Path) -> None:
    assert set(schema.SQLITE_DIGESTS) == {path.name[:4] for path in MIGRATIONS}
    for revision, digest in schema.SQLITE_DIGESTS.items():
        for options in ({}, {"force_standard_sqlite": True}):
            path = tmp_path / f"{revision}-{len(options)}.db"
            owner = Database.open(f"sqlite:///{path}", Role.OWNER, **options)
            assert schema.upgrade(owner.engine, revision) == digest
            owner.close()


@pytest.mark.postgresql
def test_two_databases_of_one_migration_have_one_digest(postgresql_database: FreshDatabase, cluster: Cluster) -> None:
    second = cluster.clone()
    with second.open(Role.OWNER).write() as tx:
        for statement in ("DROP OWNED BY CURRENT_USER", "CREATE SCHEMA IF NOT EXISTS public"):
            tx.execute(text(statement))
    second.close()
    digests = {schema.upgrade(database.open(Role.OWNER).engine) for database in (postgresql_database, second)}
    second.close()
    cluster.release(second)
    assert len(digests) == 1


def test_the_tables_in_code_are_those_that_the_migrations_make(database: FreshDatabase) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with database.open(Role.OWNER).engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, schema.metadata) == []


def test_the_append_only_tables_are_those_of_the_migration(sqlite_database: FreshDatabase) -> None:
    with sqlite_database.open(Role.OWNER).read() as tx:
        names = set(tx.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars())
    assert names == {f"{table}_no_{verb}" for table in schema.APPEND_ONLY for verb in ("update", "delete")}


# The lint of migrations: expand, then contract


CONTRACTING = re.compile(r"^(drop_|rename_|alter_column$|batch_alter_table$)")
CONTRACTING_SQL = re.compile(r"\b(DROP|RENAME)\b|\bALTER\s+COLUMN\b", re.IGNORECASE)


def contracts(source: str) -> list[str]:
    """Name what a migration drops or renames."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and CONTRACTING.match(node.attr):
            found.append(node.attr)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CONTRACTING_SQL.search(node.value):
            found.append(node.value)
    return found


@pytest.mark.parametrize("path", MIGRATIONS, ids=lambda path: path.name)
def test_each_migration_declares_its_phase_and_an_expanding_one_drops_nothing(path: Path) -> None:
    module = importlib.import_module(f"gitops_bot.store.migrations.versions.{path.stem}")
    assert module.phase in ("expand", "contract")
    assert not hasattr(module, "downgrade"), "a schema goes back by a restored backup"
    assert path.name.startswith(module.revision)
    if module.phase == "expand":
        assert contracts(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    (
        "op.drop_column('asks', 'why')",
        "op.rename_table('asks', 'questions')",
        "op.alter_column('asks', 'why', new_column_name='reason')",
        "op.execute('ALTER TABLE asks RENAME COLUMN why TO reason')",
        "op.execute(f'drop table {name}')",
    ),
)
def test_the_lint_of_migrations_sees_what_contracts(line: str) -> None:
    assert contracts(line)
    assert not contracts("op.add_column('asks', sa.Column('more', sa.Text()))")


def test_the_head_is_the_last_migration() -> None:
    revisions = [path.name[:4] for path in MIGRATIONS]
    assert list(schema.SQLITE_DIGESTS) == revisions
    assert revisions[-1] == schema.HEAD
