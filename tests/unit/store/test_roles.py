"""Each process may do what its role needs and nothing else (cases/attacks, "Database", up to ATTACH).

What is refused is refused by the engine: by the authorizer on SQLite, by the rights of the login on PostgreSQL.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Executable, delete, insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from gitops_bot.store import roles, schema
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import RIGHTS, Role
from gitops_bot.store.schema import APPEND_ONLY, metadata
from tests.store_fixtures import SERVICE_ROLES, FreshDatabase
from tests.store_rows import contents, row, seed

pytestmark = pytest.mark.slow
TABLES = metadata.tables
NOT_BROKER = tuple(role for role in SERVICE_ROLES if role is not Role.BROKER)


@pytest.fixture
def seeded(database: FreshDatabase) -> FreshDatabase:
    """A database with one row in each table."""
    with database.open(Role.OWNER).write() as tx:
        seed(tx)
    return database


def is_refused(error: DBAPIError) -> bool:
    """Tell the engine's "you may not" from every other failure."""
    if type(error.orig).__module__.startswith("psycopg"):
        return getattr(error.orig, "sqlstate", None) == "42501"
    return any(words in str(error.orig) for words in ("not authorized", "authorization denied", "prohibited"))


@contextmanager
def refused() -> Iterator[None]:
    """Expect that the engine refuses."""
    with pytest.raises(DBAPIError) as caught:
        yield
    assert is_refused(caught.value), caught.value


def may(database: Database, statement: Executable) -> bool:
    """Try a statement and roll back: False where the engine refuses it; a violated constraint is a yes."""
    try:
        with database.write() as tx:
            tx.execute(statement)
            raise ZeroDivisionError
    except ZeroDivisionError:
        return True
    except DBAPIError as error:
        return not is_refused(error)


# The attacks, each against every role that must not


_ASK = row(TABLES["asks"])["id"]
AUTHORITY: dict[str, Executable] = {
    "insert a grant": insert(TABLES["grants"]).values(row(TABLES["grants"], id="forged", ask="other")),
    "mint a grant again": update(TABLES["grants"]).values(state="MINTED"),
    "remove a grant": delete(TABLES["grants"]),
    "insert a signed vote": insert(TABLES["signed_votes"]).values(row(TABLES["signed_votes"], principal="forged")),
    "store a request to sign": insert(TABLES["signed_requests"]).values(row(TABLES["signed_requests"], ask="forged")),
    "say how a commit was judged": update(TABLES["signed_commits"]).values(state="judged", code="counted"),
    "insert a judged commit": insert(TABLES["signed_commits"]).values(row(TABLES["signed_commits"], person="forged")),
    "say what an engine found": insert(TABLES["signature_results"]).values(
        row(TABLES["signature_results"], key_set="forged")
    ),
    "turn a security key's counter back": update(TABLES["key_counters"]).values(counter=0),
    "insert a policy pointer": insert(TABLES["policy_in_force"]).values(row(TABLES["policy_in_force"], id=1)),
    "move the policy pointer": update(TABLES["policy_in_force"]).values(digest="other"),
    "remove the policy pointer": delete(TABLES["policy_in_force"]),
    "store a policy bundle": insert(TABLES["policy_bundles"]).values(row(TABLES["policy_bundles"], digest="forged")),
    "insert an executing effect": insert(TABLES["executions"]).values(row(TABLES["executions"], id="forged")),
    "set an effect executing": update(TABLES["executions"]).values(state="attempting"),
    "mark an outgoing effect as sent": update(TABLES["effects"]).values(state="done"),
    "add an identity to a person": insert(TABLES["identities"]).values(row(TABLES["identities"], value="forged")),
    "seal the ledger": insert(TABLES["ledger_seals"]).values(row(TABLES["ledger_seals"], seq=2)),
    "move a cursor": update(TABLES["cursors"]).values(value="9"),
}
EVERYONE: dict[str, Executable] = {
    "rewrite the ledger": update(TABLES["ledger"]).values(facts="[]"),
    "shorten the ledger": delete(TABLES["ledger"]),
    "rewrite a vote": update(TABLES["votes"]).values(decision="approve"),
    "rewrite a signed vote": update(TABLES["signed_votes"]).values(decision="approve"),
    "rewrite a verdict": update(TABLES["verdicts"]).values(state="APPROVED"),
    "rewrite an ask's action": update(TABLES["asks"]).values(action=b"{}", action_hash="other"),
    "rewrite a policy bundle": update(TABLES["policy_bundles"]).values(files=b""),
    "remove a policy bundle": delete(TABLES["policy_bundles"]),
    "bless a changed schema": update(TABLES["schema_state"]).values(digest="other"),
    "replace the blessed digest": insert(TABLES["schema_state"]).values(id=1, digest="other"),
    "name another revision": text("UPDATE alembic_version SET version_num = '9999'"),
    "rewrite a request to sign": update(TABLES["signed_requests"]).values(content=b"{}"),
    "rewrite what an engine found": update(TABLES["signature_results"]).values(result="{}"),
    "forget a revocation": delete(TABLES["key_revocations"]),
    "soften a revocation": update(TABLES["key_revocations"]).values(kind="soft"),
    "remove an agent": delete(TABLES["agents"]),
    "move a token to another agent": update(TABLES["agent_tokens"]).values(hash="other"),
}


def attempts(database: FreshDatabase, role: Role, attacks: dict[str, Executable]) -> list[str]:
    """Try each attack and give those that the engine did not refuse."""
    opened = database.open(role)
    return [attack for attack, statement in attacks.items() if may(opened, statement)]


@pytest.mark.parametrize("role", NOT_BROKER)
def test_authority_is_the_brokers_alone(seeded: FreshDatabase, role: Role) -> None:
    assert attempts(seeded, role, AUTHORITY) == []
    # the twin: the broker may, up to what constraints and triggers say
    assert attempts(seeded, Role.BROKER, AUTHORITY) == [name for name in AUTHORITY if not name.startswith("remove")]


@pytest.mark.parametrize("role", SERVICE_ROLES)
def test_what_happened_is_rewritten_by_no_service(seeded: FreshDatabase, role: Role) -> None:
    assert attempts(seeded, role, EVERYONE) == []


@pytest.mark.parametrize("attack", ("insert a grant", "insert a policy pointer", "insert an executing effect"))
def test_a_refused_attack_leaves_nothing_behind(seeded: FreshDatabase, attack: str) -> None:
    before = contents(seeded.open(Role.OWNER))
    with refused(), seeded.open(Role.WORKSPACE).write() as tx:
        tx.execute(insert(TABLES["ledger"]), row(TABLES["ledger"]))
        tx.execute(AUTHORITY[attack])
    assert contents(seeded.open(Role.OWNER)) == before


@pytest.mark.parametrize("role", NOT_BROKER)
def test_the_token_that_steers_a_loop_is_read_by_the_broker_alone(seeded: FreshDatabase, role: Role) -> None:
    token = select(TABLES["loops"].c.broker_token)
    with refused(), seeded.open(role).read() as tx:
        tx.execute(token)
    with seeded.open(Role.BROKER).read() as tx:
        assert tx.execute(token).scalar_one() == "loops-broker_token"


@pytest.mark.parametrize("role", (Role.WORKSPACE, Role.HOST))
def test_the_workspace_registers_a_loop_with_a_token_that_it_cannot_read_back(
    seeded: FreshDatabase, role: Role
) -> None:
    opened = seeded.open(role)
    with opened.write() as tx:
        tx.execute(insert(TABLES["loops"]), row(TABLES["loops"], id="second"))
        tx.execute(update(TABLES["loops"]).where(TABLES["loops"].c.id == "second").values(broker_token="new"))
        assert tx.execute(select(TABLES["loops"].c.id).where(TABLES["loops"].c.id == "second")).scalar_one()
    for leak in (
        "SELECT * FROM loops",
        "SELECT max(broker_token) FROM loops",
        "SELECT id FROM loops ORDER BY broker_token",
    ):
        with refused(), opened.read() as tx:
            tx.execute(text(leak))
    with refused(), opened.write() as tx:
        tx.execute(text("UPDATE loops SET address = broker_token"))


@pytest.mark.parametrize("role", NOT_BROKER)
def test_a_branch_is_thawed_on_the_host_and_by_no_other_service(seeded: FreshDatabase, role: Role) -> None:
    thaw = update(TABLES["signed_branches"]).values(state="read", tip="other")
    assert may(seeded.open(role), thaw) is (role is Role.HOST)


@pytest.mark.parametrize("role", (Role.BROKER, Role.WORKSPACE, Role.HOST))
def test_whoever_answers_may_write_all_that_an_answer_needs(seeded: FreshDatabase, role: Role) -> None:
    with seeded.open(role).write() as tx:
        tx.execute(insert(TABLES["votes"]), row(TABLES["votes"], principal="bob"))
        tx.execute(update(TABLES["asks"]).values(state="DENIED", ended_at=tx.now, ended_by="bob"))
        tx.execute(update(TABLES["waiters"]).values(due_at=tx.now, cause="{}"))
        tx.execute(insert(TABLES["effects"]), row(TABLES["effects"], key="second", lane="other"))
        tx.execute(insert(TABLES["ledger"]), row(TABLES["ledger"]))


def test_the_broker_may_mint_spend_and_seal(seeded: FreshDatabase) -> None:
    with seeded.open(Role.BROKER).write() as tx:
        tx.execute(update(TABLES["grants"]).values(state="SPENT", ended_at=tx.now))
        tx.execute(insert(TABLES["executions"]), row(TABLES["executions"], id="second", grant="grants-id"))
        tx.execute(update(TABLES["executions"]).values(state="done", ended_at=tx.now))
        entry = tx.execute(
            insert(TABLES["ledger"]).returning(TABLES["ledger"].c.id), row(TABLES["ledger"])
        ).scalar_one()
        tx.execute(insert(TABLES["ledger_seals"]), row(TABLES["ledger_seals"], seq=2, entry=entry))


# Definitions, pragmas, other files

BOTH = (
    "CREATE TABLE mine (a integer)",
    "CREATE TEMP TABLE grants (a integer)",
    "CREATE VIEW mine AS SELECT 1",
    "CREATE TEMP VIEW mine AS SELECT 1",
    "CREATE INDEX mine ON due (key)",
    "ALTER TABLE grants ADD COLUMN mine text",
    "ALTER TABLE grants RENAME TO mine",
    "DROP TABLE ledger",
    "DROP INDEX ix_due_duty_due_at",
)
ON_SQLITE = (
    "CREATE TRIGGER mine AFTER UPDATE ON due BEGIN DELETE FROM grants; END",
    "CREATE TEMP TRIGGER mine AFTER UPDATE ON due BEGIN DELETE FROM grants; END",
    "CREATE VIRTUAL TABLE mine USING fts5(a)",
    "DROP TRIGGER ledger_no_update",
    "PRAGMA writable_schema = ON",
    "PRAGMA recursive_triggers = OFF",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA journal_mode = OFF",
    "PRAGMA user_version",
    "PRAGMA table_info(grants)",
    "SELECT * FROM pragma_table_info('grants')",
    "SELECT * FROM pragma_database_list",
    "INSERT INTO sqlite_master VALUES ('trigger', 'mine', 'due', 0, 'x')",
    "ATTACH ':memory:' AS mine",
    "REINDEX",
    "ANALYZE",
    "SELECT load_extension('mine')",
    "SELECT writefile('/nonexistent/mine', '')",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "SELECT randomblob(1000000000)",
)
ON_POSTGRESQL = (
    "CREATE TRIGGER mine AFTER UPDATE ON due FOR EACH ROW EXECUTE FUNCTION gitops_bot_append_only()",
    "DROP TRIGGER ledger_append_only ON ledger",
    "ALTER TABLE ledger DISABLE TRIGGER ALL",
    "SET session_replication_role = replica",
    "SET ROLE gitops_bot_owner_of_all",
    "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE OR REPLACE FUNCTION gitops_bot_append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE RULE mine AS ON UPDATE TO due DO ALSO DELETE FROM grants",
    "CREATE SCHEMA mine",
    "CREATE EXTENSION hstore",
    "CREATE TYPE mine AS ENUM ('a')",
    "TRUNCATE ledger",
    "TRUNCATE due",
    "COPY due TO PROGRAM 'true'",
    "COPY due TO '/tmp/mine'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT setval('ledger_id_seq', 1)",
    "CREATE ROLE mine",
    "SELECT rolpassword FROM pg_authid",
)


def statements(kind: str) -> tuple[str, ...]:
    return BOTH + (ON_POSTGRESQL if kind == "postgresql" else ON_SQLITE)


@pytest.mark.parametrize("role", SERVICE_ROLES)
def test_no_service_defines_anything_or_reaches_another_file(database: FreshDatabase, role: Role) -> None:
    opened = database.open(role)
    passed = []
    for statement in statements(database.kind):
        try:
            with opened.write() as tx:
                tx.execute(text(statement))
            passed.append(statement)
        except DBAPIError as error:
            refusal = is_refused(error) or "no such function: writefile" in str(error.orig)
            if statement == "SET ROLE gitops_bot_owner_of_all":
                refusal = "does not exist" in str(error.orig)
            if not refusal:
                passed.append(f"{statement}: {error.orig}")
    assert passed == []
    schema.check(opened.engine)


@pytest.mark.postgresql
def test_no_service_hands_its_rights_on(postgresql_database: FreshDatabase) -> None:
    with postgresql_database.open(Role.BROKER).write() as tx:
        # PostgreSQL answers with a warning and does nothing: the right came without the right to grant it.
        tx.execute(text(f"GRANT UPDATE (state) ON grants TO {roles.group(Role.WORKSPACE)}"))
    assert not may(postgresql_database.open(Role.WORKSPACE), AUTHORITY["mint a grant again"])
    schema.check(postgresql_database.open(Role.BROKER).engine)


@pytest.mark.postgresql
@pytest.mark.parametrize("role", NOT_BROKER)
def test_no_service_becomes_another_on_postgresql(postgresql_database: FreshDatabase, role: Role) -> None:
    with refused(), postgresql_database.open(role).write() as tx:
        tx.execute(text(f"SET ROLE {roles.group(Role.BROKER)}"))


@pytest.mark.parametrize("role", SERVICE_ROLES)
@pytest.mark.parametrize(
    "statement",
    (
        "VACUUM",
        "VACUUM INTO {target}",
        "ATTACH {target} AS mine",
        "DETACH main",
        "UPDATE sqlite_master SET sql = ''",
        "DELETE FROM sqlite_schema",
    ),
)
def test_outside_of_a_transaction_nothing_more_is_allowed(
    sqlite_database: FreshDatabase, tmp_path: Path, role: Role, statement: str
) -> None:
    target = tmp_path / "copy"
    connection = sqlite_database.open(role).engine.raw_connection()
    try:
        with pytest.raises(Exception, match=r"not authorized|authorization denied|may not be modified|cannot detach"):
            connection.execute(statement.format(target=f"'{target}'"))  # type: ignore[attr-defined] # the DB-API's own
    finally:
        connection.close()
    assert not target.exists()


def test_the_owner_defines_tables(database: FreshDatabase) -> None:
    with database.open(Role.OWNER).write() as tx:
        tx.execute(text("CREATE TABLE mine (a integer)"))
        tx.execute(text("DROP TABLE mine"))


# The whole table of rights


@pytest.mark.slow
@pytest.mark.parametrize("role", SERVICE_ROLES)
def test_the_engine_enforces_exactly_the_table_of_rights(database: FreshDatabase, role: Role) -> None:
    opened, rights = database.open(role), RIGHTS[role]
    wrong = []

    def probe(expected: bool, what: str, statement: Executable) -> None:
        if may(opened, statement) != expected:
            wrong.append(f"{what}: {'refused' if expected else 'allowed'}")

    for name, table in TABLES.items():
        right = rights.get(name)
        probe(bool(right and right.insert), f"insert {name}", text(f"INSERT INTO {name} DEFAULT VALUES"))
        probe(bool(right and right.delete), f"delete {name}", delete(table).where(text("1 = 0")))
        for column in table.columns:
            reading = select(column).where(text("1 = 0"))
            probe(bool(right and column.name in right.read), f"read {column}", reading)
            setting = update(table).values({column.name: None}).where(text("1 = 0"))
            probe(bool(right and column.name in right.update), f"update {column}", setting)
    assert wrong == []


# Append-only, the owner included


def _rewriting(table: str, values: tuple[object, ...], kind: str) -> dict[str, Executable]:
    column = next(iter(TABLES[table].columns))
    named = {f"v{index}": value for index, value in enumerate(values)}
    replace = text(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join(f':{name}' for name in named)})")
    return {
        "update": update(TABLES[table]).values({column.name: column}),
        "delete": delete(TABLES[table]),
        "at once": text(f"TRUNCATE {table} CASCADE") if kind == "postgresql" else replace.bindparams(**named),
    }


@pytest.mark.parametrize("table", APPEND_ONLY)
def test_what_is_append_only_is_so_for_the_owner_too(seeded: FreshDatabase, table: str) -> None:
    owner = seeded.open(Role.OWNER)
    before = contents(owner)
    for statement in _rewriting(table, before[table][0], seeded.kind).values():
        with pytest.raises(IntegrityError, match="append-only"), owner.write() as tx:
            tx.execute(statement)
    assert contents(owner) == before
    with owner.write() as tx:  # the twin: it grows
        tx.execute(insert(TABLES["ledger"]), row(TABLES["ledger"]))


@pytest.mark.parametrize("role", SERVICE_ROLES)
@pytest.mark.parametrize(
    "statement",
    (
        "INSERT OR REPLACE INTO ledger (id, kind, at, facts) VALUES (1, 'forged', 1, '{}')",
        "replace into ledger (id, kind, at, facts) values (1, 'forged', 1, '{}')",
        "INSERT OR/**/REPLACE INTO cursors (name, value, updated_at) VALUES ('cursors-name', 'forged', 1)",
        "UPDATE OR REPLACE due SET due_at = 1",
    ),
)
def test_an_insert_never_replaces_a_row(role: Role, statement: str, sqlite_database: FreshDatabase) -> None:
    with sqlite_database.open(Role.OWNER).write() as tx:
        seed(tx)
    before = contents(sqlite_database.open(Role.OWNER))
    with pytest.raises(RuntimeError, match="replace a row"), sqlite_database.open(role).write() as tx:
        tx.execute(text(statement))
    assert contents(sqlite_database.open(Role.OWNER)) == before
    with sqlite_database.open(role).read() as tx:  # the twin: a column of that name is none
        assert tx.execute(text("SELECT 1 AS replace_key")).scalar_one() == 1
