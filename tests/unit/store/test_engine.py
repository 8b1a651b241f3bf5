"""Transactions of the store on each engine: all or nothing, one thread, the database's clock, errors by who acts."""

import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import URL, insert, make_url, select, text, update
from sqlalchemy.exc import DatabaseError, IntegrityError

from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.store import engine as engine_module
from gitops_bot.store import sqlite
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.roles import Role
from gitops_bot.store.schema import metadata
from tests.store_fixtures import SERVICE_ROLES, Cluster, FreshDatabase
from tests.store_rows import row

META = metadata.tables["meta"]
CURSORS = metadata.tables["cursors"]
AGENTS = metadata.tables["agents"]


def put(tx: Tx, key: str) -> None:
    tx.execute(insert(META), {"key": key, "value": "x"})


def keys(database: Database) -> list[str]:
    with database.read() as tx:
        return list(tx.execute(select(META.c.key).order_by(META.c.key)).scalars())


# One transaction


def test_what_is_written_is_there_after_the_block(database: FreshDatabase) -> None:
    broker = database.open(Role.BROKER)
    with broker.write() as tx:
        put(tx, "a")
        put(tx, "b")
    assert keys(broker) == ["a", "b"]


def test_whatever_raises_rolls_all_back(database: FreshDatabase) -> None:
    broker = database.open(Role.BROKER)
    with pytest.raises(ZeroDivisionError), broker.write() as tx:
        put(tx, "a")
        raise ZeroDivisionError
    assert keys(broker) == []
    with broker.write() as tx:  # the twin: the next transaction is not held up
        put(tx, "b")
    assert keys(broker) == ["b"]


def test_a_statement_that_fails_rolls_all_back(database: FreshDatabase) -> None:
    broker = database.open(Role.BROKER)
    with pytest.raises(IntegrityError), broker.write() as tx:
        put(tx, "a")
        put(tx, "a")
    assert keys(broker) == []


def test_hooks_run_in_order_after_the_commit(database: FreshDatabase) -> None:
    broker, seen = database.open(Role.BROKER), []
    with broker.write() as tx:
        put(tx, "a")
        tx.after_commit(lambda: seen.append(("first", keys(broker))))
        tx.after_commit(lambda: seen.append(("second", keys(broker))))
        assert seen == []
    assert seen == [("first", ["a"]), ("second", ["a"])]


def test_hooks_never_run_after_a_roll_back(database: FreshDatabase) -> None:
    broker, seen = database.open(Role.BROKER), []
    with pytest.raises(ZeroDivisionError), broker.write() as tx:
        tx.after_commit(lambda: seen.append("hook"))
        raise ZeroDivisionError
    assert seen == []


def test_hooks_never_run_after_a_commit_that_fails(database: FreshDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    broker, seen = database.open(Role.BROKER), []

    def fail(connection: object) -> None:
        raise broker.engine.dialect.loaded_dbapi.OperationalError("disk I/O error")

    monkeypatch.setattr(broker.engine.dialect, "do_commit", fail)
    with pytest.raises(Unavailable), broker.write() as tx:
        tx.after_commit(lambda: seen.append("hook"))
    assert seen == []


def test_a_hook_may_open_the_next_transaction(database: FreshDatabase) -> None:
    broker = database.open(Role.BROKER)

    def again() -> None:
        with broker.write() as tx:
            put(tx, "b")

    with broker.write() as tx:
        tx.after_commit(again)
    assert keys(broker) == ["b"]


def test_a_write_inside_a_write_is_a_bug_and_no_deadlock(database: FreshDatabase) -> None:
    broker = database.open(Role.BROKER)
    with broker.write() as tx:
        with pytest.raises(RuntimeError, match="inside another"), broker.write():
            pass
        put(tx, "a")
    assert keys(broker) == ["a"]


def test_a_read_transaction_never_writes(database: FreshDatabase) -> None:
    broker = database.open(Role.BROKER)
    with pytest.raises(RuntimeError, match="read Tx"), broker.read() as tx:
        put(tx, "a")
    assert keys(broker) == []


@pytest.mark.postgresql
def test_postgresql_refuses_to_write_in_a_read_transaction_too(postgresql_database: FreshDatabase) -> None:
    broker = postgresql_database.open(Role.BROKER)
    with pytest.raises(DatabaseError, match="read-only"), broker.read() as tx:
        tx.execute(text("INSERT INTO meta VALUES ('a', 'x')"))
    with broker.write() as tx:  # the twin: the connection that comes back from the pool writes again
        put(tx, "a")


def test_a_reader_sees_no_half_transaction(database: FreshDatabase) -> None:
    broker, reader = database.open(Role.BROKER), database.open(Role.WORKSPACE)
    with broker.write() as tx:
        put(tx, "a")
        assert keys(reader) == []
    assert keys(reader) == ["a"]


def _look_twice_while_another_commits(broker: Database) -> None:
    count = text("SELECT count(*) FROM meta")
    with broker.read() as tx:
        before = tx.execute(count).scalar_one()
        with broker.write() as writing:
            put(writing, "a")
        assert tx.execute(count).scalar_one() == before
    assert keys(broker) == ["a"]


# What verifies the ledger reads many statements; a commit in between must not look like a fault. With the TRUNCATE
# journal a writer waits for the reader, so nothing can come in between there.


def test_on_sqlite_a_read_transaction_is_one_snapshot(sqlite_database: FreshDatabase) -> None:
    _look_twice_while_another_commits(sqlite_database.open(Role.BROKER))


@pytest.mark.postgresql
def test_on_postgresql_a_read_transaction_is_one_snapshot(postgresql_database: FreshDatabase) -> None:
    _look_twice_while_another_commits(postgresql_database.open(Role.BROKER))


# One thread


def test_a_transaction_never_crosses_a_thread(database: FreshDatabase) -> None:
    broker, raised = database.open(Role.BROKER), []

    def elsewhere(tx: Tx) -> None:
        try:
            put(tx, "a")
        except RuntimeError as error:
            raised.append(str(error))

    with broker.write() as tx:
        thread = threading.Thread(target=elsewhere, args=(tx,))
        thread.start()
        thread.join()
    assert raised == ["a Tx crossed a thread"]
    assert keys(broker) == []


def test_threads_of_one_process_take_turns(database: FreshDatabase) -> None:
    broker = database.open(Role.BROKER)
    with broker.write() as tx:
        tx.execute(insert(CURSORS), row(CURSORS, name="n", value="0"))
    held = select(CURSORS.c.value).with_for_update()

    def count() -> None:
        for _ in range(25):
            with broker.write() as tx:
                now = int(tx.execute(held).scalar_one())
                tx.execute(update(CURSORS).values(value=str(now + 1)))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with broker.read() as tx:
        assert tx.execute(select(CURSORS.c.value)).scalar_one() == "100"


# The database's clock (lifecycle 33)


@pytest.fixture
def an_hour_ahead(monkeypatch: pytest.MonkeyPatch) -> Iterator[float]:
    """This process's clock, as Python tells it, goes an hour ahead; gives the true time."""
    true, ahead = time.time(), time.time
    monkeypatch.setattr(time, "time", lambda: ahead() + 3600)
    monkeypatch.setattr(time, "time_ns", lambda: int((ahead() + 3600) * 1e9))
    yield true


def test_a_broker_whose_clock_is_an_hour_ahead_decides_by_the_databases(
    database: FreshDatabase, an_hour_ahead: float
) -> None:
    assert time.time() - an_hour_ahead >= 3600
    with database.open(Role.BROKER).write() as tx:
        assert abs(tx.now - an_hour_ahead * 1000) < 60_000


@pytest.mark.postgresql
def test_the_time_of_a_transaction_is_its_begin_and_not_an_older_snapshot(postgresql_database: FreshDatabase) -> None:
    broker = postgresql_database.open(Role.BROKER)
    with broker.write() as tx:
        begun = tx.execute(text("SELECT CAST(extract(epoch FROM now()) * 1000 AS bigint)")).scalar_one()
        assert begun <= tx.now <= begun + 60_000


def test_time_is_in_milliseconds_and_never_goes_back_between_writers(database: FreshDatabase) -> None:
    broker, times = database.open(Role.BROKER), []
    for _ in range(20):
        with broker.write() as tx:
            times.append(tx.now)
    assert times == sorted(times)
    assert abs(times[-1] - time.time() * 1000) < 60_000


# Errors, by who must act


def test_violated_constraints_are_integrity_errors(database: FreshDatabase) -> None:
    broker = database.open(Role.BROKER)
    runs = metadata.tables["runs"]
    for statement, values in (
        (insert(AGENTS), row(AGENTS, kind="prophet")),  # CHECK
        (insert(runs), row(runs, agent="nobody")),  # FOREIGN KEY
        (insert(AGENTS).values({"id": "a"}), {}),  # NOT NULL
    ):
        with pytest.raises(IntegrityError), broker.write() as tx:
            tx.execute(statement, values)
    with broker.write() as tx:  # the twin
        tx.execute(insert(AGENTS), row(AGENTS))


@pytest.mark.parametrize("statement", ("SELECT * FROM nothing", "SELECT no_column FROM meta", "SELEC"))
def test_a_wrong_statement_is_our_bug_and_not_retried(database: FreshDatabase, statement: str) -> None:
    with pytest.raises(DatabaseError), database.open(Role.OWNER).read() as tx:
        tx.execute(text(statement))


def test_a_wrong_value_is_our_bug_and_not_retried(database: FreshDatabase) -> None:
    with pytest.raises(Exception) as caught, database.open(Role.BROKER).write() as tx:
        tx.execute(insert(META), {"key": object(), "value": "x"})
    assert not isinstance(caught.value, Unavailable)


def test_what_the_role_may_not_is_our_bug_and_not_retried(database: FreshDatabase) -> None:
    with pytest.raises(DatabaseError), database.open(Role.WORKSPACE).write() as tx:
        put(tx, "a")


def test_a_lock_that_does_not_come_is_unavailable(sqlite_database: FreshDatabase) -> None:
    broker = sqlite_database.open(Role.BROKER)
    other = sqlite_database.open(Role.OWNER).engine.raw_connection()
    other.cursor().execute("BEGIN IMMEDIATE")  # a program that does not take turns
    with pytest.raises(Unavailable), impatient(broker), broker.write():
        pass
    other.rollback()
    other.close()
    with broker.write() as tx:
        put(tx, "a")


@contextmanager
def impatient(database: Database) -> Iterator[None]:
    """Let the pooled connections of an SQLite database wait for a lock for no time."""
    from sqlalchemy import event

    def no_wait(connection: object, *_: object) -> None:
        connection.set_authorizer(None)  # type: ignore[attr-defined] # the DB-API's own
        connection.execute("PRAGMA busy_timeout = 0")  # type: ignore[attr-defined] # as above

    event.listen(database.engine, "checkout", no_wait)
    yield
    event.remove(database.engine, "checkout", no_wait)


@pytest.mark.postgresql
def test_a_deadlock_is_unavailable_to_one_and_done_by_the_other(postgresql_database: FreshDatabase) -> None:
    broker = postgresql_database.open(Role.BROKER)
    with broker.write() as tx:
        put(tx, "a")
        put(tx, "b")
    both, ends = threading.Barrier(2), []

    def lock(first: str, second: str) -> None:
        try:
            with broker.write() as tx:
                tx.execute(update(META).where(META.c.key == first).values(value=first))
                both.wait(10)
                tx.execute(update(META).where(META.c.key == second).values(value=first))
            ends.append("done")
        except Unavailable as error:
            ends.append(str(error))

    threads = [threading.Thread(target=lock, args=order) for order in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == ["database: DeadlockDetected", "done"]


@pytest.mark.postgresql
@pytest.mark.parametrize("failure", ("40001", "55P03", "57014", "53300"))
def test_what_the_server_gives_up_is_unavailable(postgresql_database: FreshDatabase, failure: str) -> None:
    with pytest.raises(Unavailable), postgresql_database.open(Role.BROKER).write() as tx:
        tx.execute(text(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{failure}'; END $$"))


@pytest.mark.postgresql
def test_a_connection_that_died_is_unavailable_once(postgresql_database: FreshDatabase) -> None:
    broker, owner = postgresql_database.open(Role.BROKER), postgresql_database.open(Role.BROKER)
    kill = text("SELECT pg_terminate_backend(:pid)")
    with pytest.raises(Unavailable), broker.write() as tx:
        pid = tx.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with owner.read() as other:
            other.execute(kill, {"pid": pid})
        put(tx, "a")
    with broker.write() as tx:
        put(tx, "b")
    assert keys(broker) == ["b"]


# Opening


@pytest.mark.parametrize("url", ("mysql://x/y", "not a url", "sqlite://", "sqlite:///:memory:", "postgresql"))
def test_another_kind_of_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        Database.open(url, Role.BROKER)


def test_no_error_of_opening_repeats_a_password(tmp_path: Path) -> None:
    for url in ("postgresql://u:hunter2@/x?host=/nowhere", "postgresql://u:hunter2@[::1/x", "oracle://u:hunter2@h/x"):
        with pytest.raises(ConfigError) as caught:
            Database.open(url, Role.BROKER)
        assert "hunter2" not in str(caught.value)


def test_only_the_owner_makes_the_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    for role in SERVICE_ROLES:
        with pytest.raises(ConfigError, match="db upgrade"):
            Database.open(url, role)
    assert not (tmp_path / "a.db").exists()
    with pytest.raises(ConfigError, match="mkdir -m 700"):
        Database.open(f"sqlite:///{tmp_path / 'no' / 'a.db'}", Role.OWNER)
    Database.open(url, Role.OWNER).close()
    assert (tmp_path / "a.db").exists()


@pytest.mark.parametrize("options", ({}, {"force_standard_sqlite": True}), ids=("chosen", "standard"))
def test_every_file_of_a_database_is_its_users_alone(tmp_path: Path, options: dict[str, bool]) -> None:
    path = tmp_path / "a.db"
    mask = os.umask(0)
    try:
        owner = Database.open(f"sqlite:///{path}", Role.OWNER, **options)
        with owner.write() as tx:
            tx.execute(text("CREATE TABLE t (a text)"))
            tx.execute(text("INSERT INTO t VALUES ('x')"))
            modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in tmp_path.iterdir()}
        owner.close()
    finally:
        os.umask(mask)
    more = {"a.db-journal"} if options or sqlite.choose_library().journal == "TRUNCATE" else {"a.db-wal", "a.db-shm"}
    assert modes == dict.fromkeys({"a.db", "a.db.lock", *more}, 0o600)


def test_a_file_that_others_may_read_is_not_opened(sqlite_database: FreshDatabase) -> None:
    for mode in (0o640, 0o604, 0o620, 0o666):
        sqlite_database.path.chmod(mode)
        with pytest.raises(ConfigError, match="chmod 600"):
            sqlite_database.open(Role.BROKER)
    sqlite_database.path.chmod(0o600)
    sqlite_database.open(Role.BROKER)


def test_a_file_that_is_no_database_is_a_config_error(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"not a database" * 100)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="cannot be opened"):
        Database.open(f"sqlite:///{path}", Role.BROKER)


def test_odd_characters_in_a_path_stay_in_it(tmp_path: Path) -> None:
    path = tmp_path / "a%20b ?c&d#e.db"
    url = URL.create("sqlite", database=str(path)).render_as_string()
    Database.open(url, Role.OWNER).close()
    assert {found.name for found in tmp_path.iterdir()} == {path.name}


@pytest.mark.parametrize("force", (False, True))
def test_the_journal_is_the_one_that_the_library_is_safe_with(
    tmp_path: Path, force: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Database.open(f"sqlite:///{tmp_path / 'a.db'}", Role.OWNER, force_standard_sqlite=force)
    library = sqlite.choose_library(force)
    with opened.read() as tx:
        assert tx.execute(text("PRAGMA journal_mode")).scalar_one() == library.journal.lower()
        assert tx.execute(text("SELECT sqlite_version()")).scalar_one() == ".".join(map(str, library.version))
        for pragma, value in (
            ("synchronous", 2),
            ("foreign_keys", 1),
            ("recursive_triggers", 1),
            ("trusted_schema", 0),
        ):
            assert tx.execute(text(f"PRAGMA {pragma}")).scalar_one() == value
    opened.close()


def test_a_journal_that_cannot_be_had_is_a_config_error(
    sqlite_database: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sqlite.choose_library()
    # A name that SQLite does not know leaves the journal as it is, as a file system without shared memory does.
    monkeypatch.setattr(
        engine_module.sqlite, "choose_library", lambda _: sqlite.Library(real.module, real.version, "X")
    )
    with pytest.raises(ConfigError, match="journal"):
        sqlite_database.open(Role.BROKER)


# PostgreSQL: the login is its role and nothing else


@pytest.mark.postgresql
@pytest.mark.parametrize("role", SERVICE_ROLES)
def test_the_right_login_opens_and_no_other(postgresql_database: FreshDatabase, role: Role) -> None:
    postgresql_database.open(role)
    for other in SERVICE_ROLES:
        if other is not role:
            with pytest.raises(ConfigError, match=f"gitops_bot_{role.value} alone"):
                Database.open(postgresql_database.url(other), role)
    with pytest.raises(ConfigError, match="without further rights"):
        Database.open(postgresql_database.owner_url, role)


def refuses(database: FreshDatabase, login: str) -> None:
    url = make_url(database.owner_url).set(username=login).render_as_string(hide_password=False)
    with pytest.raises(ConfigError, match="without further rights"):
        Database.open(url, Role.BROKER)


@pytest.mark.postgresql
def test_a_superuser_is_no_services_login(postgresql_database: FreshDatabase) -> None:
    refuses(postgresql_database, "postgres")


MORE_RIGHTS = {
    "no member": "REVOKE gitops_bot_broker FROM {login}",
    "a member of two groups": "GRANT gitops_bot_workspace TO {login}",
    "a member of a group that the server makes": "GRANT pg_write_all_data TO {login}",
    "a maker of databases": "ALTER ROLE {login} CREATEDB",
    "a maker of roles": "ALTER ROLE {login} CREATEROLE",
    "a superuser": "ALTER ROLE {login} SUPERUSER",
    "above row security": "ALTER ROLE {login} BYPASSRLS",
    "a maker of temporary tables": "GRANT TEMPORARY ON DATABASE {database} TO {login}",
    "everybody a maker of temporary tables": "GRANT TEMPORARY ON DATABASE {database} TO PUBLIC",
    "a maker of schemas": "GRANT CREATE ON DATABASE {database} TO {login}",
    "a maker of tables": "GRANT CREATE ON SCHEMA public TO {login}",
    "with a right of its own": "GRANT DELETE ON ledger TO {login}",
    "with a right of its own on a column": "GRANT UPDATE (state) ON asks TO {login}",
    "with a right of everybody": "GRANT DELETE ON ledger TO PUBLIC",
    "an owner": "CREATE TABLE mine (a int); ALTER TABLE mine OWNER TO {login}",
}


@pytest.mark.postgresql
@pytest.mark.parametrize("what", MORE_RIGHTS)
def test_a_login_with_other_rights_than_its_role_is_refused(
    postgresql_database: FreshDatabase, cluster: Cluster, what: str
) -> None:
    login = f"t_more_{cluster.name}_{cluster.clones}"
    url = make_url(postgresql_database.owner_url).set(username=login)
    cluster.execute(f'CREATE ROLE "{login}" LOGIN IN ROLE gitops_bot_broker')
    Database.open(url.render_as_string(hide_password=False), Role.BROKER).close()  # the twin
    statement = MORE_RIGHTS[what].format(login=f'"{login}"', database=f'"{url.database}"')
    cluster.execute(statement, str(url.database))
    refuses(postgresql_database, login)


@pytest.mark.postgresql
def test_a_server_that_is_not_there_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="url_file"):
        Database.open("postgresql://nobody@/x?host=/nowhere", Role.BROKER)
