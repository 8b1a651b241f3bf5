"""A consistent copy of the whole database in one new file (0600), made while everything runs.

SQLite is copied by its online backup, PostgreSQL by `pg_dump` in its custom format. The password travels in a file that
only this user can read, never in an argument or a variable. Restoring comes with `db restore`.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import DBAPIError

from gitops_bot import process
from gitops_bot.bootstrap.database import sqlite_path
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.store import sqlite
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role

_SERVICE: Final = "gitops-bot"
_KEYWORD: Final = re.compile(r"[a-z_]{1,40}")
_DUMP_SECONDS: Final = 6 * 3600.0


def backup(owner_url: str, target: Path) -> None:
    """Write a consistent copy of a database to a new file.

    Raises:
        ConfigError: the target exists or cannot be made, or there is no such database.
        Unavailable: the database or the disk failed; the target is removed again.
    """
    path = sqlite_path(owner_url)
    if path is not None and not path.exists():
        raise ConfigError(f"no database {path}", fix="gitops-bot db upgrade")
    with _new_file(target):
        if path is not None:
            _copy_sqlite(owner_url, path, target)
        else:
            _dump_postgresql(make_url(owner_url), target)


@contextmanager
def _new_file(target: Path) -> Iterator[None]:
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except FileExistsError:
        raise ConfigError(f"{target} exists; a backup never overwrites", fix="name a new file") from None
    except OSError as error:
        raise ConfigError(f"cannot make {target}: {error.strerror}") from error
    with ExitStack() as stack:
        stack.callback(target.unlink, missing_ok=True)
        yield
        descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        stack.pop_all()


def _copy_sqlite(owner_url: str, path: Path, target: Path) -> None:
    library = sqlite.choose_library()
    database = Database.open(owner_url, Role.OWNER, pool_size=1)
    try:
        with ExitStack() as stack:
            if library.journal != sqlite.WAL:
                # Without WAL a writer would wait for this reader with a time limit; in the queue it has none.
                stack.enter_context(sqlite.turn(path))
            source = stack.enter_context(database.engine.connect())
            copy = library.module.connect(target)
            stack.callback(copy.close)
            # All pages in one step: one snapshot, however busy the writers are.
            source.connection.driver_connection.backup(copy)  # type: ignore[union-attr] # the DB-API's own connection
            # One file, which any SQLite library may open.
            copy.execute("PRAGMA journal_mode=DELETE").fetchall()
            _sound(copy)
    except (DBAPIError, library.module.Error) as error:
        raise Unavailable(f"the copy failed: {error}") from error
    finally:
        database.close()


def _sound(copy: Any) -> None:
    found = [str(row[0]) for row in copy.execute("PRAGMA quick_check(5)").fetchall()]
    if found != ["ok"]:
        raise Unavailable(f"the copy is not sound: {'; '.join(found)}")


def _dump_postgresql(url: URL, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="gitops-bot-") as name:
        folder = Path(name)  # made with mode 0700
        _private(folder / "service", _service(url))
        # A service file would lose the spaces at the ends of a password.
        password = str(url.password or "").replace("\\", "\\\\").replace(":", "\\:")
        _private(folder / "passwords", f"*:*:*:*:{password}\n" if password else "")
        environment = {
            "PGSERVICE": _SERVICE,
            "PGSERVICEFILE": str(folder / "service"),
            "PGPASSFILE": str(folder / "passwords"),
        }
        argv = [
            "pg_dump",
            "--format=custom",
            "--no-password",
            "--lock-wait-timeout=60s",
            "--file",
            str(target.absolute()),
        ]
        done = process.run(argv, cwd=folder, env=environment, timeout=_DUMP_SECONDS)
    if done.returncode != 0:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Unavailable(f"pg_dump failed: {told[-1][:500] if told else f'status {done.returncode}'}")


def _private(file: Path, content: str) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as opened:
        opened.write(content)


def _service(url: URL) -> str:
    values = {"host": url.host, "port": url.port, "dbname": url.database, "user": url.username}
    for key, value in url.query.items():
        values[key] = value if isinstance(value, str) else ",".join(value)
    lines = [f"[{_SERVICE}]"]
    for key, given in values.items():
        text = "" if given is None else str(given)
        if not _KEYWORD.fullmatch(key) or key in ("password", "service") or not text.isprintable():
            raise ConfigError("the database URL has a part that pg_dump cannot be given", fix="write a plain URL")
        if text:
            lines.append(f"{key}={text}")
    return "\n".join(lines) + "\n"
