"""Fresh, migrated databases for tests: `database` on every engine, `sqlite_database` where one engine is enough.

A template is migrated once per test process and engine. SQLite copies its file in a memory-backed folder; PostgreSQL
clones its database and has one login for each service role, a member of that role's group and nothing else. What a
test opened through its fixture is closed, and its database removed, when the test ends.
"""

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import Connection, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

from gitops_bot.store import roles, schema
from gitops_bot.store.engine import Database
from gitops_bot.store.prepared import Shelf
from gitops_bot.store.roles import Role
from tests.postgres import postgres_superuser_url, run_id

SERVICE_ROLES: Final = tuple(role for role in Role if role is not Role.OWNER)
_CLUSTERS: Final = itertools.count(1)
_SHELVES: Final[dict[str, Shelf]] = {}
STANDARD: Final = {"force_standard_sqlite": True}
ENGINES: Final = (
    pytest.param("sqlite", id="sqlite"),
    # The same SQL with another journal: left to `make test`, so that `make check` stays quick.
    pytest.param("sqlite-truncate", id="sqlite-truncate", marks=pytest.mark.slow),
    pytest.param("postgresql", id="postgresql", marks=pytest.mark.postgresql),
)


@dataclass
class FreshDatabase:
    """One test's own database, at the newest revision and empty.

    Another process opens it by `Database.open(url(role), role, **options)`.
    """

    kind: str
    owner_url: str
    logins: dict[Role, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    opened: list[Database] = field(default_factory=list)

    def url(self, role: Role) -> str:
        """Give the URL by which a role opens this database."""
        return self.logins.get(role, self.owner_url)

    def open(self, role: Role) -> Database:
        """Open it in a role; it is closed with the test."""
        opened = Database.open(self.url(role), role, **self.options)
        # As in a process that has run for a while: what was compiled once for this kind of database is known.
        opened._shelf = _SHELVES.setdefault(self.kind, opened._shelf)
        self.opened.append(opened)
        return opened

    @property
    def path(self) -> Path:
        """The file of an SQLite database."""
        return Path(str(make_url(self.owner_url).database))

    def close(self) -> None:
        """Close everything that was opened."""
        while self.opened:
            self.opened.pop().close()


def _plain(url: URL) -> str:
    return url.render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def memory_folder() -> Iterator[Path]:
    """A folder of this test process in memory, where the machine has one."""
    shared = Path("/dev/shm")
    home = shared if os.access(shared, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="gitops-bot-test-", dir=home))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class SqliteTemplates:
    """Migrated files by kind, made when first wanted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, Path] = {}
        self.copies = 0

    def file(self, kind: str) -> Path:
        if kind not in self.files:
            path = self.folder / f"template-{kind}.db"
            owner = Database.open(f"sqlite:///{path}", Role.OWNER, **sqlite_options(kind))
            schema.upgrade(owner.engine)
            owner.close()
            self.files[kind] = path
        return self.files[kind]

    def copy(self, kind: str) -> FreshDatabase:
        template = self.file(kind)
        self.copies += 1
        folder = self.folder / f"{kind}-{self.copies}"
        folder.mkdir(mode=0o700)
        path = folder / "gitops-bot.db"
        shutil.copyfile(template, path)
        path.chmod(0o600)
        return FreshDatabase(kind, f"sqlite:///{path}", options=sqlite_options(kind))


def sqlite_options(kind: str) -> dict[str, Any]:
    """Give the options of `Database.open` by which a kind of SQLite database is opened."""
    return dict(STANDARD) if kind == "sqlite-truncate" else {}


@pytest.fixture(scope="session")
def sqlite_templates(memory_folder: Path) -> SqliteTemplates:
    """The migrated SQLite files of this test process."""
    return SqliteTemplates(memory_folder)


class Cluster:
    """The logins and the template database of this test process on the test cluster."""

    def __init__(self, superuser: URL) -> None:
        self.superuser = superuser
        self.name = f"{run_id()}_{next(_CLUSTERS)}"
        self.owner = f"t_owner_{self.name}"
        self.template = f"t_template_{self.name}"
        self.clones = 0
        self.used: list[FreshDatabase] = []
        self.engine = create_engine(superuser, isolation_level="AUTOCOMMIT", pool_size=1)
        with self.engine.connect() as connection:
            self._prepare(connection)

    def login(self, role: Role) -> str:
        return self.owner if role is Role.OWNER else f"t_{role.value}_{self.name}"

    def url(self, database: str, login: str) -> str:
        return _plain(self.superuser.set(database=database, username=login))

    def _prepare(self, connection: Connection) -> None:
        connection.exec_driver_sql(f'CREATE ROLE "{self.owner}" LOGIN CREATEROLE')
        connection.exec_driver_sql(f'CREATE DATABASE "{self.template}" OWNER "{self.owner}"')
        owner = Database.open(self.url(self.template, self.owner), Role.OWNER, pool_size=1)
        schema.upgrade(owner.engine)
        owner.close()
        for role in SERVICE_ROLES:
            connection.exec_driver_sql(f'CREATE ROLE "{self.login(role)}" LOGIN')
            connection.exec_driver_sql(f'GRANT {roles.group(role)} TO "{self.login(role)}"')

    def execute(self, statement: str, database: str | None = None) -> None:
        """Run a statement as the superuser, outside of a transaction, in the database `postgres` or another one."""
        if database is None:
            with self.engine.connect() as connection:
                connection.exec_driver_sql(statement)
            return
        engine = create_engine(self.superuser.set(database=database), isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)

    def clone(self) -> FreshDatabase:
        self.clones += 1
        name = f"t_{self.name}_{self.clones}"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{self.template}" OWNER "{self.owner}"')
        # A clone does not take over the rights on the database itself.
        self.execute(f'REVOKE CREATE, TEMPORARY ON DATABASE "{name}" FROM PUBLIC')
        logins = {role: self.url(name, self.login(role)) for role in SERVICE_ROLES}
        return FreshDatabase("postgresql", self.url(name, self.owner), logins)

    def release(self, fresh: FreshDatabase) -> None:
        """Drop what earlier tests used: the server sleeps 100 ms where it finds a session that is just ending."""
        self._drop_used()
        self.used.append(fresh)

    def _drop_used(self) -> None:
        while self.used:
            self.execute(f'DROP DATABASE "{make_url(self.used.pop().owner_url).database}" WITH (FORCE)')

    def close(self) -> None:
        self._drop_used()
        self.execute(f'DROP DATABASE "{self.template}" WITH (FORCE)')
        for role in SERVICE_ROLES:
            self.execute(f'DROP ROLE "{self.login(role)}"')
        self.engine.dispose()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The test cluster of the run, with this test process's logins and template; see `tests.postgres`."""
    made = Cluster(make_url(postgres_superuser_url()))
    yield made
    made.close()


@pytest.fixture(params=ENGINES)
def database(request: pytest.FixtureRequest) -> Iterator[FreshDatabase]:
    """A fresh migrated database, once on each engine (and with the standard SQLite library and its journal)."""
    kind: str = request.param
    if kind == "postgresql":
        yield from _on_postgresql(request.getfixturevalue("cluster"))
    else:
        yield from _on_sqlite(request.getfixturevalue("sqlite_templates"), kind)


@pytest.fixture
def sqlite_database(sqlite_templates: SqliteTemplates) -> Iterator[FreshDatabase]:
    """A fresh migrated SQLite database, with the library that the product would choose."""
    yield from _on_sqlite(sqlite_templates, "sqlite")


@pytest.fixture
def postgresql_database(cluster: Cluster) -> Iterator[FreshDatabase]:
    """A fresh migrated PostgreSQL database; its test carries the marker `postgresql`."""
    yield from _on_postgresql(cluster)


def _on_sqlite(templates: SqliteTemplates, kind: str) -> Iterator[FreshDatabase]:
    fresh = templates.copy(kind)
    yield fresh
    fresh.close()
    shutil.rmtree(fresh.path.parent, ignore_errors=True)


def _on_postgresql(cluster: Cluster) -> Iterator[FreshDatabase]:
    fresh = cluster.clone()
    yield fresh
    fresh.close()
    cluster.release(fresh)
