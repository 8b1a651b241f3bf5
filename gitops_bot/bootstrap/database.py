"""A database that a process got here is migrated, unchanged by another hand, and opened with one role's rights.

Who must act on a failure is told by the error or finding, with the line that repairs it. Backups: `bootstrap.backup`.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url, text
from sqlalchemy.exc import DBAPIError

from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.store import schema, sqlite
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: the thing looked at, whether it is right, what it is, and how to mend it."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


def open_database(url: str, role: Role, *, pool_size: int = 4) -> Database:
    """Open a database in a role and compare its schema with what the migrations make.

    Raises:
        ConfigError: it cannot be opened in this role, or its schema is empty, older, newer or changed.
        Unavailable: it did not answer.
    """
    database = Database.open(url, role, pool_size=pool_size)
    try:
        schema.check(database.engine)
    except (ConfigError, Unavailable):
        database.close()
        raise
    return database


def upgrade(owner_url: str, *, accept_changed: bool = False) -> str:
    """Bring a database to this version's schema, making an SQLite file with its folder (0700); give the digest.

    Raises:
        ConfigError: the schema was changed by another hand (`accept_changed` builds upon it), or is newer.
        Unavailable: the database refuses or cannot be reached.
    """
    path = sqlite_path(owner_url)
    if path is not None and not path.parent.exists():
        try:
            path.parent.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise ConfigError(f"cannot make {path.parent}: {error.strerror}") from error
    database = Database.open(owner_url, Role.OWNER, pool_size=1)
    try:
        return schema.upgrade(database.engine, accept_changed=accept_changed)
    finally:
        database.close()


def sqlite_path(url: str) -> Path | None:
    """Give the file of an SQLite URL; None for another kind of database, or for text that is no URL."""
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return None
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        return None
    return Path(parsed.database).absolute()


def check(url: str, owner_url: str | None = None) -> list[Finding]:
    """Look at a database as the process that has this URL would, and at its whole content where it is a file.

    Nothing is changed. `owner_url`, where it is another login, is looked at as well.
    """
    path = sqlite_path(url)
    if path is not None:
        return list(_check_file(url, path))
    found = list(_check_login(url))
    if owner_url is not None and owner_url != url:
        found.append(_schema(owner_url, Role.OWNER, "schema, as the owner"))
    return found


def _check_file(url: str, path: Path) -> Iterator[Finding]:
    yield from _files(path)
    if not path.exists():
        yield Finding("schema", False, f"no database {path}", "gitops-bot db upgrade")
        return
    library = sqlite.choose_library()
    slower = "" if library.journal == sqlite.WAL else "; an affected SQLite, so without WAL: slower, and safe"
    yield Finding("sqlite", True, library.name + slower)
    opened = True
    for role in Role:
        finding = _schema(url, role, f"schema, as {role.value}")
        opened = opened and finding.ok
        yield finding
    if opened:
        yield _content(url)


def _files(path: Path) -> Iterator[Finding]:
    folder = path.parent
    for found in (folder, path, *(Path(f"{path}{suffix}") for suffix in (".lock", "-wal", "-shm", "-journal"))):
        try:
            about = found.stat()
        except FileNotFoundError:
            continue
        wanted = 0o700 if found == folder else 0o600
        if about.st_mode & 0o077:
            mode = stat.S_IMODE(about.st_mode)
            yield Finding("files", False, f"{found} has mode {mode:04o}", f"chmod {wanted:o} {found}")
        if about.st_uid != os.geteuid():
            yield Finding("files", False, f"{found} belongs to user {about.st_uid}", "run as the database's user")


def _schema(url: str, role: Role, name: str) -> Finding:
    try:
        open_database(url, role, pool_size=1).close()
    except ConfigError as error:
        return Finding(name, False, error.message, error.fix)
    except Unavailable as error:
        return Finding(name, False, str(error), "is the database up?")
    return Finding(name, True, f"revision {schema.HEAD}, as the migrations made it")


def _content(url: str) -> Finding:
    database = Database.open(url, Role.OWNER, pool_size=1)
    try:
        with database.read() as tx:
            faults = [str(row[0]) for row in tx.execute(text("PRAGMA integrity_check(5)")) if row[0] != "ok"]
            faults += [f"{row[0]} points to nothing" for row in tx.execute(text("PRAGMA foreign_key_check"))][:5]
    except (Unavailable, DBAPIError) as error:
        faults = [str(error.__cause__ or error)]
    finally:
        database.close()
    if faults:
        return Finding("content", False, "; ".join(faults), "stop everything and restore a backup")
    return Finding("content", True, "every page and reference holds")


def _check_login(url: str) -> Iterator[Finding]:
    reasons = set()
    for role in Role:
        if role is Role.OWNER:
            continue
        try:
            database = Database.open(url, role, pool_size=1)
        except ConfigError as error:
            reasons.add((error.message, error.fix))
            continue
        database.close()
        yield Finding("login", True, f"a member of the group of {role.value} and of no other")
        yield _schema(url, role, "schema")
        return
    if len(reasons) == 1:  # the same for each role: not the login, but the way to the server
        message, fix = reasons.pop()
        yield Finding("login", False, message, fix)
    else:
        yield Finding(
            "login",
            False,
            "the login of [database] url_file is not the member of exactly one service's group, without further rights",
            "GRANT gitops_bot_broker (or _workspace, _host, _application) TO <login>",
        )
